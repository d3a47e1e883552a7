"""The C scanner and the Python reader give identical tables, on real and on broken files."""

import json
from pathlib import Path

import pytest

import profsuite
from profsuite.trace.readers import native

SHARED = Path(__file__).parents[3] / "shared"
TRACES = sorted(p for p in (SHARED / "traces").rglob("*.json*") if p.name not in ("expected.json", "manifest.json"))
BROKEN = json.loads((SHARED / "inputs/broken/expected.json").read_text()) if SHARED.exists() else {}
READERS = ["python", pytest.param("c", marks=pytest.mark.skipif(native.MISSING is not None, reason="no C scanner"))]


def decoded(table):
    """A table with its text columns as plain strings: the order of a dictionary says nothing."""
    import pyarrow as pa

    columns = [c.cast(pa.string()) if pa.types.is_dictionary(c.type) else c for c in table.columns]
    return pa.table(columns, names=table.column_names)


@pytest.mark.skipif(native.MISSING is not None, reason="no C scanner")
@pytest.mark.skipif(not TRACES, reason="the real traces are not here: ../shared/traces")
@pytest.mark.parametrize("path", TRACES, ids=lambda path: path.name)
def test_tables_are_identical(path):
    if path.name == "simple_add_execution_trace.json.gz":
        for reader in ("c", "python"):
            with pytest.raises(profsuite.TraceError, match="no traceEvents"):
                profsuite.load(path, reader=reader)
        return
    by_c = profsuite.load(path, cache=False, reader="c")
    by_python = profsuite.load(path, cache=False, reader="python")
    for name in by_c.tables:
        assert decoded(by_c.table(name)).equals(decoded(by_python.table(name))), name
    assert by_c.info.num_events == by_python.info.num_events
    assert by_c.info.num_bytes == by_python.info.num_bytes


@pytest.mark.skipif(not BROKEN, reason="the broken files are not here: ../shared/inputs")
@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("name", BROKEN)
def test_broken_files_keep_all_else(name, reader):
    expected = BROKEN[name]
    trace = profsuite.load(SHARED / "inputs/broken" / name, cache=False, reader=reader)
    if expected["slice_names"] is not None:
        assert trace.slices.column("name").to_pylist() == expected["slice_names"]
    faults = {"repaired", "dropped", "truncated", "empty", "negative_duration", "missing_duration", "trailing_data"}
    health = {row["kind"]: row for row in trace.health.to_pylist() if row["kind"] in faults}
    assert set(health) == ({expected["health"]} if expected["health"] else set())
    for row in health.values():
        assert row["count"] >= 1
        assert row["kind"] == "empty" or row["byte_offset"] > 0
