"""Which slice each flow end belongs to, found in one pass over the slices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import numpy as np

from profsuite.exporters.json_words import numbered
from profsuite.trace.columns import Text

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from profsuite.exporters.timeline import Timeline


@dataclass(frozen=True, slots=True)
class FlowEnds:
    """Flow ends by the slice (``row``) whose start they lie at; those at none have -1 and come first.

    ``flow`` numbers the flows from 1: an id means one flow within its category.  ``last``: it finishes there.
    """

    ts: NDArray[np.int64]
    track: NDArray[np.int32]
    flow: NDArray[np.int64]
    last: NDArray[np.bool_]
    row: NDArray[np.int64]


def bind_flows(rank: Timeline, first_flow: int) -> FlowEnds:
    """The flow ends of a rank; flows are numbered from ``first_flow``.

    Of several slices that start there, the shortest is meant: the innermost.
    """
    parts = list(rank.points("flow"))
    if not parts:
        none = np.zeros(0, np.int64)
        return FlowEnds(none, none.astype(np.int32), none, none.astype(bool), none)

    def column(name: str) -> NDArray[np.int64]:
        values = [columns[name] for columns, _ in parts]
        return np.concatenate([v.codes if isinstance(v, Text) else v for v in values]).astype(np.int64)

    ts, track = column("ts"), np.concatenate([track for _, track in parts])
    flow = np.zeros(len(ts), np.int64)
    for name in ("category", "id", "id_text"):
        codes, found = numbered(column(name))
        flow = numbered(flow * len(found) + codes)[0].astype(np.int64)
    last = column("phase") == ord("f")
    row = _rows(rank, ts, track)
    order = np.argsort(row, kind="stable")
    return FlowEnds(ts[order], track[order], flow[order] + first_flow, last[order], row[order])


def _rows(rank: Timeline, ts: NDArray[np.int64], track: NDArray[np.int32]) -> NDArray[np.int64]:
    """The slice at whose start each end lies, -1 for none."""
    low, span = int(ts.min()), int(ts.max()) - int(ts.min()) + 1
    if (int(track.max()) + 1) * span >= 2**62:  # centuries apart: no key of 64 bits tells them
        return np.full(len(ts), -1)
    keys, place = np.unique(track * span + (ts - low), return_inverse=True)
    best_row, best_dur = np.full(len(keys), -1), np.full(len(keys), 2**62)
    for batch in rank.slices_only():
        start, dur = (cast("NDArray[np.int64]", batch.columns[name]) for name in ("ts", "dur"))
        within = np.flatnonzero((start >= low) & (start < low + span))
        key = batch.track[within] * span + (start[within] - low)
        at = np.minimum(np.searchsorted(keys, key), len(keys) - 1)
        hit = keys[at] == key
        at, row = at[hit], within[hit]
        order = np.lexsort((-row, dur[row], at))
        at, row = at[order], row[order]
        first = np.flatnonzero(np.diff(at, prepend=-1))
        at, row = at[first], row[first]
        better = dur[row] <= best_dur[at]
        best_row[at[better]] = row[better] + batch.first
        best_dur[at[better]] = dur[row[better]]
    return best_row[place]
