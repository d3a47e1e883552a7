"""One slice of the timeline: its fields, what is around it, what launched it and from where, and its arrows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from profsuite.analyzers.places import source_row
from profsuite.trace.schema import TABLES

if TYPE_CHECKING:
    from profsuite.dashboard.store import Session
    from profsuite.dashboard.tiles import Pyramid
    from profsuite.trace.model import Trace

_DETAIL_TABLES: Final = ("op", "kernel", "memcpy", "collective", "sync", "python_call")
MOST_AROUND: Final = 64
MOST_ARROWS: Final = 100
MODULE: Final = "nn.Module: "


def describe(session: Session, slice_id: int) -> dict[str, Any]:
    """One slice: its own fields, what its tables know of it, its user line, and its arrows.

    ``launch`` is null but for device work of which the recording knows the launch, or the op.

    ``IndexError`` for a slice that does not exist.
    """
    trace, origin = session.trace, session.pyramid.start_ns
    if not 0 <= slice_id < trace.num_rows("slice"):
        raise IndexError(slice_id)
    row = trace.slices.slice(slice_id, 1).to_pylist()[0]
    details: dict[str, Any] = {}
    for name in _DETAIL_TABLES:
        at = np.flatnonzero(trace.array(name, "slice_id") == slice_id)
        if len(at):
            values = trace.table(name).slice(int(at[0]), 1).to_pylist()[0]
            units = {column.name: column.unit for table in TABLES if table.name == name for column in table.columns}
            details[name] = [
                {"field": field, "value": value, "unit": units[field]}
                for field, value in values.items()
                if value is not None and field != "slice_id"
            ]
    step = row["step_id"]
    host = _host_side(trace, slice_id)
    source = source_row(trace, slice_id)
    return {
        "slice_id": slice_id,
        "name": row["name"],
        "category": row["category"],
        "start_ns": row["ts"] - origin,
        "dur_ns": row["dur"],
        "self_ns": row["self_dur"],
        "track": row["track_id"],
        "depth": row["depth"],
        "lane": _lane(session.pyramid, slice_id),
        "correlation_id": row["correlation_id"],
        "external_id": row["external_id"],
        "step": None if step is None else int(trace.array("step", "number")[step]),
        "step_id": step,
        "source": None if source is None else _name(trace, source),
        "parents": _around(trace, slice_id),
        "launch": None if host is None else _launch(trace, *host),
        "details": details,
        "arrows": _arrows(session, slice_id),
    }


def _name(trace: Trace, row: int) -> str:
    return str(trace.words("slice", "name")[trace.array("slice", "name")[row]])


def _named(trace: Trace, row: int | None) -> dict[str, Any] | None:
    return None if row is None or row < 0 else {"slice_id": row, "name": _name(trace, row)}


def _rows_around(trace: Trace, slice_id: int) -> list[int]:
    """The slices around one, the innermost first."""
    parent = trace.array("slice", "parent_id")
    found: list[int] = []
    row = int(parent[slice_id])
    while row >= 0:
        found.append(row)
        row = int(parent[row])
    return found


def _around(trace: Trace, slice_id: int) -> list[dict[str, Any]]:
    rows = _rows_around(trace, slice_id)[:MOST_AROUND]
    return [{"slice_id": row, "name": _name(trace, row)} for row in rows]


def _host_side(trace: Trace, slice_id: int) -> tuple[int, int] | None:
    """The call that launched a slice of device work, and the op, each -1 where unknown; null for any other slice."""
    for table in ("kernel", "memcpy"):
        at = np.flatnonzero(trace.array(table, "slice_id") == slice_id)
        if len(at):
            call, op = (int(trace.array(table, column)[at[0]]) for column in ("launch_id", "op_id"))
            return (call, op) if call >= 0 or op >= 0 else None
    return None


def _launch(trace: Trace, call: int, op: int) -> dict[str, Any]:
    """The host's side of device work: the call, and the op, module and line of the user's code around it.

    Within the backward pass ``forward`` is the op whose gradient is computed, and module and line are those around
    that.  ``around`` is all that is around the call, the innermost first; nothing where the call is unknown.
    """
    at = op if call < 0 else call
    forward = _forward_of(trace, at)
    place = at if forward is None else forward
    module = next((row for row in _rows_around(trace, place) if _name(trace, row).startswith(MODULE)), None)
    return {
        "call": _named(trace, call),
        "op": _named(trace, op),
        "forward": _named(trace, forward),
        "module": _named(trace, module),
        "source": _named(trace, source_row(trace, place)),
        "around": [] if call < 0 else _around(trace, call),
    }


def _forward_of(trace: Trace, slice_id: int) -> int | None:
    """The forward op of the innermost backward op that a slice is or lies in."""
    ops, forward = trace.array("op", "slice_id"), trace.array("op", "forward_op_id")
    rows = np.array([slice_id, *_rows_around(trace, slice_id)])
    backward = np.flatnonzero(np.isin(rows, ops[forward >= 0]))
    return int(forward[ops == rows[backward[0]]][0]) if len(backward) else None


def _arrows(session: Session, slice_id: int) -> list[dict[str, Any]]:
    """What a slice launched, what launched it, and its forward or backward op: each with its place."""
    trace, origin = session.trace, session.pyramid.start_ns
    pairs: list[tuple[str, int, int]] = []
    for table in ("kernel", "memcpy"):
        ids, launches = trace.array(table, "slice_id"), trace.array(table, "launch_id")
        pairs += [("launch", int(launches[i]), slice_id) for i in np.flatnonzero((ids == slice_id) & (launches >= 0))]
        pairs += [("launch", slice_id, int(ids[i])) for i in np.flatnonzero(launches == slice_id)[:MOST_ARROWS]]
    ops, forward = trace.array("op", "slice_id"), trace.array("op", "forward_op_id")
    pairs += [("backward", int(forward[i]), slice_id) for i in np.flatnonzero((ops == slice_id) & (forward >= 0))]
    pairs += [("backward", slice_id, int(ops[i])) for i in np.flatnonzero(forward == slice_id)[:MOST_ARROWS]]
    start, dur, track = trace.array("slice", "ts"), trace.array("slice", "dur"), trace.array("slice", "track_id")

    def place(row: int) -> dict[str, Any]:
        return {
            "slice_id": row,
            "name": _name(trace, row),
            "start_ns": int(start[row]) - origin,
            "dur_ns": int(dur[row]),
            "track": int(track[row]),
            "lane": _lane(session.pyramid, row),
        }

    return [{"kind": kind, "from": place(source), "to": place(target)} for kind, source, target in pairs]


def _lane(pyramid: Pyramid, slice_id: int) -> int:
    """The lane of a slice, -1 for one that is in none."""
    at = np.flatnonzero(pyramid.lanes.slice_id == slice_id)
    return int(np.searchsorted(pyramid.lanes.first, at[0], "right")) - 1 if len(at) else -1
