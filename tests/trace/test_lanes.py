"""Slices that overlap without nesting lie in different lanes, and in as few as need be."""

from __future__ import annotations

import numpy as np
import pytest

from profsuite.trace import lanes
from profsuite.trace.lanes import find_lanes, lanes_python
from profsuite.trace.nesting import track_order

IMPLEMENTATIONS = ["as built", "python"]


@pytest.fixture(params=IMPLEMENTATIONS)
def find(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch):
    if request.param == "python":
        monkeypatch.setattr(lanes, "_lanes", lanes_python)
    return lambda slices: find_lanes(*(np.array(column, kind) for column, kind in zip(
        zip(*slices, strict=True), (np.int32, np.int64, np.int64), strict=True))).tolist()  # fmt: skip


def test_nested_and_adjacent_slices_stay(find):
    assert find([(0, 0, 10), (0, 2, 3), (0, 5, 5), (0, 10, 4), (0, 10, 0), (0, 14, 1)]) == [0] * 6


def test_equal_slices_nest(find):
    assert find([(0, 0, 10), (0, 0, 10)]) == [0, 0]


def test_an_overlapping_slice_moves_and_the_next_does_not(find):
    assert find([(0, 0, 10), (0, 5, 10), (0, 12, 8), (0, 20, 1)]) == [0, 1, 0, 0]


def test_tracks_do_not_see_each_other_and_file_order_does_not_matter(find):
    assert find([(1, 5, 10), (0, 0, 10), (1, 0, 10), (0, 12, 2)]) == [1, 0, 0, 0]


def test_three_at_once_take_three_lanes(find):
    assert find([(0, 0, 10), (0, 1, 10), (0, 2, 10), (0, 11, 1)]) == [0, 1, 2, 0]


def test_no_slices():
    none = np.zeros(0, np.int64)
    assert len(find_lanes(none.astype(np.int32), none, none)) == 0


def test_lanes_hold_no_overlap_and_both_implementations_agree():
    rng = np.random.default_rng(3)
    track = rng.integers(0, 3, 3000).astype(np.int32)
    ts, dur = rng.integers(0, 20_000, 3000), rng.integers(0, 200, 3000)
    lane = find_lanes(track, ts, dur)
    for number in range(3):
        rows = np.flatnonzero(track == number)
        order = track_order(np.zeros(len(rows), np.int32), ts[rows], dur[rows])
        assert (lanes_python(order, ts[rows], dur[rows]) == lane[rows]).all()
        for of_lane in range(int(lane.max()) + 1):
            open_until: list[int] = []
            for row in rows[order][lane[rows[order]] == of_lane].tolist():
                while open_until and open_until[-1] <= ts[row]:
                    open_until.pop()
                assert not open_until or open_until[-1] >= ts[row] + dur[row]
                open_until.append(int(ts[row] + dur[row]))


def test_a_staircase_of_any_length_takes_a_bounded_number_of_lanes():
    num = 2000
    lane = find_lanes(np.zeros(num, np.int32), np.arange(num, dtype=np.int64), np.full(num, num, np.int64))
    assert lane.max() == lanes.MAX_LANES - 1
