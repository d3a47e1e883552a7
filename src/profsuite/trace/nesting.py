"""Which slice lies in which: parent, depth and self time of every slice on its track.

Slices of a track are ordered by (ts, longer first, file order).  With
``end' = max(ts + dur, ts + 1)`` (a slice of no length counts as one nanosecond), the parent of a
slice is the nearest earlier slice of that order that is no leaf and has ``end'`` at least as large:
the "previous greater or equal element".  A slice that only overlaps an earlier one is therefore
never its child.  Leaves (device work) are children only: work on a stream may overlap, but no
kernel runs inside another.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from profsuite.trace.intervals import running_max

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Nesting = tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int64]]


def nest(track: NDArray[np.int32], ts: NDArray[np.int64], dur: NDArray[np.int64], leaf: NDArray[np.bool_]) -> Nesting:
    """Parent row (int32, -1 for none), depth (int32) and self time (int64, ns) of n slices.

    ``track`` numbers the tracks from 0, ``ts`` and ``dur`` are nanoseconds (``dur`` not negative,
    ``ts + dur`` within 64 bits), ``leaf`` marks the slices that never have children.  Self time is
    ``dur`` less the union of the children's intervals.  Runs in the C extension where it is built,
    else in numpy; the results are the same.
    """
    native = native_nest()
    if native is None:
        return nest_numpy(track, ts, dur, leaf)
    arrays = (np.ascontiguousarray(a) for a in (track, ts, dur, leaf))
    parent, depth, self_dur = native(*arrays)
    return np.frombuffer(parent, np.int32), np.frombuffer(depth, np.int32), np.frombuffer(self_dur, np.int64)


def native_nest() -> Callable[..., tuple[Any, Any, Any]] | None:
    """The C version (buffers in, buffers out), None where the extension was not built."""
    try:
        scanner = import_module("profsuite.trace._scanner")
    except ImportError:
        return None
    return cast("Callable[..., tuple[Any, Any, Any]] | None", getattr(scanner, "nest", None))


def nest_numpy(
    track: NDArray[np.int32], ts: NDArray[np.int64], dur: NDArray[np.int64], leaf: NDArray[np.bool_]
) -> Nesting:
    """``nest`` in numpy: the reference of the C version, and what runs without it."""
    n = len(ts)
    if n == 0:
        return np.zeros(0, np.int32), np.zeros(0, np.int32), np.zeros(0, np.int64)
    order = track_order(track, ts, dur)
    start = ts[order]
    end = start + np.maximum(dur[order], 1)
    up = _parents(track[order], end, leaf[order])
    depth_sorted = _depths(up)
    self_sorted = _self_times(up, start, dur[order])
    parent = np.empty(n, np.int32)
    parent[order] = np.where(up >= 0, order[up], -1)
    depth = np.empty(n, np.int32)
    depth[order] = depth_sorted
    self_dur = np.empty(n, np.int64)
    self_dur[order] = self_sorted
    return parent, depth, self_dur


def track_order(track: NDArray[np.int32], ts: NDArray[np.int64], dur: NDArray[np.int64]) -> NDArray[np.int64]:
    """The rows ordered by (track, ts, longer first, row): int64, a permutation."""
    n = len(ts)
    if n == 0:
        return np.zeros(0, np.int64)
    # One 64-bit key (track above time) sorts far faster than two keys; it is wide enough unless a
    # file spans centuries.
    rel = ts.astype(np.uint64) - np.uint64(int(ts.min()) % 2**64)  # wraps around, so exact
    time_bits = int(rel.max()).bit_length()
    if int(track.max()).bit_length() + time_bits > 64:
        return np.lexsort((-dur, ts, track))
    key = (track.astype(np.uint64) << np.uint64(time_bits)) | rel if time_bits < 64 else rel
    order = np.arange(n)
    if not bool(np.all(key[1:] >= key[:-1])):
        # Of 16 bits numpy sorts in linear time; each track by itself is nearly sorted in most files.
        if int(track.max()) < 65_536:
            order = np.argsort(track.astype(np.uint16), kind="stable")
        order = order[np.argsort(key[order], kind="stable")]
        key = key[order]
    tie = key[1:] == key[:-1]
    if tie.any():
        # The sort does not know durations: order the runs of equal keys again.
        member = np.zeros(n, bool)
        member[1:] = tie
        member[:-1] |= tie
        rows = order[member]
        order[member] = rows[np.lexsort((rows, -dur[rows], key[member]))]
    return order


def _parents(track: NDArray[np.int32], end: NDArray[np.int64], leaf: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Previous greater-or-equal ``end`` among non-leaves of the track; positions, -1 for none.

    Invariant: every non-leaf strictly between ``up[i]`` and ``i`` ends before ``i`` does.  A step
    replaces ``up[i]`` by ``up[up[i]]`` where that candidate also ends too early, so the pointers
    of neighbours shorten each other's way.
    """
    n = len(end)
    position = np.arange(n)
    last = np.maximum.accumulate(np.where(leaf, -1, position))
    up = np.empty(n, np.int64)
    up[0] = -1
    up[1:] = last[:-1]
    first = np.zeros(n, np.int64)  # first position of the track
    starts = np.flatnonzero(track[1:] != track[:-1]) + 1
    first[starts] = starts
    np.maximum.accumulate(first, out=first)
    up[up < first] = -1
    active = np.flatnonzero(up >= 0)
    while len(active):
        candidate = up[active]
        short = end[candidate] < end[active]
        active, candidate = active[short], candidate[short]
        up[active] = up[candidate]
        active = active[up[active] >= 0]
    return up


def _depths(up: NDArray[np.int64]) -> NDArray[np.int32]:
    """Number of ancestors, by pointer doubling."""
    depth = (up >= 0).astype(np.int32)
    jump = up.copy()
    active = np.flatnonzero(jump >= 0)
    while len(active):
        target = jump[active]
        depth_step, jump_step = depth[target], jump[target]
        depth[active] += depth_step
        jump[active] = jump_step
        active = active[jump_step >= 0]
    return depth


def _self_times(up: NDArray[np.int64], start: NDArray[np.int64], dur: NDArray[np.int64]) -> NDArray[np.int64]:
    """Duration less what the children cover."""
    result = dur.copy()
    child = np.flatnonzero(up >= 0)
    if not len(child):
        return result
    # Children of one parent side by side, in their order: the positions already are.
    child = child[np.argsort(up[child], kind="stable")]
    owner = up[child]
    end = start[child] + dur[child]
    segment = np.flatnonzero(np.concatenate(([True], owner[1:] != owner[:-1])))
    reached = running_max(end, segment)
    begin = start[child].copy()
    inner = np.ones(len(child), bool)
    inner[segment] = False
    inner = np.flatnonzero(inner)
    begin[inner] = np.maximum(begin[inner], reached[inner - 1])
    covered = np.maximum(end - begin, 0)
    owners = owner[segment]
    result[owners] = np.maximum(dur[owners] - np.add.reduceat(covered, segment), 0)
    return result
