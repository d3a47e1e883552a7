"""Names ranked by their time: what to name in a sentence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from profsuite.trace.model import Trace


def numbered(key: NDArray[np.int64]) -> NDArray[np.int64]:
    """Group numbers from 0 without holes for keys that are not negative: equal keys, equal numbers."""
    if not len(key):
        return key
    top = int(key.max()) + 1
    if top > 4 * len(key) + 65536:  # sparse keys: sort them
        return np.unique(key, return_inverse=True)[1]
    used = np.zeros(top, bool)
    used[key] = True
    number = np.cumsum(used) - 1
    return cast("NDArray[np.int64]", number[key])


def together(high: NDArray[np.int64], low: NDArray[np.int64]) -> NDArray[np.int64]:
    """Integers that sort as the pairs of two arrays (not negative) do, kept small: one sorts faster than two."""
    if int(high.max(initial=0)) * (int(low.max(initial=0)) + 1) >= 1 << 62:
        high, low = (np.unique(values, return_inverse=True)[1].astype(np.int64) for values in (high, low))
    pairs: NDArray[np.int64] = high * (int(low.max(initial=0)) + 1) + low
    small = int(pairs.max(initial=0)) < 1 << 40
    return pairs if small else np.unique(pairs, return_inverse=True)[1].astype(np.int64)


def distinct_rows(*columns: NDArray[np.integer]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The first row of each distinct combination of values, sorted by these, and each row's combination."""
    key = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        low = int(column.min(initial=0))
        values = column if low == 0 and len(column) else np.unique(column, return_inverse=True)[1]
        key = together(key, values.astype(np.int64))
    _, first, index = np.unique(key, return_index=True, return_inverse=True)
    return first, index


def sum_by_group(group: NDArray[np.int64], values: NDArray[np.int64], size: int) -> NDArray[np.int64]:
    """Sum of integer ``values`` in each of ``size`` groups, exact."""
    # Doubles hold integers below 2**53 exactly (as ns: 104 days), and bincount with them is several times as fast.
    if len(values) and float(np.abs(values).max()) * len(values) < 2**53:
        return np.bincount(group, weights=values, minlength=size).astype(np.int64)
    total = np.zeros(size, np.int64)
    np.add.at(total, group, values)
    return total


@dataclass(frozen=True, slots=True)
class RankedName:
    """A slice name with the sum of its durations, how often it ran, and its five longest slices."""

    name: str
    total_ns: int
    count: int
    slice_ids: tuple[int, ...]


def longest_names(trace: Trace, rows: NDArray[np.int64], top: int = 10) -> list[RankedName]:
    """The names that the slices ``rows`` spend most time under, longest total first."""
    if not len(rows):
        return []
    names, dur, words = (
        trace.array("slice", "name")[rows],
        trace.array("slice", "dur")[rows],
        trace.words("slice", "name"),
    )
    total, count = sum_by_group(names, dur, len(words)), np.bincount(names, minlength=len(words))
    ranked = []
    for code in np.lexsort((count == 0, -total))[:top].tolist():  # names that take no time before those not there
        if not count[code]:
            break
        own = np.flatnonzero(names == code)
        longest = own[np.argsort(-dur[own], kind="stable")[:5]]
        ranked.append(RankedName(words[code], int(total[code]), len(own), tuple(rows[longest].tolist())))
    return ranked


def time_by_name(trace: Trace, rows: NDArray[np.int64]) -> dict[str, int]:
    """Sum of the durations of the slices ``rows`` under each of their names, ns."""
    words = trace.words("slice", "name")
    total = sum_by_group(trace.array("slice", "name")[rows], trace.array("slice", "dur")[rows], len(words))
    return {words[code]: int(total[code]) for code in np.flatnonzero(total).tolist()}
