"""A timeline at any zoom, in bounded time: a pyramid of ever coarser versions of its lanes.

The finest level holds the slices.  Each coarser one merges, within each lane, neighbours that are shorter than its
resolution and start within the same multiple of it, so that a view asks for at most about one item a pixel and lane.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from profsuite.dashboard.lanes import Lanes, lanes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from profsuite.trace.model import Trace

    Int32s = NDArray[np.int32]
    Int64s = NDArray[np.int64]

FINEST_BITS: Final = 8
STEP_BITS: Final = 2
"""Resolutions are powers of two, so that times are put into cells by a shift: 256 ns, then each four times as much."""


class Slices:
    """The finest level: the slices of the trace, lane k from ``first[k]`` to ``first[k + 1]``.

    Their times are looked up in the trace's columns; only the order is kept.
    """

    resolution_ns = 1

    def __init__(self, trace: Trace, slice_id: Int32s, first: Int64s) -> None:
        self._ts, self._dur = trace.array("slice", "ts"), trace.array("slice", "dur")
        self.slice_id = slice_id
        self.first = first

    def __len__(self) -> int:
        return len(self.slice_id)

    def starts(self, rows: Int64s) -> Int64s:
        """When items start."""
        return self._ts[self.slice_id[rows]]

    def items(self, rows: Int64s | slice) -> Items:
        """Items by their numbers."""
        ids = self.slice_id[rows]
        start, dur = self._ts[ids], self._dur[ids]
        return Items(start, start + dur, dur, ids, np.ones(len(ids), np.int32))


@dataclass(frozen=True)
class Items:
    """Items of a level: ``slice_id`` is each one's slice, of several merged ones the longest.

    ``count`` is how many it stands for, ``busy`` the time that these take.
    """

    start: Int64s
    end: Int64s
    busy: Int64s
    slice_id: Int32s
    count: Int32s


@dataclass(frozen=True)
class Merged:
    """A coarser level: its items sorted by (lane, start), lane k from ``first[k]`` to ``first[k + 1]``."""

    resolution_ns: int
    all: Items
    first: Int64s

    def __len__(self) -> int:
        return len(self.all.start)

    def starts(self, rows: Int64s) -> Int64s:
        """When items start."""
        return self.all.start[rows]

    def items(self, rows: Int64s | slice) -> Items:
        """Items by their numbers."""
        found = self.all
        return Items(found.start[rows], found.end[rows], found.busy[rows], found.slice_id[rows], found.count[rows])


@dataclass(frozen=True)
class View:
    """Items of some lanes within a stretch of time, the i-th lane's from ``lane_first[i]`` to ``lane_first[i + 1]``."""

    start: Int64s
    end: Int64s
    slice_id: Int32s
    count: Int32s
    lane_first: Int64s
    resolution_ns: int


@dataclass(frozen=True)
class Pyramid:
    """All levels of a trace's timeline, the finest first, and when it starts and ends (ns)."""

    lanes: Lanes
    levels: list[Slices | Merged]
    start_ns: int
    end_ns: int

    def view(self, wanted: Int64s, start_ns: int, end_ns: int, width: int) -> View:
        """The lanes ``wanted`` (their numbers) from ``start_ns`` to ``end_ns``, for a drawing ``width`` pixels wide."""
        pixel = max(1, (end_ns - start_ns) // max(1, width))
        level = next(level for level in reversed(self.levels) if level.resolution_ns <= pixel)
        low, high = level.first[wanted], level.first[wanted + 1]
        begin = _place(level, low, high, start_ns + 1)
        end = np.maximum(begin, _place(level, low, high, end_ns))
        # Only the one before may reach into the view.
        before = np.flatnonzero(begin > low)
        begin[before] -= level.items(begin[before] - 1).end > start_ns
        lane_first = np.concatenate([[0], np.cumsum(end - begin)])
        rows = np.repeat(begin - lane_first[:-1], end - begin) + np.arange(lane_first[-1])
        found = level.items(rows)
        return View(found.start, found.end, found.slice_id, found.count, lane_first, level.resolution_ns)


def build(trace: Trace) -> Pyramid:
    """The pyramid of a trace."""
    order = lanes(trace)
    finest = Slices(trace, order.slice_id, order.first)
    levels: list[Slices | Merged] = [finest]
    found, first = finest.items(slice(None)), order.first
    start = int(found.start.min()) if len(found.start) else 0
    end = int(found.end.max()) if len(found.end) else 0
    bits = FINEST_BITS
    while 1 << bits < end - start:
        begins = _groups(found, first, bits, start)
        # A level that merges little saves nothing; the next coarser one is made of the last kept.
        if 2 * len(begins) <= len(found.start):
            found, first = _merged(found, begins), np.searchsorted(begins, first)
            levels.append(Merged(1 << bits, found, first))
        bits += STEP_BITS
    return Pyramid(order, levels, start, end)


def _place(level: Slices | Merged, low: Int64s, high: Int64s, wanted_ns: int) -> Int64s:
    """In each lane, from ``low`` to ``high``: the first item that starts at ``wanted_ns`` or later; all at once."""
    low, high = low.copy(), high.copy()
    waiting = np.flatnonzero(low < high)
    while len(waiting):
        middle = (low[waiting] + high[waiting]) >> 1
        before = level.starts(middle) < wanted_ns
        low[waiting] = np.where(before, middle + 1, low[waiting])
        high[waiting] = np.where(before, high[waiting], middle)
        waiting = waiting[low[waiting] < high[waiting]]
    return low


def _groups(found: Items, first: Int64s, bits: int, origin: int) -> Int64s:
    """Where in a level each item of the next coarser one begins."""
    cell = (found.start - origin) >> bits
    small = found.end - found.start < 1 << bits
    new = np.ones(len(cell), bool)
    new[1:] = (cell[1:] != cell[:-1]) | ~small[1:] | ~small[:-1]
    new[first[:-1]] = True
    return np.flatnonzero(new)


def _merged(found: Items, begins: Int64s) -> Items:
    """The items that begin there, each with all up to the next."""
    # The longest of each group, the first of equals.
    sizes = np.diff(np.append(begins, len(found.start)))
    most = np.repeat(np.maximum.reduceat(found.busy, begins), sizes)
    longest = np.minimum.reduceat(np.where(found.busy == most, np.arange(len(most)), len(most)), begins)
    return Items(
        found.start[begins],
        np.maximum.reduceat(found.end, begins),
        np.add.reduceat(found.busy, begins),
        found.slice_id[longest],
        np.add.reduceat(found.count, begins).astype(np.int32),
    )
