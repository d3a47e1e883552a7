"""Part of a trace: some steps, or a stretch of time, as a trace of its own."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from profsuite.errors import SelectionError
from profsuite.trace.model import Trace
from profsuite.trace.schema import BY_NAME, TABLES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

Range = tuple[int | None, int | None]
"""From, included, to, excluded; None is open."""

KEY: Final = "profsuiteSelection"
"""The file's key with what a selection says of what it left out; see ``busy_until`` and ``selected_time``."""


def select_steps(trace: Trace, steps: Range, note: str | None = None) -> Trace:
    """The steps whose number is in the range: their host slices, and the device work they launched.

    ``note`` describes the selection in place of its numbers.  ``SelectionError`` if the trace has no
    such step.
    """
    numbers = trace.array("step", "number")
    wanted = within(numbers, steps)
    if not wanted.any():
        if not len(numbers):
            raise SelectionError(
                f"{trace.info.source}: has no steps to select; call prof.step() after each, or select by --time"
            )
        raise SelectionError(
            f"{trace.info.source}: has no step in {describe_range(steps)}; it has {numbers.min()} to {numbers.max()}"
        )
    step = trace.array("slice", "step_id")
    keep = (step >= 0) & wanted[step]
    ts, end = trace.array("step", "ts")[wanted], (trace.array("step", "ts") + trace.array("step", "dur"))[wanted]
    chosen = numbers[wanted]
    text = f"step {chosen[0]}" if len(chosen) == 1 else f"steps {chosen.min()} to {chosen.max()}"
    start = int(ts.min())
    part = _subset(trace, keep, start, int(end.max()), note or text)
    busy = _busy_until(trace, keep, start)
    for device, earlier in busy_until(trace).items():
        busy[device] = max(busy.get(device, earlier), earlier)
    return _with_fact(part, "busy_until", {"" if device is None else str(device): at for device, at in busy.items()})


def busy_until(trace: Trace) -> dict[int | None, int]:
    """When each device had done what was launched before the selected steps, ns on the file's clock.

    Devices that had done it by the start of the steps do not appear, and none in a trace that is no selection of steps.
    """
    known = _facts(trace).get("busy_until")
    found: dict[int | None, int] = {}
    for device, at in known.items() if isinstance(known, dict) else ():
        if type(at) is int and abs(at) < 2**62 and (not device or (device.isascii() and device.isdigit())):
            found[int(device[:9]) if device else None] = at
    return found


def selected_time(trace: Trace) -> tuple[int, int] | None:
    """From when to when (excluded) a trace was cut out of a longer one, ns on the file's clock; null if it was not."""
    return _bounds(_facts(trace))


def noted_time(header: Iterable[tuple[str, str]]) -> tuple[int, int] | None:
    """``selected_time`` of a file with these top-level keys and their JSON text."""
    text = next((value for key, value in header if key == KEY), "null")
    try:
        return _bounds(json.loads(text))
    except (ValueError, RecursionError):
        return None


def _bounds(facts: Any) -> tuple[int, int] | None:
    known = facts.get("time_ns") if isinstance(facts, dict) else None
    if not isinstance(known, list) or len(known) != 2 or not all(type(t) is int and abs(t) <= 2**62 for t in known):
        return None
    return (known[0], known[1]) if known[0] < known[1] else None


def _facts(trace: Trace) -> dict[str, Any]:
    facts = trace.metadata(KEY)
    return facts if isinstance(facts, dict) else {}


def _busy_until(trace: Trace, keep: NDArray[np.bool_], start: int) -> dict[int | None, int]:
    """By device, when the work that is not kept and was launched before ``start`` was done, where that is later."""
    begun, end = trace.array("slice", "ts"), trace.end
    found: dict[int | None, int] = {}
    for table in ("kernel", "memcpy"):
        rows, launch = trace.array(table, "slice_id"), trace.array(table, "launch_id")
        device = trace.array(table, "device")
        begin = np.where(launch >= 0, begun[launch], begun[rows]) if len(rows) else begun[:0]
        before = np.flatnonzero(~keep[rows] & (begin < start) & (end[rows] > start))
        for value in np.unique(device[before]).tolist():
            key, last = (value if value >= 0 else None), int(end[rows[before[device[before] == value]]].max())
            found[key] = max(found.get(key, last), last)
    return found


def _with_fact(trace: Trace, name: str, fact: Any) -> Trace:
    """The trace with a fact of this name under ``KEY``, in place of the one that it may have."""
    table = trace.table("metadata")
    kept = [not (row["scope"] == "file" and row["key"] == KEY) for row in table.select(["scope", "key"]).to_pylist()]
    row = {"scope": "file", "track_id": None, "key": KEY, "value": json.dumps(_facts(trace) | {name: fact})}
    schema = BY_NAME["metadata"].arrow_schema()
    added = pa.table({name: pa.array([row[name]], schema.field(name).type) for name in schema.names}, schema=schema)
    tables = {**trace.tables, "metadata": pa.concat_tables([table.filter(pa.array(kept, pa.bool_())), added])}
    return Trace(tables, trace.info)


def select_time(trace: Trace, time: Range) -> Trace:
    """The slices that overlap a stretch of time, ns counted from the first slice of the trace.

    ``SelectionError`` if nothing lies there.
    """
    ts = trace.array("slice", "ts")
    first = int(ts.min()) if len(ts) else 0
    start = -(2**62) if time[0] is None else first + time[0]
    stop = 2**62 if time[1] is None else first + time[1]
    return cut(trace, start, stop, describe_time(time))


def cut(trace: Trace, start: int, stop: int, note: str) -> Trace:
    """The slices that overlap [start, stop), ns on the file's clock; ``note`` describes the selection.

    ``SelectionError`` if nothing lies there.
    """
    ts = trace.array("slice", "ts")
    keep = (ts < stop) & ((trace.end > start) | (ts >= start))
    if not keep.any():
        length = (int(trace.end.max()) - int(ts.min())) / 1e6 if len(ts) else 0.0
        raise SelectionError(f"{trace.info.source}: nothing lies in that time; the trace is {length:,.3f} ms long")
    part = _subset(trace, keep, start, stop, note)
    steps = part.table("step")
    ts, end = part.array("step", "ts"), part.array("step", "ts") + part.array("step", "dur")
    truncated = part.array("step", "truncated").astype(bool) | (ts < start) | (end > stop)
    at = steps.schema.get_field_index("truncated")
    steps = steps.set_column(at, BY_NAME["step"].arrow_schema().field(at), pa.array(truncated, pa.bool_()))
    earlier = selected_time(trace) or (start, stop)
    time = [max(start, earlier[0]), min(stop, earlier[1])]
    return _with_fact(Trace({**part.tables, "step": steps}, part.info), "time_ns", time)


def describe_range(steps: Range) -> str:
    """``3:6`` as on the command line."""
    return ":".join("" if bound is None else str(bound) for bound in steps)


def describe_time(time: Range) -> str:
    """``10 ms to 20 ms``."""
    first, last = ("the start" if time[0] is None else f"{time[0] / 1e6:g} ms", time[1])
    return f"time {first} to {'the end' if last is None else f'{last / 1e6:g} ms'}"


def within(numbers: NDArray[np.int64], bounds: Range) -> NDArray[np.bool_]:
    """Which numbers lie in the range."""
    keep = np.ones(len(numbers), bool)
    if bounds[0] is not None:
        keep &= numbers >= bounds[0]
    if bounds[1] is not None:
        keep &= numbers < bounds[1]
    return keep


def _subset(trace: Trace, keep: NDArray[np.bool_], start: int, stop: int, text: str) -> Trace:
    """The slices of ``keep`` and what belongs to them; points in time from ``start`` to before ``stop``.

    Row references are renumbered, and null where they point at what was left out.  Depth and self time
    stay those of the whole trace.
    """
    kept = {"slice": keep, "track": np.ones(trace.num_rows("track"), bool)}
    kept["step"] = keep[trace.array("step", "slice_id")]
    numbers = {name: np.where(rows, np.cumsum(rows) - 1, -1).astype(np.int32) for name, rows in kept.items()}
    tables: dict[str, pa.Table] = {}
    for spec in TABLES:
        table = trace.table(spec.name)
        names = {c.name for c in spec.columns}
        rows = kept.get(spec.name)
        if rows is None and "slice_id" in names:
            rows = keep[trace.array(spec.name, "slice_id")]
        elif rows is None and "ts" in names:
            ts = trace.array(spec.name, "ts")
            # What a tensor is stays known after it was seen.
            rows = (ts < stop) if spec.name == "tensor" else (ts >= start) & (ts < stop)
        if rows is not None:
            table = table.filter(pa.array(rows))
            for column in spec.columns:
                target = column.unit.removeprefix("row of ")
                if target in ("slice", "step") and column.unit != target:
                    values = _renumbered(numbers[target], table.column(column.name))
                    at = table.schema.get_field_index(column.name)
                    table = table.set_column(at, spec.arrow_schema().field(at), values)
        tables[spec.name] = table
    earlier = f"{trace.info.selection}, " if trace.info.selection else ""
    return Trace(tables, replace(trace.info, selection=earlier + text))


def _renumbered(numbers: NDArray[np.int32], column: Any) -> Any:
    filled: Any = pc.fill_null(column, -1)
    old = filled.to_numpy().astype(np.int64)
    new = np.where(old >= 0, numbers[old], -1) if len(numbers) else np.full(len(old), -1, np.int32)
    return pa.array(new.astype(np.int32), pa.int32(), mask=new < 0)
