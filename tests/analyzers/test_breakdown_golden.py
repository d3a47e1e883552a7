"""The breakdown of every real file equals what was computed independently, in both readers, to the nanosecond."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from profsuite.analyzers.breakdown import breakdown
from profsuite.trace.load import load
from profsuite.trace.readers import native

TRACES = Path(__file__).parents[3] / "shared" / "traces"
EXPECTED = json.loads((TRACES / "expected.json").read_text()) if (TRACES / "expected.json").exists() else {}
ABSENT = pytest.param(None, None, marks=pytest.mark.skip(reason=f"the real traces are not here: {TRACES}"))


SLOW = {("mtia_rank0.json.gz", "python")}
CASES = [
    pytest.param(name, reader, marks=pytest.mark.slow if (name, reader) in SLOW else ())
    for name in sorted(EXPECTED)
    for reader in ("c", "python")
]


@pytest.mark.parametrize(("name", "reader"), CASES or [ABSENT])
def test_equals_the_independent_values(name, reader):
    if reader == "c" and native.MISSING:
        pytest.skip(f"the C scanner is not built: {native.MISSING}")
    path = next(p for p in (TRACES / name, TRACES / "dlrm_8ranks" / name) if p.exists())
    trace = load(path, cache=False, reader=reader)
    found = {
        str(row.device): {
            "busy_ns": row.shares.busy_ns,
            "comm_ns": row.shares.comm_ns,
            "compute_ns": row.shares.compute_ns,
            "exposed_comm_ns": row.shares.exposed_comm_ns,
            "exposed_memcpy_ns": row.shares.exposed_memcpy_ns,
            "idle_ns": row.shares.idle_ns,
            "num_comm": row.num_comm,
            "num_compute": row.num_compute,
            "num_mem": row.num_memcpy,
            "overlapped_comm_ns": row.shares.overlapped_comm_ns,
            "window_ns": row.shares.window_ns,
        }
        for row in breakdown(trace)
    }
    assert found == EXPECTED[name]["devices"]
