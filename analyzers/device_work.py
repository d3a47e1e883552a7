"""Device work: kernels, copies and fills of each device, sorted by start; annotations and syncs are not work."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, cast

import numpy as np

from profsuite.analyzers.recorded import between, recorded
from profsuite.trace.classes import WORK_KINDS
from profsuite.trace.intervals import covered
from profsuite.trace.select import busy_until

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from profsuite.trace.classes import WorkKind
    from profsuite.trace.intervals import IntervalSet
    from profsuite.trace.model import Trace

COMPUTE, COMM, MEMORY = range(len(WORK_KINDS))
NO_STREAM = -(2**63)
"""Stands in ``DeviceWork.streams`` for a stream that is not known."""


@dataclass(frozen=True)
class DeviceWork:
    """The work of one device, one element a slice, sorted by start (then by row).

    ``ids`` are rows of ``slice``, ``start`` and ``end`` ns on the file's clock, ``kind`` a code of ``WORK_KINDS``;
    ``launch_ids`` and ``op_ids`` are rows of ``slice``, -1 where unknown; ``streams`` is the stream or
    ``NO_STREAM``.  ``device`` is null where the file does not say.  ``span`` is the time of the selected steps, where
    steps were selected: the device was theirs before the first piece of work and after the last one.  ``free`` is when
    it had done what was launched before them, if that was after their start: until then only their own work is theirs.
    ``unrecorded`` is the time between the windows of a recording with a schedule: null where there are no such windows.
    """

    device: int | None
    ids: NDArray[np.int64]
    start: NDArray[np.int64]
    end: NDArray[np.int64]
    kind: NDArray[np.int8]
    streams: NDArray[np.int64]
    launch_ids: NDArray[np.int64]
    op_ids: NDArray[np.int64]
    span: tuple[int, int] | None = None
    unrecorded: IntervalSet | None = None
    free: int | None = None

    @cached_property
    def last(self) -> NDArray[np.int64]:
        """For each element: which element up to here ends last (the later one of two that end together)."""
        order = np.arange(len(self.end))
        running = np.maximum.accumulate(self.end)
        return np.maximum.accumulate(np.where(self.end == running, order, 0))

    @cached_property
    def gaps(self) -> NDArray[np.int64]:
        """The elements that end a gap: they start after everything before them in their window has ended."""
        after, begin, broken = self._after
        return after[~broken & (self.start[after] > begin)]

    @cached_property
    def gap_start(self) -> NDArray[np.int64]:
        """When each of ``gaps`` begins, ns on the file's clock."""
        reached = self.end[self.last[self.gaps - 1]]
        return reached if self.free is None else np.maximum(reached, self.free)

    @cached_property
    def breaks_ns(self) -> int:
        """Time in the window that is none of its gaps, ns.

        From the last work of a recorded window to the first of the next nobody knows what was there; what was launched
        before the selected steps may run between the first pieces of their work.
        """
        after, begin, broken = self._after
        until = np.where(broken, self.start[after], np.minimum(begin, self.start[after]))
        done = int(self.end[self.last[-1]])
        return int((until - self.end[self.last[after - 1]]).sum()) + max(
            0, (done if self.free is None else self.free) - done
        )

    @cached_property
    def _after(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]:
        """What starts after all before has ended, from when on the device was free, and whether that was recorded."""
        if len(self.end) < 2:
            return np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, bool)
        after = np.flatnonzero(self.start[1:] > self.end[self.last[:-1]]) + 1
        reached = self.end[self.last[after - 1]]
        begin = reached if self.free is None else np.maximum(reached, self.free)
        if self.unrecorded is None:
            return after, begin, np.zeros(len(after), bool)
        return after, begin, covered(reached, self.start[after], self.unrecorded) > 0

    @property
    def window(self) -> tuple[int, int]:
        """First device start and last device end, or the time of the selected steps, ns."""
        return self.span or (int(self.start[0]), int(self.end[self.last[-1]]))

    @property
    def window_ns(self) -> int:
        """Length of the window, without the breaks in it."""
        first, last = self.window
        return last - first - self.breaks_ns


def device_work(trace: Trace) -> tuple[DeviceWork, ...]:
    """The work of each device of ``trace``, by ordinal; devices without work do not appear."""
    parts: dict[str, list[NDArray[np.int64]]] = {c: [] for c in ("id", "device", "stream", "launch", "op", "kind")}
    words = trace.words("kernel", "kind")
    codes = np.array([WORK_KINDS.index(cast("WorkKind", w)) for w in words] or [0], np.int64)
    for table in ("kernel", "memcpy"):
        parts["id"].append(trace.array(table, "slice_id").astype(np.int64))
        parts["device"].append(trace.array(table, "device").astype(np.int64))
        parts["stream"].append(trace.array(table, "stream"))
        parts["launch"].append(trace.array(table, "launch_id").astype(np.int64))
        parts["op"].append(trace.array(table, "op_id").astype(np.int64))
        rows = trace.num_rows(table)
        kinds = codes[trace.array("kernel", "kind")] if table == "kernel" else np.full(rows, MEMORY, np.int64)
        parts["kind"].append(kinds)
    column = {name: np.concatenate(arrays) for name, arrays in parts.items()}
    start, end = trace.array("slice", "ts"), trace.end
    steps, busy = _selected_steps(trace), busy_until(trace)
    windows = recorded(trace)
    unrecorded = None if windows is None else between(windows)
    work = []
    for device in np.unique(column["device"]).tolist():
        rows_of = np.flatnonzero(column["device"] == device)
        rows_of = rows_of[np.argsort(column["id"][rows_of], kind="stable")]
        rows_of = rows_of[np.argsort(start[column["id"][rows_of]], kind="stable")]
        ids = column["id"][rows_of]
        ends = int(end[ids].max())
        free = busy.get(device if device >= 0 else None) if steps else None
        begin = steps[0] if steps and free is None else free
        span = (min(begin, int(start[ids[0]])), max(steps[1], ends, begin)) if steps and begin is not None else None
        work.append(
            DeviceWork(
                device=device if device >= 0 else None,
                ids=ids,
                start=start[ids],
                end=end[ids],
                kind=column["kind"][rows_of].astype(np.int8),
                streams=column["stream"][rows_of],
                launch_ids=column["launch"][rows_of],
                op_ids=column["op"][rows_of],
                span=span,
                unrecorded=unrecorded,
                free=free,
            )
        )
    return tuple(work)


_STEPS = re.compile(r"steps? -?\d")


def _selected_steps(trace: Trace) -> tuple[int, int] | None:
    """First start and last end of the steps on the host, where the trace is a selection of steps; ns."""
    selection = (trace.info.selection or "").split(", ")[-1]
    if not _STEPS.match(selection) or not trace.num_rows("step"):
        return None
    start, dur = trace.array("step", "ts"), trace.array("step", "dur")
    return int(start.min()), int((start + dur).max())
