"""The two sides of a comparison: which steps of each count, and when each holds its devices."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import numpy as np
from msgspec import Struct

from profsuite.analyzers.breakdown import DeviceBreakdown, TimeShares, breakdown, step_windows
from profsuite.analyzers.device_work import DeviceWork, device_work
from profsuite.analyzers.host import ThreadBreakdown, host
from profsuite.analyzers.host_timeline import HostTimelines, host_timelines
from profsuite.analyzers.one_rank import require_one_rank
from profsuite.errors import SelectionError
from profsuite.trace.select import Range, describe_range, within

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from profsuite.trace.model import Trace

Per = Literal["step", "window"]


class SideFacts(Struct, frozen=True, kw_only=True):
    """What was compared of one trace: ``steps`` are the numbers of those that count, empty per window.

    ``truncated_steps`` were left out because the recording starts or ends inside them.  ``num_steps`` is what totals
    are divided by: 1 per window.
    """

    source: str
    rank: int | None
    num_events: int
    selection: str | None
    devices: tuple[str, ...]
    num_steps: int
    steps: tuple[int, ...]
    truncated_steps: tuple[int, ...]


@dataclass(frozen=True)
class Side:
    """One trace of a comparison; ``used`` are the rows of ``step`` that count, by time; none per window."""

    trace: Trace
    used: NDArray[np.int64]
    per: Per

    @property
    def num_steps(self) -> int:
        """What totals are divided by."""
        return len(self.used) if self.per == "step" else 1

    @cached_property
    def work(self) -> tuple[DeviceWork, ...]:
        """Device work, one element a device."""
        return device_work(self.trace)

    @cached_property
    def timelines(self) -> HostTimelines:
        """Host timelines by track."""
        return host_timelines(self.trace)

    @cached_property
    def breakdown(self) -> tuple[DeviceBreakdown, ...]:
        """Time breakdown of each device, in the order of ``work``."""
        return breakdown(self.trace, self.work)

    @cached_property
    def thread(self) -> ThreadBreakdown | None:
        """The main host thread; null in a trace without host slices."""
        threads = host(self.trace, self.timelines).threads
        return threads[0] if threads else None

    @cached_property
    def by_time(self) -> NDArray[np.int64]:
        """Positions of ``used`` among all steps in order of time."""
        order = np.argsort(self.trace.array("step", "ts"), kind="stable")
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order))
        position: NDArray[np.int64] = place[self.used]
        return position

    def windows(self, device: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Start and end of the windows on a device (an index of ``work``), ns, one a step; in order, disjoint."""
        work = self.work[device]
        if self.per == "window":
            start, end = work.window
            return np.array([start]), np.array([end])
        steps = step_windows(self.trace, work)
        return steps.start[self.by_time], steps.end[self.by_time]

    def shares(self, device: int) -> tuple[TimeShares, ...]:
        """How a device spent each window."""
        found = self.breakdown[device]
        if self.per == "window":
            return (found.shares,)
        return tuple(found.steps[i].shares for i in self.by_time.tolist())

    @cached_property
    def step_of(self) -> NDArray[np.int64]:
        """The step (a position in ``used``) of every slice by its start on the host, -1 for none; 0 per window."""
        if self.per == "window":
            return np.zeros(self.trace.num_rows("slice"), np.int64)
        position = np.full(self.trace.num_rows("step") + 1, -1, np.int64)
        position[self.used] = np.arange(len(self.used))
        step: NDArray[np.int64] = position[self.trace.array("slice", "step_id")]
        return step

    @property
    def span(self) -> tuple[int, int] | None:
        """First start and last end of the steps that count, on the host, ns; null per window."""
        if self.per == "window":
            return None
        start, dur = self.trace.array("step", "ts")[self.used], self.trace.array("step", "dur")[self.used]
        return int(start.min()), int((start + dur).max())

    def facts(self) -> SideFacts:
        """What was compared."""
        info, number = self.trace.info, self.trace.array("step", "number")
        cut = self.trace.array("step", "truncated").astype(bool)
        return SideFacts(
            source=info.source,
            rank=info.rank,
            num_events=info.num_events,
            selection=info.selection,
            devices=tuple(sorted({str(row["name"]) for row in info.devices if row.get("name")})),
            num_steps=self.num_steps,
            steps=tuple(number[self.used].tolist()) if self.per == "step" else (),
            truncated_steps=tuple(number[cut].tolist()),
        )


def sides(
    before: Trace, after: Trace, steps: Range | None = None, steps_after: Range | None = None
) -> tuple[Side, Side, tuple[str, ...]]:
    """The two sides and what must be said of them; per step where both have whole ones, else per window.

    ``SelectionError`` where a range of steps was asked for and a trace has no whole step in it.
    """
    traces, ranges = (before, after), (steps, steps if steps_after is None else steps_after)
    used = [_used(trace, wanted) for trace, wanted in zip(traces, ranges, strict=True)]
    notes = []
    per: Per = "step" if all(len(rows) for rows in used) else "window"
    if per == "window":
        lacking = " and ".join(name for name, rows in zip(("before", "after"), used, strict=True) if not len(rows))
        notes.append(
            f"No whole step in {lacking}: the whole windows are compared, and nothing is known of noise. Call "
            "prof.step() once an iteration."
        )
    elif min(map(len, used)) < 2:
        notes.append("With a single step on a side nothing is known of noise: record several steps.")
    left, right = (Side(trace, rows, per) for trace, rows in zip(traces, used, strict=True))
    return left, right, tuple(notes)


def one_side(trace: Trace, steps: Range | None = None) -> Side:
    """A trace by itself, per step where it has whole ones."""
    used = _used(trace, steps)
    return Side(trace, used, "step" if len(used) else "window")


def _used(trace: Trace, wanted: Range | None) -> NDArray[np.int64]:
    require_one_rank(trace)
    number, whole = trace.array("step", "number"), ~trace.array("step", "truncated").astype(bool)
    if wanted is not None:
        whole = whole & within(number, wanted)
        if not whole.any():
            there = f"it has {number.min()} to {number.max()}" if len(number) else "it has none"
            raise SelectionError(f"{trace.info.source}: has no whole step in {describe_range(wanted)}; {there}")
    rows = np.flatnonzero(whole)
    return rows[np.argsort(trace.array("step", "ts")[rows], kind="stable")]
