"""``profsuite check``."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess
from xml.etree import ElementTree

import pytest

Run = Callable[..., "CompletedProcess[str]"]


@pytest.fixture
def slower(trace: Path, tmp_path: Path) -> Path:
    """The trace with steps, waits and kernels twice as long."""
    path = tmp_path / "slower.json"
    document = json.loads(trace.read_text())
    for event in document["traceEvents"]:
        event["ts"], event["dur"] = 2 * event["ts"], 2 * event["dur"]
    path.write_text(json.dumps(document))
    return path


def test_a_trace_as_baseline(run: Run, trace: Path, slower: Path) -> None:
    done = run("check", slower, "--baseline", trace)
    assert (done.returncode, done.stderr) == (1, "")
    assert "Failed: step time: +1.000 ms (+100.0 %), noise ±0.000 ms: above the threshold of 5 %." in done.stdout
    done = run("check", slower, "--baseline", trace, "--threshold", "100")
    assert done.returncode == 0
    assert "Passed: 1 check." in done.stdout
    assert run("check", trace, "--baseline", slower).returncode == 0


def test_a_saved_baseline_and_a_report(run: Run, trace: Path, slower: Path, tmp_path: Path) -> None:
    saved, report = tmp_path / "baseline.json", tmp_path / "report.json"
    done = run("check", trace, "--save-baseline", saved)
    assert (done.returncode, done.stdout) == (0, "")
    assert re.fullmatch(rf"wrote {re.escape(str(saved))} \([0-9.]+ k?M?B\)\n", done.stderr)
    run("analyze", trace, "--format", "json", "--output", report)
    for base in (saved, report):
        assert run("check", slower, "--baseline", base).returncode == 1
        assert run("check", trace, "--baseline", base).returncode == 0
    found = json.loads(run("check", slower, "--baseline", saved, "--format", "json").stdout)
    assert found["failed"] is True
    assert found["ranks"][0]["ops"][0]["name"] == "aten::mm"


def test_budgets(run: Run, trace: Path, tmp_path: Path) -> None:
    budget = tmp_path / "budgets.toml"
    budget.write_text('step_ms_max = 1.0\nidle_pct_max = 65\nop."aten::mm".device_ms_per_step_max = 0.3\n')
    done = run("check", trace, "--budget", budget, "--format", "junit")
    assert done.returncode == 1
    cases = ElementTree.fromstring(done.stdout).findall("testsuite/testcase")
    failed = [case.get("name") for case in cases if case.find("failure") is not None]
    assert (len(cases), failed) == (3, ['op."aten::mm".device_ms_per_step_max'])
    budget.write_text("step_ms = 1\n")
    done = run("check", trace, "--budget", budget)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert f"{budget}, line 1: unknown key 'step_ms'" in done.stderr


def test_a_folder_of_ranks(run: Run, ranks: Path, trace: Path, tmp_path: Path) -> None:
    saved = tmp_path / "baseline.json"
    assert run("check", ranks, "--save-baseline", saved).returncode == 0
    found = json.loads(run("check", ranks, "--baseline", saved, "--format", "json").stdout)
    assert [rank["rank"] for rank in found["ranks"]] == [0, 1]
    assert found["failed"] is False
    done = run("check", ranks, "--baseline", trace)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "has no baseline for" in done.stderr


def test_github(run: Run, trace: Path, slower: Path, tmp_path: Path) -> None:
    summary = tmp_path / "summary.md"
    summary.write_text("before\n")
    done = run("check", slower, "--baseline", trace, "--github", env={"GITHUB_STEP_SUMMARY": str(summary)})
    assert done.returncode == 1
    text = summary.read_text()
    assert text.startswith("before\n# ")
    assert "| failed | `step time` |" in text
    done = run("check", trace, "--baseline", trace, "--github", env={"GITHUB_STEP_SUMMARY": ""})
    assert done.returncode == 0
    assert "GITHUB_STEP_SUMMARY is not set" in done.stderr


def test_wrong_command_lines(run: Run, trace: Path, tmp_path: Path) -> None:
    done = run("check", trace)
    assert done.returncode == 2
    assert "nothing to check against" in done.stderr
    for option in ("--baseline", "--budget"):
        done = run("check", trace, option, tmp_path / "absent")
        assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    (tmp_path / "bad.json").write_text('{"kind": 5}')
    done = run("check", trace, "--baseline", tmp_path / "bad.json")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
