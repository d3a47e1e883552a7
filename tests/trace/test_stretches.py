"""A file read by several processes gives what one gives, wherever it is split and whatever fails."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from profsuite.errors import TraceError
from profsuite.trace.readers import stretches
from profsuite.trace.readers.fallback import read_chunks
from profsuite.trace.readers.raw import RawTrace


def event(number: int, **args: object) -> str:
    own = {
        "ph": "X",
        "cat": "cpu_op",
        "name": f"op {number % 7 + number // 300}",
        "pid": number % 3,
        "tid": "t",
        "ts": number,
        "dur": 1,
    }
    extra = {"External id": number, "Input Dims": [[number % 5, 2]]} if number % 2 else {"stream": 7, "grid": [1, 2, 3]}
    return json.dumps({**own, "args": {**extra, **args}})


def document(events: list[str]) -> bytes:
    return ('{"schemaVersion": 1, "traceEvents": [\n' + ",\n".join(events) + '\n], "traceName": "x"}').encode()


def assert_same(path: Path, num_processes: int = 2) -> RawTrace:
    """Read by several processes and by one."""
    told: list[int] = []
    found = stretches.read_file(str(path), num_processes, told.append, smallest=0, lead=0)
    wanted = read_chunks([path.read_bytes()])
    for group, columns in wanted.groups.items():
        for name, column in columns.items():
            np.testing.assert_array_equal(found.groups[group][name], column, f"{group}.{name}")
    assert {pool: words.to_pylist() for pool, words in found.pools.items()} == {
        pool: words.to_pylist() for pool, words in wanted.pools.items()
    }
    for name in ("tracks", "header", "num_events", "num_bytes", "remarks"):
        assert getattr(found, name) == getattr(wanted, name), name
    assert told == sorted(told)
    assert told[-1] == path.stat().st_size
    return found


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "trace.json"


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many parts of other processes were taken, one number a read."""
    taken: list[int] = []
    parts = stretches._Others.parts

    def counted(self):
        taken.append(0)
        for part in parts(self):
            taken[-1] += 1
            yield part

    monkeypatch.setattr(stretches._Others, "parts", counted)
    return taken


@pytest.mark.parametrize("num_processes", [2, 3])
def test_stretches_are_put_together(path, started, num_processes):
    path.write_bytes(document([event(n) for n in range(2000)]))
    found = assert_same(path, num_processes)
    assert started == [num_processes - 1]
    assert len(found.groups["slice"]["ts"]) == 2000
    assert found.header == [("schemaVersion", "1"), ("traceName", '"x"')]


def test_an_array_that_is_never_closed(path, started):
    path.write_bytes(b"[" + b",".join(event(n).encode() for n in range(1000)) + b',{"ph": "X", "na')
    assert [r.kind for r in assert_same(path).remarks] == ["truncated"]
    assert started == [1]


def test_faults_in_both_stretches_are_counted_once_each(path, started):
    events = [event(n) for n in range(1000)]
    events[100] = events[800] = '{"ph": "X", "ts": 1, "name": "broken", "dur": 2 "pid": 3}'
    events[200] = events[900] = '{"ph": "?", "ts": 1, "name": "strange"}'
    path.write_bytes(document(events))
    assert {r.kind: r.count for r in assert_same(path).remarks} == {"dropped": 2, "unsupported": 2}
    assert started == [1]


def test_a_place_that_only_looks_like_an_event(path, started):
    """Every ``},{`` but those between events lies in a text; the split is in one of them."""
    looks = '},{"ph": "X", "ts": 1}' * 2000
    text = document([event(1), event(2), '{"ph": "X", "ts": 3, "name": "LOOKS"}', event(4)])
    path.write_bytes(text.replace(b"LOOKS", looks.encode()))  # breaks the event: only resynchronising tells
    assert_same(path)
    quoted = [{"ph": "X", "ts": 1}] * 3000
    path.write_bytes(document([event(1), event(2, **{"Concrete Inputs": quoted}), event(3)]))
    assert_same(path)
    assert started in ([], [0])


def test_events_that_end_before_the_split(path, started):
    rest = json.dumps([{"ph": "X", "ts": 1, "pid": n} for n in range(2000)])
    path.write_bytes(b'{"traceEvents": [' + event(1).encode() + b'], "other": ' + rest.encode() + b"}")
    found = assert_same(path)
    assert len(found.groups["slice"]["ts"]) == 1
    assert started == []


def test_a_process_that_cannot_start_or_dies_costs_nothing(path, started, monkeypatch):
    path.write_bytes(document([event(n) for n in range(1000)]))
    for program in ("/nowhere/python", "/bin/false"):
        monkeypatch.setattr(sys, "executable", program)
        assert_same(path, 3)
    assert started == [0, 0]


def test_the_middle_process_fails(path, monkeypatch):
    """What it should have read, and all after it, is read here."""
    path.write_bytes(document([event(n) for n in range(1000)]))
    receive, calls = stretches._receive, []

    def second_fails(file):
        calls.append(receive(file))
        return calls[-1] if len(calls) < 2 else None

    monkeypatch.setattr(stretches, "_receive", second_fails)
    assert_same(path, 4)
    assert len(calls) == 2
    assert calls[0] is not None


def test_an_interrupt_ends_the_processes(path, monkeypatch):
    path.write_bytes(document([event(n) for n in range(1000)]))
    processes = []
    enter = stretches._Others.__enter__

    def entered(self):
        found = enter(self)
        processes.extend(self.processes)
        return found

    monkeypatch.setattr(stretches._Others, "__enter__", entered)

    def interrupt(_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stretches.read_file(str(path), 2, interrupt, smallest=0, lead=0)
    assert len(processes) == 1
    assert processes[0].poll() is not None


def test_no_trace_is_refused(path):
    path.write_bytes(b'{"a": [' + b",".join([b'{"ph": "X"}'] * 500) + b"]}")
    with pytest.raises(TraceError, match="no traceEvents"):
        stretches.read_file(str(path), 2, lambda _: None, smallest=0, lead=0)
