"""Welch's interval and the sums it rests on."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from profsuite.analyzers.diff.noise import noise_ns, per_step, sums, t_probability, t_quantile


@pytest.mark.parametrize(
    ("df", "expected"),
    # Two-sided 95 %, from the table in any textbook.
    [(1, 12.706), (2, 4.303), (3, 3.182), (4, 2.776), (5, 2.571), (10, 2.228), (30, 2.042), (60, 2.000), (120, 1.980)],
)
def test_quantiles_are_those_of_the_tables(df, expected):
    assert t_quantile(df) == pytest.approx(expected, abs=6e-4)
    assert t_probability(t_quantile(df), df) == pytest.approx(0.95, abs=1e-12)


def test_welch_by_hand():
    # s² = 1 and 4, n = 3: variance 1/3 + 4/3; df = (25/9) / ((1/9)/2 + (16/9)/2) = 2.94, so 2: t = 4.30265.
    before, after = per_step(np.array([1, 2, 3])), per_step(np.array([2, 4, 6]))
    assert noise_ns(before, after)[0] == pytest.approx(4.30265 * (5 / 3) ** 0.5, rel=1e-5)
    assert noise_ns(after, before)[0] == noise_ns(before, after)[0]


def test_one_step_tells_nothing_and_equal_steps_have_no_noise():
    assert noise_ns(per_step(np.array([5])), per_step(np.array([4, 5, 6]))) is None
    assert noise_ns(per_step(np.array([5, 5])), per_step(np.array([7, 7])))[0] == 0


@given(
    st.integers(1, 5),
    st.integers(1, 5),
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4), st.integers(0, 10**9)), max_size=30),
    st.booleans(),
)
def test_sums_are_those_of_the_whole_table(rows, steps, cells, far):
    # Rows far apart take the way for sparse tables.
    scale = 100_000 if far else 1
    table = np.zeros((rows, steps), np.int64)
    kept = [(r % rows, s % steps, value) for r, s, value in cells]
    for r, s, value in kept:
        table[r, s] += value
    columns = np.array(kept, np.int64).reshape(-1, 3).T
    found = sums(columns[0] * scale, columns[1], columns[2], (rows - 1) * scale + 1, steps)
    assert found.total[::scale].tolist() == table.sum(axis=1).tolist()
    np.testing.assert_allclose(found.spread[::scale], table.var(axis=1) * steps, rtol=1e-9, atol=1e-3)
