"""Which slice each flow end belongs to, found in one pass over the slices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from profsuite.exporters.json_words import numbered
from profsuite.trace.columns import Text

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from profsuite.exporters.timeline import Timeline


@dataclass(frozen=True, slots=True)
class FlowEnds:
    """Flow ends by the slice (``row``) whose start they lie at; those at none have -1 and come first.

    ``flow`` numbers the flows, none 0: an id means one flow within its category and rank.  ``last``: it finishes there.
    """

    ts: NDArray[np.int64]
    track: NDArray[np.int32]
    flow: NDArray[np.int64]
    last: NDArray[np.bool_]
    row: NDArray[np.int32]


def bind_flows(rank: Timeline) -> FlowEnds:
    """The flow ends of a rank.

    Of several slices that start there, the shortest is meant: the innermost.
    """
    names = ("category", "id", "id_text")
    found: dict[str, list[NDArray[Any]]] = {name: [] for name in ("ts", "track", "last", *names)}
    for columns, track in rank.points("flow"):
        found["ts"].append(cast("NDArray[Any]", columns["ts"]))
        found["track"].append(track)
        found["last"].append(cast("NDArray[Any]", columns["phase"]) == ord("f"))
        for name in names:
            values = columns[name]
            found[name].append(values.codes if isinstance(values, Text) else values)
    if not any(map(len, found["ts"])):
        none = np.zeros(0, np.int64)
        return FlowEnds(none, none.astype(np.int32), none, none.astype(bool), none.astype(np.int32))
    ts, track, last = (np.concatenate(found.pop(name)) for name in ("ts", "track", "last"))
    flow = _flow_numbers(rank.number, *(np.concatenate(found.pop(name)) for name in names))
    row = _rows(rank, ts, track)
    order = np.argsort(row, kind="stable").astype(np.int32)
    row = row[order]  # one after another, so that each makes room for the next
    ts = ts[order]
    track = track[order]
    flow = flow[order]
    return FlowEnds(ts, track, flow, last[order], row)


def _flow_numbers(
    rank: int, category: NDArray[np.int32], number: NDArray[np.int64], text: NDArray[np.int32]
) -> NDArray[np.int64]:
    """One number a flow: from its id where that is small, else by order of appearance."""
    plain = len(number) == 0 or (int(number.min()) >= 0 and int(number.max()) < 2**44)
    if not plain or int(category.max(initial=0)) >= 2**11:
        joined = np.zeros(len(number), np.int64)
        for column in (category.astype(np.int64), number, text.astype(np.int64)):
            codes, distinct = numbered(column)
            joined = numbered(joined * len(distinct) + codes)[0].astype(np.int64)
        category, number = np.zeros(len(number), np.int32), joined
    # bits: rank 7, category 11 (from 1 on, so that no number is 0), id 44
    return ((rank % 128) << 55) | ((category.astype(np.int64) + 1) << 44) | number


def _rows(rank: Timeline, ts: NDArray[np.int64], track: NDArray[np.int32]) -> NDArray[np.int32]:
    """The slice at whose start each end lies, -1 for none."""
    low, span = int(ts.min()), int(ts.max()) - int(ts.min()) + 1
    if (int(track.max()) + 1) * span >= 2**62:  # centuries apart: no key of 64 bits tells them
        return np.full(len(ts), -1, np.int32)
    keys = track.astype(np.int64) * span
    keys += ts - low
    order = np.argsort(keys)
    keys = keys[order]
    first = np.diff(keys, prepend=-1) != 0
    place = np.empty(len(ts), np.int32)
    place[order] = np.cumsum(first, dtype=np.int32) - np.int32(1)
    keys = keys[first]
    del order, first
    best_row, best_dur = np.full(len(keys), -1, np.int32), np.full(len(keys), 2**62)
    for batch in rank.slices_only():
        start, dur = (cast("NDArray[np.int64]", batch.columns[name]) for name in ("ts", "dur"))
        within = np.flatnonzero((start >= low) & (start < low + span))
        key = batch.track[within].astype(np.int64) * span + (start[within] - low)
        at = np.minimum(np.searchsorted(keys, key), len(keys) - 1)
        hit = keys[at] == key
        at, row = at[hit], within[hit]
        order = np.lexsort((-row, dur[row], at))
        at, row = at[order], row[order]
        innermost = np.flatnonzero(np.diff(at, prepend=-1))
        at, row = at[innermost], row[innermost]
        better = dur[row] <= best_dur[at]
        best_row[at[better]] = row[better] + batch.first
        best_dur[at[better]] = dur[row[better]]
    return best_row[place]
