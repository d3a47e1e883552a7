"""``profsuite memory``, and ``profsuite analyze`` of what is no trace."""

from __future__ import annotations

import csv
import gzip
import io
import json
import pickle
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import jsonschema
import pytest

Run = Callable[..., "CompletedProcess[str]"]

HOSTILE = "\x1b[31mevil\x07 <script>alert(1)</script>\n`|"


def event(ts: int, num_bytes: int, address: int, device: int = 0) -> dict[str, Any]:
    args = {"Bytes": num_bytes, "Addr": address, "Device Type": 1, "Device Id": device, "Total Reserved": 10**6}
    return {"ph": "i", "name": "[memory]", "cat": "cpu_instant_event", "pid": 1, "tid": 1, "ts": ts, "args": args}


def write(path: Path, peak: int, name: str = "aten::mm", device: int = 0) -> Path:
    """A trace in which an op allocates ``peak`` bytes, and frees them within itself."""
    op = {"ph": "X", "cat": "cpu_op", "name": name, "pid": 1, "tid": 1, "ts": 0, "dur": 100, "args": {}}
    events = [op, event(10, peak, 1, device), event(20, -peak, 1, device)]
    path.write_text(json.dumps({"traceEvents": events}), encoding="utf-8")
    return path


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    return write(tmp_path / "memory.json", 4096)


@pytest.fixture
def snapshot(tmp_path: Path) -> Path:
    frames = [{"filename": "train.py", "line": 7, "name": HOSTILE}]
    segment = {
        "device": 1, "address": 4096, "total_size": 4096, "stream": 0, "segment_type": "large", "frames": [],
        "blocks": [{"address": 4096 + 512 * i, "size": 512, "requested_size": 500 * (i % 2), "frames": frames,
                    "state": "active_allocated" if i % 2 else "inactive"} for i in range(8)],
    }  # fmt: skip
    path = tmp_path / "memory.pickle"
    failed = {"action": "oom", "device_free": 7, "size": 9000, "stream": 0, "frames": frames}
    path.write_bytes(pickle.dumps({"segments": [segment], "device_traces": [[], [failed]]}))
    return path


@pytest.fixture
def timeline(tmp_path: Path) -> Path:
    path = tmp_path / "t.raw.json.gz"
    path.write_bytes(gzip.compress(json.dumps([[-1, 1, 2000, 0], [5, 2, 3000, 4]]).encode()))
    return path


def test_a_trace(run: Run, recorded: Path) -> None:
    done = run("memory", recorded)
    assert (done.returncode, done.stderr) == (0, "")
    assert "CUDA 0: peak 4.1 kB allocated of 1.0 MB reserved; 100 % temporary; 100 % from aten::mm." in done.stdout
    assert "memory_peak_transient" not in done.stdout
    assert "One short-lived allocation of 4.10 kB makes the peak" in done.stdout


def test_a_snapshot(run: Run, snapshot: Path) -> None:
    done = run("memory", snapshot)
    assert done.returncode == 0
    text = " ".join(done.stdout.split())
    assert "free in 4 blocks, fragmentation 75.0 %" in text
    assert "An allocation of 9.00 kB failed with 2.00 kB allocated and 4.10 kB reserved" in text
    assert "\x1b" not in done.stdout
    assert "\x07" not in done.stdout


def test_a_timeline(run: Run, timeline: Path) -> None:
    done = run("memory", timeline)
    assert (done.returncode, done.stderr) == (0, "")
    assert "Peak 5.0 kB allocated; 60 % activation." in done.stdout


@pytest.mark.parametrize("kind", ["snapshot", "timeline"])
def test_analyze_answers_with_the_same_report(run: Run, kind: str, request: pytest.FixtureRequest) -> None:
    path = request.getfixturevalue(kind)
    assert run("analyze", path).stdout == run("memory", path).stdout
    assert run("analyze", path, "--format", "json").stdout == run("memory", path, "--format", "json").stdout


def test_analyze_fails_on_findings_of_a_snapshot_too(run: Run, snapshot: Path, timeline: Path) -> None:
    assert run("analyze", snapshot, "--fail-on", "critical").returncode == 1
    assert run("analyze", timeline, "--fail-on", "warning").returncode == 0


def test_analyze_of_a_trace_has_a_section(run: Run, recorded: Path, trace: Path) -> None:
    assert "Peak 4.1 kB allocated" in run("analyze", recorded).stdout
    only = json.loads(run("analyze", recorded, "--only", "memory", "--format", "json").stdout)
    assert only["memory"]["devices"][0]["peak"]["allocated_bytes"] == 4096
    assert only["ops"] is None
    without = run("analyze", trace)
    assert "Memory" not in without.stdout
    assert json.loads(run("analyze", trace, "--format", "json").stdout)["memory"] is None


def test_json_is_exact_and_valid(run: Run, recorded: Path, snapshot: Path, timeline: Path) -> None:
    import msgspec

    from profsuite.analyzers.memory.model import MemoryReport

    schema = msgspec.json.schema(MemoryReport)
    for path in (recorded, snapshot, timeline):
        report = json.loads(run("memory", path, "--format", "json").stdout)
        jsonschema.Draft202012Validator(schema).validate(report)
    (failure,) = json.loads(run("memory", snapshot, "--format", "json").stdout)["devices"][0]["out_of_memory"]
    assert (failure["bytes"], failure["device_free_bytes"]) == (9000, 7)


def test_csv(run: Run, snapshot: Path) -> None:
    rows = list(csv.DictReader(io.StringIO(run("memory", snapshot, "--format", "csv").stdout)))
    (free,) = [r for r in rows if (r["section"], r["metric"]) == ("fragmentation", "free_bytes")]
    assert (free["device"], free["value"], free["unit"]) == ("accelerator 1", "2048", "bytes")


@pytest.mark.parametrize("form", ["html", "markdown"])
def test_pages_escape_names(run: Run, snapshot: Path, tmp_path: Path, form: str) -> None:
    out = tmp_path / "page"
    assert run("memory", snapshot, "--format", form, "--output", out).returncode == 0
    page = out.read_text(encoding="utf-8")
    assert "evil" in page
    assert "\x1b" not in page
    if form == "html":
        assert "<script" not in page


def test_one_device(run: Run, recorded: Path, snapshot: Path) -> None:
    assert run("memory", recorded, "--device", 0).returncode == 0
    done = run("memory", snapshot, "--device", 0)
    assert done.returncode == 2
    assert "has no memory of device 0 (devices: 1)" in done.stderr


def test_what_would_fit(run: Run, tmp_path: Path) -> None:
    small, big = write(tmp_path / "b8.json", 9 * 10**9), write(tmp_path / "b16.json", 17 * 10**9)
    fitting = ("--batch", 8, "--compare", big, "--other-batch", 16, "--capacity", "80GB")
    done = run("memory", small, *fitting)
    assert "The largest batch that fits 80.0 GB of allocated memory: 79." in done.stdout
    report = json.loads(run("memory", small, *fitting, "--format", "json").stdout)
    assert (report["largest_batch"]["batch"], report["largest_batch"]["fixed_bytes"]) == (79, 10**9)
    assert run("memory", small, *fitting[:4]).returncode == 2
    assert "--other-batch is missing" in run("memory", small, *fitting[:4]).stderr
    assert "must differ" in run("memory", small, *fitting[:5], 8, *fitting[6:]).stderr


def test_a_trace_without_memory_says_how_to_record_it(run: Run, trace: Path) -> None:
    done = run("memory", trace)
    assert (done.returncode, done.stdout) == (2, "")
    assert "profile_memory=True" in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_folder_without_memory_events_may_have_snapshots(
    run: Run, trace: Path, snapshot: Path, tmp_path: Path
) -> None:
    import profsuite

    folder = profsuite.load(trace, cache=False).save(tmp_path / "run")
    (folder / "memory_end.pickle").write_bytes(snapshot.read_bytes())
    done = run("memory", folder)
    assert done.returncode == 0
    assert "allocator snapshot" in done.stdout


@pytest.mark.parametrize("data", [b"\x80\x04cos\nsystem\n\x8c\x02ls\x85R.", b"\x80\x04}.", b"\x80\x04" + b"(" * 99])
def test_pickles_that_are_no_snapshot(run: Run, tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "x.pickle"
    path.write_bytes(data)
    for command in ("memory", "analyze"):
        done = run(command, path)
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
        assert str(path) in done.stderr


def test_help_has_examples(run: Run) -> None:
    text = run("memory", "--help").stdout
    assert "Examples:" in text
    assert "--capacity 80GB" in text
