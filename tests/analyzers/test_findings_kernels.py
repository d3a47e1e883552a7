"""Findings on kernels, graphs, streams and memory, each with a trace where it must not fire."""

from __future__ import annotations

import pytest

POINTWISE = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float> >"
GEMM = "ampere_sgemm_128x64_tn"


def chain(job, names, at=1000, dur=20, gap=10):
    """Kernels one after another, each launched late by an op of its own."""
    for i, name in enumerate(names):
        start = at + (dur + gap) * i
        job.op("aten::add", start, gap).launch(start + 2, 5, 500 + i).kernel(start + gap, dur, 500 + i, name=name)
    return job


def test_unfused_pointwise(job, found, value):
    trace = chain(job.busy(6, 3), [POINTWISE, POINTWISE, POINTWISE, GEMM, POINTWISE], at=400).trace()
    finding = found(trace, "unfused_pointwise")
    # Three in a row: 60 us, and the dispatch before the second and the third, 10 us each.
    assert finding.cost_ns == 60_000 + 20_000
    assert (value(finding, "elementwise kernels in rows of two or more"), value(finding, "such rows")) == (3, 1)
    assert finding.severity == "warning"
    assert value(finding, "launched by") == "aten::add"


def test_unfused_pointwise_not_where_others_lie_between(job, found):
    assert found(chain(job.busy(6, 3), [POINTWISE, GEMM] * 5, at=400).trace(), "unfused_pointwise") is None


def test_unfused_pointwise_not_on_different_streams(job, found):
    job.busy(6, 3)
    for i in range(6):
        job.launch(30 + i, 1, 500 + i).kernel(400 + 20 * i, 20, 500 + i, name=POINTWISE, stream=7 + i)
    assert found(job.trace(), "unfused_pointwise") is None


def test_unfused_pointwise_not_for_the_accumulation_of_gradients(job, found):
    job.op("autograd::engine::evaluate_function: torch::autograd::AccumulateGrad", 390, 400)
    assert found(chain(job.busy(6, 3), [POINTWISE] * 6, at=400).trace(), "unfused_pointwise") is None


def test_sorted_gradients(job, found, value):
    job.busy(4, 5).op("aten::embedding_dense_backward", 30, 20).launch(32, 1, 98).launch(35, 1, 99)
    job.kernel(300, 40, 98, name="cub::DeviceRadixSortOnesweepKernel")
    job.kernel(340, 60, 99, name="at::native::embedding_backward_feature_kernel<float>")
    finding = found(job.trace(), "sorted_gradients")
    assert (finding.cost_ns, value(finding, "kernels"), finding.where.op) == (
        100_000,
        2,
        "aten::embedding_dense_backward",
    )


def test_sorted_gradients_not_for_a_sort_alone(job, found):
    job.busy(4, 5).op("aten::sort", 30, 20).launch(32, 1, 98)
    assert (
        found(job.kernel(300, 100, 98, name="cub::DeviceRadixSortOnesweepKernel").trace(), "sorted_gradients") is None
    )


def graphs(job, late):
    """Four graphs of two kernels each; from the second on launched before or after the one before has ended."""
    for i in range(4):
        at = 200 * i
        job.call("cudaGraphLaunch", at - 5 if late else 10 * i, 10, 1 + i)
        job.kernel(at + 20, 60, 1 + i).kernel(at + 80, 60, 1 + i)
    return job


def test_idle_between_graph_launches(job, found, value):
    finding = found(graphs(job.busy(0), late=True).trace(), "idle_between_graph_launches")
    assert (finding.cost_ns, value(finding, "such gaps"), value(finding, "graph launches")) == (240_000, 3, 4)


def test_idle_between_graph_launches_not_when_launched_ahead(job, found):
    assert found(graphs(job, late=False).trace(), "idle_between_graph_launches") is None


def turns(job, overlap):
    """Kernels in turn on two streams."""
    for i in range(20):
        job.launch(i, 1, 1 + i).kernel(100 + 50 * i, 50 + overlap, 1 + i, stream=7 + i % 2)
    return job


def test_serialised_streams(job, found, value):
    finding = found(turns(job, 0).trace(), "serialised_streams")
    assert (value(finding, "streams"), value(finding, "changes of stream")) == ("7, 8", 19)
    assert (value(finding, "compute on them"), value(finding, "of it at the same time")) == (1_000_000, 0)
    assert (finding.severity, finding.cost_ns) == ("info", None)


def test_serialised_streams_not_where_they_overlap(job, found):
    assert found(turns(job, 25).trace(), "serialised_streams") is None


def test_serialised_streams_not_one_after_the_other(job, found):
    for i in range(20):
        job.launch(i, 1, 1 + i).kernel(100 + 50 * i, 50, 1 + i, stream=7 + i // 10)
    assert found(job.trace(), "serialised_streams") is None


def starved(job, reserved):
    job.header["deviceProperties"] = [{"id": 0, "name": "GPU", "totalGlobalMem": 1000}]
    job.step(1, 0, 1200)
    for i in range(12):
        job.op("aten::mm", 100 * i, 50).launch(100 * i + 44, 5, 1 + i).kernel(100 * i + 50, 50, 1 + i)
    args = {"Device Type": 1, "Device Id": 0, "Bytes": 10, "Addr": 1, "Total Allocated": 10, "Total Reserved": reserved}
    job.events.append({"ph": "i", "cat": "cpu_instant_event", "name": "[memory]", "pid": 100, "tid": 1, "ts": 5})
    job.events[-1]["args"] = args
    return job


def test_low_memory_use(job, found, value):
    finding = found(starved(job, 299).trace(), "low_memory_use")
    assert (finding.severity, finding.cost_ns) == ("info", None)
    assert (value(finding, "reserved at most"), value(finding, "memory of the GPU")) == (299, 1000)


@pytest.mark.parametrize("reserved", [300, 0, 1001])
def test_low_memory_use_not_with_enough_or_impossible_memory(job, found, reserved):
    assert found(starved(job, reserved).trace(), "low_memory_use") is None


def test_low_memory_use_not_without_the_capacity(job, found):
    starved(job, 299).header.clear()
    assert found(job.trace(), "low_memory_use") is None
