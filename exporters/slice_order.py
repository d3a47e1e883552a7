"""In which order begins of slices are written, where a viewer takes those of one time in the order of the file."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from profsuite.trace.lanes import rows_by_track
from profsuite.trace.nesting import track_order

if TYPE_CHECKING:
    from numpy.typing import NDArray


def late_rows(track: NDArray[np.int32], ts: NDArray[np.int64], dur: NDArray[np.int64]) -> NDArray[np.int64]:
    """Rows that must not be written in their turn, in the order in which they are to follow all others.

    Of slices that begin together on a track the longer is around the shorter, so it comes first.  Where rows of
    one time are not in that order, all of them are late; slices without length are none of them.
    """
    late: list[NDArray[np.int64]] = []
    for rows in rows_by_track(track):
        rows = rows[dur[rows] > 0]
        if len(rows) < 2:
            continue
        start, length = ts[rows], dur[rows]
        by_time = rows.astype(np.int64)[track_order(np.zeros(len(rows), np.int32), start, length)]
        tie = np.diff(ts[by_time]) == 0
        wrong = tie & (np.diff(by_time) < 0)
        if wrong.any():
            group = np.concatenate(([0], np.cumsum(~tie)))
            late.append(by_time[np.isin(group, group[1:][wrong])])
    return np.concatenate(late) if late else np.zeros(0, np.int64)
