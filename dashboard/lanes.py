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
from profsuite.trace.lanes import MAX_LANES as STACKS
from profsuite.trace.lanes import find_lanes
from profsuite.trace.nesting import nest, track_order

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from profsuite.trace.model import Trace

    Int32s = NDArray[np.int32]
    Int64s = NDArray[np.int64]

MAX_LANES: Final = 512
"""Of one track; deeper slices share the last lane with others and may be hidden there."""


@dataclass(frozen=True)
class Lanes:
    """The slices sorted by (lane, start), lane k from ``first[k]`` to ``first[k + 1]``.

    ``slice_id`` is each one's row of ``slice``, where its times are: they are not kept twice.
    ``track`` is each lane's track, ``level`` its number within the track, from 0.  ``num_hidden`` slices lie under
    others in a track's last lane; ``missing`` is how many more lanes each track of the trace would take to show all.
    """

    slice_id: Int32s
    first: Int64s
    track: Int64s
    level: Int64s
    missing: Int64s
    num_hidden: int


def lanes(trace: Trace) -> Lanes:
    """The lanes of all tracks; spans of the whole recording (``Role.SPAN``) are left out."""
    rows = np.flatnonzero(trace.roles != Role.SPAN).astype(np.int32)
    track = trace.array("slice", "track_id")[rows]
    start, dur = trace.array("slice", "ts")[rows], trace.array("slice", "dur")[rows]
    depth = trace.array("slice", "depth")[rows]
    level = np.minimum(depth, MAX_LANES - 1)
    order, first = _by_lane(track, level, start, dur)
    late = _late(start[order], (start + dur)[order], first)
    if late.any():
        touched = np.zeros(int(track.max()) + 1, bool)
        touched[track[order[late]]] = True
        some = np.flatnonzero(touched[track])
        depth = depth.astype(np.int64)
        depth[some] = _levels(track[some], start[some], dur[some])
        level[some] = np.minimum(depth[some], MAX_LANES - 1)
        order, first = _by_lane(track, level, start, dur)
        late = _late(start[order], (start + dur)[order], first)
    heads = order[first[:-1]]
    missing = np.zeros(trace.num_rows("track"), np.int64)
    deep = np.flatnonzero(depth >= MAX_LANES)
    np.maximum.at(missing, track[deep], depth[deep] + 1 - MAX_LANES)
    of, levels = track[heads].astype(np.int64), level[heads].astype(np.int64)
    return Lanes(rows[order], first, of, levels, missing, int(late.sum()))


def _by_lane(track: Int32s, level: Int32s, start: Int64s, dur: Int64s) -> tuple[Int64s, Int64s]:
    """The order by (lane, start, longer first), and where in it each lane begins (and the last ends)."""
    lane = track * np.int64(MAX_LANES) + level
    counts = np.bincount(lane) if len(lane) else np.zeros(0, np.int64)
    present = counts > 0
    number = (np.cumsum(present) - 1).astype(np.int32)[lane]
    return track_order(number, start, dur), np.concatenate([[0], np.cumsum(counts[present])]).astype(np.int64)


def _late(start: Int64s, end: Int64s, first: Int64s) -> NDArray[np.bool_]:
    """Which slices, sorted by (lane, start), start before an earlier one of their lane has ended."""
    late = np.zeros(len(start), bool)
    neighbours = start[1:] < end[:-1]
    neighbours[first[1:-1] - 1] = False
    if neighbours.any():  # without any, none reaches further
        reached = running_max(end, first[:-1])
        late[1:] = (start[1:] < reached[:-1]) & (end[1:] > start[1:])
        late[first[:-1]] = False
    return late


def _levels(track: Int32s, start: Int64s, dur: Int64s) -> Int64s:
    """Levels of tracks whose slices overlap: apart into stacks in which they only nest, and in each by their depth."""
    stack = find_lanes(track, start, dur)
    pairs, number = np.unique(track * np.int64(STACKS) + stack, return_inverse=True)
    number = number.astype(np.int32)
    depth = nest(number, start, dur, np.zeros(len(start), bool))[1]
    height = np.zeros(len(pairs), np.int64)
    np.maximum.at(height, number, depth + 1)
    # Each stack begins below the one before it of its track.
    above = np.cumsum(height) - height
    heads = np.flatnonzero(np.diff(pairs // STACKS, prepend=-1))
    above -= np.repeat(above[heads], np.diff(np.append(heads, len(pairs))))
    return above[number] + depth
