"""Rows by the finest key that both sides have, then by coarser ones."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from profsuite.analyzers.diff.matching import combined, match


def arrays(*lists):
    return [np.array(values, np.int64) for values in lists]


def test_the_finest_key_first():
    #                        before      after
    fine, coarse = arrays([0, 1, 2, 3, 0, 4, 5, 6], [0, 0, 0, 1, 0, 0, 2, 0])
    is_after = np.array([False] * 4 + [True] * 4)
    rows = match((fine, coarse), is_after)
    assert rows.row[0] == rows.row[4]
    assert rows.level[rows.row[0]] == 0
    # 1 and 2 before, 4 and 6 after have no partner by the fine key, but the coarse one in common.
    assert len({rows.row[i] for i in (1, 2, 5, 7)}) == 1
    assert rows.level[rows.row[1]] == 1
    assert (rows.status(rows.row[3]), rows.status(rows.row[6]), rows.status(rows.row[1])) == (
        "removed",
        "added",
        "both",
    )
    assert (rows.example[0][rows.row[1]], rows.example[1][rows.row[1]]) == (1, 5)
    assert rows.size == 4


def test_nothing_to_match():
    rows = match(arrays([], []), np.zeros(0, bool))
    assert (rows.size, len(rows.row)) == (0, 0)


@given(st.lists(st.tuples(st.integers(-1, 3), st.integers(-1, 2), st.booleans()), max_size=20))
def test_each_thing_has_one_row_and_the_sides_may_be_swapped(things):
    fine, coarse = arrays([f for f, _, _ in things], [c for _, c, _ in things])
    is_after = np.array([after for _, _, after in things], bool)
    keys = (combined(coarse, fine) if len(fine) else fine, coarse)
    one, other = match(keys, is_after), match(keys, ~is_after)
    assert one.row.tolist() == other.row.tolist()
    assert one.level.tolist() == other.level.tolist()
    assert sorted(set(one.row.tolist())) == list(range(one.size))
    for row in range(one.size):
        sides = set(is_after[one.row == row].tolist())
        assert (one.level[row] >= 0) == (sides == {False, True})


def test_combined_codes_are_equal_where_all_are():
    first, second = arrays([0, 0, 1, -1, -1], [2, 2, 2, 2, -1])
    code = combined(first, second).tolist()
    assert code[0] == code[1]
    assert len(set(code)) == 4
