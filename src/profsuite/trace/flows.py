"""Arrows between slices: which end goes with which, and the slice that each end is bound to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from profsuite.trace.classes import DEVICE_WORK, Role, role_mask
from profsuite.trace.joins import earliest_with
from profsuite.trace.readers.fields import NULL_INT64

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from profsuite.trace.model import Trace

LAUNCH_FLOWS: Final = frozenset({"ac2g", "async", "async_cpu_to_gpu", "async_gpu"})
"""Categories of the flows from launch calls to device work, of all Kineto generations."""

FORWARD_FLOWS: Final = frozenset({"fwdbwd", "forward_backward"})
"""Categories of the flows from forward to backward ops."""

STARTS, STEPS, FINISHES = 0, 1, 2
"""Phases ``s``, ``t`` and ``f`` as numbers."""


@dataclass(frozen=True, slots=True)
class Flows:
    """Pairs of flow ends: n arrows in the order of the ends that finish them.

    ``start`` and ``finish`` are rows of ``flow``; ``start_slice`` and ``finish_slice`` the slices
    that the ends are bound to, -1 for none; ``category`` codes of the column ``category`` of ``flow``.
    """

    start: NDArray[np.int64]
    finish: NDArray[np.int64]
    start_slice: NDArray[np.int32]
    finish_slice: NDArray[np.int32]
    category: NDArray[np.int32]


def pair_ends(
    phase: NDArray[np.int32], category: NDArray[np.int32], ids: NDArray[np.int64], ts: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Start and finish (indices into the n ends) of every arrow.

    Ends belong together by (category, id).  In order of time, each ``t`` and ``f`` is the finish
    of an arrow from the last ``s`` or ``t`` before it; several ``f`` may share a start (the
    kernels of one graph launch).  An end with none before it takes the first ``s`` after it:
    clocks of host and device differ.
    """
    starts = np.flatnonzero(phase != FINISHES)
    ends = np.flatnonzero(phase != STARTS)
    if not len(starts) or not len(ends):
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    # Ids are only unique within a category: lift each category above the last one.
    low = int(ids.min())
    width = int(ids.max()) - low + 1
    if width * (int(category.max()) + 1) < 2**62:
        key = (ids - low) + category.astype(np.int64) * width
    else:
        key = np.unique(ids, return_inverse=True)[1] + category.astype(np.int64) * len(ids)
    if len(starts) + len(ends) == len(phase) and _all_different(key[starts]):
        # The usual file: one start an id, no steps between.
        start = earliest_with(key[ends], key[starts], starts.astype(np.int32), ts).astype(np.int64)
    else:
        start = _latest_before(phase, key, ts)[ends]
        lost = start < 0
        real = np.flatnonzero(phase == STARTS)
        start[lost] = earliest_with(key[ends[lost]], key[real], real.astype(np.int32), ts)
    known = start >= 0
    return start[known], ends[known]


def _all_different(values: NDArray[np.int64]) -> bool:
    values = np.sort(values)
    return not bool((values[1:] == values[:-1]).any())


def _latest_before(phase: NDArray[np.int32], key: NDArray[np.int64], ts: NDArray[np.int64]) -> NDArray[np.int64]:
    """For each end the last ``s`` or ``t`` of the same key before it, -1 for none."""
    order = np.lexsort((phase, ts, key))
    place = np.arange(len(order))
    source = np.maximum.accumulate(np.where(phase[order] != FINISHES, place, -1))
    source = np.concatenate(([-1], source[:-1]))  # strictly before
    before = np.where(source >= 0, order[source], -1)
    before[key[before] != key[order]] = -1
    out = np.empty(len(order), np.int64)
    out[order] = before
    return out


class SliceFinder:
    """Finds slices by track and time among some rows of ``slice``."""

    def __init__(self, track: NDArray[np.int32], ts: NDArray[np.int64], rows: NDArray[Any], num_tracks: int) -> None:
        """Index ``rows``, given in the order (track, ts, longer first, row), of the columns ``track`` and ``ts``."""
        self.rows = rows
        times = np.sort(ts[rows])  # np.unique hashes, ten times as slow
        self._times = times[np.append(True, times[1:] != times[:-1])] if len(times) else times
        self._num_tracks = num_tracks
        # Ranks instead of times: the key fits 64 bits whatever the file's span.
        self._keys = track[rows].astype(np.int64) * len(self._times) + np.searchsorted(self._times, ts[rows])

    def last_at_or_before(self, track: NDArray[np.int32], ts: NDArray[np.int64]) -> NDArray[np.int64]:
        """For each (track, ts) the last row of the track that starts then or before, -1 for none."""
        if not len(self.rows):
            return np.full(len(ts), -1, np.int64)
        rank = np.searchsorted(self._times, ts, side="right") - 1
        wanted = track.astype(np.int64) * len(self._times) + rank
        place = np.searchsorted(self._keys, wanted, side="right") - 1
        low = track.astype(np.int64) * len(self._times)
        found = (place >= 0) & (rank >= 0) & (self._keys[place] >= low)
        return np.where(found, self.rows[place], -1)


def flow_ends(trace: Trace, rows: NDArray[np.int64]) -> NDArray[np.int32]:
    """The slice that each flow end (row of ``flow``) is bound to, -1 for none.

    That is a slice of its track that starts at the same time: for flows of launches a launch call
    or device work if there is one, for forward-backward flows an op, else the innermost; and
    where none starts then, the innermost slice around that time.
    """
    track, ts = trace.array("flow", "track_id")[rows], trace.array("flow", "ts")[rows]
    slice_track, slice_ts, end = trace.array("slice", "track_id"), trace.array("slice", "ts"), trace.end
    bound = np.full(len(rows), -1, np.int32)
    if not len(slice_ts):
        return bound
    roles, order = trace.roles, trace.track_order
    words = trace.words("flow", "category")
    category = trace.array("flow", "category")[rows]
    for names, wanted in ((LAUNCH_FLOWS, (Role.LAUNCH, *DEVICE_WORK)), (FORWARD_FLOWS, (Role.OP,))):
        mine = np.flatnonzero(_is_one_of(words, names)[category]) if len(words) else np.zeros(0, np.int64)
        if len(mine):
            few = order[role_mask(roles, wanted)[order]]
            finder = SliceFinder(slice_track, slice_ts, few, trace.num_rows("track"))
            found = finder.last_at_or_before(track[mine], ts[mine])
            exact = (found >= 0) & (slice_ts[found] == ts[mine])
            bound[mine[exact]] = found[exact]
    rest = np.flatnonzero(bound < 0)
    if len(rest):
        finder = SliceFinder(slice_track, slice_ts, order, trace.num_rows("track"))
        here = finder.last_at_or_before(track[rest], ts[rest])
        parent = trace.array("slice", "parent_id")
        while len(rest):
            inside = (here >= 0) & ((end[here] > ts[rest]) | (slice_ts[here] == ts[rest]))
            bound[rest[inside]] = here[inside]
            go_on = ~inside & (here >= 0)
            rest, here = rest[go_on], parent[here[go_on]].astype(np.int64)
    return bound


def _is_one_of(words: Iterable[str], names: frozenset[str]) -> NDArray[np.bool_]:
    return np.array([w.lower() in names for w in words], bool)


def pair_flows(trace: Trace) -> Flows:
    """All arrows of a trace; use ``Trace.flows()``, which remembers them."""
    flow_id = trace.array("flow", "flow_id")
    category = trace.array("flow", "category")
    text = trace.array("flow", "flow_id_text")
    numbers, names = np.flatnonzero(flow_id != NULL_INT64), np.flatnonzero((flow_id == NULL_INT64) & (text >= 0))
    phase = _phases(trace)
    ts = trace.array("flow", "ts")
    pairs = []
    for rows, ids in ((numbers, flow_id[numbers]), (names, text[names].astype(np.int64))):
        start, finish = pair_ends(phase[rows], category[rows], ids, ts[rows])
        pairs.append((rows[start], rows[finish]))
    start, finish = (np.concatenate(part) for part in zip(*pairs, strict=True))
    order = np.argsort(finish)
    start, finish = start[order], finish[order]
    bound = flow_ends(trace, np.concatenate((start, finish)))
    return Flows(start, finish, bound[: len(start)], bound[len(start) :], category[finish])


def _phases(trace: Trace) -> NDArray[np.int32]:
    number = np.array([{"s": STARTS, "t": STEPS}.get(w, FINISHES) for w in trace.words("flow", "phase")], np.int32)
    codes = trace.array("flow", "phase")
    return number[codes] if len(codes) else np.zeros(0, np.int32)


def launches_by_flow(
    flow: dict[str, NDArray[Any]],
    is_launch_flow: NDArray[np.bool_],
    track: NDArray[np.int32],
    ts: NDArray[np.int64],
    calls: NDArray[np.int32],
    work: NDArray[np.int32],
) -> NDArray[np.int32]:
    """The launch (row of ``slice``) of each of ``work`` by raw flow rows, for traces without correlation ids.

    ``is_launch_flow`` marks the flow rows to follow.  An end counts only where a call or a device
    slice of its track starts at exactly its time.
    """
    launch = np.full(len(work), -1, np.int32)
    rows = np.flatnonzero(is_launch_flow & (flow["id"] != NULL_INT64))
    phase = np.select([flow["phase"][rows] == ord("s"), flow["phase"][rows] == ord("t")], [STARTS, STEPS], FINISHES)
    start, finish = pair_ends(phase.astype(np.int32), flow["category"][rows], flow["id"][rows], flow["ts"][rows])
    if not len(start) or not len(calls) or not len(work):
        return launch
    num_tracks = int(track.max()) + 1
    ends = []
    for end, slices in ((rows[start], calls), (rows[finish], work)):
        finder = SliceFinder(track, ts, slices[np.lexsort((slices, ts[slices], track[slices]))], num_tracks)
        found = finder.last_at_or_before(flow["track"][end], flow["ts"][end])
        ends.append(np.where((found >= 0) & (ts[found] == flow["ts"][end]), found, -1))
    both = (ends[0] >= 0) & (ends[1] >= 0)
    keys = ends[1][both]
    return earliest_with(work.astype(np.int64), keys, ends[0][both].astype(np.int32), ts)
