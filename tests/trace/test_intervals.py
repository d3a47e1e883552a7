"""Interval algebra against counting nanoseconds one by one."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from profsuite.trace import intervals

BOUNDS = st.integers(-20, 20)
LISTS = st.lists(st.tuples(BOUNDS, BOUNDS), max_size=12)


def arrays(pairs):
    return np.array([p[0] for p in pairs], np.int64), np.array([p[1] for p in pairs], np.int64)


def points(pairs):
    return {t for a, b in pairs for t in range(a, b)}


def pairs_of(a):
    return list(zip(a[0].tolist(), a[1].tolist(), strict=True))


def is_set(a):
    found = pairs_of(a)
    return all(s < e for s, e in found) and all(x[1] < y[0] for x, y in pairwise(found))


def test_merge():
    start, end = arrays([(5, 7), (0, 3), (3, 4), (6, 6), (9, 8), (1, 2)])
    assert pairs_of(intervals.merge(start, end)) == [(0, 4), (5, 7)]
    assert intervals.union_length(start, end) == 6


@given(LISTS)
def test_merge_covers_the_same_points(pairs):
    merged = intervals.merge(*arrays(pairs))
    assert is_set(merged)
    assert points(pairs_of(merged)) == points(pairs)
    assert intervals.length(merged) == len(points(pairs))


@given(LISTS, LISTS)
def test_two_sets(first, second):
    a, b = intervals.merge(*arrays(first)), intervals.merge(*arrays(second))
    both, only = intervals.intersect(a, b), intervals.subtract(a, b)
    assert points(pairs_of(both)) == points(first) & points(second)
    assert points(pairs_of(only)) == points(first) - points(second)
    assert is_set(both)
    assert is_set(only)
    assert intervals.overlap_length(a, b) == len(points(first) & points(second))
    assert intervals.subtract_length(a, b) == len(points(first) - points(second))


@given(LISTS, BOUNDS, BOUNDS)
def test_window(pairs, start, end):
    a = intervals.merge(*arrays(pairs))
    window = set(range(start, end))
    free, inside = intervals.complement(a, start, end), intervals.clip(a, start, end)
    assert points(pairs_of(free)) == window - points(pairs)
    assert points(pairs_of(inside)) == window & points(pairs)
    assert is_set(free)
    assert is_set(inside)


@given(LISTS, LISTS)
def test_covered(windows, pairs):
    a = intervals.merge(*arrays(pairs))
    expected = [len(set(range(s, e)) & points(pairs)) for s, e in windows]
    assert intervals.covered(*arrays(windows), a).tolist() == expected


@given(st.lists(st.tuples(st.integers(0, 3), BOUNDS, BOUNDS), max_size=12))
def test_merge_by_group(rows):
    group = np.array([r[0] for r in rows], np.int32)
    found = intervals.merge_by_group(group, *arrays([r[1:] for r in rows]))
    expected = []
    for g in range(4):
        merged = intervals.merge(*arrays([r[1:] for r in rows if r[0] == g]))
        expected += [(g, s, e) for s, e in pairs_of(merged)]
    assert list(zip(*(c.tolist() for c in found), strict=True)) == expected


@pytest.mark.parametrize("scale", [1, 2**50, 2**57])
def test_merge_by_group_of_any_width(scale):
    group = np.array([1, 0, 1, 0, 300], np.int32)
    start, end = np.array([4, 0, 0, 1, 7]) * scale, np.array([6, 2, 5, 3, 8]) * scale
    found = intervals.merge_by_group(group, start, end)
    assert [c.tolist() for c in found] == [[0, 1, 300], [0, 0, 7 * scale], [3 * scale, 6 * scale, 8 * scale]]


@given(st.lists(st.integers(-(2**62), 2**62), min_size=1, max_size=12), st.data())
def test_running_max(values, data):
    cuts = data.draw(st.sets(st.integers(1, len(values)), max_size=4))
    segments = np.array(sorted({0, *cuts} - {len(values)}))
    bounds = [*segments.tolist(), len(values)]
    expected = [max(values[a : i + 1]) for a, b in pairwise(bounds) for i in range(a, b)]
    assert intervals.running_max(np.array(values, np.int64), segments).tolist() == expected


@given(LISTS)
def test_depth_profile(pairs):
    times, depth = intervals.depth_profile(*arrays(pairs))
    found = {}
    for i, t in enumerate(times.tolist()):
        stop = times[i + 1] if i + 1 < len(times) else t
        found.update(dict.fromkeys(range(t, int(stop)), int(depth[i])))
    for t in range(-20, 20):
        assert found.get(t, 0) == sum(a <= t < b for a, b in pairs)


def test_exact_at_the_far_end_of_time():
    far = 2**62 - 10
    a = intervals.merge(*arrays([(far, far + 3), (-far, -far + 5)]))
    assert intervals.covered(*arrays([(-far - 1, far + 1)]), a).tolist() == [6]
