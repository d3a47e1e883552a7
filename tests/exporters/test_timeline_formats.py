"""Chrome JSON and Perfetto: what leaves profsuite comes back the same, and viewers can show it."""

from __future__ import annotations

import contextlib
import gzip
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import profsuite
from profsuite.errors import TraceError
from profsuite.exporters import rows, source
from profsuite.trace.columns import Text, build_table, strings
from profsuite.trace.model import Trace

SHARED = Path(__file__).parents[3] / "shared" / "traces"
NO_TRACES = ("expected.json", "manifest.json", "simple_add_execution_trace.json.gz")
TRACES = sorted(p for p in SHARED.rglob("*.json*") if p.name not in NO_TRACES)
STREAMED = [p for p in TRACES if p.name.split(".")[0] in (
    "b200_eager_stacks", "ascend_rank0", "h100_bert_small", "a100_nccl_metadata", "torch18_autograd_api",
)]  # fmt: skip
needs_traces = pytest.mark.skipif(not TRACES, reason="the real traces are not here: ../shared/traces")

OF_THE_FILE = {"repaired", "dropped", "truncated", "empty", "negative_duration", "missing_duration", "trailing_data",
               "unsupported", "unclosed"}  # fmt: skip
"""Kinds of health that speak of faults in the first file, which the second has not."""
SUFFIXES = ["json", "pftrace"]


def decoded(table: pa.Table) -> pa.Table:
    """A table without places in the file, its texts as plain strings: the order of a dictionary says nothing."""
    kept = [name for name in table.column_names if name != "byte_offset"]
    columns = [table.column(name) for name in kept]
    return pa.table([c.cast(pa.string()) if pa.types.is_dictionary(c.type) else c for c in columns], names=kept)


def assert_same(one: Trace, two: Trace) -> None:
    """The same tables; of ``info`` all but what a file's path, size and reader are."""
    for name in one.tables:
        first, second = decoded(one.table(name)), decoded(two.table(name))
        if name == "health":
            first, second = (
                [row for row in table.to_pylist() if row["kind"] not in OF_THE_FILE] for table in (first, second)
            )
            assert first == second
        else:
            assert first.equals(second), name
    ours, theirs = one.info.to_json(), two.info.to_json()
    for key in ("source", "reader", "num_bytes"):
        del ours[key], theirs[key]
    assert ours == theirs


def written(path: Path, *events: dict, **header: object) -> Path:
    path.write_text(json.dumps({**header, "traceEvents": list(events)}), encoding="utf-8")
    return path


def event(ph: str = "X", **fields: object) -> dict:
    return {"ph": ph, "name": "n", "pid": 1, "tid": 1, "ts": 1, **({"dur": 1} if ph == "X" else {}), **fields}


def events_of(path: Path) -> list[dict]:
    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    return json.loads(path.read_text(encoding="utf-8"), parse_constant=refuse)["traceEvents"]


@needs_traces
@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("path", TRACES, ids=lambda path: path.name)
def test_a_loaded_trace_comes_back(path: Path, suffix: str, tmp_path: Path) -> None:
    trace = profsuite.load(path, cache=False)
    back = profsuite.load(profsuite.export(trace, tmp_path / f"x.{suffix}"), cache=False)
    assert_same(trace, back)


@needs_traces
@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("path", STREAMED, ids=lambda path: path.name)
def test_a_streamed_trace_comes_back(path: Path, suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROFSUITE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(source, "TableBatches", None)
    once = profsuite.export(path, tmp_path / f"x.{suffix}")
    assert_same(profsuite.load(path, cache=False), profsuite.load(once, cache=False))
    if suffix == "json":
        twice = profsuite.export(once, tmp_path / "y.json")
        assert twice.read_bytes() == once.read_bytes()


@needs_traces
@pytest.mark.parametrize("suffix", SUFFIXES)
def test_without_the_extension_the_bytes_are_the_same(
    suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace = profsuite.load(SHARED / "a100_nccl_metadata.json.gz", cache=False)
    first = profsuite.export(trace, tmp_path / f"x.{suffix}").read_bytes()
    monkeypatch.setattr(rows, "native_rows", lambda: None)
    assert profsuite.export(trace, tmp_path / f"y.{suffix}").read_bytes() == first


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_hostile_texts_come_back(suffix: str, tmp_path: Path) -> None:
    name = '"}]\\ \x00\x1f\u2028 </script> \U0001f600 \ufffd'
    args = {"Input Dims": [[1, [2]]], "Call stack": "[1, 2", "dtype": "x", "Comms Id": 2**64 - 1, "Seq": 1,
            "Process Group Ranks": "[0, 1, ...]", "Concrete Inputs": ["", "NaN"],
            "Module Hierarchy": "null"}  # fmt: skip
    path = written(
        tmp_path / "a.json",
        event(name=name, cat=name, pid=name, tid="007", args=args),
        event("M", name=name, args={name: name, "n": 1.50, "t": True, "list": [1, {"a": None}]}),
        event("C", name=name, args={name: 1e300, "b": -0.0, "c": 3}),
        event("s", id=name), event("f", id="12"),
        event("i", name=name), event("i", name="[memory]", args={"Bytes": -5, "Device Type": -1}),
        **{name: {"deep": [1.0, "x"]}},
    )  # fmt: skip
    trace = profsuite.load(path)
    back = profsuite.load(profsuite.export(trace, tmp_path / f"x.{suffix}"))
    assert_same(trace, back)
    assert back.slices.column("name").to_pylist() == [name]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_layouts_come_back(suffix: str, tmp_path: Path) -> None:
    layouts = '["sparse_csr", "strided", null, ["strided", "sparse"]]'
    path = written(
        tmp_path / "a.json",
        event(cat="cpu_op", args={"Input Dims": [[2, 2], [2, 2]]}),
        event(cat="cpu_op", ts=2, args={"Input Dims": [[2, 2], [2, 2]]}),
    )
    trace = profsuite.load(path)
    pool = strings(["other", layouts])
    column = pa.DictionaryArray.from_arrays(pa.array([None, 1], pa.int32()), pool)
    place = trace.table("op").column_names.index("input_layouts")
    table = trace.table("op").set_column(place, trace.table("op").schema.field(place), column)
    trace = Trace({**trace.tables, "op": table}, trace.info)
    out = profsuite.export(trace, tmp_path / f"x.{suffix}")
    if suffix == "json":
        assert [e["args"].get("Input Layouts") for e in events_of(out)] == [None, json.loads(layouts)]
    for reader in ("c", "python"):
        back = profsuite.load(out, reader=reader)
        assert_same(trace, back)
        assert back.table("op").column("input_layouts").to_pylist() == [None, layouts]
    again = profsuite.export(out, tmp_path / f"y.{suffix}")
    assert_same(trace, profsuite.load(again))


def test_numbers_that_json_has_not_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text(
        '{"bad": NaN, "traceEvents": [{"ph": "X", "name": "k", "cat": "kernel", "pid": 0, "tid": 7, "ts": 1, "dur": 1,'
        ' "args": {"blocks per SM": Infinity, "warps per SM": NaN, "Input Dims": [NaN], "grid": [NaN, 2]}}]}'
    )
    out = profsuite.export(path, tmp_path / "x.json")
    (args,) = (e["args"] for e in events_of(out))
    assert args == {"Input Dims": "[NaN]", "grid": [None, 2, None]}
    assert profsuite.load(out).kernels.column("grid_y").to_pylist() == [2]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_times_are_exact(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    texts = ["1661938466240490.123", "0.001", "-3.007", "4611686018427387.903"]
    parts = [
        f'{{"ph": "X", "name": "n", "pid": 1, "tid": {i}, "ts": {ts}, "dur": 0.009}}' for i, ts in enumerate(texts)
    ]
    path.write_text(f'{{"baseTimeNanoseconds": 7, "traceEvents": [{", ".join(parts)}]}}')
    out = profsuite.export(path, tmp_path / f"x.{suffix}")
    assert profsuite.load(out).array("slice", "ts").tolist() == [
        1661938466240490123, 1, -3007, 4611686018427387903,
    ]  # fmt: skip
    assert_same(profsuite.load(path), profsuite.load(out))
    if suffix == "json":
        assert all(f'"ts": {text},' in out.read_text() for text in texts)


def test_events_look_as_kineto_writes_them(tmp_path: Path) -> None:
    kernel = event(
        name="k", cat="kernel", pid=0, tid=7,
        args={"correlation": 5, "External id": 3, "device": 0, "stream": 7, "grid": [1, 2, 3], "blocks per SM": 0.5},
    )  # fmt: skip
    others = [
        event("M", name="thread_name", args={"name": "stream 7"}),
        event("C", name="c", args={"a": 1.0, "b": 2.5}),
    ]
    out = profsuite.export(written(tmp_path / "a.json", kernel, *others, schemaVersion=1), tmp_path / "x.json")
    found = {e["ph"]: e for e in events_of(out)}
    assert found["X"] == {**kernel, "ts": 1.0, "dur": 1.0}
    assert found["C"] == {"ph": "C", "name": "c", "pid": 1, "tid": 1, "ts": 1.0, "args": {"a": 1.0, "b": 2.5}}
    assert found["M"] == {"ph": "M", "name": "thread_name", "pid": 1, "tid": 1, "args": {"name": "stream 7"}}


def overlapping(tmp_path: Path) -> Path:
    """Two kernels that overlap on a stream, each with the end of an arrow from its launch."""
    found = [event("M", name="thread_name", pid=0, tid=7, args={"name": "stream 7"})]
    for i, (ts, dur) in enumerate([(10, 10), (15, 10)]):
        found += [
            event(name="launch", cat="cuda_runtime", ts=i + 1, dur=0.5, args={"correlation": i + 1}),
            event(name=f"k{i}", cat="kernel", pid=0, tid=7, ts=ts, dur=dur, args={"correlation": i + 1}),
            event("s", id=i + 1, cat="ac2g", ts=i + 1), event("f", id=i + 1, cat="ac2g", pid=0, tid=7, ts=ts),
        ]  # fmt: skip
    return written(tmp_path / "a.json", *found)


def test_overlapping_slices_get_tracks_of_their_own_and_come_back(tmp_path: Path) -> None:
    path = overlapping(tmp_path)
    out = profsuite.export(path, tmp_path / "x.json")
    tids = {(e["ph"], e["name"], e["ts"]): e["tid"] for e in events_of(out) if e["ph"] in "Xf"}
    assert tids["X", "k0", 10] == tids["f", "n", 10] == 7
    assert tids["X", "k1", 15] == tids["f", "n", 15] != 7
    names = {e["tid"]: e["args"]["name"] for e in events_of(out) if e["name"] == "thread_name"}
    assert names[tids["X", "k1", 15]] == "stream 7 (overlapping, 1)"
    back = profsuite.load(out)
    assert_same(profsuite.load(path), back)
    assert back.num_rows("track") == 2


def test_spans_that_begin_and_end_apart_become_whole(tmp_path: Path) -> None:
    path = written(tmp_path / "a.json", event("B", name="out"), event("B", ts=2), event("E", ts=3), event("E", ts=9))
    back = profsuite.load(profsuite.export(path, tmp_path / "x.json"))
    assert back.array("slice", "dur").tolist() == [8000, 1000]
    assert back.info.num_events == 2


@pytest.mark.parametrize("ending", [".gz", ".zst"])
def test_packed(ending: str, tmp_path: Path) -> None:
    trace = profsuite.load(overlapping(tmp_path))
    plain = profsuite.export(trace, tmp_path / "x.json")
    packed = profsuite.export(trace, tmp_path / f"x.json{ending}")
    assert_same(trace, profsuite.load(packed))
    if ending == ".gz":
        assert gzip.decompress(packed.read_bytes()) == plain.read_bytes()


def test_a_part_says_that_it_is_one(tmp_path: Path) -> None:
    path = written(
        tmp_path / "a.json", *(event(name=f"ProfilerStep#{i}", cat="user_annotation", ts=i) for i in range(4))
    )
    for suffix in SUFFIXES:
        part = profsuite.export(path, tmp_path / f"x.{suffix}", steps=(1, 3))
        trace = profsuite.load(part)
        assert trace.array("step", "number").tolist() == [1, 2]
        assert trace.info.selection == "steps 1 to 2"


def rank_file(folder: Path, rank: int, base: int) -> Path:
    found = [
        event("M", name="process_name", args={"name": "python"}),
        event(name="launch", cat="cuda_runtime", args={"correlation": 1}),
        event(name="k", cat="kernel", pid=0, tid=7, ts=2, args={"correlation": 1, "device": 0, "stream": 7}),
        event("s", id=1, cat="ac2g"), event("f", id=1, cat="ac2g", pid=0, tid=7, ts=2),
    ]  # fmt: skip
    return written(folder / f"rank_{rank}.json", *found, baseTimeNanoseconds=base)


def test_ranks_merge_without_collisions_on_one_clock(tmp_path: Path) -> None:
    paths = [rank_file(tmp_path, rank, 10**18 + rank * 500) for rank in (0, 1)]
    out = profsuite.export(paths, tmp_path / "x.json")
    found = events_of(out)
    slices = [e for e in found if e["ph"] == "X"]
    assert [e["ts"] for e in slices] == [1, 2, 1.5, 2.5]
    assert len({e["pid"] for e in slices}) == 4
    assert len({e["id"] for e in found if e["ph"] == "s"}) == 2
    names = [e["args"]["name"] for e in found if e["name"] == "process_name"]
    assert names == ["rank 0: python 1", "rank 0: process 0", "rank 1: python 1", "rank 1: process 0"]
    merged = profsuite.load(out)
    assert merged.info.base_time_ns == 10**18
    assert merged.info.rank is None
    assert merged.array("kernel", "launch_id").tolist() == [0, 2]


def test_merged_ranks_are_not_taken_for_one(tmp_path: Path) -> None:
    paths = [rank_file(tmp_path, rank, 10**18) for rank in (0, 3)]
    one = profsuite.load(paths[0])
    out = profsuite.export(paths, tmp_path / "x.json")
    merged = profsuite.load(out)
    kinds = dict(zip(*(merged.health.column(name).to_pylist() for name in ("kind", "message")), strict=True))
    assert "holds 2 ranks" in kinds["several_ranks"]
    assert "no_rank" not in kinds
    assert "several_ranks" not in one.health.column("kind").to_pylist()
    again = profsuite.load(profsuite.export(out, tmp_path / "again.json"))
    saved = profsuite.load(merged.save(tmp_path / "saved"))
    for trace in (merged, again, saved, profsuite.load(out, time=(0, 1000))):
        assert trace.metadata("mergedRanks") == [0, 3]
        for analyse in (profsuite.analyze, lambda trace: profsuite.diff(one, trace)):
            with pytest.raises(TraceError, match="holds several ranks"):
                analyse(trace)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_what_torch_compile_did_comes_back(suffix: str, tmp_path: Path) -> None:
    trace = profsuite.load(overlapping(tmp_path))
    text = Text(np.array([0, -1], np.int32), strings(["graph_break"]))
    kind = Text(np.array([0, 0], np.int32), strings(["graph_break"]))
    number = np.array([3, -(2**63)], np.int64)
    tables = dict(trace.tables)
    tables["compile_event"] = build_table(
        "compile_event",
        {"ts": np.array([5, 6]), "dur": number, "kind": kind, "frame_id": number, "frame_compile_id": number,
         "name": text, "reason": text, "file": text, "line": number},
    )  # fmt: skip
    trace = Trace(tables, trace.info)
    assert_same(trace, profsuite.load(profsuite.export(trace, tmp_path / f"x.{suffix}")))


def test_a_key_of_the_mark_s_name_stays_the_trace_s(tmp_path: Path) -> None:
    path = written(tmp_path / "a.json", event(), profsuite={"mine": 1})
    trace = profsuite.load(path)
    assert trace.metadata("profsuite") == {"mine": 1}
    assert_same(trace, profsuite.load(profsuite.export(path, tmp_path / "x.json")))


def test_a_mark_that_makes_no_sense_is_ignored(tmp_path: Path) -> None:
    for mark in (
        1, {"format": 99}, {"format": 1, "tracks": [["1", 2]]}, {"format": 1, "tracks": [["1", "1"], ["1", "1"]]},
        {"format": 1, "tracks": [], "lanes": [["1", "1", 7]]}, {"format": 1, "tracks": [], "compile_events": [[1]]},
        {"format": 1, "tracks": [], "compile_events": [["x"] * 9]}, {"format": 1, "tracks": [], "num_added": -5},
    ):  # fmt: skip
        trace = profsuite.load(written(tmp_path / "a.json", event(), profsuite=mark))
        assert trace.num_rows("slice") == trace.num_rows("track") == trace.info.num_events == 1


def test_a_damaged_perfetto_file_is_an_error_that_says_so(tmp_path: Path) -> None:
    data = profsuite.export(profsuite.load(overlapping(tmp_path)), tmp_path / "x.pftrace").read_bytes()
    path = tmp_path / "y.pftrace"
    for size in (30, 400, 1500):
        path.write_bytes(data[:size])
        with pytest.raises(profsuite.TraceError, match=r"damaged|empty|is no"):
            profsuite.load(path)
    for at in range(8, 2500, 61):
        path.write_bytes(data[:at] + bytes([data[at] ^ 0x55]) + data[at + 1 :])
        with contextlib.suppress(profsuite.TraceError):
            profsuite.load(path)
