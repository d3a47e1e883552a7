"""Nesting against its definition, read literally; numpy and C give the same."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from profsuite.trace import nesting

SLICES = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, 12), st.integers(0, 8), st.booleans() | st.just(False)), max_size=14
)


def columns(slices):
    track, ts, dur, leaf = zip(*slices, strict=True) if slices else ((), (), (), ())
    return np.array(track, np.int32), np.array(ts, np.int64), np.array(dur, np.int64), np.array(leaf, bool)


def literal(slices):
    """Parent, depth and self time from the definition, one slice at a time."""
    n = len(slices)
    order = sorted(range(n), key=lambda i: (slices[i][0], slices[i][1], -slices[i][2], i))
    end = [max(s[1] + s[2], s[1] + 1) for s in slices]
    parent = [-1] * n
    for place, i in enumerate(order):
        for j in reversed(order[:place]):
            if slices[j][0] == slices[i][0] and not slices[j][3] and end[j] >= end[i] and end[j] > slices[i][1]:
                parent[i] = j
                break
    depth, own = [], []
    for i, (_, ts, dur, _) in enumerate(slices):
        up, steps = parent[i], 0
        while up >= 0:
            up, steps = parent[up], steps + 1
        depth.append(steps)
        mine = set(range(ts, ts + dur))
        for j, (_, child_ts, child_dur, _) in enumerate(slices):
            if parent[j] == i:
                mine -= set(range(child_ts, child_ts + child_dur))
        own.append(len(mine))
    return parent, depth, own


VERSIONS = [
    pytest.param(nesting.nest_numpy, id="numpy"),
    pytest.param(
        nesting.nest,
        id="c",
        marks=pytest.mark.skipif(nesting.native_nest() is None, reason="the C extension is not built"),
    ),
]


@pytest.mark.parametrize("nest", VERSIONS)
@given(slices=SLICES)
def test_as_defined(nest, slices):
    assert tuple(a.tolist() for a in nest(*columns(slices))) == literal(slices)


@pytest.mark.parametrize("nest", VERSIONS)
def test_by_hand(nest):
    slices = [
        (0, 0, 100, False),  # the outermost
        (0, 10, 20, False),
        (0, 15, 20, False),  # begins inside the one before and ends after it: no child of it
        (0, 10, 20, False),  # the same interval later in the file: inside the first
        (0, 100, 0, False),  # at the end of the outermost, of no length: not inside
        (0, 50, 0, False),
        (1, 10, 5, False),  # another thread
        (2, 0, 10, True),  # kernels are never parents
        (2, 2, 3, True),
    ]
    parent, depth, own = nest(*columns(slices))
    assert parent.tolist() == [-1, 0, 0, 1, -1, 0, -1, -1, -1]
    assert depth.tolist() == [0, 1, 1, 2, 0, 1, 0, 0, 0]
    assert own.tolist() == [75, 0, 20, 20, 0, 0, 5, 10, 3]
    assert (parent.dtype, depth.dtype, own.dtype) == (np.int32, np.int32, np.int64)


@pytest.mark.parametrize("nest", VERSIONS)
def test_times_at_the_ends_of_the_range(nest):
    slices = [
        (0, -(2**62), 2**62, False),
        (0, 2**62 - 5, 5, False),
        (3, 2**62 - 9, 4, False),
        (0, -(2**62) + 1, 1, False),
    ]
    parent, depth, own = nest(*columns(slices))
    assert parent.tolist() == [-1, -1, -1, 0]
    assert depth.tolist() == [0, 0, 0, 1]
    assert own.tolist() == [2**62 - 1, 5, 4, 1]


@pytest.mark.parametrize("nest", VERSIONS)
def test_deep(nest):
    n = 3000
    ts = np.arange(n, dtype=np.int64)
    dur = 2 * n - 2 * ts
    parent, depth, own = nest(np.zeros(n, np.int32), ts, dur, np.zeros(n, bool))
    assert parent.tolist() == list(range(-1, n - 1))
    assert depth.tolist() == list(range(n))
    assert own.tolist() == [2] * n


@pytest.mark.parametrize("nest", VERSIONS)
def test_nothing(nest):
    assert [len(a) for a in nest(*columns([]))] == [0, 0, 0]


@pytest.mark.skipif(nesting.native_nest() is None, reason="the C extension is not built")
@given(seed=st.integers(0, 2**32 - 1), unit=st.sampled_from([1, 1000]))
def test_c_and_numpy_agree(seed, unit):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 2000))
    track = rng.integers(0, 4, n).astype(np.int32)
    ts = rng.integers(0, 20 * n, n) // 10 * unit
    dur = (rng.exponential(10, n) * rng.choice([0, 1, 10, 100], n)).astype(np.int64) * unit
    leaf = rng.random(n) < 0.2
    for mine, native in zip(nesting.nest_numpy(track, ts, dur, leaf), nesting.nest(track, ts, dur, leaf), strict=True):
        assert mine.tolist() == native.tolist()


@given(SLICES)
def test_track_order(slices):
    track, ts, dur, _ = columns(slices)
    expected = sorted(range(len(slices)), key=lambda i: (slices[i][0], slices[i][1], -slices[i][2], i))
    assert nesting.track_order(track, ts, dur).tolist() == expected
