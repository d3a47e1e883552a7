"""Idle time: one tiny trace a cause, and that nothing is lost."""

from __future__ import annotations

import pytest

from profsuite.analyzers.breakdown import breakdown
from profsuite.analyzers.idle import idle
from profsuite.trace.load import load
from profsuite.trace.select import select_steps, select_time

REAL = [
    "v100_resnet50_workers0.json.gz",
    "h100_bert_small.json.gz",
    "b200_eager_stacks.json.gz",
    "diff_a100_control.json.gz",
    "mi300_vllm_decode_graph.json.gz",
    "torch18_autograd_api.json.gz",
]


def causes(trace):
    (row,) = idle(trace)
    return {c.cause: c.total_ns for c in row.causes}


def split(trace):
    (row,) = idle(trace)
    return row.host.python_ns, row.host.op_ns, row.host.launch_ns


def first_kernel(job):
    """A kernel until 100 us; what follows decides the gap from there."""
    return job.launch(0, 5, 1).kernel(10, 90, 1)


def test_late_cpu_is_host_and_splits_exactly(job):
    first_kernel(job)
    job.op("aten::mm", 120, 60).launch(150, 20, 2).kernel(180, 10, 2)
    trace = job.trace()
    assert causes(trace) == {"host": 80_000}
    # 100..120 nothing, 120..150 op, 150..170 the call, 170..180 from its return to the start
    assert split(trace) == (20_000, 30_000, 30_000)


def test_a_launch_that_began_before_the_gap_and_ended_in_it_is_late(job):
    first_kernel(job).launch(95, 10, 2).kernel(106, 10, 2)
    trace = job.trace()
    assert causes(trace) == {"host": 6_000}
    assert split(trace) == (0, 0, 6_000)


def test_the_loader_is_blamed_if_it_fills_half_of_the_gap(job):
    first_kernel(job).mark("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 100, 50)
    job.op("aten::stack", 110, 30).launch(160, 5, 2).kernel(170, 10, 2)
    trace = job.trace()
    assert causes(trace) == {"input": 70_000}
    (row,) = idle(trace)
    (gap,) = row.top_gaps
    assert (gap.start_ns, gap.dur_ns, gap.next_name, gap.thread) == (100_000, 70_000, "gemm", "thread 1")
    assert gap.blamed == "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"


def test_the_loader_is_not_blamed_for_less_than_half(job):
    first_kernel(job).mark("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 100, 34)
    job.launch(160, 5, 2).kernel(170, 10, 2)
    assert causes(job.trace()) == {"host": 70_000}


def test_the_loader_is_not_blamed_for_gaps_between_queued_kernels(job):
    first_kernel(job).launch(20, 5, 2).kernel(102, 20, 2)
    job.mark("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 50, 100)
    assert causes(job.trace()) == {"queue": 2_000}


def test_a_wait_that_ends_in_the_gap_is_sync(job):
    first_kernel(job).call("cudaStreamSynchronize", 20, 85).launch(120, 5, 2).kernel(130, 10, 2)
    trace = job.trace()
    assert causes(trace) == {"sync": 30_000}
    assert idle(trace)[0].top_gaps[0].blamed == "cudaStreamSynchronize"


def test_a_copy_from_pageable_memory_waits_too(job):
    job.launch(0, 5, 1).call("cudaMemcpyAsync", 6, 99, 2)
    job.kernel(10, 70, 1).memcpy(80, 20, 2, name="Memcpy DtoH (Device -> Pageable)")
    job.launch(120, 5, 3).kernel(130, 10, 3)
    assert causes(job.trace()) == {"sync": 30_000}


def test_a_wait_that_begins_in_the_gap_is_no_sync(job):
    first_kernel(job).call("cudaStreamSynchronize", 101, 2).launch(120, 5, 2).kernel(130, 10, 2)
    assert causes(job.trace()) == {"host": 30_000}


def test_a_wait_of_another_thread_is_no_sync(job):
    first_kernel(job).call("cudaStreamSynchronize", 20, 85, tid=2).launch(120, 5, 2).kernel(130, 10, 2)
    assert causes(job.trace()) == {"host": 30_000}


def test_device_memory_calls_are_the_allocators(job):
    first_kernel(job).call("cudaMalloc", 101, 50).launch(160, 5, 2).kernel(170, 10, 2)
    assert causes(job.trace()) == {"allocator": 70_000}


def test_compilation_and_collection_count_on_any_thread_and_come_first(job):
    first_kernel(job).mark("_compile.compile_inner (dynamo_timed)", 100, 50, tid=2)
    job.mark("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 100, 50)
    job.launch(160, 5, 2).kernel(170, 10, 2)
    job.python("Python GC", 180, 15, tid=3).launch(196, 2, 3).kernel(200, 5, 3)
    assert causes(job.trace()) == {"compile": 70_000, "gc": 20_000}


def test_work_launched_in_time_waits_for_another_stream(job):
    first_kernel(job).launch(20, 5, 2).kernel(105, 10, 2, stream=8)
    assert causes(job.trace()) == {"dependency": 5_000}


def test_an_event_wait_between_the_launches_is_a_dependency(job):
    first_kernel(job).call("cudaStreamWaitEvent", 10, 2).launch(20, 5, 2).kernel(105, 10, 2)
    assert causes(job.trace()) == {"dependency": 5_000}


def test_recorded_waits_of_another_stream_do_not_count(job):
    first_kernel(job).call("cudaStreamWaitEvent", 10, 2, 9).launch(20, 5, 2).kernel(105, 10, 2)
    job.slice(
        "cuda_sync", "Stream Wait Event", 10, 2, tid=20, pid=0, device=0, stream=20, cuda_sync_kind="Stream Wait Event"
    )
    assert causes(job.trace()) == {"queue": 5_000}


def test_small_gaps_on_one_stream_are_the_queue_and_long_ones_unknown(job):
    first_kernel(job).launch(20, 5, 2).launch(30, 5, 3)
    job.kernel(109, 10, 2).kernel(129, 10, 3)
    assert causes(job.trace()) == {"unknown": 10_000, "queue": 9_000}


def test_a_collective_launched_in_time(job):
    first_kernel(job).launch(20, 5, 2).kernel(120, 10, 2, name="ncclDevKernel_AllReduce")
    assert causes(job.trace()) == {"collective_wait": 20_000}


def test_without_a_launch_the_cause_is_unknown(job):
    first_kernel(job).kernel(105, 10, 77)
    assert causes(job.trace()) == {"unknown": 5_000}


def test_overlapping_streams_have_no_gap(job):
    job.kernel(0, 100).kernel(50, 100, stream=8).kernel(150, 10)
    (row,) = idle(job.trace())
    assert (row.idle_ns, row.num_gaps, row.causes, row.top_gaps) == (0, 0, (), ())


@pytest.mark.parametrize("name", REAL)
def test_causes_sum_to_the_idle_time(real_trace, name):
    from profsuite.analyzers.breakdown import breakdown

    trace = real_trace(name)
    for row, whole in zip(idle(trace), breakdown(trace), strict=True):
        assert row.idle_ns == whole.shares.idle_ns == sum(c.total_ns for c in row.causes)
        assert row.num_gaps == sum(c.num_gaps for c in row.causes)
        late = sum(c.total_ns for c in row.causes if c.cause == "host")
        assert row.host.python_ns + row.host.op_ns + row.host.launch_ns == late
        assert min(row.host.python_ns, row.host.op_ns, row.host.launch_ns) >= 0


def test_selected_steps_hold_the_device_from_their_start_to_their_end(job):
    job.step(1, 0, 100).launch(1, 2, 1).kernel(10, 90, 1)
    job.step(2, 100, 200).mark("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 100, 100)
    job.launch(201, 5, 2).kernel(210, 50, 2).call("cudaDeviceSynchronize", 220, 41).python("train.py(1): f", 262, 35)
    job.step(3, 300, 100).launch(301, 2, 3).kernel(310, 90, 3)
    trace = select_steps(job.trace(), (2, 3))
    (shares,) = breakdown(trace)
    assert (shares.start_ns, shares.shares.window_ns, shares.shares.idle_ns) == (100_000, 200_000, 150_000)
    (row,) = idle(trace)
    assert [(c.cause, c.total_ns) for c in row.causes] == [("input", 110_000), ("sync", 40_000)]
    assert (row.idle_ns, [g.dur_ns for g in row.top_gaps]) == (150_000, [110_000])


def test_a_device_that_works_for_earlier_steps_is_not_idle_in_a_selected_one(job, tmp_path):
    """Step 2 is launched while the device works for step 1, until 150: its window is 150 to 240, 10 us of it idle."""
    job.step(1, 0, 20).launch(1, 2, 1).kernel(10, 140, 1)
    job.step(2, 20, 20).launch(21, 2, 2).kernel(155, 55, 2).launch(31, 2, 3).kernel(215, 25, 3)
    job.step(3, 40, 20).launch(41, 2, 4).kernel(240, 30, 4)
    whole = job.trace()
    trace = select_steps(whole, (2, 3))
    (shares,) = breakdown(trace)
    assert (shares.start_ns, shares.shares.window_ns, shares.shares.idle_ns) == (150_000, 90_000, 10_000)
    assert shares.shares == breakdown(whole)[0].steps[1].shares
    assert [(c.cause, c.total_ns) for c in idle(trace)[0].causes] == [("queue", 10_000)]
    for again in (select_steps(select_steps(whole, (2, 4)), (2, 3)), load(trace.save(tmp_path / "run"))):
        assert breakdown(again) == (shares,)


def test_what_a_selected_step_launched_ahead_counts_without_the_time_around_it(job):
    """Its copy runs at 60 to 70, beside what step 1 launched, which is done at 150: until then nothing is idle."""
    job.step(1, 0, 20).launch(1, 2, 1).kernel(10, 140, 1)
    job.step(2, 20, 20).call("cudaMemcpyAsync", 21, 2, 2).memcpy(60, 10, 2, stream=8)
    job.launch(31, 2, 3).kernel(153, 50, 3).launch(35, 2, 4).kernel(207, 30, 4)
    trace = select_steps(job.trace(), (2, 3))
    (found,) = breakdown(trace)
    window = 10 + (237 - 150)
    assert (found.start_ns, found.shares.window_ns, found.shares.idle_ns) == (60_000, window * 1000, 7_000)
    assert found.shares.exposed_memcpy_ns == 10_000
    (step,) = found.steps
    assert (step.start_ns, step.shares.window_ns, step.shares.idle_ns) == (150_000, 87_000, 7_000)
    (row,) = idle(trace)
    assert (row.idle_ns, [(g.start_ns, g.dur_ns) for g in row.top_gaps]) == (
        7_000,
        [(203_000, 4_000), (150_000, 3_000)],
    )


def test_a_selected_step_that_is_done_before_what_was_launched_earlier(job):
    job.step(1, 0, 20).launch(1, 2, 1).kernel(10, 140, 1)
    job.step(2, 20, 20).call("cudaMemcpyAsync", 21, 2, 2).memcpy(60, 10, 2, stream=8)
    trace = select_steps(job.trace(), (2, 3))
    (found,) = breakdown(trace)
    assert (found.shares.window_ns, found.shares.busy_ns, found.shares.idle_ns) == (10_000, 10_000, 0)
    assert idle(trace)[0].idle_ns == 0


def test_a_selected_time_keeps_the_window_of_its_work(job):
    job.step(1, 0, 300).launch(101, 2, 1).kernel(110, 50, 1).launch(201, 2, 2).kernel(210, 50, 2)
    assert idle(select_time(job.trace(), (100_000, 280_000)))[0].idle_ns == 50_000
