"""Traces for tests: hand-written events, real files, generated files."""

from __future__ import annotations

import gzip
import json
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from profsuite.trace.assemble import assemble
from profsuite.trace.readers.fallback import read_chunks

SHARED = Path(__file__).parents[3] / "shared"


@pytest.fixture(scope="session")
def make_trace():
    """A function from events (dicts, or the text of a file) and header keys to a ``Trace``."""

    def make(events, source="trace.json", **header):
        text = events if isinstance(events, str) else json.dumps({**header, "traceEvents": events})
        return assemble(read_chunks([text.encode()]), source, "fallback")

    return make


@pytest.fixture(scope="session")
def rows():
    """A function from a trace, a table and columns to the table's rows as tuples."""

    def take(trace, table, *columns):
        return list(zip(*(trace.table(table).column(c).to_pylist() for c in columns), strict=True))

    return take


@pytest.fixture(scope="session")
def real_trace():
    """A function from the name of a real file to its ``Trace``; skips where the files are absent."""
    loaded = {}

    def load(name):
        path = SHARED / "traces" / name
        if not path.exists():
            pytest.skip(f"the real traces are not here: {path}")
        if name not in loaded:
            data = path.read_bytes()
            data = gzip.decompress(data) if name.endswith(".gz") else data
            loaded[name] = assemble(read_chunks([data]), name, "fallback")
        return loaded[name]

    return load


@pytest.fixture(scope="session")
def generated_trace(tmp_path_factory):
    """A function from a layout to a generated ``Trace`` and the truth about it; skips without the generator."""

    def generate(layout):
        root = Path(__file__).parents[2]
        script = next(
            (p for p in (root / "benchmarks/gen_trace.py", SHARED / "bench/gen_trace.py") if p.exists()), None
        )
        if script is None:
            pytest.skip("the trace generator is not here")
        out = tmp_path_factory.mktemp(layout)
        command = [sys.executable, script, "--size-mb", "1", "--layout", layout, "--cuda-sync", "--out", out]
        subprocess.run(command, check=True, capture_output=True)
        truth = json.loads((out / "truth.json").read_text())["ranks"][0]
        return assemble(read_chunks([(out / "rank_0.json").read_bytes()]), "rank_0.json", "fallback"), truth

    return generate


@pytest.fixture(scope="session")
def expected():
    """What was computed independently for the real files, by name."""
    path = SHARED / "traces" / "expected.json"
    if not path.exists():
        pytest.skip(f"the real traces are not here: {path}")
    return json.loads(path.read_text())


def varint(value):
    value &= (1 << 64) - 1
    out = bytearray()
    while value >= 128:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def proto(*fields):
    """A message of (number, value): an int becomes a varint, text and bytes themselves, a float a double."""
    out = []
    for number, value in fields:
        if isinstance(value, float):
            out.append(varint(number << 3 | 1) + struct.pack("<d", value))
        elif isinstance(value, int):
            out.append(varint(number << 3) + varint(value))
        else:
            data = value.encode() if isinstance(value, str) else value
            out.append(varint(number << 3 | 2) + varint(len(data)) + data)
    return b"".join(out)


class _Names(dict):
    """Names and their ids, from 1 on."""

    def __missing__(self, name):
        self[name] = len(self) + 1
        return self[name]


def make_plane(name, lines, stats=(), metadata=None, modules=None):
    """An XPlane. A line is (name, events), an event (name, start ns, duration ns, stats); times may be fractions.

    ``metadata`` gives (display name, stats) of an event's name, ``modules`` HLO protos by program id.
    """
    metadata, events, names = metadata or {}, _Names(), _Names()

    def stat(key, value):
        number = {int: 4, str: 5, bytes: 6, float: 2}[type(value)]
        return proto((1, names[key]), (number, value))

    parts = [(2, name)]
    for number, (line, rows) in enumerate(lines):
        found = [(1, number + 1), (2, line)]
        for event, start, duration, *told in rows:
            found.append((4, proto((1, events[event]), (2, round(start * 1000)), (3, round(duration * 1000)),
                                   *((4, stat(*each)) for each in (told[0] if told else {}).items()))))  # fmt: skip
        parts.append((3, proto(*found)))
    for event, key in events.items():
        display, own = metadata.get(event, ("", {}))
        value = proto((1, key), (2, event), *([(4, display)] if display else []), *((5, stat(*s)) for s in own.items()))
        parts.append((4, proto((1, key), (2, value))))
    for key, data in (modules or {}).items():
        value = proto((1, key), (2, f"module({key})"), (5, stat("Hlo Proto", data)))
        parts.append((4, proto((1, key), (2, value))))
    own = [(6, stat(*each)) for each in dict(stats).items()]
    parts += [(5, proto((1, key), (2, proto((1, key), (2, text))))) for text, key in names.items()]
    return proto(*parts, *own)


@pytest.fixture(scope="session")
def planes():
    """``make_plane``, a function from planes to the bytes of an XSpace, and ``proto``."""
    return make_plane, lambda *found: proto(*((1, plane) for plane in found)), proto
