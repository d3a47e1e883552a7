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
    done = run("whatif", step, "--scale", "both:part=0.5", env={"COLUMNS": "200"})
    assert done.returncode == 0, done.stderr
    assert done.stdout == (
        "The step would take 75.00 µs instead of 100.0 µs: saves 25.00 µs (25.0 %), by replay with both:part=0.5.\n"
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


@pytest.fixture
def uneven(tmp_path: Path) -> Path:
    """Six steps, five of 100 us and one of 400; a kernel of 60 us in each, which nothing waits for."""
    events, ts = [], 0
    for number in range(1, 7):
        dur = 400 if number == 3 else 100
        for category, name, start, length, tid, args in (
            ("user_annotation", f"ProfilerStep#{number}", ts, dur, 1, {}),
            ("cpu_op", "aten::mm", ts + 5, 10, 1, {}),
            ("cuda_runtime", "cudaLaunchKernel", ts + 8, 5, 1, {"correlation": number}),
            ("kernel", "volta_sgemm_128x64_nn", ts + 20, 60, 7, {"correlation": number, "device": 0, "stream": 7}),
        ):
            events.append(
                {"ph": "X", "cat": category, "name": name, "pid": 0 if category == "kernel" else 1, "tid": tid,
                 "ts": start, "dur": length, "args": args}
            )  # fmt: skip
        ts += dur
    path = tmp_path / "uneven.json"
    path.write_text(json.dumps({"traceEvents": events}), encoding="utf-8")
    return path


def test_a_mean_far_from_the_median_is_told(run: Run, uneven: Path) -> None:
    said = run("whatif", uneven, "--scale", "gemm=0.5", env={"COLUMNS": "60"}).stdout
    assert max(map(len, said.splitlines())) <= 60
    assert " ".join(said.split()) == (
        "The mean step takes 150.0 µs; with gemm=0.5 just as long. Replayed are 900.0 µs, from the first step's start "
        "to the end of the last one's work: 150.0 µs a step is the mean of 6; the median step takes 100.0 µs. "
        # The host waits for no kernel.
        "Kernels and copies take 30.00 µs a step less, of which the rest saves nothing: the host, or other work, then "
        "decides how long it takes."
    )
    found = json.loads(run("whatif", uneven, "--scale", "gemm=0.5", "--format", "json").stdout)
    assert (found["saving_ns"], found["device_removed_ns"]) == (0, 180_000)
    longer = json.loads(run("whatif", uneven, "--scale", "gemm=2", "--format", "json").stdout)
    assert longer["device_removed_ns"] == -360_000
    assert "less" not in run("whatif", uneven, "--scale", "gemm=2").stdout


def test_the_table_is_as_wide_as_the_terminal(run: Run, uneven: Path) -> None:
    for columns in ("70", "100", "140"):
        own = run("whatif", uneven, env={"COLUMNS": columns}).stdout
        analyzed = run("analyze", uneven, "--only", "whatif", env={"COLUMNS": columns}).stdout
        assert own == analyzed
        assert max(map(len, own.splitlines())) <= max(int(columns), len(str(uneven)) + 6)  # a path is not broken
    assert "\x1b[1" in run("whatif", uneven, "--color").stdout
    assert "\x1b[1" not in run("whatif", uneven).stdout


def test_graphs_without_launches_say_so_in_one_line(run: Run, step: Path) -> None:
    done = run("whatif", step, "--graphs")
    assert (done.returncode != 0, done.stdout) == (True, "")
    assert done.stderr.count("\n") == 1
    assert "no device work is launched in this trace" in done.stderr
    assert "one graph launch a step" not in run("whatif", step).stdout
