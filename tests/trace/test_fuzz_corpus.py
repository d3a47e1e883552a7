"""What fuzzing starts from and what it found, through both readers; and inputs that are large on purpose."""

from __future__ import annotations

import gzip
import importlib.util
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

import profsuite
from profsuite.trace.readers import fallback, native

FUZZ = Path(__file__).parents[2] / "fuzz"
CORPUS = sorted((FUZZ / "corpus").glob("*")) if FUZZ.is_dir() else []
needs_c = pytest.mark.skipif(native.MISSING is not None, reason="no C scanner")
READERS = ["python", pytest.param("c", marks=needs_c)]
MB = 1 << 20


@pytest.fixture(scope="module")
def differential() -> ModuleType:
    spec = importlib.util.spec_from_file_location("differential", FUZZ / "differential.py")
    if spec is None or spec.loader is None or not FUZZ.is_dir():
        pytest.skip("fuzz/ is not here")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@needs_c
@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.name)
def test_readers_agree_on_the_corpus(differential, path):
    data = path.read_bytes()
    for seed in range(6):  # blocks of other sizes
        assert differential.difference(data, seed) is None


@needs_c
def test_readers_agree_on_mutated_traces(differential):
    count, data, seed = differential.run(3, seed=2026)
    assert data is None, (differential.minimised(data, seed), differential.difference(data, seed))
    assert count > 20


def test_a_difference_is_found_and_minimised(differential, monkeypatch):
    def outcome(read, chunks):
        return {"found": b"NaN" in b"".join(chunks) and read is fallback.read_chunks}

    monkeypatch.setattr(differential, "outcome", outcome)
    count, data, seed = differential.run(60, seed=1)
    assert count >= 0
    assert differential.minimised(data, seed) == b"NaN"


# ---------------------------------------------------------------- large on purpose
def slice_(ts: int, more: str = "") -> str:
    return f'{{"ph": "X", "ts": {ts}, "dur": 1, "name": "n{ts}"{more}}}'


def trace(*events: str) -> bytes:
    return ('{"traceEvents": [' + ", ".join(events) + "]}").encode()


def nested_args(depth: int) -> str:
    return f', "args": {{"stream": 7, "x": {"[" * depth}{"]" * depth}}}'


HOSTILE = {
    "names of 1 MB": trace(*[slice_(i, f', "name": "{chr(97 + i) * MB}"') for i in range(8)]),
    "a key of 1 MB": trace(slice_(1, f', "args": {{"{"k" * MB}": 1, "stream": 3}}'), slice_(2)),
    "a number of 1 MB": trace(slice_(1, f', "dur": {"1" * MB}'), slice_(2, f', "dur": 0.{"0" * MB}1')),
    "a million backslashes": trace(slice_(1, ', "cat": "' + "\\" * MB + '"'), slice_(2)),
    "args 100,000 deep": trace(slice_(1, nested_args(100_000)), slice_(2)),
    "args deeper than a million": trace(slice_(1), slice_(2, nested_args(1_000_001)), slice_(3)),
    "a header 100,000 deep": b'{"a": ' + b"[" * 100_000 + b"]" * 100_000 + b', "traceEvents": []}',
    "objects that never end": b'{"traceEvents": [' + b'{"a":' * MB,
    "events that never end": b'{"traceEvents": [' + b'{"a":[' * (MB // 3),
    "a million commas": b'{"traceEvents": [' + b"," * MB + slice_(1).encode() + b"," * MB + b"]}",
    "a million brackets": b"[" * MB,
    "a million closing brackets": b'{"traceEvents": [{]' + b"]" * MB,
    "a million junk bytes": b'{"traceEvents": [' + b"x{" * (MB // 2) + b"," + slice_(1).encode() + b"]}",
    "a million quotes": b'{"traceEvents": [' + slice_(1, ', "args": {"a": "' + '" ' * (MB // 2)).encode(),
    "150,000 members": b"{" + b"".join(b'"k%d":0,' % i for i in range(150_000)) + b'"traceEvents": []}',
    "args of 100,000 keys": trace(
        '{"ph": "M", "args": {' + ",".join(f'"k{i % 50_000}": {i}' for i in range(100_000)) + "}}", slice_(1)
    ),
    "spaces": trace(slice_(1)[:-1] + " " * 4 * MB + "}" + "\n" * 4 * MB, slice_(2)),
}


def in_blocks(data: bytes) -> Iterator[bytes]:
    yield from (data[at : at + MB] for at in range(0, len(data), MB))


SLOW = ("objects that never end", "events that never end")


@needs_c
@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow) if n in SLOW else n for n in HOSTILE])
def test_readers_agree_on_large_inputs(differential, name):
    data = HOSTILE[name]
    by_c = differential.outcome(native.read_chunks, list(in_blocks(data)))
    assert by_c == differential.outcome(fallback.read_chunks, list(in_blocks(data)))
    assert by_c == differential.outcome(native.read_chunks, [data])


@pytest.mark.parametrize("reader", READERS)
def test_deep_args_are_read(reader, tmp_path):
    path = tmp_path / "deep.json"
    path.write_bytes(HOSTILE["args 100,000 deep"])
    loaded = profsuite.load(path, reader=reader, cache=False)
    assert loaded.slices.column("name").to_pylist() == ["n1", "n2"]
    assert [row["kind"] for row in loaded.health.to_pylist() if row["kind"] in ("dropped", "repaired")] == []


_PEAK = """
import json, sys
import profsuite
path, reader, limit = sys.argv[1:]
def peak():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) >> 10 for line in status if line.startswith("VmHWM"))
with open(path + ".small", "w") as small:
    small.write('{"traceEvents": [{"ph": "X", "ts": 1}]}')
profsuite.load(path + ".small", reader=reader, cache=False)
before = peak()
names, faults = [], {}
try:
    trace = profsuite.load(path, reader=reader, cache=False, threads=1, max_unpacked=int(limit) or None)
except profsuite.TraceError:  # none of it is an event
    pass
else:
    names = trace.slices.column("name").to_pylist()
    faults = {row["kind"]: row["count"] for row in trace.health.to_pylist()}
print(json.dumps([names, faults, peak() - before]))
"""


def load_apart(path: Path, reader: str, limit: int = 0) -> tuple[list[str], dict[str, int], int]:
    """Names, remarks and the MiB that reading took at most, in a process of its own."""
    if not Path("/proc/self/status").exists():
        pytest.skip("the peak of memory is read from /proc")
    command = [sys.executable, "-c", _PEAK, str(path), reader, str(limit)]
    names, faults, peak = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return names, faults, peak


@pytest.mark.parametrize("reader", READERS)
def test_an_event_of_more_than_64_mb_is_dropped(reader, tmp_path):
    path = tmp_path / "large.json"
    path.write_bytes(trace(slice_(1), slice_(2, f', "cat": "{"x" * 70 * MB}"'), slice_(3)))
    names, faults, peak = load_apart(path, reader)
    assert names == ["n1", "n3"]
    assert faults["dropped"] == 1
    assert peak < 500


@pytest.mark.parametrize("reader", READERS)
def test_a_gzip_bomb_is_cut(reader, tmp_path):
    path = tmp_path / "bomb.json.gz"
    with gzip.open(path, "wb", 1) as file:
        file.write(b'{"traceEvents": [' + slice_(1).encode() + b",")
        for _ in range(200):
            file.write(b" " * MB)
        file.write(slice_(2).encode() + b"]}")
    names, faults, peak = load_apart(path, reader, 20 * MB)
    assert names == ["n1"]
    assert faults["truncated"] >= 1
    assert peak < 120


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("name", ["a million commas", "objects that never end", "names of 1 MB", "spaces"])
def test_large_inputs_take_little_memory(reader, name, tmp_path):
    path = tmp_path / "hostile.json"
    path.write_bytes(HOSTILE[name])
    _, _, peak = load_apart(path, reader)
    assert peak < 30 + 10 * len(HOSTILE[name]) // MB
