"""The memory snapshot: replayed as memory_viz does, and read by torch's own tools."""

from __future__ import annotations

import io
import pickle
import pickletools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import profsuite
from profsuite.analyzers.memory.snapshot import snapshot_memory
from profsuite.errors import ProfsuiteError
from profsuite.trace.load import load
from profsuite.trace.model import Trace
from profsuite.trace.readers.snapshot import read_snapshot

TRACES = Path(__file__).parents[4] / "shared" / "traces"

OPCODES = {
    "APPEND", "APPENDS", "BINGET", "BININT", "BININT1", "BININT2", "EMPTY_DICT", "EMPTY_LIST", "EMPTY_TUPLE", "FRAME",
    "LONG1", "LONG_BINGET", "MARK", "MEMOIZE", "NEWFALSE", "NEWTRUE", "NONE", "PROTO", "SETITEM", "SETITEMS",
    "SHORT_BINUNICODE", "BINUNICODE", "STOP", "TUPLE", "TUPLE1", "TUPLE2", "TUPLE3",
}  # fmt: skip
"""What memory_viz's own reader of pickles knows, of protocols 2 to 4."""


class Plain(pickle.Unpickler):
    """Refuses everything but plain data."""

    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError(f"{module}.{name}")


def read(file: Path) -> dict[str, Any]:
    data = file.read_bytes()
    assert {opcode.name for opcode, _, _ in pickletools.genops(data)} <= OPCODES
    found: dict[str, Any] = Plain(io.BytesIO(data)).load()
    return found


def replay(found: dict[str, Any], device: int) -> tuple[int, int]:
    """Peak and final allocated bytes; what is freed, or left, without an allocation was there before."""
    live: dict[int, int] = {}
    before = now = peak = 0
    running = []
    for entry in found["device_traces"][device]:
        if entry["action"] == "alloc":
            live[entry["addr"]] = entry["size"]
            now += entry["size"]
        elif entry["action"] == "free_completed":
            if live.pop(entry["addr"], None) is None:
                before += entry["size"]
            now -= entry["size"]
        else:
            assert entry["action"] == "free_requested"
            continue
        running.append(now)
    for segment in found["segments"]:
        if segment["device"] == device:
            assert sum(block["size"] for block in segment["blocks"]) == segment["total_size"]
            reached = segment["address"]
            for block in segment["blocks"]:
                assert block["address"] == reached
                reached += block["size"]
                if block["state"] == "active_allocated" and block["address"] not in live:
                    before += block["requested_size"]
    peak = max(running) + before
    return peak, now + before


def of_trace(trace: Trace, device: int) -> tuple[int, int]:
    rows = [r for r in trace.table("memory_event").to_pylist() if r["device_type"] and r["device"] == device]
    totals = [row["total_allocated_bytes"] for row in sorted(rows, key=lambda row: row["ts"])]
    return max(totals), totals[-1]


def test_replay_gives_peak_and_end(trace: Trace, tmp_path: Path) -> None:
    found = read(profsuite.export(trace, tmp_path / "job.snapshot.pickle"))
    assert [entry["action"] for entry in found["device_traces"][0]] == [
        "alloc",
        "alloc",
        "free_requested",
        "free_completed",
    ] * 2
    assert replay(found, 0) == of_trace(trace, 0) == (2048, 1024)
    first = found["device_traces"][0][0]
    assert first["addr"] == 0x7F00
    assert first["time_us"] == 1_700_000_000_000_000 + 1_030
    assert first["frames"] == [
        {"name": "aten::mm", "filename": "??", "line": 0},
        {"name": "step", "filename": "train.py", "line": 88},
        {"name": "ProfilerStep#3", "filename": "??", "line": 0},
    ]


def test_what_was_there_before(make: Callable[..., Trace], memory_event: Callable[..., Any], tmp_path: Path) -> None:
    trace = make(
        [
            memory_event(10, 0x200000, 100, 5100),
            memory_event(20, 0x900000, -1000, 4100),  # allocated before the recording
            memory_event(30, 0x200400, 50, 4150, device=2),
            memory_event(40, 0x200100, 300, 4400),
        ]
    )
    found = read(profsuite.export(trace, tmp_path / "x.snapshot.pickle"))
    assert len(found["device_traces"]) == 3
    assert found["device_traces"][1] == []
    assert replay(found, 0) == (5100, 4400)
    assert replay(found, 2) == (4150, 4150)
    blocks = {
        b["address"]: b for s in found["segments"] if s["device"] == 0 for b in s["blocks"] if b["requested_size"]
    }
    assert [(a, b["size"]) for a, b in blocks.items()][:2] == [(0x200000, 100), (0x200100, 300)]
    earlier = [b for b in blocks.values() if b["frames"] and b["frames"][0]["name"] == "allocated before the recording"]
    assert [b["size"] for b in earlier] == [4000]


def test_torch_reads_it(trace: Trace, tmp_path: Path) -> None:
    viz = pytest.importorskip("torch.cuda._memory_viz", reason="torch is not installed")
    found = read(profsuite.export(trace, tmp_path / "job.snapshot.pickle"))
    lines = viz.memory(found, format_flamegraph=lambda text: text).splitlines()
    allocated = [line for line in lines if ";active_allocated;" in line]
    assert sum(int(line.rsplit(" ", 1)[1]) for line in allocated) == 1024
    assert any("train.py:88:step;??:0:aten::mm 512" in line for line in allocated)
    assert "Device 0" in viz.trace(found)
    assert "1.0KiB" in viz.segsum(found)


@pytest.mark.parametrize("name", [None, "h100_qwen_0_5b.json.gz"])
def test_profsuite_reads_it(trace: Trace, name: str | None, tmp_path: Path) -> None:
    if name is not None:
        if not (TRACES / name).exists():
            pytest.skip(f"the real traces are not here: {TRACES / name}")
        trace = load(TRACES / name, cache=False)
    file = profsuite.export(trace, tmp_path / "job.snapshot.pickle")
    (device,) = snapshot_memory(read_snapshot(file)).devices
    assert (device.peak.allocated_bytes, device.end_bytes) == of_trace(trace, 0)


def test_overlapping_blocks(make: Callable[..., Trace], memory_event: Callable[..., Any], tmp_path: Path) -> None:
    trace = make([memory_event(10, 0x1000, 1024, 1024), memory_event(20, 0x1200, 512, 1536)])
    found = read(profsuite.export(trace, tmp_path / "x.snapshot.pickle"))
    assert replay(found, 0) == (1536, 1536)


def test_devices_that_cannot_be(make: Callable[..., Trace], memory_event: Callable[..., Any], tmp_path: Path) -> None:
    trace = make([memory_event(10, 0x1000, 1024, 1024, device=2_000_000_000)])
    with pytest.raises(ProfsuiteError, match="cannot be as many"):
        profsuite.export(trace, tmp_path / "x.snapshot.pickle")
    trace = make([memory_event(10, 0x1000, 1024, 1024, kind=0)])
    with pytest.raises(ProfsuiteError, match="profile_memory=True"):
        profsuite.export(trace, tmp_path / "x.snapshot.pickle")


@pytest.mark.parametrize("name", ["h100_qwen_0_5b.json.gz"])
def test_a_real_trace(name: str, tmp_path: Path) -> None:
    if not (TRACES / name).exists():
        pytest.skip(f"the real traces are not here: {TRACES / name}")
    trace = load(TRACES / name, cache=False)
    found = read(profsuite.export(trace, tmp_path / "x.snapshot.pickle"))
    assert replay(found, 0) == of_trace(trace, 0)
