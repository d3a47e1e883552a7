"""Steps: statistics, outliers, what is left out."""

from __future__ import annotations

import pytest

from profsuite.analyzers.analysis import Analysis
from profsuite.analyzers.steps import steps
from profsuite.trace.select import select_time


def add_steps(job, *durations):
    at = 0
    for number, dur in enumerate(durations, 1):
        job.step(number, at, dur).op("aten::mm", at + 1, 1)
        at += dur
    return job


def test_statistics(job):
    summary = steps(add_steps(job, 90, 100, 110).trace())
    assert (summary.count, summary.num_used, summary.mean_ns, summary.median_ns) == (3, 3, 100_000, 100_000)
    assert (summary.std_ns, summary.cv_pct) == (pytest.approx(10_000), pytest.approx(10))
    assert (summary.min_ns, summary.max_ns, summary.outliers, summary.note) == (90_000, 110_000, (), None)


def test_an_outlier_stands_far_outside_of_the_others(job):
    summary = steps(add_steps(job, 100, 101, 99, 100, 200, 102).trace())
    assert summary.outliers == (5,)
    assert [s.number for s in summary.steps if s.outlier] == [5]


def test_steady_steps_have_no_outliers(job):
    assert steps(add_steps(job, 100, 100, 100, 100, 104).trace()).outliers == ()


def test_a_truncated_step_is_left_out_and_named(job):
    job.step(1, 0, 100).op("aten::mm", 1, 1).step(2, 100, 100).op("aten::mm", 101, 1).step(3, 200, 5)
    summary = steps(job.trace())
    assert (summary.count, summary.num_used, summary.mean_ns) == (3, 2, 100_000)
    assert summary.steps[2].excluded == "the recording starts or ends inside it"
    assert "step 3" in summary.note


@pytest.mark.parametrize(("until", "expected"), [(300, 0.03), (301, None)])
def test_a_time_per_step_needs_steps_that_make_up_two_thirds_of_the_window(job, until, expected):
    """Two whole steps of 100 us; 60 us are 30 us of each, unless more than 100 us lie outside of both."""
    job.step(1, 0, 100).op("aten::mm", 1, 1).step(2, 100, 100).op("aten::mm", 101, 1).mark("save", 250, until - 250)
    assert Analysis(job.trace()).per_step_ms(60_000) == expected


def test_steps_that_a_device_lags_behind_fill_its_window(job):
    """Two steps of 10 us on the host, each with a kernel of 100 us: 200 us of work are 100 us of each."""
    for step in (0, 1):
        job.step(step, 10 * step, 10).op("aten::mm", 10 * step + 1, 8).launch(10 * step + 2, 1, step + 1)
        job.kernel(5 + 100 * step, 100, step + 1)
    assert Analysis(job.trace()).per_step_ms(200_000) == 0.1


def test_without_steps_the_note_says_how_to_mark_them(job):
    summary = steps(job.op("aten::mm", 0, 10).trace())
    assert (summary.count, summary.mean_ns, summary.steps) == (0, None, ())
    assert "prof.step()" in summary.note


def test_a_selection_without_steps_is_not_a_recording_without(job):
    job.op("aten::mm", 0, 10).step(1, 100, 50)
    note = steps(select_time(job.trace(), (0, 50_000))).note
    assert note == "No step lies in the selection (time 0 ms to 0.05 ms)."
