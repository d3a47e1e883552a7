"""``profsuite whatif``: a step of 100 us with one op of 50 in it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

Run = Callable[..., "CompletedProcess[str]"]


@pytest.fixture
def step(tmp_path: Path) -> Path:
    events = [
        {"ph": "X", "cat": category, "name": name, "pid": 1, "tid": 1, "ts": ts, "dur": dur}
        for category, name, ts, dur in (
            ("user_annotation", "ProfilerStep#1", 0, 100),
            ("user_annotation", "part", 10, 50),
            ("cpu_op", "aten::add", 10, 50),
        )
    ]
    path = tmp_path / "step.json"
    path.write_text(json.dumps({"traceEvents": events}), encoding="utf-8")
    return path


def test_a_part_in_words(run: Run, step: Path) -> None:
    done = run("whatif", step, "--scale", "both:part=0.5")
    assert done.returncode == 0, done.stderr
    assert done.stdout == (
        "A step would take 75.00 µs instead of 100.0 µs: saves 25.00 µs (25.0 %), by replay with both:part=0.5.\n"
    )


def test_the_time_of_a_step_without_the_recording(run: Run, step: Path) -> None:
    found = json.loads(run("whatif", step, "--scale", "aten::add=0", "--step-ms", "0.09", "--format", "json").stdout)
    # 10 us go to the five starts and ends within the step, two of them before the op's own time and two after it.
    assert found["measured_ms_per_step"] == pytest.approx(0.09, rel=1e-4)
    assert found["predicted_ms_per_step"] == pytest.approx(0.09 - (0.05 - 2 * 0.002), rel=1e-3)
    assert found["name"] == "aten::add=0 --step-ms 0.09"


def test_a_time_that_cannot_be(run: Run, step: Path) -> None:
    done = run("whatif", step, "--step-ms", "0.001")
    assert done.returncode != 0
    assert "a step of 0.001 ms is too short" in done.stderr
    assert "Traceback" not in done.stderr


def test_graphs_without_launches_say_so_in_one_line(run: Run, step: Path) -> None:
    done = run("whatif", step, "--graphs")
    assert (done.returncode != 0, done.stdout) == (True, "")
    assert done.stderr.count("\n") == 1
    assert "no device work is launched in this trace" in done.stderr
    assert "one graph launch a step" not in run("whatif", step).stdout
