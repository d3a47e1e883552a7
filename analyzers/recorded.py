"""When the recorder ran: the windows of time that an analysis judges.

profsuite's side channels (waits for a batch, garbage collection, counters) run from the start of a recording to its
end, ops and kernels are recorded in the windows of its schedule.  What lies outside of these was not recorded, rather
than idle, and no slice of a side channel there counts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from profsuite.trace.intervals import clip, complement, merge
from profsuite.trace.select import selected_time

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from profsuite.trace.intervals import IntervalSet
    from profsuite.trace.model import Trace

KEY: Final = "profsuite"
"""The file's key with what the collector says of the recording."""
_BOUND: Final = 2**62


def recorded(trace: Trace) -> IntervalSet | None:
    """When ops and device work were recorded, ns on the file's clock; null where that is the whole file.

    Of a selected time that time alone: slices that stick out of it are in the trace as a whole.  Else by what the
    collector noted (``recorded_ns``, since the epoch); of a recording with a schedule that lacks it, the steps that
    follow each other.  A note that makes no sense counts as absent, and so does one that covers no step and no part of
    the file.
    """
    if not trace.num_rows("slice"):
        return None
    windows, chosen = _windows(trace), selected_time(trace)
    if chosen is not None:
        whole = np.array(chosen[:1], np.int64), np.array(chosen[1:], np.int64)
        windows = whole if windows is None else clip(windows, *chosen)
    if windows is None or not len(windows[0]):
        return None
    start, end = trace.array("slice", "ts"), trace.end
    inside = overlaps(start, end, windows)
    return windows if inside.any() else None


def _windows(trace: Trace) -> IntervalSet | None:
    """The windows in which profsuite's engine ran, null where it was not profsuite, or has no windows."""
    facts = trace.metadata(KEY)
    if not isinstance(facts, dict):
        return None
    windows = _noted(facts.get("recorded_ns"), trace.info.base_time_ns or 0)
    if windows is None and _scheduled(facts.get("settings")):
        windows = _runs_of_steps(trace)
    return windows


def overlaps(start: NDArray[np.int64], end: NDArray[np.int64], windows: IntervalSet) -> NDArray[np.bool_]:
    """Which of n slices lie in the windows, at least in part; one of no length where it begins in one."""
    first = np.searchsorted(windows[1], start, "right")
    known = first < len(windows[0])
    begin = windows[0][np.where(known, first, 0)]
    return np.asarray(known & ((begin < end) | (begin == start)))


def between(windows: IntervalSet | None) -> IntervalSet:
    """The time between the windows, as a set."""
    none = np.zeros(0, np.int64)
    if windows is None or not len(windows[0]):
        return none, none
    return complement(windows, int(windows[0][0]), int(windows[1][-1]))


def _noted(value: Any, base_ns: int) -> IntervalSet | None:
    if not isinstance(value, list) or not value:
        return None
    for pair in value:
        if not isinstance(pair, list) or len(pair) != 2 or not all(type(time) is int for time in pair):
            return None
        if not all(abs(time - base_ns) < _BOUND for time in pair):
            return None
    begin, end = (np.array([pair[side] - base_ns for pair in value], np.int64) for side in (0, 1))
    return merge(begin, end)


def _scheduled(settings: Any) -> bool:
    """Whether the settings name a schedule, and nothing ran between its windows."""
    return isinstance(settings, dict) and settings.get("schedule") is not None and not settings.get("background")


def _runs_of_steps(trace: Trace) -> IntervalSet:
    """From the first of steps that follow each other by number to the end of the last."""
    ts = trace.array("step", "ts")
    order = np.argsort(ts, kind="stable")
    begin, end, number = ts[order], (ts + trace.array("step", "dur"))[order], trace.array("step", "number")[order]
    new = np.append(True, np.diff(number) != 1)[: len(begin)]
    last = np.append(new[1:], True)[: len(begin)]
    return merge(begin[new], end[last])
