"""Rows by two columns, against numpy's own."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from profsuite.trace.ordering import sorted_by

WIDE = st.integers(-(2**63), 2**63 - 1)
NARROW = st.integers(-5, 5)


@given(st.lists(st.tuples(st.one_of(NARROW, WIDE), st.one_of(NARROW, WIDE)), max_size=40))
def test_the_order_of_any_two_columns(rows):
    first, then = (np.array(column, np.int64) for column in (zip(*rows, strict=True) if rows else ([], [])))
    assert sorted_by(first, then).tolist() == np.lexsort((then, first)).tolist()


@given(st.lists(st.tuples(NARROW, NARROW), max_size=60))
def test_equal_rows_stay_in_order(rows):
    first, then = (np.array(column, np.int64) for column in (zip(*rows, strict=True) if rows else ([], [])))
    assert sorted_by(first, then.astype(np.int8)).tolist() == np.lexsort((then, first)).tolist()
