"""What only the C scanner does: several threads on one file, and part scanners that must fit together."""

import json
import os
import random

import numpy as np
import pytest

from profsuite.trace.readers import native

pytestmark = pytest.mark.skipif(native.MISSING is not None, reason="no C scanner")


def decoded(raw):
    """Everything that a raw trace says, codes as strings."""
    columns = {}
    for group, spec in native.COLUMNS.items():
        for name, kind, pool in spec:
            values = raw.groups[group][name].tolist()
            if kind == 7:
                words = raw.pools[pool].to_pylist()
                values = [words[code] if code >= 0 else None for code in values]
            elif kind == 5:
                values = [raw.tracks[code] for code in values]
            elif kind == 2:
                values = [repr(value) for value in values]
            columns[group, name] = values
    remarks = [(r.kind, r.count, r.byte_offset) for r in raw.remarks]
    return columns, sorted(raw.tracks), raw.header, raw.num_events, raw.num_bytes, remarks


def some_events(count, seed=0, broken=False):
    """The text of events of all sorts, some with events inside their args, some broken."""
    rng = random.Random(seed)
    texts = []
    for i in range(count):
        event = {"ph": rng.choice("XXXXsfiCMB"), "name": f"n{rng.randrange(50)}", "pid": rng.randrange(3)}
        event |= {
            "tid": f"stream {rng.randrange(4)}",
            "ts": i + 0.125,
            "dur": rng.randrange(9),
            "id": i,
            "cat": "kernel",
        }
        event["args"] = {"correlation": i, "grid": [i, 1, 1], "Input Dims": [[rng.randrange(9)], []]}
        if rng.random() < 0.1:  # what looks like an event, but is a value
            event["args"]["trap"] = [{"ph": "X", "name": "trap", "ts": 1}, {"ph": "X", "name": "trap", "ts": 2}]
        text = json.dumps(event, indent=rng.choice([None, 2]))
        if broken and rng.random() < 0.02:
            text = text.replace('"', "", 1) if rng.random() < 0.5 else text[: rng.randrange(1, len(text))]
        texts.append(text)
    return texts


@pytest.mark.parametrize("broken", [False, True])
@pytest.mark.parametrize("threads", [2, 3, 7])
def test_threads_do_not_change_the_result(tmp_path, monkeypatch, threads, broken):
    monkeypatch.setattr(native, "_SMALL", 0)
    for seed in range(4):
        path = tmp_path / "x.json"
        body = ",\n".join(some_events(400, seed, broken))
        path.write_text('{"traceEvents": [' + body + '], "traceName": "x", "distributedInfo": {"rank": 1}}')
        one = native.read_file(str(path), 1, lambda n: None)
        many = native.read_file(str(path), threads, lambda n: None)
        assert decoded(many) == decoded(one)
        assert decoded(native.read_chunks([path.read_bytes()])) == decoded(one)


def test_a_stretch_that_begins_inside_a_value_is_read_again(tmp_path, monkeypatch):
    """The middle of the file is one event full of what looks like events."""
    monkeypatch.setattr(native, "_SMALL", 0)
    trap = {"ph": "X", "name": "trap", "ts": 1, "dur": 1}
    events = [
        {"ph": "X", "name": "a", "ts": 1, "dur": 1},
        {"ph": "X", "name": "b", "ts": 2, "dur": 1, "args": {"list": [trap] * 500}},
        {"ph": "X", "name": "c", "ts": 3, "dur": 1},
    ]
    path = tmp_path / "x.json"
    path.write_text(json.dumps({"traceEvents": events}))
    raw = native.read_file(str(path), 4, lambda n: None)
    names = raw.pools["name"].to_pylist()
    assert [names[code] for code in raw.groups["slice"]["name"]] == ["a", "b", "c"]
    assert raw.num_events == 3


def test_metadata_larger_than_the_events(tmp_path, monkeypatch):
    monkeypatch.setattr(native, "_SMALL", 0)
    events = [{"ph": "X", "name": "a", "ts": 1, "dur": 1}]
    path = tmp_path / "x.json"
    path.write_text(json.dumps({"traceEvents": events, "more": [{"ph": "X", "name": "no", "ts": 1}] * 1000}))
    raw = native.read_file(str(path), 3, lambda n: None)
    assert raw.num_events == 1
    assert [key for key, _ in raw.header] == ["more"]


def test_equal_strings_after_repair_are_one(tmp_path):
    event = b'{"ph": "X", "name": "a%s", "cat": "x", "pid": 1, "tid": "\xff", "ts": 1, "dur": 1}'
    raw = native.read_chunks([b'{"traceEvents": [' + b",".join([event % b"\xff", event % b"\xfe"]) + b"]}"])
    assert raw.pools["name"].to_pylist() == ["a\ufffd"]
    assert raw.groups["slice"]["name"].tolist() == [0, 0]


def test_a_scanner_refuses_what_it_cannot_take():
    scanner = native.new_scanner()
    with pytest.raises(TypeError):
        scanner.feed("text")
    with pytest.raises(ValueError, match="absorb"):
        scanner.absorb(scanner, ())
    other = native.new_scanner()
    other.feed(b'[{"ph": "X", "name": "a", "ts": 1, "dur": 1}')
    other.finish()
    with pytest.raises(ValueError, match="too short"):
        scanner.absorb(other, tuple([np.zeros(0, np.int32)] * 15))
    with pytest.raises(ValueError, match="pool"):
        scanner.strings(99, 0)
    with pytest.raises(OSError, match="descriptor"):
        scanner.read(9999, 1, -1)


def test_reading_stops_at_rows_and_goes_on(tmp_path):
    path = tmp_path / "x.json"
    path.write_text("[" + ",".join(['{"ph": "X", "name": "a", "ts": 1, "dur": 1}'] * 100_000) + "]")
    scanner = native.new_scanner()
    fd = os.open(path, os.O_RDONLY)
    try:
        batches = []
        while not scanner.read(fd, 10_000, -1):
            batches.append(len(native.take(scanner)["slice"]["ts"]))
        batches.append(len(native.take(scanner)["slice"]["ts"]))
    finally:
        os.close(fd)
    assert sum(batches) == 100_000
    assert len(batches) > 3
