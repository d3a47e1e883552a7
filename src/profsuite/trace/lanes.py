"""Lanes: slices of one track apart, so that those of a lane only lie in one another or beside one another.

Viewers draw a track as a stack of slices, and drop or misplace one that overlaps an earlier slice without
lying in it.  Here such a slice goes to the first further lane in which it does not.
"""

from __future__ import annotations

from importlib import import_module
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from profsuite.trace.nesting import track_order

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

MAX_LANES = 256
"""Lanes of a track; the last takes whatever remains, so that no input makes this quadratic."""


def find_lanes(track: NDArray[np.int32], ts: NDArray[np.int64], dur: NDArray[np.int64]) -> NDArray[np.int32]:
    """The lane of each of n slices (int32, 0 for its own track); ``track``, ``ts`` and ``dur`` (ns) as of ``nest``.

    Slices are taken by (track, ts, longer first, row).
    """
    lane = np.zeros(len(ts), np.int32)
    for rows in rows_by_track(track):  # a track at a time: the copies stay small
        start, length = ts[rows], dur[rows]
        lane[rows] = _lanes(track_order(np.zeros(len(rows), np.int32), start, length), start, length)
    return lane


def rows_by_track(track: NDArray[np.int32]) -> Iterator[NDArray[np.int32]]:
    """The rows of each track that has any, in order."""
    order = np.argsort(track, kind="stable").astype(np.int32)
    bounds = np.cumsum(np.bincount(track)).tolist() if len(track) else []
    for first, last in pairwise([0, *bounds]):
        if last > first:
            yield order[first:last]


def _lanes(order: NDArray[np.int64], ts: NDArray[np.int64], dur: NDArray[np.int64]) -> NDArray[np.int32]:
    try:
        native: Any = import_module("profsuite.trace._scanner").lanes
    except (ImportError, AttributeError):
        return lanes_python(order, ts, dur)
    arrays = (np.ascontiguousarray(a) for a in (order, np.zeros(len(ts), np.int32), ts, dur))
    return np.frombuffer(native(*arrays), np.int32)


def lanes_python(order: NDArray[np.int64], ts: NDArray[np.int64], dur: NDArray[np.int64]) -> NDArray[np.int32]:
    """The lanes of one track's slices, taken in ``order``: the reference of the C version.

    Which lane is free depends on all slices before, so they are walked one by one.
    """
    lane = np.zeros(len(ts), np.int32)
    stacks: list[list[int]] = []
    start, end = ts[order].tolist(), (ts + dur)[order].tolist()
    for row, begins, ends in zip(order.tolist(), start, end, strict=True):
        number = 0
        while True:
            if number == len(stacks):
                stacks.append([])
            stack = stacks[number]
            while stack and stack[-1] <= begins:
                stack.pop()
            if not stack or stack[-1] >= ends or number + 1 == MAX_LANES:
                break
            number += 1
        stack.append(ends)
        lane[row] = number
    return lane
