"""What the recorder ran for: side channels outside of its windows count nowhere, and the time between them neither."""

from __future__ import annotations

import numpy as np
import pytest

import profsuite
from profsuite.analyzers.analysis import Analysis
from profsuite.analyzers.breakdown import breakdown
from profsuite.analyzers.host import host
from profsuite.analyzers.idle import idle
from profsuite.analyzers.recorded import between, overlaps, recorded
from profsuite.analyzers.report import analyze, report_of
from profsuite.analyzers.steps import steps
from profsuite.trace.load import load
from profsuite.trace.select import select_time, selected_time

NEXT = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
US = 1000


def noted(job, *windows, **settings):
    """The collector's note on a recording, windows in us."""
    job.header["profsuite"] = {"recorded_ns": [[begin * US, end * US] for begin, end in windows], "settings": settings}
    return job


def step(job, number, at, *, wait=20):
    """A step of 100 us: a wait for its batch, then 60 us in an op, then Python."""
    return job.step(number, at, 100).mark(NEXT, at, wait).op("aten::mm", at + wait, 60)


@pytest.fixture
def partly(job):
    """Steps 3 to 5 of a longer run: waits and garbage collection were seen in all of it."""
    for at in (0, 200, 400):
        job.mark(NEXT, at, 90)
    job.python("Python GC (generation 2)", 500, 400)
    for number, at in ((3, 1000), (4, 1100), (5, 1200)):
        step(job, number, at)
    job.mark(NEXT, 1500, 90)
    return noted(job, (1000, 1300))


def test_the_host_window_is_what_was_recorded(partly):
    result = host(partly.trace())
    assert (result.start_ns, result.window_ns) == (1000 * US, 300 * US)
    (thread,) = result.threads
    shares = thread.shares
    assert (shares.input_ns, shares.op_ns, shares.python_ns, shares.gc_ns, shares.unrecorded_ns) == (
        60 * US,
        180 * US,
        60 * US,
        0,
        0,
    )


def test_findings_and_verdict_count_nothing_outside(partly, found, value):
    trace = partly.trace()
    finding = found(trace, "input_bound")
    assert (finding.cost_ns, value(finding, "waits")) == (60 * US, 3)
    assert value(finding, "lost to input") == pytest.approx(0.02)
    # What is lost in the steps is what a replay without it saves.
    assert finding.saving_ms_per_step == pytest.approx(0.02)
    assert finding.where.step in (3, 4, 5)
    assert found(trace, "garbage_collection") is None
    assert value(found(trace, "cpu_only"), "share of its window") == 60
    verdict = analyze(trace).verdict
    assert "60.0 µs (20 % of the recording, 20.0 µs a step)" in verdict


def test_without_the_note_all_of_the_file_counts(partly, found, value):
    partly.header = {}
    trace = partly.trace()
    assert recorded(trace) is None
    assert host(trace).window_ns == 1590 * US
    assert value(found(trace, "input_bound"), "waits") == 7


def test_a_recording_of_before_the_note_goes_by_its_steps(partly):
    partly.header["profsuite"] = {"settings": {"schedule": "schedule(active=3)"}}
    assert [side.tolist() for side in recorded(partly.trace())] == [[1000 * US], [1300 * US]]
    partly.header["profsuite"]["settings"]["background"] = True
    assert recorded(partly.trace()) is None
    partly.header["profsuite"]["settings"] = {"schedule": None}
    assert recorded(partly.trace()) is None


def test_steps_that_do_not_follow_each_other_are_windows_apart(job):
    for number, at in ((3, 0), (4, 101), (8, 500)):
        step(job, number, at)
    job.header["profsuite"] = {"settings": {"schedule": "x"}}
    assert [side.tolist() for side in recorded(job.trace())] == [[0, 500 * US], [201 * US, 600 * US]]


def test_what_begins_before_a_window_counts_from_there(job, found):
    step(job, 0, 100).python("Python GC (generation 2)", 60, 50, tid=2)
    result = host(noted(job, (100, 200)).trace())
    assert [(t.shares.gc_ns, t.shares.window_ns) for t in result.threads] == [(0, 100 * US), (10 * US, 100 * US)]


def test_the_time_between_windows_counts_nowhere(job, value, found):
    step(job, 3, 1000).mark(NEXT, 1500, 300)
    step(job, 8, 2000)
    job.op("aten::add", 2090, 10)
    trace = noted(job, (990, 1100), (1995, 2105)).trace()
    analysis = Analysis(trace)
    # From the first slice on, and to the end of the last; the second window begins 5 us before its first slice.
    assert host(trace).window_ns == 205 * US
    assert analysis.recording_ns == 205 * US
    replays = analysis.replays
    assert replays.length_ns == 205 * US
    assert sum(part.total_ns for part in replays.path.parts) == 205 * US
    assert replays.path.replay_error_ns == 0
    (scenario,) = [s for s in replays.scenarios if s.name == "no waits for input"]
    assert (scenario.measured_ms_per_step, scenario.saving_ns) == (0.1025, 40 * US)
    assert value(found(trace, "input_bound"), "waits") == 2
    end_ns = found(trace, "cpu_only").where.end_ns
    assert end_ns == 2100 * US


def test_a_device_is_not_idle_between_windows(job):
    for at, correlation in ((1000, 1), (2000, 3)):
        job.launch(at, 5, correlation).kernel(at + 10, 30, correlation)
        job.launch(at + 20, 5, correlation + 1).kernel(at + 60, 30, correlation + 1)
    trace = noted(job, (1000, 1080), (2000, 2100)).trace()
    (device,) = breakdown(trace)
    # Two kernels of 30 us and 20 us between them, twice; the last of the first window runs beyond its end.
    assert (device.shares.window_ns, device.shares.compute_ns, device.shares.idle_ns) == (160 * US, 120 * US, 40 * US)
    assert sum(device.over_time.compute_ns) == 120 * US
    (gaps,) = idle(trace)
    assert (gaps.idle_ns, gaps.num_gaps) == (40 * US, 2)
    analysis = Analysis(trace)
    assert analysis.recording_ns == (90 + 90) * US
    assert analysis.graph.length_ns == (90 + 90) * US
    assert sum(part.total_ns for part in analysis.replays.path.parts) == analysis.graph.length_ns
    del job.header["profsuite"]
    (device,) = breakdown(job.trace())
    assert device.shares.idle_ns == 40 * US + 920 * US


def test_counters_outside_do_not_count(job):
    step(job, 3, 1000)
    for at in range(0, 2000, 50):
        event = {"ph": "C", "name": "CPU", "pid": 100, "ts": at, "args": {"system_pct": 100 if at < 1000 else 10}}
        job.events.append(event)
    analysis = Analysis(noted(job, (1000, 1100)).trace())
    times, values = analysis.samples("CPU", "system_pct")
    assert (times.tolist(), values.tolist()) == ([1000 * US, 1050 * US], [10, 10])


def test_a_note_is_on_the_clock_of_the_epoch(job):
    step(job, 0, 100).mark(NEXT, 500, 100)
    job.header["baseTimeNanoseconds"] = 10**18
    job.header["profsuite"] = {"recorded_ns": [[10**18 + 100 * US, 10**18 + 200 * US]]}
    assert host(job.trace()).window_ns == 100 * US


@pytest.mark.parametrize(
    "note",
    [
        None,
        7,
        [],
        {"recorded_ns": []},
        {"recorded_ns": {}},
        {"recorded_ns": [[1]]},
        {"recorded_ns": [[1, 2, 3]]},
        {"recorded_ns": [["1", "2"]]},
        {"recorded_ns": [[0.5, 1.5]]},
        {"recorded_ns": [[True, 10**6]]},
        {"recorded_ns": [[0, 2**80]]},
        {"recorded_ns": [[200_000, 100_000]]},
        {"recorded_ns": [[10**12, 2 * 10**12]]},  # nothing of the file lies there
        {"settings": {"schedule": "steps"}},  # no steps
    ],
)
def test_a_note_that_makes_no_sense_counts_as_absent(job, note):
    job.op("aten::mm", 100, 50)
    job.header["profsuite"] = note
    trace = job.trace()
    assert recorded(trace) is None
    assert host(trace).window_ns == 50 * US


def test_overlaps():
    windows = np.array([10, 50]), np.array([20, 60])
    start, end = np.array([0, 0, 10, 15, 20, 20, 10, 60, 0]), np.array([10, 11, 20, 15, 30, 51, 10, 60, 100])
    expected = [False, True, True, True, False, True, True, False, True]
    assert overlaps(start, end, windows).tolist() == expected
    assert [side.tolist() for side in between(windows)] == [[20], [50]]
    assert [side.tolist() for side in between(None)] == [[], []]


def test_times_are_divided_by_the_steps_that_were_recorded_whole(job, found, value):
    for number, at in ((0, 0), (1, 100), (2, 200), (3, 300)):
        step(job, number, at)
    job.step(4, 400, 5)  # what prof.step() leaves when the recording stops right after it
    trace = job.trace()
    analysis = Analysis(trace)
    assert (analysis.steps.count, analysis.num_steps, len(analysis.graph.steps)) == (5, 4, 4)
    finding = found(trace, "input_bound")
    assert value(finding, "lost to input") == pytest.approx(0.02)
    assert finding.saving_ms_per_step == pytest.approx(0.02)
    assert analysis.graph.length_ns == 400 * US


def test_of_a_selected_time_only_what_lies_in_it_counts(job, tmp_path_factory):
    """100 to 250 of three steps of 100 us: step 2 whole, step 3 cut, an op from 50 on counts for 50 us."""
    for i in range(3):
        job.step(i + 1, 100 * i, 100).launch(100 * i + 90, 5, i + 1).kernel(100 * i + 95, 20, i + 1)
    job.op("aten::long", 50, 100, tid=2).python("train.py(1): all", -500, 2000, tid=3)
    analysis = Analysis(select_time(job.trace(), (600_000, 750_000)))
    assert [(step.number, step.excluded is None) for step in analysis.steps.steps] == [(2, True), (3, False)]
    assert analysis.steps.mean_ns == 100_000
    assert (analysis.recording_ns, analysis.host.window_ns) == (155_000, 150_000)  # the first kernel begins at 95
    ops = {thread.thread: thread.shares.op_ns for thread in analysis.host.threads}
    assert ops["thread 2"] == 50_000
    report = report_of(analysis, only=("steps",))
    assert report.trace.duration_ns == 150_000
    copy = tmp_path_factory.mktemp("copy") / "part.json"
    profsuite.export(analysis.trace, copy)
    assert steps(load(copy, cache=False)).steps == analysis.steps.steps
    again = select_time(select_time(job.trace(), (600_000, 750_000)), (None, 700_000))
    assert selected_time(again) == (100_000, 200_000)
