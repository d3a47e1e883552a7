"""The lanes of a timeline: every slice of a trace in a lane where it overlaps no other.

A track has a lane for each depth of nesting.  Slices that overlap without one lying in the other (a stream's kernels,
say) get lanes of their own below, so that none hides another.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from profsuite.trace.classes import Role
from profsuite.trace.intervals import running_max

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from profsuite.trace.model import Trace

    Int64s = NDArray[np.int64]

MAX_LANES: Final = 256
"""Of one track; deeper slices share the last lane with others and may be hidden there."""


@dataclass(frozen=True)
class Lanes:
    """The slices sorted by (lane, start), lane k from ``first[k]`` to ``first[k + 1]``.

    ``slice_id`` is each one's row of ``slice``.
    ``track`` is each lane's track, ``level`` its number within the track, from 0.  ``num_hidden`` slices lie under
    others in a track's last lane.
    """

    slice_id: Int64s
    start: Int64s
    end: Int64s
    first: Int64s
    track: Int64s
    level: Int64s
    num_hidden: int


def lanes(trace: Trace) -> Lanes:
    """The lanes of all tracks; spans of the whole recording (``Role.SPAN``) are left out."""
    order = trace.track_order
    order = order[trace.roles[order] != Role.SPAN]
    track = trace.array("slice", "track_id")[order].astype(np.int64)
    start, end = trace.array("slice", "ts")[order], trace.end[order]
    level = _levels(track, np.minimum(trace.array("slice", "depth")[order], MAX_LANES - 1).astype(np.int64), start, end)
    hidden = level < 0
    level[hidden] = MAX_LANES - 1
    by_lane, first = _by_lane(track, level)
    heads = by_lane[first[:-1]]
    return Lanes(order[by_lane], start[by_lane], end[by_lane], first, track[heads], level[heads], int(hidden.sum()))


def _by_lane(track: Int64s, level: Int64s) -> tuple[Int64s, Int64s]:
    """A stable order by lane, and where in it each lane begins (and the last ends)."""
    key = track * MAX_LANES + level
    present = np.bincount(key) > 0
    lane = (np.cumsum(present) - 1)[key]
    # Of 16 bits numpy sorts in linear time.
    by_lane = np.argsort(lane.astype(np.uint16) if len(lane) and lane.max() < 65_536 else lane, kind="stable")
    counts = np.bincount(lane) if len(lane) else np.zeros(0, np.int64)
    return by_lane, np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)


def _levels(track: Int64s, level: Int64s, start: Int64s, end: Int64s) -> Int64s:
    """The levels, with slices that overlap an earlier one of their lane moved down; -1 where no lane is left.

    All are given in the order of time of each track, the longer of two first.
    """
    waiting = np.arange(len(level))
    while len(waiting):
        moved = _overlapping(track, level, start, end, waiting)
        if not len(moved):
            break
        level[moved] += 1
        level[moved[level[moved] >= MAX_LANES]] = -1
        # Whatever a moved slice now meets has to be looked at again: all of the tracks that moved.
        touched = np.zeros(int(track.max()) + 1, bool)
        touched[track[moved]] = True
        waiting = np.flatnonzero(touched[track] & (level >= 0))
    return level


def _overlapping(track: Int64s, level: Int64s, start: Int64s, end: Int64s, rows: Int64s) -> Int64s:
    """Of ``rows``: those that start before an earlier one of their lane has ended."""
    by_lane, first = _by_lane(track[rows], level[rows])
    rows = rows[by_lane]
    reached = running_max(end[rows], first[:-1])
    late = np.zeros(len(rows), bool)
    late[1:] = (start[rows[1:]] < reached[:-1]) & (end[rows[1:]] > start[rows[1:]])
    late[first[:-1]] = False
    return rows[late]
