"""The benchmarks work and their numbers make sense; how fast anything is, no test says."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

RUN = Path(__file__).parent.parent / "benchmarks" / "run.py"
RECORDING = RUN.with_name("recording.py")

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
        "load", "single", "fallback", "stream", "export", "reopen", "analyze", "critical_path", "analyses", "gzipped",
        "stages", "snapshot", "ranks",
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
    assert "/" not in json.dumps(results).replace("GB/s", "").replace("MB/s", "")
    text = (work / "r.txt").read_text(encoding="utf-8")
    assert str(work) not in text
    assert all(f"{case}: " in text for case in results["cases"])


def test_nothing_is_left_but_the_inputs(results: dict[str, Any], work: Path) -> None:
    assert {entry.name for entry in work.iterdir()} == {"inputs", "r.json", "r.txt"}


def test_recording_is_measured(tmp_path: Path) -> None:
    """Each part gives rows with numbers, and the file has what was printed."""
    pytest.importorskip("torch", reason="torch is not installed")
    from profsuite.collector import build

    for name in ("recorder", "extract"):
        if build.why_not(name) is not None:
            pytest.skip(f"the {name} extension is not built")
    output = tmp_path / "r.json"
    command = [sys.executable, str(RECORDING), "--quick", "--output", str(output)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = json.loads(output.read_text(encoding="utf-8"))
    assert list(found["cases"]) == ["collector", "window", "channels", "cupti_decode"]
    assert set(found["versions"]) == {"profsuite", "torch"}
    for part in ("collector", "window", "channels"):
        assert found["cases"][part]
    for rows in (rows for parts in found["cases"].values() for rows in parts.values()):
        for row in rows:
            assert row["met"] is (None if row["need"] is None else row["value"] <= row["need"]), row
    said = output.with_suffix(".txt").read_text(encoding="utf-8")
    # The file has the same lines in the same order, with blank ones between the parts.
    printed, written = ("\n".join(filter(None, text.splitlines())) for text in (done.stdout, said))
    assert printed in written
    by_name = {row["what"]: row["value"] for row in found["cases"]["window"]["memory"]}
    assert by_name["extract, an event"] < by_name["prof.events(), an event"]
    assert 0 < by_name["peak memory above the bare training, profsuite"] < 2000


def test_whether_replays_come_true_is_measured(work: Path) -> None:
    """One change of one process, one of two ranks; an unedited replay is the recording, exactly."""
    pytest.importorskip("torch")
    names, output = ["no norms by .item()", "larger DDP buckets"], work / "w.json"
    command = [sys.executable, str(RUN.with_name("whatif.py")), "--quick", "--output", str(output)]
    for name in names:
        command += ["--case", name]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    changes = json.loads(output.read_text(encoding="utf-8"))["changes"]
    assert list(changes) == names
    for row in changes.values():
        for one in row["rounds"]:
            assert one["replayed_ms"] == one["recorded_ms"] > 0
            assert one["saving_ms"] == one["before_ms"] - one["after_ms"]
            assert one["predicted_ms"] < one["recorded_ms"]
            assert one["as_recorded_ms"] < one["recorded_ms"]
    assert changes["no norms by .item()"]["predicted_ms"] > 0
    assert changes["larger DDP buckets"]["factors"]["comm"] > 0
    assert all(name in output.with_suffix(".txt").read_text(encoding="utf-8") for name in names)
    output.unlink()
    output.with_suffix(".txt").unlink()
