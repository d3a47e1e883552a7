"""Begin and end events to slices: which ``E`` closes which ``B`` on its track."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from profsuite.trace.intervals import running_max
from profsuite.trace.readers.fields import NULL_INT64
from profsuite.trace.readers.raw import Remark, first_place

if TYPE_CHECKING:
    from numpy.typing import NDArray


def close_spans(
    slices: dict[str, NDArray[Any]], ends: dict[str, NDArray[Any]]
) -> tuple[NDArray[np.int64], NDArray[np.bool_] | None, list[Remark]]:
    """Durations (int64 ns) of all slices, a mask of the spans never closed, and what is to be remarked.

    A raw slice without a duration is a ``B``.  On each track, ordered by time and then by place in
    the file, an ``E`` closes the last ``B`` still open.  A ``B`` left open ends with the last end
    of anything on its track.  The mask is None if every span was closed.
    """
    dur = slices["dur"]
    opened = np.flatnonzero(dur == NULL_INT64)
    num_ends = len(ends["ts"])
    if not len(opened) and not num_ends:
        return dur, None, []
    dur = dur.copy()
    begin_row, end_row, stray = _match(slices, opened, ends)
    dur[begin_row] = np.maximum(ends["ts"][end_row] - slices["ts"][begin_row], 0)
    remarks = []
    unclosed = None
    left = opened[dur[opened] == NULL_INT64]
    if len(left):
        unclosed = np.zeros(len(dur), bool)
        unclosed[left] = True
        last = _last_ends(slices, dur, ends)
        ts = slices["ts"][left]
        dur[left] = np.maximum(last[slices["track"][left]] - ts, 0)
        message = f"{len(left)} spans begin and never end; they were ended with the last event of their track"
        remarks.append(Remark("unclosed", len(left), first_place(slices["offset"][left]), message))
    if len(stray):
        message = f"{len(stray)} end events have no begin; they were dropped"
        remarks.append(Remark("dropped", len(stray), first_place(ends["offset"][stray]), message))
    return dur, unclosed, remarks


def _match(
    slices: dict[str, NDArray[Any]], opened: NDArray[np.int64], ends: dict[str, NDArray[Any]]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Slice rows and end rows of the pairs, and the end rows without a pair."""
    num_begins = len(opened)
    track = np.concatenate((slices["track"][opened], ends["track"]))
    ts = np.concatenate((slices["ts"][opened], ends["ts"]))
    offset = np.concatenate((slices["offset"][opened], ends["offset"]))
    order = np.lexsort((offset, ts, track))
    track = track[order]
    is_begin = order < num_begins
    # The height of the stack after each event, as if every E had closed something ...
    height = np.cumsum(np.where(is_begin, 1, -1))
    first = np.flatnonzero(np.concatenate(([True], track[1:] != track[:-1])))
    before = np.concatenate(([0], height[:-1]))[first]
    height -= np.repeat(before, np.diff(np.append(first, len(track))))
    # ... and the lowest it has been: an E that reaches a new low closed nothing.
    low = np.minimum(_running_min(height, first), 0)
    previous_low = np.concatenate(([0], low[:-1]))
    previous_low[first] = 0
    stray = ~is_begin & (height < previous_low)
    # An open B and its E stand at the same level, and alternate there.
    level = np.where(is_begin, height, height + 1) - low
    keep = np.flatnonzero(~stray)
    keep = keep[np.lexsort((keep, level[keep], track[keep]))]
    a, b = keep[:-1], keep[1:]
    pair = is_begin[a] & ~is_begin[b] & (track[a] == track[b]) & (level[a] == level[b])
    return opened[order[a[pair]]], order[b[pair]] - num_begins, order[stray] - num_begins


def _running_min(values: NDArray[np.int64], first: NDArray[np.int64]) -> NDArray[np.int64]:
    return -running_max(-values, first)


def _last_ends(
    slices: dict[str, NDArray[Any]], dur: NDArray[np.int64], ends: dict[str, NDArray[Any]]
) -> NDArray[np.int64]:
    """The last end (ns) on each track, of spans still open their start."""
    num_tracks = 1 + max((int(t.max()) for t in (slices["track"], ends["track"]) if len(t)), default=-1)
    last = np.full(num_tracks, NULL_INT64, np.int64)
    np.maximum.at(last, slices["track"], slices["ts"] + np.maximum(dur, 0))
    np.maximum.at(last, ends["track"], ends["ts"])
    return last
