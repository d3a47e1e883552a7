"""Tiles: at every zoom every slice is there once, itself or within the item that stands for it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("dash", reason="the dashboard is not installed")

from profsuite.dashboard.tiles import build

PIECES = st.lists(
    st.tuples(st.integers(0, 400), st.sampled_from([0, 0.05, 0.2, 1, 7, 90]), st.integers(1, 2)),
    min_size=1,
    max_size=60,
)


def every_lane(pyramid):
    return np.arange(len(pyramid.lanes.track))


@settings(deadline=None, max_examples=80)
@given(PIECES)
def test_levels_add_up(make_trace, slice_, pieces):
    trace = make_trace([slice_(f"s{n}", ts, dur, tid=tid) for n, (ts, dur, tid) in enumerate(pieces)])
    pyramid = build(trace)
    start, dur = trace.array("slice", "ts"), trace.array("slice", "dur")
    finest = pyramid.levels[0]
    for found in pyramid.levels:
        level = found.items(slice(None))
        assert len(found) == len(level.start)
        assert level.count.sum() == len(pieces)
        assert level.busy.sum() == dur.sum()
        for lane in range(len(found.first) - 1):
            slices = finest.slice_id[finest.first[lane] : finest.first[lane + 1]].tolist()
            for item in range(found.first[lane], found.first[lane + 1]):
                mine, slices = slices[: level.count[item]], slices[level.count[item] :]
                assert level.slice_id[item] in mine
                assert dur[level.slice_id[item]] == dur[mine].max()
                assert level.start[item] == start[mine].min()
                assert level.end[item] == (start + dur)[mine].max()
                assert level.busy[item] == dur[mine].sum()
                # Only what is too short to be told apart is merged.
                assert len(mine) == 1 or dur[mine].max() < found.resolution_ns
            assert not slices


@settings(deadline=None, max_examples=80)
@given(PIECES, st.integers(0, 480_000), st.integers(1, 480_000), st.integers(1, 2000))
def test_a_view_is_what_overlaps_it(make_trace, slice_, pieces, start, length, width):
    pyramid = build(make_trace([slice_(f"s{n}", ts, dur, tid=tid) for n, (ts, dur, tid) in enumerate(pieces)]))
    low, high = pyramid.start_ns + start, pyramid.start_ns + start + length
    view = pyramid.view(every_lane(pyramid), low, high, width)
    found = next(level for level in pyramid.levels if level.resolution_ns == view.resolution_ns)
    level = found.items(slice(None))
    assert view.resolution_ns <= max(1, length // width)
    for lane in range(len(pyramid.lanes.track)):
        wanted = [
            (int(level.start[i]), int(level.end[i]), int(level.slice_id[i]), int(level.count[i]))
            for i in range(found.first[lane], found.first[lane + 1])
            if level.start[i] < high and (level.end[i] > low or level.start[i] > low)
        ]
        rows = range(view.lane_first[lane], view.lane_first[lane + 1])
        columns = (view.start, view.end, view.slice_id, view.count)
        given_ = [tuple(int(column[row]) for column in columns) for row in rows]
        assert [box for box in given_ if box[1] > low] == [box for box in wanted if box[1] > low]


def test_a_view_of_everything_is_small(make_trace, slice_):
    trace = make_trace([slice_("k", n / 50, 0.01) for n in range(20_000)])
    pyramid = build(trace)
    view = pyramid.view(every_lane(pyramid), pyramid.start_ns, pyramid.end_ns, 100)
    assert view.count.sum() == 20_000
    assert len(view.start) < 1000
    close = pyramid.view(every_lane(pyramid), pyramid.start_ns, pyramid.start_ns + 1000, 1000)
    assert close.count.tolist() == [1] * len(close.count)
    assert close.resolution_ns == 1


def test_nothing(make_trace):
    pyramid = build(make_trace([]))
    assert len(pyramid.view(every_lane(pyramid), 0, 100, 10).start) == 0
