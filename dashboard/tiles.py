"""A timeline at any zoom, in bounded time: a pyramid of ever coarser versions of its lanes.

Level 0 holds the slices.  Level k merges, within each lane, neighbours that are shorter than ``FINEST_NS * 4**k`` and
start within the same multiple of it, so that a view asks for at most about one item a pixel and lane.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from profsuite.dashboard.lanes import Lanes, lanes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from profsuite.trace.model import Trace

    Int64s = NDArray[np.int64]

FINEST_NS: Final = 256
STEP: Final = 4


@dataclass(frozen=True)
class Level:
    """Items sorted by (lane, start), lane k from ``first[k]`` to ``first[k + 1]``.

    ``slice_id`` is the item's slice, of several merged ones the longest; ``count`` how many it stands for, ``busy`` the
    time that these take.
    """

    resolution_ns: int
    start: Int64s
    end: Int64s
    busy: Int64s
    slice_id: NDArray[np.int32]
    count: NDArray[np.int32]
    first: Int64s


@dataclass(frozen=True)
class View:
    """Items of some lanes within a stretch of time, the i-th lane's from ``lane_first[i]`` to ``lane_first[i + 1]``."""

    start: Int64s
    end: Int64s
    slice_id: NDArray[np.int32]
    count: NDArray[np.int32]
    lane_first: Int64s
    resolution_ns: int


class Pyramid:
    """All levels of a trace's timeline."""

    def __init__(self, trace: Trace) -> None:
        self.lanes: Lanes = lanes(trace)
        found = self.lanes
        self.levels = [
            Level(
                1,
                found.start,
                found.end,
                found.end - found.start,
                found.slice_id.astype(np.int32),
                np.ones(len(found.start), np.int32),
                found.first,
            )
        ]
        self.start_ns = int(found.start.min()) if len(found.start) else 0
        self.end_ns = int(found.end.max()) if len(found.end) else 0
        resolution = FINEST_NS
        while resolution < self.end_ns - self.start_ns:
            level = _merged(self.levels[-1], resolution, self.start_ns)
            # A level that merges little saves nothing; the next coarser one is made of the last kept.
            if 2 * len(level.start) <= len(self.levels[-1].start):
                self.levels.append(level)
            resolution *= STEP

    def view(self, wanted: Int64s, start_ns: int, end_ns: int, width: int) -> View:
        """The lanes ``wanted`` (their numbers) from ``start_ns`` to ``end_ns``, for a drawing ``width`` pixels wide."""
        pixel = max(1, (end_ns - start_ns) // max(1, width))
        level = next(level for level in reversed(self.levels) if level.resolution_ns <= pixel)
        parts = []
        for lane in wanted.tolist():
            low, high = int(level.first[lane]), int(level.first[lane + 1])
            begin = low + int(np.searchsorted(level.start[low:high], start_ns, "right"))
            # Only the one before may reach into the view.
            if begin > low and level.end[begin - 1] > start_ns:
                begin -= 1
            parts.append(slice(begin, max(begin, low + int(np.searchsorted(level.start[low:high], end_ns)))))
        rows = np.concatenate([np.arange(p.start, p.stop) for p in parts]) if parts else np.zeros(0, np.int64)
        sizes = [0, *(p.stop - p.start for p in parts)]
        return View(
            level.start[rows],
            level.end[rows],
            level.slice_id[rows],
            level.count[rows],
            np.cumsum(sizes),
            level.resolution_ns,
        )

    def busy(self, wanted: Int64s, num_bins: int) -> NDArray[np.float64]:
        """How busy some lanes are together in each of ``num_bins`` equal parts of the recording: 0 to 1 each.

        Exact to the pyramid's resolution; lanes are added up and the sum is capped at 1.
        """
        edges = np.linspace(self.start_ns, max(self.end_ns, self.start_ns + 1), num_bins + 1)
        total = np.zeros(num_bins)
        bin_ns = float(edges[1] - edges[0])
        level = next(level for level in reversed(self.levels) if level.resolution_ns <= max(1, bin_ns))
        for lane in wanted.tolist():
            rows = slice(int(level.first[lane]), int(level.first[lane + 1]))
            start, end = level.start[rows], level.end[rows]
            covered = np.concatenate([[0], np.cumsum(level.busy[rows])]).astype(float)
            # Busy time before each edge: whole items, and the part of the one that the edge lies in.
            place = np.searchsorted(start, edges, "right") - 1
            inside = np.maximum(place, 0)
            share = np.clip((edges - start[inside]) / np.maximum(end[inside] - start[inside], 1), 0, 1)
            before = (
                np.where(place >= 0, covered[inside] + share * level.busy[rows][inside], 0) if len(start) else edges * 0
            )
            total += np.diff(before)
        return np.clip(total / bin_ns, 0, 1)


def _merged(level: Level, resolution: int, origin: int) -> Level:
    lane = np.repeat(np.arange(len(level.first) - 1), np.diff(level.first))
    cell = (level.start - origin) // resolution
    small = level.end - level.start < resolution
    new = np.ones(len(level.start), bool)
    new[1:] = (lane[1:] != lane[:-1]) | (cell[1:] != cell[:-1]) | ~small[1:] | ~small[:-1]
    begins = np.flatnonzero(new)
    if not len(begins):
        return Level(resolution, level.start, level.end, level.busy, level.slice_id, level.count, level.first)
    # The longest of each group, the first of equals.
    most = np.repeat(np.maximum.reduceat(level.busy, begins), np.diff(np.append(begins, len(new))))
    place = np.where(level.busy == most, np.arange(len(new)), len(new))
    longest = np.minimum.reduceat(place, begins)
    first = np.zeros(len(level.first), np.int64)
    np.cumsum(np.bincount(lane[begins], minlength=len(level.first) - 1), out=first[1:])
    return Level(
        resolution,
        level.start[begins],
        np.maximum.reduceat(level.end, begins),
        np.add.reduceat(level.busy, begins),
        level.slice_id[longest],
        np.add.reduceat(level.count, begins).astype(np.int32),
        first,
    )
