"""Findings: for each kind a trace where it fires and one where it must not."""

from __future__ import annotations

import pytest

from profsuite.analyzers.analysis import Analysis
from profsuite.analyzers.findings import RULES, findings
from profsuite.analyzers.verdict import verdict

LOADER = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"


def found(trace, kind):
    """The finding of one kind, None without."""
    return next((f for f in findings(Analysis(trace)) if f.id == kind), None)


def value(finding, label):
    return next(e.value for e in finding.evidence if e.label == label)


def busy(job, pieces=4, one_in=1):
    """A device that is never idle: launches far ahead."""
    return job.busy(pieces, one_in)


def late(job, pieces=4, gap=50, dur=50):
    """A device that idles ``gap`` us before each kernel, because each is launched late."""
    for i in range(pieces):
        at = (gap + dur) * i
        job.op("aten::mm", at, gap).launch(at + gap - 6, 5, 1 + i).kernel(at + gap, dur, 1 + i)
    return job


def test_input_bound(job):
    busy(job, one_in=5).mark(LOADER, 300, 100).launch(401, 5, 99).kernel(410, 90, 99)
    finding = found(job.trace(), "input_bound")
    assert (finding.severity, finding.cost_ns) == ("critical", 110_000)
    assert value(finding, "share of the window") == pytest.approx(100 * 110 / 400, abs=0.01)
    assert "num_workers" in finding.remedy
    assert finding.where.thread == "thread 1"


def test_input_bound_on_the_cpu(job):
    job.mark(LOADER, 0, 40).op("aten::mm", 40, 60)
    assert found(job.trace(), "input_bound").cost_ns == 40_000


def test_input_bound_not_while_the_device_is_busy(job):
    assert found(busy(job).mark(LOADER, 10, 280).trace(), "input_bound") is None


def test_host_bound(job):
    finding = found(late(job, pieces=12).trace(), "host_bound")
    assert (finding.severity, finding.cost_ns) == ("critical", 550_000)
    assert value(finding, "the longest such gap") == 50_000
    assert value(finding, "it begins after the start of the recording by") == 100_000
    assert value(finding, "what follows it") == "aten::mm"
    assert "CUDA graphs" in finding.remedy


def test_host_bound_says_most_only_of_more_than_half(job):
    assert "Most of it is op dispatch" in found(late(job, pieces=12).trace(), "host_bound").remedy


def test_host_bound_says_which_part_is_largest(job):
    """Of each gap of 60 us 20 are Python, 24 the op before its launch, 16 the launch until the kernel."""
    for i in range(12):
        job.python("train.py(3): step", 100 * i, 60).op("aten::mm", 100 * i + 20, 40)
        job.launch(100 * i + 44, 5, 1 + i).kernel(100 * i + 60, 40, 1 + i)
    trace = job.trace()
    assert "The largest part of it is op dispatch" in found(trace, "host_bound").remedy
    assert "most of all for the dispatch of ops" in verdict(Analysis(trace))


def test_host_bound_sets_a_lone_gap_apart_and_judges_the_rest(job):
    """One launch call of 5 ms, then gaps of 60 us of which the op takes 44: most of the rest is not launching."""
    for i in range(12):
        at = 100 * i + (5000 if i else 0)
        start = 130 if i == 1 else at + 44
        job.op("aten::conv", 100, at - 40) if i == 1 else job.op("aten::mm", at, 60)
        job.launch(start, at + 49 - start, 1 + i).kernel(at + 60, 40, 1 + i)
    finding = found(job.trace(), "host_bound")
    assert finding.remedy.startswith("One gap alone, before aten::conv, makes 5.06 ms: if that is start-up, profile")
    assert "Most of the rest is op dispatch" in finding.remedy
    assert finding.cost_ns == 5_060_000 + 10 * 60_000


def test_host_bound_without_ops_does_not_say_what_the_cpu_did(job):
    for i in range(12):
        job.launch(100 * i + 50, 5, 1 + i).kernel(100 * i + 60, 40, 1 + i)
    trace = job.trace()
    remedy = found(trace, "host_bound").remedy
    assert remedy.startswith("Most of it lies between launch calls, and what the CPU did there was not recorded")
    assert "ProfilerActivity.CPU" in remedy
    assert "mostly for what the CPU did between calls" in verdict(Analysis(trace))


def test_host_bound_not_when_launched_ahead(job):
    assert found(busy(job).trace(), "host_bound") is None


def test_exposed_communication(job):
    busy(job).launch(10, 1, 9).kernel(280, 60, 9, name="ncclDevKernel_AllReduce", stream=20)
    finding = found(job.trace(), "exposed_communication")
    assert finding.cost_ns == 40_000
    assert value(finding, "longest") == "ncclDevKernel_AllReduce"


def test_exposed_communication_not_where_compute_hides_it(job):
    busy(job).launch(10, 1, 9).kernel(150, 100, 9, name="ncclDevKernel_AllReduce", stream=20)
    assert found(job.trace(), "exposed_communication") is None


def test_kernel_bound(job):
    finding = found(busy(job, one_in=5).trace(), "kernel_bound")
    assert finding.severity == "info"
    assert value(finding, "largest family") == "matrix multiplications"


def test_kernel_bound_not_for_too_little(job):
    assert found(busy(job).trace(), "kernel_bound") is None


def test_kernel_bound_not_when_idle(job):
    assert found(late(job, pieces=12).trace(), "kernel_bound") is None


def test_small_kernels(job):
    finding = found(late(job, pieces=120, gap=20, dur=5).trace(), "small_kernels")
    assert (finding.severity, value(finding, "of them below 10 µs")) == ("warning", 120)


def test_small_kernels_not_when_long(job):
    assert found(late(job, pieces=120, gap=20, dur=20).trace(), "small_kernels") is None


def test_stream_waits(job):
    job.launch(0, 1, 1).launch(1, 1, 2).kernel(10, 40, 1).kernel(60, 40, 2, stream=8)
    finding = found(job.trace(), "stream_waits")
    assert (finding.cost_ns, value(finding, "hand-overs")) == (10_000, 1)


def test_stream_waits_not_on_one_stream(job):
    job.launch(0, 1, 1).launch(1, 1, 2).kernel(10, 40, 1).kernel(55, 40, 2)
    assert found(job.trace(), "stream_waits") is None


def test_allocator_calls(job):
    busy(job).call("cudaMalloc", 300, 50).launch(351, 5, 9).kernel(360, 40, 9)
    finding = found(job.trace(), "allocator_calls")
    assert (finding.cost_ns, value(finding, "calls")) == (60_000, 1)


def test_allocator_calls_not_for_a_short_one(job):
    assert found(busy(job).call("cudaMalloc", 10, 1).mark("train", 0, 1000).trace(), "allocator_calls") is None


def test_compile_in_steps(job):
    job.step(1, 0, 500)
    finding = found(busy(job).mark("compile_fx_inner (dynamo_timed)", 10, 100).trace(), "compile_in_steps")
    assert (finding.cost_ns, value(finding, "steps with compilation")) == (100_000, 1)


def test_compile_in_steps_not_for_running_compiled_code(job):
    job.mark("Torch-Compiled Region: 0/0", 0, 200)
    assert found(busy(job).trace(), "compile_in_steps") is None


def test_garbage_collection(job):
    finding = found(busy(job).python("Python GC", 50, 40).trace(), "garbage_collection")
    assert (finding.cost_ns, value(finding, "collections")) == (40_000, 1)


def test_garbage_collection_not_without(job):
    assert found(busy(job).trace(), "garbage_collection") is None


def test_step_outliers(job):
    at = 0
    for number, dur in enumerate((100, 100, 100, 101, 300, 100), 1):
        job.step(number, at, dur).op("aten::mm", at + 1, 9)
        if dur == 300:
            job.mark(LOADER, at + 20, 200)
        at += dur
    finding = found(job.trace(), "step_outliers")
    assert (finding.where.step, finding.cost_ns) == (5, 200_000)
    assert value(finding, "what grew most on the main thread") == "waiting for input data"
    assert value(finding, "by") == 200_000


def test_step_outliers_not_among_steady_steps(job):
    for number in range(6):
        job.step(number, 100 * number, 100).op("aten::mm", 100 * number + 1, 9)
    assert found(job.trace(), "step_outliers") is None


def test_cpu_only(job):
    finding = found(job.op("aten::conv2d", 0, 80).op("aten::relu", 80, 20).trace(), "cpu_only")
    assert finding.where.op == "aten::conv2d"
    assert value(finding, "its own time") == 80_000


def test_cpu_only_gives_no_advice_on_ops_that_take_no_time(job):
    finding = found(job.op("aten::empty", 0, 1).mark("train", 0, 100).trace(), "cpu_only")
    assert "its ops are not what takes the time (1.00 µs in all)" in finding.title
    assert "aten::empty" not in finding.remedy


def test_cpu_only_not_with_runtime_calls(job):
    assert found(job.op("aten::mm", 0, 10).launch(1, 1, 1).trace(), "cpu_only") is None


def test_host_communication(job):
    job.op("aten::mm", 0, 40).mark("gloo:all_reduce", 20, 60, tid=2).mark("gloo:all_reduce", 30, 70, tid=3)
    finding = found(job.trace(), "host_communication")
    assert (finding.severity, finding.cost_ns) == ("critical", 60_000)
    assert value(finding, "communication on any thread") == 80_000


def test_host_communication_not_where_ops_hide_it(job):
    job.op("aten::mm", 0, 100).mark("gloo:all_reduce", 20, 60, tid=2)
    assert found(job.trace(), "host_communication") is None


def test_no_device_work(job):
    finding = found(job.op("aten::mm", 0, 10).launch(1, 1, 1).call("cudaMalloc", 5, 1).trace(), "no_device_work")
    assert (value(finding, "launch calls"), value(finding, "other runtime calls")) == (1, 1)


def test_no_device_work_not_with_work(job):
    assert found(busy(job).trace(), "no_device_work") is None


def test_trace_health(job):
    job.events.append({"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 100, "tid": 1, "ts": 5})
    finding = found(busy(job).trace(), "trace_health")
    assert (finding.severity, finding.evidence[0].label, finding.evidence[0].value) == (
        "warning",
        "missing duration",
        1,
    )


def test_trace_health_not_for_what_was_merely_not_recorded(job):
    assert found(busy(job).trace(), "trace_health") is None


def test_idle_unexplained(job):
    job.kernel(0, 50).kernel(100, 50)
    assert value(found(job.trace(), "idle_unexplained"), "kernels and copies without a launch call") == 2


def test_idle_unexplained_not_with_launches(job):
    assert found(late(job).trace(), "idle_unexplained") is None


def test_too_little_work_is_not_graded(job):
    job.kernel(0, 10, name="ncclKernel_AllReduce")
    assert [(f.id, f.severity) for f in findings(Analysis(job.trace()))] == [("exposed_communication", "info")]


def test_what_costs_next_to_nothing_is_no_finding(job):
    for step in range(1, 4):
        job.step(step, 1000 * step, 1000).launch(1000 * step, 1, step).call("cudaStreamSynchronize", 1000 * step + 2, 9)
        job.kernel(1000 * step + 10, 1000, step)
    assert found(job.trace(), "sync_in_loop") is None


def test_gravest_and_costliest_come_first(job):
    severities = [(f.severity, -(f.cost_ns or 0)) for f in findings(Analysis(late(job, 120, 20, 5).trace()))]
    assert severities == sorted(severities, key=lambda s: (("critical", "warning", "info").index(s[0]), s[1]))


def test_every_kind_has_a_docstring_that_says_when_it_fires():
    assert len(RULES) == 52
    assert all("ires " in (rule.__doc__ or "") for rule in RULES)
    assert all("\n    Remedy: " in (rule.__doc__ or "") for rule in RULES)
    assert all(rule.__module__ == f"profsuite.analyzers.findings.{rule.__name__}" for rule in RULES)


ALL_REDUCE = {"Collective name": "allreduce", "dtype": "Float", "Process Group Name": "0"}


def reduces(job, num, nelems, dur=40):
    """``num`` all-reduces of ``nelems`` floats, ``dur`` us each, 100 us apart, nothing beside them."""
    for i in range(num):
        job.kernel(100 * i, dur, name="ncclDevKernel_AllReduce", stream=20, **ALL_REDUCE, **{"In msg nelems": nelems})
    return job


def test_small_collectives(job):
    finding = found(reduces(job, 30, 1000).trace(), "small_collectives")
    assert (finding.severity, finding.cost_ns) == ("critical", 30 * 40_000)
    assert value(finding, "median size") == 4000
    assert value(finding, "most of them") == "all_reduce"


def test_small_collectives_count_no_waiting(job):
    reduces(job, 29, 1000, dur=10).kernel(2900, 90, name="ncclDevKernel_AllReduce", stream=20, **ALL_REDUCE,
                                          **{"In msg nelems": 1000})  # fmt: skip
    assert found(job.trace(), "small_collectives").cost_ns == 30 * 10_000


def test_small_collectives_not_few_large_or_hidden(job):
    assert found(reduces(job, 30, 1_000_000).trace(), "small_collectives") is None
    job.events.clear()
    assert found(reduces(job, 15, 1000).trace(), "small_collectives") is None
    job.events.clear()
    assert found(reduces(job, 30, 1000).kernel(0, 3000, name="gemm").trace(), "small_collectives") is None


def gathers(job, launched):
    """Blocks of 100 us of compute, each after an all-gather of 50 us that was launched ``launched`` us before it."""
    args = {"Collective name": "_allgather_base", "dtype": "Float", "In msg nelems": 1000, "Out msg nelems": 8000}
    for i in range(6):
        at = 150 * i
        job.launch(at - launched, 5, 100 + i).kernel(at, 50, 100 + i, "ncclDevKernel_AllGather", 20, **args)
        job.kernel(at + 50, 100, name="gemm")
    return job


def test_late_prefetch(job):
    finding = found(gathers(job, 8).trace(), "late_prefetch")
    # the first has no computation before it
    assert (finding.severity, finding.cost_ns) == ("critical", 5 * 50_000)
    assert value(finding, "all-gathers launched late") == 5
    assert value(finding, "of all all-gathers") == 6
    assert "set_modules_to_forward_prefetch" in finding.remedy


def test_late_prefetch_not_where_it_was_launched_ahead(job):
    assert found(gathers(job, 140).trace(), "late_prefetch") is None


def test_late_prefetch_not_where_nothing_ran_before(job):
    gathers(job, 8)
    job.events = [event for event in job.events if event["name"] != "gemm"]
    assert found(job.trace(), "late_prefetch") is None
