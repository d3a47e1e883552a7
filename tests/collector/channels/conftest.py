"""What the channels' tests share."""

from __future__ import annotations

import pytest

from profsuite.trace.assemble import assemble


@pytest.fixture(scope="session")
def to_trace():
    """A function from a ``RawTrace`` to its ``Trace``."""
    return lambda raw: assemble(raw, "run", "collector")


@pytest.fixture(scope="session")
def counters():
    """A function from a trace to {(counter, series): its values in order of time}."""

    def take(trace):
        found = {}
        table = trace.table("counter")
        for name, series, value in zip(
            *(table.column(c).to_pylist() for c in ("name", "series", "value")), strict=True
        ):
            found.setdefault((name, series), []).append(value)
        return found

    return take
