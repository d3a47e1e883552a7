"""Host timelines: for every thread, which class of work it was in at each moment."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from profsuite.analyzers.host_calls import CLASSES, INPUT, UNRECORDED, host_classes
from profsuite.analyzers.recorded import overlaps, recorded
from profsuite.trace.health import crossing
from profsuite.trace.intervals import clip

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from profsuite.trace.intervals import IntervalSet
    from profsuite.trace.model import Trace


@dataclass(frozen=True)
class Timeline:
    """One thread: class ``code[i]`` holds from ``time[i]`` to ``time[i + 1]``; nothing outside is recorded.

    ``time`` (ns) has one element more than ``code`` and rises strictly.
    """

    track_id: int
    num_slices: int
    time: NDArray[np.int64]
    code: NDArray[np.int8]

    def spent(
        self, codes: Sequence[int], start: NDArray[np.int64], end: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], ...]:
        """Time in each class of ``codes`` within each [start, end), ns: one array a class."""
        at_start, at_end = self._locate(start), self._locate(end)
        return tuple(self._until(code, *at_end) - self._until(code, *at_start) for code in codes)

    def shares(self, start: NDArray[np.int64], end: NDArray[np.int64]) -> NDArray[np.int64]:
        """Time in every class within each [start, end): one row a window, one column a class; rows sum to it."""
        codes = np.unique(self.code).tolist()
        table = np.zeros((len(start), len(CLASSES)), np.int64)
        table[:, codes] = np.stack(self.spent(codes, start, end), axis=1)
        table[:, UNRECORDED] = (end - start) - (table.sum(axis=1) - table[:, UNRECORDED])
        return table

    def _locate(self, time: NDArray[np.int64]) -> tuple[NDArray[np.intp], NDArray[np.int64]]:
        """The stretch that each moment lies in, and how far into it."""
        stretch = np.clip(np.searchsorted(self.time, time, "right") - 1, 0, len(self.code) - 1)
        since, until = self.time[stretch], self.time[stretch + 1]
        return stretch, np.clip(time, since, until) - since

    def _until(self, code: int, stretch: NDArray[np.intp], into: NDArray[np.int64]) -> NDArray[np.int64]:
        return self._before(code)[stretch] + np.where(self.code[stretch] == code, into, 0)

    def _before(self, code: int) -> NDArray[np.int64]:
        """Time in a class before each stretch, ns."""
        if code not in self._sums:
            length = np.where(self.code == code, np.diff(self.time), 0)
            self._sums[code] = np.cumsum(length) - length
        return self._sums[code]

    @cached_property
    def _sums(self) -> dict[int, NDArray[np.int64]]:
        return {}


@dataclass(frozen=True)
class HostTimelines:
    """The timelines of all host threads by track, and the class of every slice (a code of ``CLASSES``).

    ``recorded`` is when the recorder ran (see ``recorded.recorded``), null for all the time; slices outside of it are
    ``UNRECORDED``.
    """

    threads: dict[int, Timeline]
    classes: NDArray[np.int8]
    recorded: IntervalSet | None = None

    @cached_property
    def windows(self) -> IntervalSet:
        """The host windows: from the first host slice's start to the last one's end, where the recorder ran."""
        none = np.zeros(0, np.int64)
        lines = self.threads.values()
        if not lines:
            return none, none
        start, end = min(int(line.time[0]) for line in lines), max(int(line.time[-1]) for line in lines)
        if self.recorded is not None:
            return clip(self.recorded, start, end)
        return np.array([start], np.int64), np.array([end], np.int64)


def host_timelines(trace: Trace) -> HostTimelines:
    """Sweep every host thread once.

    The innermost slice decides (of slices that overlap without nesting the one that began last), except that inside
    ``input``, ``compile`` and ``gc`` all belongs to them: with no workers the loader runs ops on the main thread,
    and those are what the input costs.  Slices outside of what was recorded are left out, others cut to it.
    """
    classes = host_classes(trace)
    start, end, track = trace.array("slice", "ts"), trace.end, trace.array("slice", "track_id")
    windows = recorded(trace)
    if windows is not None:
        classes = np.where(overlaps(start, end, windows), classes, np.int8(UNRECORDED))
        first = np.minimum(np.searchsorted(windows[1], start, "right"), len(windows[0]) - 1)
        # What begins before a window or ends after it counts inside.
        start, end = np.maximum(start, windows[0][first]), np.minimum(end, windows[1][first])
    parent, depth = trace.array("slice", "parent_id"), trace.array("slice", "depth")
    on_host = classes != UNRECORDED
    counts = np.bincount(track[on_host], minlength=trace.num_rows("track"))

    # A slice of its parent's class, inside it, changes nothing (most Python frames and most nested ops), unless it
    # begins while another one runs inside of the same parent.
    inside = parent >= 0
    up = np.where(inside, parent, 0)
    same = inside & (classes[up] == classes) & (end <= end[up])
    if "out_of_order" in trace.words("health", "kind"):
        same[crossing(trace)] = False
    kept = np.flatnonzero(on_host & ~same & (end > start))
    kept = kept[np.argsort(track[kept], kind="stable")]
    bounds = np.searchsorted(track[kept], np.arange(len(counts) + 1))
    threads = {}
    for track_id in np.flatnonzero(counts).tolist():
        rows = kept[bounds[track_id] : bounds[track_id + 1]]
        if len(rows):
            time, code = _sweep(rows, start, end, parent, depth, classes)
            threads[track_id] = Timeline(track_id, int(counts[track_id]), time, code)
    return HostTimelines(threads, classes, windows)


def _sweep(
    rows: NDArray[np.int64],
    start: NDArray[np.int64],
    end: NDArray[np.int64],
    parent: NDArray[np.int32],
    depth: NDArray[np.int32],
    classes: NDArray[np.int8],
) -> tuple[NDArray[np.int64], NDArray[np.int8]]:
    rows = rows[np.argsort(depth[rows], kind="stable")]
    rows = rows[np.argsort(start[rows], kind="stable")]
    time = np.sort(np.concatenate([start[rows], end[rows]]), kind="stable")  # two runs that are nearly sorted
    time = time[np.append(True, time[1:] != time[:-1])]
    # The slice that began last, or the nearest one around it that still runs: all between these two have ended, as
    # they end before it does (see nesting).
    label = rows[np.searchsorted(start[rows], time, "right") - 1]
    over = np.flatnonzero(end[label] <= time)
    while len(over):
        label[over] = parent[label[over]]
        over = over[label[over] >= 0]
        over = over[end[label[over]] <= time[over]]
    code = np.where(label >= 0, classes[np.maximum(label, 0)], UNRECORDED)[:-1].astype(np.int8)
    for claim in range(INPUT, len(CLASSES)):
        claimed = rows[classes[rows] == claim]
        if len(claimed):
            reach = np.maximum.accumulate(end[claimed])
            at = np.searchsorted(start[claimed], time[:-1], "right") - 1
            code[(at >= 0) & (reach[np.maximum(at, 0)] > time[:-1])] = claim
    change = np.append(True, code[1:] != code[:-1])
    return np.append(time[:-1][change], time[-1]), code[change]
