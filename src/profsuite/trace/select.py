"""Part of a trace: some steps, or a stretch of time, as a trace of its own."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from profsuite.errors import SelectionError
from profsuite.trace.model import Trace
from profsuite.trace.schema import TABLES

if TYPE_CHECKING:
    from numpy.typing import NDArray

Range = tuple[int | None, int | None]
"""From, included, to, excluded; None is open."""


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
    return _subset(trace, keep, int(ts.min()), int(end.max()), note or text)


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
    return _subset(trace, keep, start, stop, note)


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
