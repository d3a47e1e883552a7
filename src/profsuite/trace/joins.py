"""Joins on integer ids: correlation ids, external ids, flow ids."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from profsuite.trace.readers.fields import NULL_INT64

if TYPE_CHECKING:
    from numpy.typing import NDArray


def earliest_with(
    wanted: NDArray[np.int64], keys: NDArray[np.int64], rows: NDArray[np.int32], ts: NDArray[np.int64]
) -> NDArray[np.int32]:
    """For each of n ``wanted`` keys a row that has it (int32[n], -1 where none has).

    ``keys[i]`` is the key of row ``rows[i]``; of several rows with one key the earliest by
    ``ts[row]`` counts, then the lowest row.  Null keys (``NULL_INT64``) match nothing.
    """
    found = np.full(len(wanted), -1, np.int32)
    if not len(wanted) or not len(keys):
        return found
    low, high = int(keys.min()), int(keys.max())
    if low != NULL_INT64 and high - low < 4 * (len(keys) + len(wanted)) + 65536:
        # Dense ids: a table addressed by id takes a fraction of a sort's time.
        table = np.full(high - low + 1, -1, np.int32)
        slot = keys - low
        table[slot] = rows
        if not bool(np.all(table[slot] == rows)):
            latest_first = np.lexsort((rows, ts[rows]))[::-1]
            table[slot[latest_first]] = rows[latest_first]  # the last assignment stays
        known = (wanted >= low) & (wanted <= high)
        if known.all():
            return table[wanted - low]
        found[known] = table[wanted[known] - low]
        return found
    order = np.lexsort((rows, ts[rows], keys))
    keys, rows = keys[order], rows[order]
    place = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    hit = (keys[place] == wanted) & (wanted != NULL_INT64)
    found[hit] = rows[place[hit]]
    return found


def distinct(*columns: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.intp]]:
    """The distinct rows of integer columns (one row each, sorted), and which of them each row is."""
    key = np.zeros(len(columns[0]), np.intp)
    for column in columns:
        values, which = np.unique(column, return_inverse=True)
        key = key * len(values) + which  # both below the number of rows: no overflow
        _, key = np.unique(key, return_inverse=True)
    _, first = np.unique(key, return_index=True)
    rows = np.stack([column[first].astype(np.int64) for column in columns], axis=1)
    return rows, key
