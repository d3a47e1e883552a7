"""Allocations joined to their frees, held to a replay in plain Python."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from profsuite.analyzers.memory.allocations import BEFORE, match


def replayed(address, num_bytes):
    """(start, end, bytes, address, ended) of every allocation, by a dictionary of what is open."""
    open_, found, seen = {}, set(), set()
    for event, (place, size) in enumerate(zip(address, num_bytes, strict=True)):
        taken = open_.pop(place, None)
        if size > 0:
            if taken is not None:
                found.add((*taken, event, False))
            open_[place] = (event, size, place)
        elif taken is not None:
            found.add((*taken, event, True))
        else:
            found.add((event if place in seen else BEFORE, -size, place, event, True))
        seen.add(place)
    return found | {(*taken, len(address), False) for taken in open_.values()}


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(1, 9), st.booleans()), max_size=60))
def test_any_order_of_events(events):
    address = np.array([place for place, _, _ in events], np.int64)
    size = np.array([size if up else -size for _, size, up in events], np.int64)
    found = match(address, size)
    columns = (found.start, found.bytes, found.address, found.end, found.ended)
    assert set(zip(*(column.tolist() for column in columns), strict=True)) == replayed(address.tolist(), size.tolist())
    assert len(found.start) == len(replayed(address.tolist(), size.tolist()))


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(1, 9)), max_size=40))
def test_what_is_alive_is_the_sum_of_what_happened(steps):
    """With every free after its allocation the bytes alive after each event are the running sum."""
    taken, address, size = {}, [], []
    for place, number in steps:
        address.append(place)
        size.append(-taken.pop(place) if place in taken else taken.setdefault(place, number))
    found = match(np.array(address, np.int64), np.array(size, np.int64))
    for event, total in enumerate(np.cumsum(np.array(size, np.int64)).tolist()):
        assert int(found.bytes[found.alive_at(event)].sum()) == total


def test_nothing():
    found = match(np.zeros(0, np.int64), np.zeros(0, np.int64))
    assert len(found.start) == found.num_events == 0
