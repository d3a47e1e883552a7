"""The benchmarks work and their numbers make sense; how fast anything is, no test says."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

RUN = Path(__file__).parent.parent / "benchmarks" / "run.py"

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("bench")


@pytest.fixture(scope="module")
def results(work: Path) -> dict[str, Any]:
    command = [
        sys.executable,
        str(RUN),
        "--quick",
        "--no-peer",
        "--folder",
        str(work),
        "--output",
        str(work / "r.json"),
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads((work / "r.json").read_text(encoding="utf-8"))
    return found


def test_every_case_is_measured(results: dict[str, Any]) -> None:
    assert list(results["cases"]) == [
        "load", "single", "fallback", "stream", "export", "reopen", "analyze", "critical_path", "gzipped", "stages",
    ]  # fmt: skip
    assert all(results["cases"].values())


def test_numbers_are_sane(results: dict[str, Any]) -> None:
    for rows in results["cases"].values():
        for row in rows:
            # a stage of a small file may be too short to see
            assert row["value"] >= 0, row
            assert row["unit"] in {"s", "MB", "MB/s", "GB/s", "M", "x"}, row
            if "peak memory" in row["what"]:
                assert 20 < row["value"] < 2000, row
            if row["runs"]:
                assert min(row["runs"]) <= row["value"] <= max(row["runs"]), row


def test_small_files_are_not_judged(results: dict[str, Any]) -> None:
    assert all(row["need"] is None and row["met"] is None for rows in results["cases"].values() for row in rows)


def test_results_name_the_machine_but_no_place_on_it(results: dict[str, Any], work: Path) -> None:
    assert results["machine"]["cpu"]
    assert results["versions"]["profsuite"]["profsuite"]
    assert "/" not in json.dumps(results).replace("GB/s", "")
    text = (work / "r.txt").read_text(encoding="utf-8")
    assert str(work) not in text
    assert all(f"{case}: " in text for case in results["cases"])


def test_nothing_is_left_but_the_inputs(results: dict[str, Any], work: Path) -> None:
    assert {entry.name for entry in work.iterdir()} == {"inputs", "r.json", "r.txt"}
