"""Memory snapshots, real and made, against Python's own unpickler."""

from __future__ import annotations

import gzip
import pickle
from pathlib import Path

import pytest

from profsuite.errors import TraceError
from profsuite.trace.memory_timeline import memory_kind
from profsuite.trace.readers.snapshot import read_snapshot

TRACES = Path(__file__).parents[3] / "shared" / "traces"
NAMES = ("snapshot_npu_empty_cache.pkl", "snapshot_npu_expandable.pkl", "snapshot_npu_multi_device.pkl")


def frame(line, name="f", filename="train.py"):
    return {"filename": filename, "line": line, "name": name}


STACK = [frame(1, "inner", "lib/torch/nn/m.py"), frame(7), frame(90, "main")]


def entry(action, addr=None, size=None, frames=None, **more):
    found = {"action": action, "size": size, "stream": 0, "time_us": more.pop("time_us", 5)}
    found["device_free" if action == "oom" else "addr"] = addr
    return found | ({} if frames is None else {"frames": frames}) | more


def block(address, size, state="inactive", requested=None, frames=()):
    return {
        "address": address, "size": size, "requested_size": size if requested is None else requested,
        "state": state, "frames": list(frames),
    }  # fmt: skip


def segment(address, blocks, device=0, **more):
    size = sum(b["size"] for b in blocks)
    used = sum(b["size"] for b in blocks if b["state"] == "active_allocated")
    return {
        "device": device, "address": address, "total_size": size, "allocated_size": used, "active_size": used,
        "requested_size": used, "stream": 0, "segment_type": "large", "segment_pool_id": (0, 0),
        "is_expandable": False, "frames": [], "blocks": blocks,
    } | more  # fmt: skip


def snapshot(segments=(), *traces, **more):
    return {"segments": list(segments), "device_traces": [list(trace) for trace in traces]} | more


def dumped(tmp_path, value, protocol=4):
    path = tmp_path / "snapshot.pickle"
    path.write_bytes(pickle.dumps(value, protocol))
    return path


def held_to(path, value):
    """Every value of the tables is the one that Python's unpickler gives."""
    made = read_snapshot(path)
    entries = [(device, e) for device, trace in enumerate(value["device_traces"]) for e in trace]
    rows = made.table("entry").to_pylist()
    assert len(rows) == len(entries)
    for row, (device, e) in zip(rows, entries, strict=True):
        assert row["device"] == device
        for ours, theirs in {"action": "action", "address": "addr", "bytes": "size", "stream": "stream"}.items():
            assert row[ours] == e.get(theirs)
        assert row["ts"] == (None if e.get("time_us") is None else 1000 * e["time_us"])
        assert row["user_metadata"] == (e.get("user_metadata") or None)
        assert row["device_free_bytes"] == e.get("device_free")
        stack = -1 if row["stack_id"] is None else row["stack_id"]
        told = [f"{f['filename']}({f['line']}): {f['name']}" for f in e.get("frames", ())]
        assert made.frames_of(stack) == told
    segments = value["segments"]
    for row, s in zip(made.table("segment").to_pylist(), segments, strict=True):
        assert (row["device"], row["address"], row["total_bytes"]) == (s["device"], s["address"], s["total_size"])
        assert (row["allocated_bytes"], row["active_bytes"]) == (s["allocated_size"], s["active_size"])
        assert (row["kind"], row["expandable"]) == (s["segment_type"], s["is_expandable"])
        assert row["pool"] == ",".join(map(str, s["segment_pool_id"]))
    blocks = [(number, b) for number, s in enumerate(segments) for b in s["blocks"]]
    for row, (number, b) in zip(made.table("block").to_pylist(), blocks, strict=True):
        assert (row["segment_id"], row["address"], row["bytes"]) == (number, b["address"], b["size"])
        assert (row["requested_bytes"], row["state"]) == (b["requested_size"], b["state"])
    return made


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("protocol", [None, 2])
def test_real_snapshots(name, protocol, tmp_path):
    path = TRACES / name
    if not path.exists():
        pytest.skip(f"the real snapshots are not here: {path}")
    value = pickle.loads(path.read_bytes())
    if protocol is not None:
        path = dumped(tmp_path, value, protocol)
    held_to(path, value)


def test_every_kind_of_entry(tmp_path):
    value = snapshot(
        [segment(0x1000, [block(0x1000, 512, "active_allocated", 500, STACK), block(0x1200, 512)])],
        [
            entry("segment_alloc", 0x1000, 1024, STACK, time_us=None),
            entry("alloc", 0x1000, 500, STACK, user_metadata="step 3", compile_context="0/0"),
            entry("oom", 77, 10**12, STACK[1:]),
            entry("snapshot", 0, 0),
        ],
        [],
        [entry("alloc", 0x9000, 1, [])],
        allocator_settings={"expandable_segments": True, "max_split_size": -1, "roundup_power2_divisions": {"1": 0}},
        external_annotations=[{"device": 0, "time_us": 9, "name": "forward", "stage": "START"}],
    )
    made = held_to(dumped(tmp_path, value), value)
    assert made.table("annotation").to_pylist() == [{"ts": 9000, "device": 0, "name": "forward", "stage": "START"}]
    assert made.settings == {"expandable_segments": "True", "max_split_size": "-1"}
    assert made.num_rows("stack") == 3  # callers are shared
    assert "4 entry" not in repr(made)
    assert "5 entry" in repr(made)


def test_the_segments_alone(tmp_path):
    """What ``torch.cuda.memory_snapshot()`` returns."""
    segments = [segment(0x1000, [block(0x1000, 512)])]
    assert held_to(dumped(tmp_path, segments), snapshot(segments)).num_rows("block") == 1


def test_gzipped(tmp_path):
    value = snapshot([segment(0x1000, [block(0x1000, 512)])], [entry("alloc", 1, 2)])
    path = tmp_path / "s.pickle.gz"
    path.write_bytes(gzip.compress(pickle.dumps(value)))
    held_to(path, value)
    assert memory_kind(path) == "snapshot"


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ({}, "holds no segments"),
        (7, "holds no segments"),
        ({"segments": 7}, "holds no segments"),
        (snapshot([], [{"action": 7, "addr": 1, "size": 2}]), "does not fit"),
        (snapshot([], [{"action": "alloc", "addr": "1", "size": 2}]), "does not fit"),
        (snapshot([], [{"action": "alloc", "addr": 2**63, "size": 2}]), "does not fit"),
        (snapshot([], [{"action": "alloc", "addr": 1, "size": 2, "frames": [7]}]), "does not fit"),
        (snapshot([], [{"action": "alloc", "addr": 1, "size": 2, "frames": [frame(1)] * 2000}]), "deeper than"),
        (snapshot([], [entry("alloc", 1, 2), 7]), "mixes rows"),
        (snapshot([{"total_size": 1, "device": 0, "address": 0, "blocks": 7}]), "does not fit"),
        ({"segments": [], "somewhere": [entry("alloc", 1, 2)]}, "belong nowhere"),
        ({"segments": [], "device_traces": [], "block": block(0, 1)}, "belong nowhere"),
    ],
)  # fmt: skip
def test_what_is_no_snapshot(value, says, tmp_path):
    with pytest.raises(TraceError, match=says) as error:
        read_snapshot(dumped(tmp_path, value))
    assert "\n" not in str(error.value)


def test_lists_that_are_in_two_places(tmp_path):
    blocks, trace = [block(0, 1)], [entry("alloc", 1, 2)]
    with pytest.raises(TraceError, match="part of two segments"):
        read_snapshot(dumped(tmp_path, snapshot([segment(0, blocks), segment(1, blocks)])))
    one = trace[0]
    with pytest.raises(TraceError, match="part of another list"):
        read_snapshot(dumped(tmp_path, snapshot([], [one], [one])))


def test_missing_and_empty_files(tmp_path):
    with pytest.raises(TraceError, match="no such file"):
        read_snapshot(tmp_path / "none.pickle")
    (tmp_path / "empty.pickle").touch()
    with pytest.raises(TraceError, match="empty"):
        read_snapshot(tmp_path / "empty.pickle")
