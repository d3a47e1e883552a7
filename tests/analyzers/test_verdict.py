"""The verdict: what an engineer reads first."""

from __future__ import annotations

import re

import pytest

from profsuite.analyzers.analysis import Analysis
from profsuite.analyzers.findings import findings
from profsuite.analyzers.verdict import short_name, verdict
from profsuite.trace.load import load
from profsuite.trace.select import select_time

REAL = {
    "v100_resnet50_workers0.json.gz": (
        r"^The job waits for input: the GPU is busy 69 % of its window, and for 165 ms of its 274 ms idle time .* "
        r"a step\) the DataLoader, which has no workers, is still fetching"
    ),
    "v100_resnet50_workers4.json.gz": r"^The CPU is the bottleneck: the GPU is busy 77 % ",
    "mi300_vllm_decode_graph.json.gz": (
        r"^The GPU is busy 99\.8 % of its window, so its kernels decide.* is 10\.7 ms of the recording's 19\.1 ms: "
        r"the rest is not judged here\.$"
    ),
    "h100_bert_small.json.gz": r"only 7\.9 % of its window, and for 3\.44 ms .* \(88 % of the GPU window\)",
    # Communication is exposed for longer, but the CPU holds it up: without it little would be saved.
    "diff_a100_control.json.gz": (
        r"^The CPU is the bottleneck: .* By replay, with one graph launch a step, a step would be 17\.8 ms shorter\. "
        r"More of the GPU window \(19 %\) goes to exposed communication, but without communication, a step would be "
        r"5\.08 ms shorter\.$"
    ),
    "a100_no_kernels.json": r"^7 calls to the device's runtime were recorded, none of them a launch, and no kernels",
    "a100_cupti_range_profiler.json.gz": r"^77 events of GPU 0 were recorded, but of kinds whose time .* isn't known",
    "mtia_rank0.json.gz": r"^25814 events of MTIA 9 were recorded, but of kinds whose time .* isn't known",
    "ascend_rank0.json.gz": (
        r"^535 events of NPU were recorded, but of kinds whose time .* isn't known, .* aten::_local_scalar_dense takes "
        r"most of the ops' time \(65 %, 92\.9 ms\), waiting for the device: "
    ),
    "cpu_only_gloo_rank34.json.gz": (
        r"^The job runs on the CPU alone and waits for communication: for 1\.10 s \(86 % of the recording\) "
        r"collectives are under way while no op runs, most of it gloo:all_reduce\."
    ),
    "a100_rank_not_found.json.gz": r"^The job runs on the CPU alone: ops fill 36 %",
    "simple_add_kineto.json.gz": r"^Only 4 kernels and copies were recorded",
}


@pytest.mark.parametrize("name", sorted(REAL))
def test_real_jobs(real_trace, name):
    sentence = verdict(Analysis(real_trace(name)))
    assert re.search(REAL[name], sentence), sentence


def chain(job, gap, dur, before=None):
    """Twelve kernels ``gap`` us apart; ``before(at)`` adds what the CPU does in each gap."""
    for i in range(12):
        at = (gap + dur) * i
        if before:
            before(at)
        job.launch(at + gap - 6, 5, 1 + i).kernel(at + gap, dur, 1 + i)
    return verdict(Analysis(job.trace()))


def test_a_window_that_is_most_of_the_recording_stands_for_it(job):
    job.op("aten::first", 0, 10)
    assert "GPU window, from the first" not in chain(job, 100, 50)


def test_python_between_ops(job):
    sentence = chain(job, 100, 50, lambda at: job.python("train.py(1): f", at, 90))
    assert sentence.startswith("The CPU is the bottleneck: the GPU is busy only 35 % of its window")
    assert "mostly for Python code between ops" in sentence


def test_a_loader_with_workers(job):
    name = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"
    sentence = chain(job, 100, 50, lambda at: job.mark(name, at, 90))
    assert sentence.startswith("The job waits for input: ")
    assert "the DataLoader is still fetching the next batch. Raise num_workers" in sentence
    assert "prefetch_factor" in sentence


def test_waits_for_values(job):
    sentence = chain(job, 100, 50, lambda at: at and job.call("cudaStreamSynchronize", at - 50, 55))
    assert "the CPU, which had waited for the GPU, has nothing launched ahead" in sentence


def test_one_gap_that_makes_the_loss_is_named(job):
    job.op("aten::first", 1000, 9000).launch(9990, 5, 99).kernel(10_000, 10, 99)
    sentence = chain(job, 20, 50)
    assert "One gap alone, before aten::first, lasts 9.16 ms" in sentence


def test_a_cpu_job_that_waits_for_input(job):
    job.mark("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 0, 50).op("aten::mm", 50, 50)
    assert verdict(Analysis(job.trace())).startswith(
        "The job runs on the CPU alone and waits for input: the main thread"
    )


def test_a_cpu_job_that_compiles(job):
    job.mark("compile_fx_inner (dynamo_timed)", 0, 90).op("aten::mm", 90, 10)
    sentence = verdict(Analysis(job.trace()))
    assert sentence.startswith("The job runs on the CPU alone, and for 90.0 µs (90 % of the recording) its main thread")


def test_an_empty_recording(job):
    assert verdict(Analysis(job.trace())).startswith("The file holds no slices")


def test_a_selection_without_kernels_is_not_a_recording_without(job):
    job.op("aten::mm", 0, 10).launch(1, 2, 1).kernel(500, 50, 1)
    sentence = verdict(Analysis(select_time(job.trace(), (0, 100_000))))
    assert sentence.startswith(
        "No kernels or copies lie in the selection (time 0 ms to 0.1 ms), so nothing can be said"
    )
    assert "On the CPU, aten::mm takes most" in sentence


def test_a_selection_with_too_little(job):
    job.op("aten::mm", 0, 10).launch(1, 2, 1).kernel(50, 50, 1).kernel(500, 50)
    assert verdict(Analysis(select_time(job.trace(), (0, 200_000)))) == (
        "Only 1 kernel or copy lies in the selection (time 0 ms to 0.2 ms), over 50.0 µs: too little to tell what "
        "holds a job back."
    )


def test_a_selection_of_a_device_whose_events_are_not_understood(job):
    job.step(1, 0, 50).slice("mtia_ccp_events", "request", 10, 10, tid=0, pid=9)
    job.slice("mtia_ccp_events", "transfer", 20, 10, tid=0, pid=9)
    assert verdict(Analysis(select_time(job.trace(), (0, 40_000)))).startswith("2 events of ")


def test_a_file_that_breaks_off(job):
    path = job.folder / "cut.json"
    path.write_text(
        '{"traceEvents": [{"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 0, "dur": 5}, {"p'
    )
    sentence = verdict(Analysis(load(path, cache=False)))
    assert sentence.startswith("Only 1 kernel or copy was recorded, over 5.00 µs")
    assert sentence.endswith("The file breaks off before its end: what came after that is lost.")


@pytest.mark.parametrize(
    ("name", "short"),
    [
        (
            "void at::native::vectorized_elementwise_kernel<4, F, A>(int, F, A)",
            "at::native::vectorized_elementwise_kernel",
        ),
        ("void (anonymous namespace)::multimem_all_reduce_kernel<c10::BFloat16>(x)", "multimem_all_reduce_kernel"),
        ("Memcpy DtoH (Device -> Pageable)", "Memcpy DtoH (Device -> Pageable)"),
        ("triton_poi_fused_add_0", "triton_poi_fused_add_0"),
        ("<lambda>", "<lambda>"),
    ],
)
def test_short_names(name, short):
    assert short_name(name) == short


def test_what_is_below_half_is_the_largest_share_not_most(job):
    job.op("aten::mm", 0, 30).op("aten::add", 30, 25).op("aten::mul", 55, 25).op("aten::sum", 80, 20)
    (found,) = [each for each in findings(Analysis(job.trace())) if each.id == "cpu_only"]
    assert "aten::mm takes the largest share of its ops' time (30 %, 30.0 µs)" in found.title
    job.op("aten::mm", 100, 60)
    (found,) = [each for each in findings(Analysis(job.trace())) if each.id == "cpu_only"]
    assert "aten::mm takes most of its ops' time (56 %, 90.0 µs)" in found.title
