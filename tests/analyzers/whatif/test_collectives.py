"""Collectives that run on host threads, as Gloo's do: jobs written by hand, outcomes worked out on paper; in us."""

from __future__ import annotations

import pytest

from profsuite.analyzers.analysis import Analysis
from profsuite.analyzers.whatif.edits import Edit
from profsuite.analyzers.whatif.path import critical_path
from profsuite.analyzers.whatif.replay import replay


def predicted_us(job, **edit):
    """(measured, predicted) length of a job, microseconds."""
    analysis = Analysis(job.trace())
    outcome = replay(analysis, analysis.graph, Edit(**edit))
    return outcome.measured_ns / 1e3, outcome.predicted_ns / 1e3


@pytest.fixture
def one_collective(job):
    """Called from 50 to 60, it runs from 65 to 200; the main thread works until 100, waits, goes on at 210."""
    job.step(1, 0, 300).op("c10d::allreduce_", 50, 10).op("aten::mm", 60, 40).op("aten::copy_", 210, 20)
    return job.mark("gloo:all_reduce", 65, 135, tid=2)


def test_a_wait_is_as_long_as_the_collective(one_collective):
    # Called until 60, runs 5 later for 67.5, the thread goes on 10 after that, at 142.5, and has 90 left.
    assert predicted_us(one_collective, scales=(("host:gloo:all_reduce", 0.5),)) == (300, 232.5)


def test_comm_means_the_calls_and_the_hand_over_too(one_collective):
    # The call takes 5 instead of 10, from there to the start 2.5 instead of 5, and going on 5 instead of 10.
    assert predicted_us(one_collective, scales=(("comm", 0.5),)) == (300, 220)


def test_without_communication_the_thread_works_on(one_collective):
    # No call: the op from 50 to 90, the collective at 55, so no wait after it; 90 left.
    assert predicted_us(one_collective, no_comm=True) == (300, 180)


def test_work_that_the_wait_hides_saves_nothing(one_collective):
    assert predicted_us(one_collective, scales=(("aten::mm", 0.0),)) == (300, 300)
    assert predicted_us(one_collective, scales=(("aten::mm", 2.0),)) == (300, 300)


def test_work_beyond_the_wait_costs(one_collective):
    # From 60 to 260, where the collective is long over, and 90 left.
    assert predicted_us(one_collective, scales=(("aten::mm", 5.0),)) == (300, 350)


def test_the_wait_is_on_the_path(one_collective):
    analysis = Analysis(one_collective.trace())
    path = critical_path(analysis, analysis.graph)
    found = {part.cause: part.total_ns / 1e3 for part in path.parts}
    # To the call's end 50 of Python and its 10, 5 to the start, the collective (an annotation) 135, 10 to go on, 20 of
    # the copy, 70 of Python.
    assert found == {"host_python": 50 + 135 + 70, "host_op": 10 + 20, "thread_wait": 5 + 10}
    assert path.replay_error_ns == 0


def test_a_queued_collective_begins_after_the_one_before(job):
    job.step(1, 0, 400).op("c10d::allreduce_", 0, 10).op("c10d::allreduce_", 20, 10).op("aten::copy_", 320, 20)
    job.mark("gloo:all_reduce", 10, 100, tid=2).mark("gloo:all_reduce", 120, 190, tid=2)
    # 50, then 10 until the second begins at 70, 95, then 10 until the thread goes on at 175, and 80 left.
    assert predicted_us(job, scales=(("host:gloo:all_reduce", 0.5),)) == (400, 255)


def test_a_collective_whose_thread_has_no_core_begins_when_the_caller_waits(job):
    # Called until 20 and free, it begins at 405, when the thread that called it is done with its op; runs until 505.
    job.step(1, 0, 600).op("c10d::allreduce_", 10, 10).op("aten::mm", 20, 380).op("aten::copy_", 510, 20)
    job.mark("gloo:all_reduce", 405, 100, tid=2)
    # The op ends at 210: 5 later the collective begins.
    assert predicted_us(job, scales=(("host:aten::mm", 0.5),)) == (600, 410)
    # It is the caller's wait that it begins with, not half of the time since the call.
    assert predicted_us(job, scales=(("comm", 0.5),)) == (600, 600 - 5 - 2.5 - 50 - 2.5)


@pytest.fixture
def beside(job):
    """Forty ops of 10 us, then forty of the same while a collective runs, of 16 us; nothing waits for it."""
    job.step(1, 0, 1200).op("c10d::allreduce_", 400, 10)
    for number in range(40):
        job.op("aten::mm", 10 * number, 10, **{"Input Dims": [[4, 4], [4, 4]]})
        job.op("aten::mm", 420 + 16 * number, 16, **{"Input Dims": [[4, 4], [4, 4]]})
    return job.mark("gloo:all_reduce", 415, 700, tid=2)


def test_ops_beside_a_collective_take_as_long_as_others_without_it(beside):
    # Forty times 6 us and the call's 10 us.
    assert predicted_us(beside, no_comm=True) == (1200, 1200 - 240 - 10)
    assert predicted_us(beside, scales=(("comm", 0.5),)) == (1200, 1200 - 120 - 5)


def test_ops_of_other_shapes_are_no_measure(beside):
    for number in range(40):
        beside.op("aten::mm", 1060 + number, 1, **{"Input Dims": [[2, 2], [2, 2]]})
    # Nor are they spared: 6 of 16 are taken of their 40 us too.
    assert predicted_us(beside, no_comm=True) == (1200, 1200 - 240 - 10 - 15)


def test_a_few_ops_are_no_measure(job):
    job.step(1, 0, 200).op("c10d::allreduce_", 60, 10).op("aten::mm", 10, 10).op("aten::mm", 80, 16)
    job.mark("gloo:all_reduce", 75, 100, tid=2)
    assert predicted_us(job, no_comm=True) == (200, 190)


def test_a_collective_called_before_the_recording(job):
    job.step(1, 0, 300).op("c10d::allreduce_", 150, 10).op("aten::copy_", 290, 5)
    job.mark("gloo:all_reduce", 20, 40, tid=2).mark("gloo:all_reduce", 160, 120, tid=2)
    # The first has no call; the second, of 120, is that of the one call.
    assert predicted_us(job, scales=(("host:gloo:all_reduce", 0.0),)) == (300, 180)


def test_a_collective_that_no_one_waits_for(job):
    job.step(1, 0, 300).op("c10d::allreduce_", 0, 10)
    for start in range(10, 300, 10):
        job.op("aten::mm", start, 9)
    job.mark("gloo:all_reduce", 10, 140, tid=2)
    assert predicted_us(job, scales=(("comm", 3.0),)) == (300, 320)  # its call: 30 instead of 10
    for factor in (0.0, 3.0):
        assert predicted_us(job, scales=(("host:gloo:all_reduce", factor),)) == (300, 300)


def test_a_short_hole_is_python(job):
    """A collective ends between two ops, 30 us apart like all others: that is no wait."""
    job.step(1, 0, 300).op("c10d::allreduce_", 0, 10)
    for start in range(40, 300, 40):
        job.op("aten::mm", start, 10)
    job.mark("gloo:all_reduce", 10, 145, tid=2)
    assert predicted_us(job, scales=(("host:gloo:all_reduce", 0.0),)) == (300, 300)


def test_spans_of_a_backward_thread_are_calls_not_collectives(job):
    """As NCCL's are: the thread has ops of its own."""
    job.step(1, 0, 200).op("aten::mm", 0, 50)
    job.op("autograd::engine::evaluate_function: MmBackward0", 60, 60, tid=2).mark("nccl:all_reduce", 70, 20, tid=2)
    job.op("aten::add_", 130, 20)
    assert predicted_us(job, scales=(("*MmBackward0", 0.5),)) == (200, 170)
