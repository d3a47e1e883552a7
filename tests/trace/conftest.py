"""Traces for tests: hand-written events, real files, generated files."""

from __future__ import annotations

import gzip
import json
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
