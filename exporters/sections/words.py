"""Words and small forms that several sections share."""

from __future__ import annotations

from collections.abc import Sequence

from profsuite.analyzers.report import Report
from profsuite.exporters.document import Cell, Column, Name, Table
from profsuite.exporters.units import percent

CAUSES = {
    "compile": "compilation in progress",
    "gc": "Python garbage collection",
    "allocator": "device memory allocation",
    "input": "waiting for input data",
    "sync": "host waited for the device",
    "host": "host launched late",
    "dependency": "waiting for another stream",
    "queue": "launch latency",
    "collective_wait": "waiting for other ranks",
    "unknown": "unknown",
}
"""An idle cause in words."""

HOST_PARTS = {
    "sync_ns": "waiting for the device",
    "input_ns": "waiting for input data",
    "launch_ns": "launch and runtime calls",
    "allocator_ns": "device memory allocation",
    "compile_ns": "compilation",
    "gc_ns": "Python garbage collection",
    "op_ns": "ops",
    "python_ns": "Python",
    "unrecorded_ns": "nothing recorded",
}
"""A part of a thread's time in words."""

DEVICE_PARTS = {
    "compute_ns": "compute",
    "exposed_comm_ns": "exposed communication",
    "exposed_memcpy_ns": "exposed copies",
    "idle_ns": "idle",
}
"""A part of a device's time in words."""

SORTED_BY = {"device_self_ns": "GPU self time", "host_self_ns": "host self time"}
"""What the ops are sorted by, in words."""

PAGE = "the report as a web page"
"""What the next step shows where no rows can be queried."""

NAME_WIDTH = 80
"""Of a name within a sentence."""


def part_of(report: Report) -> str:
    """What the numbers speak of."""
    return "recording" if report.trace.selection is None else "selection"


def absent(report: Report, what: str, flag: str) -> str:
    """That there is none of something, and which flag records it; a selection may just have missed it."""
    if report.trace.selection is not None:
        return f"No {what} in this selection."
    return f"No {what} in this trace; activities=[{flag}] records that."


def share(part: int, whole: int) -> float:
    """A part in percent of a whole, 0 of nothing."""
    return 100.0 * part / whole if whole > 0 else 0.0


def share_of(part: int, whole: int) -> str:
    """A part in percent of a whole, in words; empty of nothing."""
    return percent(share(part, whole)) if whole > 0 else ""


def pct(value: float | None) -> str:
    """A percentage in words, empty where it is null."""
    return "" if value is None else percent(value)


def without_empty(
    caption: str, columns: tuple[Column, ...], rows: Sequence[tuple[Cell, ...]], detail: bool = False
) -> Table:
    """A table without the columns in which no row has anything: what nobody measured is not shown."""
    keep = [i for i in range(len(columns)) if any(row[i] not in ("", Name("")) for row in rows)]
    kept = tuple(tuple(row[i] for i in keep) for row in rows)
    return Table(caption, tuple(columns[i] for i in keep), kept, detail)
