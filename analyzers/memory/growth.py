"""Memory step by step: the peak of each step, what is alive at its end, and whether that grows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from profsuite.analyzers.memory.model import MemoryGrowth, StepMemory

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from profsuite.analyzers.memory.allocations import Allocations
    from profsuite.analyzers.memory.peak import Grouping
    from profsuite.trace.model import Trace

    Int64s = NDArray[np.int64]

FEWEST_STEPS = 3
"""Ends of steps that growth is told from, the warm-up step not among them."""


def step_memory(trace: Trace, ts: Int64s, level: Int64s, before: int) -> tuple[StepMemory, ...] | None:
    """The steps by time; null without steps.  ``level`` is the bytes after each event, ``before`` before the first."""
    if not trace.num_rows("step"):
        return None
    start = trace.array("step", "ts")
    order = np.argsort(start, kind="stable")
    start, end = start[order], (start + trace.array("step", "dur"))[order]
    number, truncated = trace.array("step", "number")[order], trace.array("step", "truncated").astype(bool)[order]
    levels = np.concatenate((np.array([before], np.int64), level))
    # In levels, element i + 1 is after event i: a step begins at the level of the last event before it.
    first = np.searchsorted(ts, start, "left")
    stop = np.searchsorted(ts, end, "left")
    return tuple(
        StepMemory(number=n, peak_bytes=int(levels[a : max(b, a) + 1].max()), end_bytes=int(levels[b]), truncated=t)
        for n, a, b, t in zip(number.tolist(), first.tolist(), stop.tolist(), truncated.tolist(), strict=True)
    )


def growth(
    trace: Trace,
    steps: tuple[StepMemory, ...] | None,
    ts: Int64s,
    allocations: Allocations,
    groupings: tuple[Grouping | None, Grouping | None, Grouping | None],
    top: int,
) -> MemoryGrowth | None:
    """Growth over the complete steps but the first; null where fewer than ``FEWEST_STEPS`` are left.

    The first is left out because optimizer state, gradients and caches come to life in it.
    """
    whole = [(step, end) for step, end in zip(steps or (), _ends(trace), strict=True) if not step.truncated][1:]
    if len(whole) < FEWEST_STEPS:
        return None
    alive = np.array([step.end_bytes for step, _ in whole], np.int64)
    rise = np.diff(alive)
    marks = np.searchsorted(ts, [end for _, end in whole], "left") - 1  # the last event before each end
    total = int(alive[-1] - alive[0])
    kept = (allocations.start > marks[0]) & (allocations.start <= marks[-2]) & (allocations.end > marks[-1])
    rows = np.flatnonzero(kept)
    held = int(allocations.bytes[rows].sum())
    by = [None if g is None else g.shares(allocations.bytes, rows, held, top) for g in groupings]
    return MemoryGrowth(
        first_step=whole[0][0].number,
        last_step=whole[-1][0].number,
        num_steps=len(whole),
        bytes_per_step=int(np.median(rise)),
        total_bytes=total,
        monotone=bool((rise > 0).all()),
        by_op=by[0],
        by_module=by[1],
        by_frame=by[2],
    )


def _ends(trace: Trace) -> list[int]:
    """Ends of the steps, ns, in the order of their starts."""
    start = trace.array("step", "ts")
    order = np.argsort(start, kind="stable")
    ends: list[int] = (start + trace.array("step", "dur"))[order].tolist()
    return ends
