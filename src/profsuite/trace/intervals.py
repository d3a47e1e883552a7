"""Interval algebra on half-open intervals ``[start, end)`` of int64 nanoseconds.

An interval is one entry of two arrays of equal length.  A *set* is a pair of arrays ``(start,
end)`` that is sorted, disjoint and without gaps of length 0 or empty intervals: what ``merge``
returns and what every argument called ``a``, ``b`` or ``covers`` must be.  Intervals with
``end <= start`` are empty and count as nothing.  Times must lie within +-2**62, so that no
difference overflows; lengths are summed in int64.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Int64s = NDArray[np.int64]
    IntervalSet = tuple[Int64s, Int64s]


def merge(start: Int64s, end: Int64s) -> IntervalSet:
    """The union of n intervals in any order, as a set; intervals that touch become one."""
    solid = end > start
    if not solid.all():
        start, end = start[solid], end[solid]
    if len(start) > 1 and not bool(np.all(start[1:] >= start[:-1])):
        order = np.argsort(start)
        start, end = start[order], end[order]
    if len(start) < 2:
        return start, end
    reached = np.maximum.accumulate(end)
    first = np.concatenate(([True], start[1:] > reached[:-1]))
    last = np.append(first[1:], True)
    return start[first], reached[last]


def merge_by_group(group: NDArray[Any], start: Int64s, end: Int64s) -> tuple[NDArray[Any], Int64s, Int64s]:
    """The union within each group: (group, start, end) sorted by both, one set a group.

    ``group`` holds integers from 0, one an interval: a track, a stream, a device.
    """
    solid = end > start
    if not solid.all():
        group, start, end = group[solid], start[solid], end[solid]
    if not len(start):
        return group, start, end
    order = group_order(group, start)
    group, start, end = group[order], start[order], end[order]
    new = np.concatenate(([True], group[1:] != group[:-1]))
    reached = running_max(end, np.flatnonzero(new))
    first = new.copy()
    first[1:] |= start[1:] > reached[:-1]
    last = np.append(first[1:], True)
    return group[first], start[first], reached[last]


def group_order(group: NDArray[Any], start: Int64s) -> NDArray[np.intp] | slice:
    """Indices that sort by (group, start), ties in any order; all of them, in place, if already sorted."""
    if not len(start):
        return slice(None)
    same = group[1:] == group[:-1]
    if bool(np.all((group[1:] > group[:-1]) | (same & (start[1:] >= start[:-1])))):
        return slice(None)
    # One 64-bit key sorts several times as fast as two keys.
    low = int(start.min())
    time_bits = (int(start.max()) - low).bit_length()
    if int(group.max()).bit_length() + time_bits > 63:
        return np.lexsort((start, group))
    return np.argsort((group.astype(np.int64) << time_bits) | (start - low))


def running_max(values: Int64s, segments: NDArray[np.intp]) -> Int64s:
    """Running maximum of ``values`` that begins anew at each index in ``segments`` (ascending, from 0)."""
    if not len(values) or len(segments) < 2:
        return np.maximum.accumulate(values)
    low, width = int(values.min()), int(values.max()) - int(values.min()) + 1
    if width * len(segments) < 2**63:
        # Raise each segment above all before it: one running maximum then serves all.
        number = np.zeros(len(values), np.int64)
        number[segments[1:]] = 1
        lift = np.cumsum(number)
        lift *= width
        lift -= low
        return np.maximum.accumulate(values + lift) - lift
    # Too wide for that: ranks instead of values.
    distinct, rank = np.unique(values, return_inverse=True)
    return distinct[running_max(rank.astype(np.int64), segments)]


def length(a: IntervalSet) -> int:
    """Total length of a set, ns."""
    return int((a[1] - a[0]).sum())


def union_length(start: Int64s, end: Int64s) -> int:
    """Length of the union of intervals in any order, ns."""
    return length(merge(start, end))


def intersect(a: IntervalSet, b: IntervalSet) -> IntervalSet:
    """What both sets cover, as a set."""
    (a_start, a_end), (b_start, b_end) = a, b
    first = np.searchsorted(b_end, a_start, side="right")
    stop = np.searchsorted(b_start, a_end, side="left")
    count = np.maximum(stop - first, 0)
    of_a = np.repeat(np.arange(len(a_start)), count)
    # The place within each run of partners: 0, 1, ... count - 1.
    within = np.arange(len(of_a)) - np.repeat(np.cumsum(count) - count, count)
    of_b = first[of_a] + within
    return np.maximum(a_start[of_a], b_start[of_b]), np.minimum(a_end[of_a], b_end[of_b])


def complement(a: IntervalSet, start: int, end: int) -> IntervalSet:
    """What the set leaves free of the window ``[start, end)``, as a set."""
    a_start, a_end = clip(a, start, end)
    gap_start = np.concatenate((np.array([start], np.int64), a_end))
    gap_end = np.concatenate((a_start, np.array([end], np.int64)))
    gap = gap_end > gap_start
    return gap_start[gap], gap_end[gap]


def clip(a: IntervalSet, start: int, end: int) -> IntervalSet:
    """The part of the set inside the window ``[start, end)``, as a set."""
    first = int(np.searchsorted(a[1], start, side="right"))
    stop = max(int(np.searchsorted(a[0], end, side="left")), first)
    if end <= start:
        stop = first
    return np.maximum(a[0][first:stop], start), np.minimum(a[1][first:stop], end)


def subtract(a: IntervalSet, b: IntervalSet) -> IntervalSet:
    """What ``a`` covers and ``b`` does not, as a set."""
    if not len(a[0]):
        return a
    return intersect(a, complement(b, int(a[0][0]), int(a[1][-1])))


def overlap_length(a: IntervalSet, b: IntervalSet) -> int:
    """Length of what both sets cover, ns."""
    if len(a[0]) > len(b[0]):
        a, b = b, a
    return int(covered(a[0], a[1], b).sum())


def subtract_length(a: IntervalSet, b: IntervalSet) -> int:
    """Length of what ``a`` covers and ``b`` does not, ns."""
    return length(a) - overlap_length(a, b)


def covered(start: Int64s, end: Int64s, covers: IntervalSet) -> Int64s:
    """How much of each of n windows ``[start, end)`` the set covers, ns (int64[n]).

    The windows may overlap and be in any order.  O((n + m) log m) by prefix sums.
    """
    return np.where(end > start, covered_before(end, covers) - covered_before(start, covers), 0)


def covered_before(time: Int64s, covers: IntervalSet) -> Int64s:
    """How much the set covers before each of n times, ns (int64[n])."""
    cover_start, cover_end = covers
    if not len(cover_start):
        return np.zeros(len(time), np.int64)
    ahead = np.concatenate((np.zeros(1, np.int64), np.cumsum(cover_end - cover_start)))
    begun = np.searchsorted(cover_start, time, side="left")  # intervals that start before the time
    last = np.maximum(begun - 1, 0)
    beyond = np.where(begun > 0, np.maximum(cover_end[last] - time, 0), 0)
    return ahead[begun] - beyond


def depth_profile(start: Int64s, end: Int64s) -> tuple[Int64s, Int64s]:
    """How many of n intervals cover each moment: times of change and the number from each on (both int64)."""
    solid = end > start
    times = np.concatenate((start[solid], end[solid]))
    change = np.concatenate((np.ones(int(solid.sum()), np.int64), np.full(int(solid.sum()), -1, np.int64)))
    order = np.argsort(times)
    times, total = times[order], np.cumsum(change[order])
    last = np.append(times[1:] != times[:-1], True) if len(times) else np.zeros(0, bool)
    return times[last], total[last]
