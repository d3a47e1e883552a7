"""The sliders' answer is the replay's."""

from __future__ import annotations

import pytest

pytest.importorskip("dash", reason="the dashboard is not installed")

from profsuite.dashboard.pages.whatif import FLAGS, SCALES, outcome


@pytest.fixture
def session(open_session, job):
    return open_session(job("volta_sgemm_128x64_nn", steps=4))


def test_nothing_changed(session):
    said = outcome(session, dict.fromkeys(SCALES, 1.0), [])
    assert said.startswith("The mean step takes 1.000 ms; with these changes just as long. Replayed are 4.000 ms, ")


def test_a_replay(session):
    # The host waits for the kernel in each step (until 500 us; the kernel ends at 440): half of it saves 200 us.
    assert outcome(session, {"gemm": 0.5}, []) == (
        "The mean step would take 800.0 µs instead of 1.000 ms: saves 200.0 µs (20.0 %), by replay with these changes. "
        "Replayed are 4.000 ms, from the first step's start to the end of the last one's work: 1.000 ms a step is the "
        "mean of 4."
    )
    assert ": costs " in outcome(session, {"gemm": 2.0}, [])


def test_kinds_that_are_not_there(session):
    assert outcome(session, {"attention": 0.0, "comm": 0.5}, ["no such flag"]).startswith(
        "The mean step takes 1.000 ms; with these changes just as long."
    )


def test_flags(session):
    for flag in FLAGS:
        assert outcome(session, {}, [flag])


def test_flags_that_need_a_device(open_session):
    slices = [
        {"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#0", "pid": 1, "tid": 1, "ts": 0, "dur": 100},
        {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 10, "dur": 80},
    ]
    assert outcome(open_session(slices), {}, list(FLAGS)).endswith("with these changes just as long.")


def test_no_recording_to_replay(open_session):
    assert outcome(open_session([]), {"gemm": 0.5}, []) == "Nothing to replay."
