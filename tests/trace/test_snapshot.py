"""Memory snapshots, real and made, against Python's own unpickler."""

from __future__ import annotations

import gzip
import pickle
import random
from pathlib import Path

import pytest

from profsuite.errors import TraceError
from profsuite.trace.memory_timeline import memory_kind
from profsuite.trace.readers import snapshot as reader

TRACES = Path(__file__).parents[3] / "shared" / "traces"
NAMES = ("snapshot_npu_empty_cache.pkl", "snapshot_npu_expandable.pkl", "snapshot_npu_multi_device.pkl")


def frame(line, name="f", filename="train.py"):
    return {"filename": filename, "line": line, "name": name}


@pytest.fixture(params=[True, False], ids=["c", "python"], autouse=True)
def both_readers(request, monkeypatch):
    """Every test reads with the C extension, and without."""
    if request.param and reader._native() is None:
        pytest.skip("the C extension is not built")
    if not request.param:
        monkeypatch.setattr(reader, "_native", lambda: None)


def read_snapshot(path):
    return reader.read_snapshot(path)


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


def test_a_file_that_breaks_off(tmp_path):
    """Whatever the byte: an error, or the segments and the histories that are whole, and what is missing."""
    value = snapshot(
        [segment(0x1000, [block(0x1000, 512, "active_allocated", 500, STACK), block(0x1200, 512)])],
        [entry("alloc", 0x1000 + i, 500, STACK) for i in range(1200)],
        [],
        [entry("alloc", 0x9000, 1, STACK), entry("alloc", 0x9001, 1)],
        allocator_settings={"max_split_size": -1},
    )
    data = pickle.dumps(value, 4)
    path = tmp_path / "snapshot.pickle"
    kept = set()
    for end in [*range(20, 470, 11), 4000, *range(len(data) - 250, len(data), 3), len(data) - 1]:
        path.write_bytes(data[:end])
        try:
            made = read_snapshot(path)
        except TraceError:
            assert end < data.index(b"device_traces") + 16
            continue
        assert made.fault.startswith(f"The file breaks off at byte {end:,}: the segments are whole, ")
        whole = [len(trace) for trace in value["device_traces"]]
        rows = made.table("entry").to_pylist()
        assert made.num_rows("block") == 2
        assert made.num_rows("segment") == 1
        assert len(rows) in (0, 1200, 1202)
        held = sum(whole[: 3 if len(rows) == 1202 else 1 if rows else 0])
        assert len(rows) == held
        assert [row["address"] for row in rows[:3]] == [0x1000, 0x1001, 0x1002][: len(rows)]
        kept.add(len(rows))
    assert kept == {0, 1200, 1202}
    path.write_bytes(data)
    assert read_snapshot(path).fault is None


def random_snapshot(rnd):
    """One with everything that snapshots share: frames, lists of frames, ids of pools; a history within blocks."""
    frames = [frame(rnd.randint(0, 5), rnd.choice("abc"), rnd.choice(["x.py", "ü.py", ""])) for _ in range(6)]
    lists = [[rnd.choice(frames) for _ in range(rnd.randint(0, 5))] for _ in range(5)]

    def one():
        made = entry(
            rnd.choice(["alloc", "free_completed", "oom"]), rnd.randint(0, 2**62), rnd.randint(0, 10),
            rnd.choice([*lists, None]), time_us=rnd.choice([None, 5, 2**40]),
        )  # fmt: skip
        some = {"segment_pool_id": rnd.choice([(0, 0), (3, -4), "p"]), "user_metadata": rnd.choice(["", "m", None])}
        return made | {key: value for key, value in some.items() if rnd.random() < 0.3}

    def held():
        made = block(rnd.randint(0, 99), 5, rnd.choice(["active_allocated", "inactive"]), frames=rnd.choice(lists))
        made["frames"] = rnd.choice(lists)
        return made | ({"history": [{"frames": made["frames"], "addr": 3}]} if rnd.random() < 0.3 else {})

    segments = [segment(1000 * k, [held() for _ in range(rnd.randint(0, 3))]) for k in range(rnd.randint(0, 4))]
    traces = [[one() for _ in range(rnd.randint(0, 6))] for _ in range(rnd.randint(0, 3))]
    return snapshot(segments, *traces, allocator_settings={"a": True, "b": 2**64 - 1, "c": 1.5, "d": None, "e": (1,)})


def read_both(data, size):
    """What either reader makes of a pickle that comes in pieces of ``size`` bytes: tables and settings, or None."""
    found = []
    for scan in (reader._native(), None):
        chunks = (data[i : i + size] for i in range(0, len(data), size))
        try:
            got, at = reader._scanned(scan, "x", chunks) if scan else reader.read_rows("x", chunks)
            made = reader._snapshot("x", at, got)
        except TraceError:
            found.append(None)
        else:
            tables = {name: table.to_pydict() for name, table in made.tables.items()}
            found.append((tables, made.settings, made.fault is None))
    return found


@pytest.mark.parametrize("both_readers", [True], indirect=True)
@pytest.mark.parametrize("seed", range(4))
def test_both_readers_agree(seed):
    rnd = random.Random(seed)
    for _ in range(10):
        data = pickle.dumps(random_snapshot(rnd), rnd.choice([2, 3, 4, 5]))
        whole, python = read_both(data, rnd.choice([1 << 20, 64, 7, 1]))
        assert whole is not None
        assert whole == python
        for _ in range(20):
            broken = bytearray(data)
            for _ in range(rnd.randint(1, 3)):
                at = rnd.randrange(len(broken))
                broken[at : at + rnd.randint(0, 2)] = rnd.choice([b"", bytes([rnd.randrange(256)]), data[at : at + 9]])
            c, python = read_both(bytes(broken), 64)
            # One of them may refuse what the other lets pass; what both read is the same.
            assert c is None or python is None or c == python


def test_missing_and_empty_files(tmp_path):
    with pytest.raises(TraceError, match="no such file"):
        read_snapshot(tmp_path / "none.pickle")
    (tmp_path / "empty.pickle").touch()
    with pytest.raises(TraceError, match="empty"):
        read_snapshot(tmp_path / "empty.pickle")
