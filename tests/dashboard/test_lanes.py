"""Lanes hold every slice once, and in none does one slice hide another."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("dash", reason="the dashboard is not installed")

from profsuite.dashboard import lanes as module
from profsuite.dashboard.lanes import lanes

PIECES = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 12), st.integers(1, 3)), max_size=40)


def by_lane(trace, found):
    """(track, level) to its slices' (start, end), in order."""
    result = {}
    for lane in range(len(found.track)):
        rows = range(found.first[lane], found.first[lane + 1])
        key = int(found.track[lane]), int(found.level[lane])
        assert key not in result
        ids = found.slice_id[list(rows)]
        start = trace.array("slice", "ts")[ids]
        result[key] = list(zip(start.tolist(), (start + trace.array("slice", "dur")[ids]).tolist(), strict=True))
    return result


@settings(deadline=None, max_examples=150)
@given(PIECES)
def test_any_slices(make_trace, slice_, pieces):
    trace = make_trace([slice_(f"s{n}", ts, dur, tid=tid) for n, (ts, dur, tid) in enumerate(pieces)])
    found = lanes(trace)
    assert sorted(found.slice_id.tolist()) == list(range(trace.num_rows("slice")))
    assert found.num_hidden == 0
    tracks = trace.array("slice", "track_id")
    for lane, track in enumerate(found.track.tolist()):
        assert set(tracks[found.slice_id[found.first[lane] : found.first[lane + 1]]].tolist()) == {track}
    for boxes in by_lane(trace, found).values():
        assert boxes == sorted(boxes, key=lambda box: box[0])
        for i, (start, end) in enumerate(boxes):
            # A slice without a duration may lie on the edge of, or in, another.
            assert all(start >= other or end == start for _, other in boxes[:i])


def test_nested_slices_are_at_their_depth(make_trace, slice_):
    trace = make_trace(
        [slice_("a", 0, 10), slice_("b", 1, 5), slice_("c", 2, 2), slice_("d", 7, 2), slice_("e", 10, 3)]
    )
    names = trace.words("slice", "name")
    found = lanes(trace)
    levels = {
        names[trace.array("slice", "name")[row]]: int(found.level[lane])
        for lane in range(len(found.level))
        for row in found.slice_id[found.first[lane] : found.first[lane + 1]].tolist()
    }
    assert levels == {"a": 0, "b": 1, "c": 2, "d": 1, "e": 0}


def test_overlapping_kernels_go_below(make_trace, slice_):
    kernels = [(0, 10), (5, 10), (8, 10), (19, 2)]
    trace = make_trace([slice_("k", ts, dur, "kernel", 0, 7, device=0, stream=7) for ts, dur in kernels])
    boxes = by_lane(trace, lanes(trace))
    assert len(boxes) == 3
    assert sorted(box for lane in boxes.values() for box in lane) == [
        (1000 * ts, 1000 * (ts + dur)) for ts, dur in kernels
    ]


def test_each_kernel_reaches_into_the_next(make_trace, slice_):
    """As with programmatic dependent launches: two lanes do, however many there are."""
    trace = make_trace([slice_("k", 2 * n, 3, "kernel", 0, 7, device=0, stream=7) for n in range(1000)])
    found = lanes(trace)
    assert found.num_hidden == 0
    assert np.diff(found.first).tolist() == [500, 500]


def test_more_than_a_track_can_show(make_trace, slice_, monkeypatch):
    monkeypatch.setattr(module, "MAX_LANES", 4)
    trace = make_trace([slice_("s", n, 100, "kernel", 0, 7, device=0, stream=7) for n in range(6)])
    found = lanes(trace)
    assert found.num_hidden == 2
    assert len(found.slice_id) == 6
    assert found.level.tolist() == [0, 1, 2, 3]
    assert found.missing.tolist() == [2]


def test_a_deep_stack_has_all_its_lanes(make_trace, slice_):
    trace = make_trace([slice_(f"s{n}", n, 1000 - 2 * n) for n in range(300)] + [slice_("t", 0, 5, tid=2)])
    found = lanes(trace)
    assert found.level.tolist() == [*range(300), 0]
    assert (found.num_hidden, found.missing.tolist()) == (0, [0, 0])


def test_a_stack_deeper_than_a_track(make_trace, slice_):
    most = module.MAX_LANES
    found = lanes(make_trace([slice_(f"s{n}", n, 4000 - 2 * n) for n in range(most + 30)]))
    assert found.level.tolist() == [*range(most)]
    assert (found.num_hidden, found.missing.tolist()) == (30, [30])


def test_nothing(make_trace):
    found = lanes(make_trace([]))
    assert len(found.slice_id) == len(found.track) == 0
    assert found.first.tolist() == [0]


def test_spans_of_the_whole_recording_are_left_out(make_trace, slice_):
    trace = make_trace([slice_("a", 0, 10), slice_("PyTorch Profiler (0)", -5, 100, "Trace")])
    assert len(lanes(trace).slice_id) == 1
