"""Which kinds fire on which real trace, each judged by hand: a false alarm is worse than silence."""

from __future__ import annotations

import pytest

from profsuite.analyzers.analysis import Analysis
from profsuite.analyzers.findings import findings

KINDS = {
    "anomaly_mode", "blocking_h2d", "cpu_saturated", "cudnn_autotuning", "graph_breaks", "host_copies",
    "host_round_trips", "idle_between_graph_launches", "item_in_loop", "low_memory_use", "module_loading",
    "optimizer_zero_grad", "pageable_h2d", "profiler_overhead", "recompiles", "recompute_cost", "serialised_streams",
    "single_tensor_optimizer", "sorted_gradients", "sync_in_loop", "throttling", "unfused_pointwise", "worker_startup",
}  # fmt: skip

EXPECTED = {
    "a100_alexnet.json.gz": set(),
    "a100_event_sync.json.gz": {"item_in_loop"},
    "a100_event_sync_multi_stream.json.gz": set(),
    "a100_nccl_metadata.json.gz": set(),
    "a100_particle_transformer.json.gz": set(),
    "a100_rank_not_found.json.gz": set(),
    "ascend_rank0.json.gz": set(),
    # One buffer of the tracer takes 1.5 of 89 ms.
    "b200_eager_stacks.json.gz": {"profiler_overhead"},
    "cpu_only_gloo_rank34.json.gz": set(),
    # Ten copies and .item() calls a step hold the host; the fused optimizer and the prefetched batches are fine.
    "diff_a100_control.json.gz": {"item_in_loop"},
    "diff_v100_test.json.gz": set(),
    "dlrm_8ranks/worker0.pt.trace.json.gz": {"single_tensor_optimizer", "pageable_h2d", "item_in_loop"},
    "gp100_gpu_user_annotation.json.gz": {"unfused_pointwise", "pageable_h2d", "optimizer_zero_grad"},
    "h100_bert_small.json.gz": {"item_in_loop", "low_memory_use"},
    # Eager inference: rotary embeddings, norms and gates are rows of elementwise kernels.
    "h100_qwen_0_5b.json.gz": {"unfused_pointwise"},
    "mi210_gpu_only.json.gz": {"unfused_pointwise"},
    "mi250_rocm62.json.gz": {"blocking_h2d"},
    "mi300_bert_small.json.gz": {"item_in_loop"},
    "mi300_normalization.json.gz": set(),
    "mi300_qwen_0_5b.json.gz": {"unfused_pointwise"},
    "mi300_torch_compile.json.gz": set(),
    "mi300_vllm_decode_graph.json.gz": set(),
    "mtia_rank0.json.gz": set(),
    # Gradients are kept, filled with zeros and added to.
    "rtx2080ti_linear.json.gz": {"optimizer_zero_grad"},
    "simple_add_kineto.json.gz": {"sync_in_loop"},
    # The first step with cudnn.benchmark, on pageable batches.
    "torch18_autograd_api.json.gz": {"cudnn_autotuning", "pageable_h2d"},
    "v100_ns_resolution.json.gz": set(),
    # torch 1.8 fills gradients; the loader without workers collates in the training process.
    "v100_resnet50_workers0.json.gz": {"optimizer_zero_grad", "host_copies"},
    "v100_resnet50_workers4.json.gz": {"optimizer_zero_grad", "pageable_h2d"},
}


@pytest.mark.parametrize("name", EXPECTED)
def test_what_fires(real_trace, name):
    analysis = Analysis(real_trace(name))
    found = findings(analysis)
    assert {finding.id for finding in found} & KINDS == EXPECTED[name]
    for finding in found:
        assert finding.cost_ns is None or 0 <= finding.cost_ns <= analysis.recording_ns
        assert set(finding.counted_in) <= {other.id for other in found} - {finding.id}
        assert all(0 <= e.value <= 100 for e in finding.evidence if e.unit == "%")
        rows = [row for evidence in finding.evidence for row in evidence.slice_ids]
        assert all(0 <= row < analysis.trace.num_rows("slice") for row in rows)


def test_optimizer_zero_grad_against_the_file(real_trace):
    """40 calls; from the second on 42 parameters have gradients: 39 * 42 fills."""
    finding = next(
        f for f in findings(Analysis(real_trace("rtx2080ti_linear.json.gz"))) if f.id == "optimizer_zero_grad"
    )
    values = {evidence.label: evidence.value for evidence in finding.evidence}
    assert (values["calls of zero_grad"], values["fills"]) == (40, 39 * 42)
