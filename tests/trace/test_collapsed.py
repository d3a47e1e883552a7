"""Collapsed stacks: durations and self times are the file's values."""

from __future__ import annotations

import random

import pytest

import profsuite
from profsuite.errors import TraceError
from profsuite.trace.assemble import assemble
from profsuite.trace.readers.collapsed import is_collapsed, read_collapsed

STACKS = b"""main;load;read 30
main;train;forward 50
main;train 5
main;load 2
worker;read 7
main;train;backward 110
"""


@pytest.fixture(scope="module")
def trace():
    return assemble(read_collapsed([STACKS]), "a.collapsed", "collapsed")


def test_every_frame_of_the_tree_is_a_slice(trace, rows):
    assert rows(trace, "slice", "name", "ts", "dur", "self_dur", "depth") == [
        ("main", 0, 197, 0, 0),
        ("load", 0, 32, 2, 1),
        ("read", 0, 30, 30, 2),
        ("train", 32, 165, 5, 1),
        ("forward", 32, 50, 50, 2),
        ("worker", 197, 7, 0, 0),
        ("read", 197, 7, 7, 1),
        ("backward", 82, 110, 110, 2),
    ]
    assert trace.num_rows("track") == 1


def test_ops_show_self_time(trace):
    report = profsuite.analyze(trace)
    own = {row.name: row.host_self_ns for row in report.ops.rows}
    assert own == {"main": 0, "load": 2, "read": 37, "train": 5, "forward": 50, "worker": 0, "backward": 110}
    assert report.whatif is None
    assert [row.kind for row in report.health if row.kind == "no_times"] == ["no_times"]


def test_ours_come_back(trace, tmp_path):
    profsuite.export(trace, tmp_path / "out.collapsed")
    text = (tmp_path / "out.collapsed").read_text().splitlines()
    assert sorted(line.partition(";")[2] for line in text) == sorted(STACKS.decode().splitlines())


def test_packed_and_converted(tmp_path):
    import gzip

    path = tmp_path / "a.collapsed.gz"
    path.write_bytes(gzip.compress(STACKS))
    trace = profsuite.load(path)
    assert trace.info.reader == "collapsed"
    profsuite.export(str(path), tmp_path / "a.json")
    assert profsuite.load(tmp_path / "a.json").num_rows("slice") == 8


def test_what_is_no_stack_is_dropped(rows):
    raw = read_collapsed([b"a;b 1\nno number\n\n; 4\na;;b 2\r\nwith space;f (x.py:3) 5"])
    trace = assemble(raw, "x", "collapsed")
    assert rows(trace, "slice", "name", "dur") == [("a", 3), ("b", 3), ("with space", 5), ("f (x.py:3)", 5)]
    assert [(each.kind, each.count, each.byte_offset) for each in raw.remarks][:1] == [("dropped", 2, 6)]


@pytest.mark.parametrize(
    ("first", "expected"),
    [
        (STACKS, True),
        (STACKS[:31], True),
        (b"[unknown];main 3\n", True),
        ("größe;läuft 3\n".encode(), True),
        (b"main;train 12", True),
        (b"", False),
        (b"main;train", False),
        (b"hello world\n", False),
        (b'{"traceEvents": 1\n', False),
        (b"[\n", False),
        (b'[{"ph": "X", "pid": 31708', False),  # an array on one line, of which the first bytes end in a number
        (b'[\n {"ph": "X", "ts": 5', False),
        (b"\x00\x01 3\n", False),
        (b"\xff\xfe 3\n", False),
    ],
)
def test_what_looks_like_stacks(first, expected):
    assert is_collapsed(first) is expected


def test_errors_are_one_line():
    with pytest.raises(TraceError, match="no line is frames and a number"):
        read_collapsed([b"hello\n"])
    with pytest.raises(TraceError, match="add up to more than"):
        read_collapsed([b"a 999999999999999999\n" * 4])
    with pytest.raises(TraceError, match="a line of more than 16 MB at byte 4"):
        read_collapsed([b"a 1\n", b"x" * (17 << 20)])


def test_chunks_may_end_anywhere(rows):
    whole = rows(assemble(read_collapsed([STACKS]), "x", "x"), "slice", "name", "ts", "dur", "byte_offset")
    for seed in range(20):
        chance, at, parts = random.Random(seed), 0, []
        while at < len(STACKS):
            size = chance.randint(1, 12)
            parts.append(STACKS[at : at + size])
            at += size
        assert rows(assemble(read_collapsed(parts), "x", "x"), "slice", "name", "ts", "dur", "byte_offset") == whole


def test_a_very_deep_stack():
    raw = read_collapsed([b";".join([b"f"] * 50_000) + b" 3\n"])
    trace = assemble(raw, "x", "collapsed")
    assert trace.table("slice").column("depth").to_pylist()[-1] == 49_999
