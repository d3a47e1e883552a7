"""The pure Python reader: docs/reader.md, sentence by sentence."""

from __future__ import annotations

import gzip
import json
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from profsuite.errors import TraceError
from profsuite.trace.readers import batch, values
from profsuite.trace.readers.fallback import Scanner, read_chunks
from profsuite.trace.readers.fields import GROUPS, NULL_INT64, POOLS
from profsuite.trace.readers.raw import RawTrace

SHARED = Path(__file__).parents[2].parent / "shared"
needs_shared = pytest.mark.skipif(not SHARED.is_dir(), reason="the shared traces are not here")
SLICE = '{"ph": "X", "ts": 1.5, "dur": 2, "pid": 1, "tid": 2, "name": "a", "cat": "cpu_op"}'


def events(*texts: str) -> RawTrace:
    return read_chunks([b'{"traceEvents": [' + ", ".join(texts).encode() + b"]}"])


def slice_(**members: object) -> str:
    return json.dumps({"ph": "X", "ts": 1, "dur": 1, "pid": 1, "tid": 2, "name": "a", "cat": "c", **members})


def texts(raw: RawTrace, group: str, column: str) -> list[str | None]:
    pool = next(pool for name, _, pool in GROUPS[group] if name == column)
    words = raw.pools[pool].to_pylist()
    return [None if code < 0 else words[code] for code in raw.groups[group][column].tolist()]


def names(raw: RawTrace) -> list[str | None]:
    return texts(raw, "slice", "name")


def faults(raw: RawTrace) -> dict[str, int]:
    return {remark.kind: remark.count for remark in raw.remarks}


def ints(raw: RawTrace, group: str, column: str) -> list[int | None]:
    return [None if v == NULL_INT64 else v for v in raw.groups[group][column].tolist()]


def assert_same(one: RawTrace, other: RawTrace) -> None:
    for group, columns in one.groups.items():
        for name, column in columns.items():
            assert column.dtype == other.groups[group][name].dtype
            np.testing.assert_array_equal(column, other.groups[group][name], f"{group}.{name}")
    assert {pool: words.to_pylist() for pool, words in one.pools.items()} == {
        pool: words.to_pylist() for pool, words in other.pools.items()
    }
    assert (one.tracks, one.header, one.num_events, one.num_bytes) == (
        other.tracks, other.header, other.num_events, other.num_bytes,
    )  # fmt: skip
    assert one.remarks == other.remarks


def test_a_slice_fills_its_columns() -> None:
    raw = events(slice_(ts=12.3456, dur=2, args={"correlation": 5, "External id": "7"}))
    assert ints(raw, "slice", "ts") == [12346]
    assert ints(raw, "slice", "dur") == [2000]
    assert ints(raw, "slice", "correlation") == [5]
    assert ints(raw, "slice", "external") == [7]
    assert ints(raw, "slice", "offset") == [17]
    assert (names(raw), texts(raw, "slice", "category"), raw.tracks) == (["a"], ["c"], [("1", "2")])
    assert raw.remarks == []


def test_every_column_is_there_with_its_dtype() -> None:
    groups = read_chunks([b"[]"]).groups
    assert list(groups) == list(GROUPS)
    assert list(groups["gpu"])[4:7] == ["grid_x", "grid_y", "grid_z"]
    assert [groups["flow"][c].dtype for c in ("ts", "phase", "name")] == [np.int64, np.int8, np.int32]
    assert groups["counter"]["value"].dtype == np.float64


def test_phases_become_rows() -> None:
    raw = events(
        '{"ph": "B", "ts": 1, "name": "b"}', '{"ph": "E", "ts": 2}',
        '{"ph": "s", "ts": 3, "id": 4, "cat": "ac2g", "name": "ac2g"}', '{"ph": "f", "ts": 3, "id": "x"}',
        '{"ph": "C", "ts": 5, "name": "mem", "args": {"a": 1.5, "b": "2", "c": 3}}',
        '{"ph": "i", "ts": 6, "name": "mark"}',
        '{"ph": "i", "ts": 7, "name": "[memory]", "args": {"Bytes": -8, "Ev Idx": 3}}',
        '{"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "python", "n": null, "l": [1, 2]}}',
        '{"ph": "N", "ts": 8}',
    )  # fmt: skip
    assert ints(raw, "slice", "dur") == [None]
    assert ints(raw, "end", "ts") == [2000]
    assert (raw.groups["flow"]["phase"].tolist(), ints(raw, "flow", "id")) == ([ord("s"), ord("f")], [4, None])
    assert texts(raw, "flow", "id_text") == [None, "x"]
    assert (texts(raw, "counter", "series"), raw.groups["counter"]["value"].tolist()) == (["a", "c"], [1.5, 3.0])
    assert (texts(raw, "instant", "name"), texts(raw, "instant", "category")) == (["mark"], [""])
    assert (ints(raw, "memory", "bytes"), ints(raw, "memory", "event_index")) == ([-8], [3])
    assert (texts(raw, "meta", "key"), texts(raw, "meta", "value")) == (["name", "l"], ["python", "[1, 2]"])
    assert (raw.num_events, faults(raw)) == (9, {"unsupported": 1})


def test_args_become_rows_of_their_groups() -> None:
    raw = events(
        slice_(args={"stream": 7, "grid": [1, 2, 3, 4], "block": [5], "warps per SM": 0.5, "bytes": None}),
        slice_(args={"Input Dims": [[1, 2], []], "Call stack": "a;b", "Ev Idx": 9}),
        slice_(args={"Ev Idx": 9, "dtype": "Float"}),
        slice_(args={"Collective name": "allreduce", "dtype": "Float", "Is asynchronized op": True}),
    )
    assert (raw.groups["gpu"]["row"].tolist(), raw.groups["op"]["row"].tolist()) == ([0], [1])
    gpu = {name: column[0] for name, column in raw.groups["gpu"].items()}
    assert [gpu[f"grid_{axis}"] for axis in "xyz"] == [1, 2, 3]
    assert [gpu[f"block_{axis}"] for axis in "xyz"] == [5, NULL_INT64, NULL_INT64]
    assert (gpu["stream"], gpu["warps_per_sm"], gpu["bytes"]) == (7, 0.5, NULL_INT64)
    assert (texts(raw, "op", "dims"), texts(raw, "op", "stack")) == (["[[1, 2], []]"], ["a;b"])
    assert (texts(raw, "collective", "collective"), raw.groups["collective"]["is_async"].tolist()) == (
        ["allreduce"], [1],
    )  # fmt: skip


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("1.0005", 1001), ("-1.0005", -1001), ("1.00049", 1000), ("5199373040000.123", 5199373040000123),
        ("1e3", 1_000_000), ("25e-4", 3), ('" 7 "', 7000), ("1.", 1000), ("0.0004999", 0), ("1e-999999999999", 0),
        ("4611686018427387.903", 2**62 - 1), ("4611686018427387.905", None), ("1e999999999999", None),
        ("NaN", None), ("+1", None), ("[1]", None), ("true", None), (".5", None),
    ],
)  # fmt: skip
def test_time_is_exact(written: str, expected: int | None) -> None:
    assert values.time_ns(written.encode()) == expected


@pytest.mark.parametrize(
    ("written", "integer", "real"),
    [
        ("1", 1, 1.0), ("-0", 0, 0.0), ("1.000", 1, 1.0), ("1.", 1, 1.0), ("1.5", None, 1.5), ("1e3", None, 1000.0),
        ('" 12\t"', 12, 12.0), ("9223372036854775807", 2**63 - 1, 2.0**63), ("9223372036854775808", None, 2.0**63),
        ("000000000000000000000000007", 7, 7.0), ("null", None, None), ("true", None, None), ('""', None, None),
        ('"1_0"', None, None), ("0x1", None, None), ("NaN", None, None),
    ],
)  # fmt: skip
def test_numbers(written: str, integer: int | None, real: float | None) -> None:
    assert (values.integer(written.encode()), values.real(written.encode())) == (integer, real)


@pytest.mark.parametrize(
    ("written", "expected", "repaired"),
    [
        (rb'"a\n\u0041\ud83d\ude00\/"', "a\nA\U0001f600/", False), (rb'"C:\dir"', "C:\\dir", True),
        (rb'"\ud800x"', "\ufffdx", True), (rb'"\ud800\u0041"', "\ufffdA", True), (rb'"\u12"', "\\u12", True),
        (b'"a\tb"', "a\tb", True), (b'"a\xffb\xe2\x82"', "a\ufffdb\ufffd", True), (b"null", None, False),
        (b"[1,  2]", "[1,  2]", False), (b"-0", "-0", False), (b'""', "", False),
    ],
)  # fmt: skip
def test_text(written: bytes, expected: str | None, repaired: bool) -> None:
    assert values.text(written) == (expected, repaired)


def test_durations() -> None:
    raw = events('{"ph": "X", "ts": 1}', '{"ph": "X", "ts": 1, "dur": -2}', '{"ph": "X", "ts": 1, "dur": "x"}')
    assert ints(raw, "slice", "dur") == [0, 0, 0]
    assert faults(raw) == {"missing_duration": 2, "negative_duration": 1}


def test_a_number_and_a_string_of_its_digits_are_one_track() -> None:
    raw = events(slice_(pid=1, tid="2"), slice_(pid="1", tid=2), slice_(pid=None, tid=""), '{"ph": "X", "ts": 1}')
    assert raw.tracks == [("1", "2"), ("", "")]
    assert raw.groups["slice"]["track"].tolist() == [0, 0, 1, 1]


def test_the_later_of_two_equal_members_counts() -> None:
    raw = events('{"ph": "M", "ph": "X", "ts": 1, "dur": 1, "args": {"stream": 1}, "args": {"stream": 2, "stream": 3}}')
    assert ints(raw, "gpu", "stream") == [3]


@pytest.mark.parametrize(
    ("text", "expected", "fault"),
    [
        (f"[{SLICE}", 1, {}), (f"[{SLICE}, ", 1, {}), (f"\ufeff \n[{SLICE}]\n", 1, {}),
        (f"[{SLICE}] x", 1, {"trailing_data": 1}),
        ("[", 0, {}), ('{"traceEvents": [', 0, {"truncated": 1}), ('{"traceEvents": []', 0, {"truncated": 1}),
        (f"[{SLICE} {SLICE}]", 2, {"repaired": 1}), (f"[{SLICE}, foo bar {SLICE}]", 2, {"dropped": 1}),
        (f"[{SLICE},,, {SLICE},,]", 2, {}), (f'[{SLICE}, {{"ph": "X", "ts": 1', 1, {"truncated": 1}),
        (f'[{{"ph": "X", "ts": 1, {SLICE}]', 1, {"dropped": 1}),
        (f'[{{"ph": "X", "ts": 1, "args": {{"a": 1, }}, {SLICE}]', 1, {"dropped": 1}),
        (f'[{{"ph": "X", "ts": 1, "args": {{"a": 1] }}, {SLICE}]', 1, {"dropped": 1}),
        (f'[{{"ph": "X"}}, {SLICE}]', 1, {"dropped": 1}), (f'[{{"ph": "XX", "ts": 1}}, {SLICE}]', 1, {"dropped": 1}),
        (f'[{{"ph": "s", "ts": 1}}, {SLICE}]', 1, {"dropped": 1}),
        (f'{{"a": tru e, "traceEvents": [{SLICE}]}}', 1, {"repaired": 1}),
        (f'{{"traceEvents": [{SLICE}], "a": tru e}}', 1, {"dropped": 1}),
        (f'{{"traceEvents": [{SLICE}], "a": "b', 1, {"truncated": 1}),
    ],
)  # fmt: skip
def test_broken_files(text: str, expected: int, fault: dict[str, int]) -> None:
    raw = read_chunks([text.encode()])
    assert (names(raw), faults(raw)) == (["a"] * expected, fault)


def test_the_header_survives_a_broken_last_event() -> None:
    raw = read_chunks([f'{{"a": 1, "traceEvents": [{SLICE}, {{"ph": oops" }}], "b": "x"y", "c": [1, 2]}}'.encode()])
    assert raw.header == [("a", "1"), ("b", '"x"y"'), ("c", "[1, 2]")]
    assert faults(raw) == {"dropped": 1, "repaired": 1}


@pytest.mark.parametrize("text", [b"", b" \n", b"\xef\xbb\xbf", b"hello", b'"traceEvents"', b'{"a": 1}', b"{}"])
def test_what_is_no_trace(text: bytes) -> None:
    with pytest.raises(TraceError):
        read_chunks([text])


@pytest.mark.parametrize("depth", [500, 100_000])
def test_nesting_is_no_recursion(depth: int) -> None:
    deep = "[" * depth + "]" * depth
    raw = events(f'{{"ph": "X", "ts": 1, "dur": 1, "name": "a", "args": {{"x": {deep}, "stream": 3}}}}', SLICE)
    assert (names(raw), ints(raw, "gpu", "stream"), raw.remarks) == (["a", "a"], [3], [])


def test_too_deep_is_dropped() -> None:
    deep = "[" * 1_000_001 + "]" * 1_000_001
    raw = events(f'{{"ph": "X", "ts": 1, "args": {deep}}}', SLICE)
    assert (names(raw), faults(raw)) == (["a"], {"dropped": 1})


def test_looking_for_the_next_event_stays_linear() -> None:
    raw = read_chunks([b'[{"ph": "X", "ts": 1, "a": }' + b",{" * 20_000 + b'[{"a":' * 20_000])
    assert (raw.num_events, faults(raw)) == (1, {"dropped": 1})


def test_take_and_new_strings_hand_over_once() -> None:
    scanner = Scanner()
    scanner.feed(f"[{SLICE}, {SLICE}".encode())
    scanner.finish()
    assert scanner.num_rows == 2
    assert scanner.take()["slice"]["ts"].tolist() == [1500, 1500]
    assert (scanner.num_rows, scanner.take()["slice"]["ts"].tolist()) == (0, [])
    assert (scanner.new_strings("name"), scanner.new_strings("name")) == (["a"], [])


def test_rows_count_on_over_takes() -> None:
    scanner = Scanner()
    one = (slice_(args={"stream": 1}) + ", ").encode()
    rows: list[int] = []
    scanner.feed(b"[")
    for _ in range(30_000):
        scanner.feed(one)
        if scanner.num_rows > 10_000:
            rows += scanner.take()["gpu"]["row"].tolist()
    scanner.finish()
    rows += scanner.take()["gpu"]["row"].tolist()
    assert rows == list(range(30_000))


def _mixed() -> bytes:
    found = []
    for i in range(400):
        found += [
            slice_(ts=i + 0.25, name=f"n{i % 7}", args={"stream": i, "Input Dims": [[i % 5]], "Ev Idx": i}),
            slice_(cat="kernel", args={"grid": [i, 1], "kernel_backend": f"k{i % 3}"}),
            json.dumps({"ph": "s", "ts": i, "id": i, "name": "f", "args": {}}),
            json.dumps({"ph": "i", "ts": i, "name": "[memory]", "args": {"Bytes": i}}),
        ]
        if i % 50 == 0:
            found += ['{"ph": "C", "ts": 1, "name": "c", "args": {"x": 1}}', '{"ph": "X", "ts": 1, "args": {"a": NaN}}']
        if i % 90 == 0:
            found += ['{"ph": oops" }', slice_(name="\x7f") + slice_(cat=None, args={"list": [{"a": 1}, {"b": 2}]})]
    return b'{"schemaVersion": 1, "traceEvents": [\n' + ",\n ".join(found).encode() + b'\n], "end": {}}\n'


@pytest.mark.parametrize("size", [1, 7, 4096])
def test_the_size_of_the_chunks_does_not_matter(size: int) -> None:
    data = _mixed()
    whole = read_chunks([data])
    assert faults(whole) == {"dropped": 5, "missing_duration": 8, "repaired": 5}
    assert_same(read_chunks([data[i : i + size] for i in range(0, len(data), size)]), whole)


def test_batches_give_what_single_events_give(monkeypatch: pytest.MonkeyPatch) -> None:
    data = _mixed()
    whole = read_chunks([data])
    monkeypatch.setattr(batch.Batch, "read", lambda *_: 0)
    assert_same(read_chunks([data]), whole)


def _broken() -> list[Any]:
    path = SHARED / "inputs/broken/expected.json"
    expected = json.loads(path.read_text()) if path.exists() else {}
    return [pytest.param(name, case, id=name) for name, case in expected.items() if name.endswith(".json")]


@needs_shared
@pytest.mark.parametrize(("name", "case"), _broken())
@pytest.mark.parametrize("size", [1, 1 << 20])
def test_broken_inputs(name: str, case: dict[str, Any], size: int) -> None:
    data = (SHARED / "inputs/broken" / name).read_bytes()
    raw = read_chunks([data[i : i + size] for i in range(0, len(data), size)])
    assert names(raw) == case["slice_names"]
    # That a trace is empty is for its tables to say.
    assert list(faults(raw)) == [kind for kind in [case["health"]] if kind not in (None, "empty")]


def _traces() -> list[Any]:
    path = SHARED / "traces/expected.json"
    expected = json.loads(path.read_text()) if path.exists() else {}
    slow = {"mtia_rank0.json.gz", "diff_a100_control.json.gz", "diff_v100_test.json.gz"}
    return [
        pytest.param(name, case["num_events"], id=name, marks=[pytest.mark.slow] if name in slow else [])
        for name, case in expected.items()
    ]


@needs_shared
@pytest.mark.parametrize(("name", "num_events"), _traces())
def test_real_traces(name: str, num_events: int) -> None:
    path = next((SHARED / "traces").rglob(name))
    raw = read_chunks([gzip.decompress(path.read_bytes()) if name.endswith(".gz") else path.read_bytes()])
    assert raw.num_events == num_events
    assert "dropped" not in faults(raw)
    assert set(raw.pools) == set(POOLS)


@needs_shared
def test_times_against_decimal() -> None:
    data = gzip.decompress((SHARED / "traces/v100_ns_resolution.json.gz").read_bytes())
    raw = read_chunks([data])
    found = [e for e in json.loads(data, parse_float=Decimal)["traceEvents"] if e["ph"] == "X"]

    def ns(microseconds: Decimal | int) -> int:
        return int((Decimal(microseconds) * 1000).quantize(Decimal(1), ROUND_HALF_UP))

    assert raw.groups["slice"]["ts"].tolist() == [ns(e["ts"]) for e in found]
    assert raw.groups["slice"]["dur"].tolist() == [ns(e["dur"]) for e in found]
    starts = raw.groups["slice"]["offset"]
    assert all(data[at : at + 1] == b"{" for at in starts.tolist())
    assert (np.diff(starts) > 0).all()
