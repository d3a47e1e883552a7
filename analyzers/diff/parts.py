"""The step time in parts that add up to it exactly: what devices did, why they idled, what the main thread did."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from profsuite.analyzers.diff.change import Change, change_of
from profsuite.analyzers.host_calls import CLASSES
from profsuite.analyzers.idle import CAUSES, gap_times
from profsuite.trace.intervals import covered

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from profsuite.analyzers.diff.sides import Side

    Values = dict[str, NDArray[np.int64]]

BUSY_PARTS = ("compute", "exposed_comm", "exposed_memcpy")
DEVICE_PARTS = (*BUSY_PARTS, *(f"idle.{cause}" for cause in CAUSES))
"""The parts of a device's window; with ``idle`` for the sum of its causes."""
HOST_PARTS = CLASSES[1:] + CLASSES[:1]
"""The parts of a thread's time, ``unrecorded`` last."""


class PartChange(Struct, frozen=True, kw_only=True):
    """One part of the time: ``compute``, ``exposed_comm``, ``exposed_memcpy``, ``idle.<cause>``; or of a thread's."""

    part: str
    time: Change


class DeviceDiff(Struct, frozen=True, kw_only=True):
    """One device's time per step (or its window) before and after, and the parts that add up to it exactly.

    ``time`` is the device's window of each step.  The totals of ``parts`` sum to ``time``'s on each side, those that
    are 0 on both left out; ``idle`` is the sum of the ``idle.`` parts.  ``work`` is the sum of the durations of all
    kernels, copies and fills, cut to the windows; ``overlap`` what ran beside others of them: work - overlap + idle
    = time.
    """

    device_before: int | None
    device_after: int | None
    time: Change
    parts: tuple[PartChange, ...]
    idle: Change
    work: Change
    overlap: Change


class HostDiff(Struct, frozen=True, kw_only=True):
    """The main thread's time per step on the host (or its window), and the parts that add up to it exactly."""

    thread_before: str
    thread_after: str
    time: Change
    parts: tuple[PartChange, ...]


def device_values(side: Side, device: int) -> Values:
    """Each part of a device (an index of ``work``) in each step, ns; ``time``, ``idle`` and ``work`` besides."""
    shares = side.shares(device)
    values = {part: _column(shares, f"{part}_ns") for part in BUSY_PARTS}
    values |= {"time": _column(shares, "window_ns"), "idle": _column(shares, "idle_ns")}
    start, end = side.windows(device)
    work = side.work[device]
    if side.per == "step":
        # The first step may begin before the first work: then that is a gap of its window too.
        first, last = work.window
        work = replace(work, span=(min(first, int(start[0])), max(last, int(end[-1]))))
    gap_start, gap_end, cause = gap_times(side.trace, work, side.timelines)
    for code, name in enumerate(CAUSES):
        of = cause == code
        values[f"idle.{name}"] = covered(start, end, (gap_start[of], gap_end[of]))
    assert np.array_equal(np.sum([values[f"idle.{name}"] for name in CAUSES], axis=0), values["idle"])
    total = np.zeros(len(start), np.int64)
    _, step, length, _ = clipped(side, device)
    np.add.at(total, step, length)
    values["work"] = total
    return values


def clipped(
    side: Side, device: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]:
    """A device's work cut to the windows: element of ``work``, step, length in ns, whether it starts in that window."""
    work, (start, end) = side.work[device], side.windows(device)
    first = np.searchsorted(end, work.start, "right")
    count = np.maximum(np.searchsorted(start, work.end, "left") - first, 0)
    element = np.repeat(np.arange(len(count)), count)
    step = first[element] + np.arange(len(element)) - np.repeat(np.cumsum(count) - count, count)
    begin = work.start[element]
    length = np.minimum(work.end[element], end[step]) - np.maximum(begin, start[step])
    return element, step, length, begin >= start[step]


def device_diffs(before: Side, after: Side) -> tuple[DeviceDiff, ...]:
    """The devices of both sides, busiest first."""
    found = []
    for left, right in pairs([w.device for w in before.work], [w.device for w in after.work]):
        old, new = device_values(before, left), device_values(after, right)
        busy = [v["time"] - v["idle"] for v in (old, new)]
        found.append(
            DeviceDiff(
                device_before=before.work[left].device,
                device_after=after.work[right].device,
                time=change_of(old["time"], new["time"]),
                parts=_parts(DEVICE_PARTS, old, new),
                idle=change_of(old["idle"], new["idle"]),
                work=change_of(old["work"], new["work"]),
                overlap=change_of(old["work"] - busy[0], new["work"] - busy[1]),
            )
        )
    return tuple(sorted(found, key=lambda d: -(d.work.before_ms_per_step + d.work.after_ms_per_step)))


def pairs(before: Sequence[int | None], after: Sequence[int | None]) -> list[tuple[int, int]]:
    """Which device of one side stands for which of the other, as indices: by ordinal, else in order."""
    common = [(i, after.index(device)) for i, device in enumerate(before) if device in after]
    if common:
        return common
    return list(zip(range(len(before)), range(len(after)), strict=False))


def host_values(side: Side) -> Values | None:
    """Each part of the main thread in each step, ns, and ``time``; null in a trace without host slices."""
    thread = side.thread
    if thread is None or (side.per == "step" and not thread.steps):
        return None
    shares = [thread.shares] if side.per == "window" else [thread.steps[i].shares for i in side.by_time.tolist()]
    return {"time": _column(shares, "window_ns")} | {part: _column(shares, f"{part}_ns") for part in HOST_PARTS}


def host_diff(before: Side, after: Side) -> HostDiff | None:
    """The main threads of both sides; null where one has no host slices."""
    old, new = host_values(before), host_values(after)
    if old is None or new is None or before.thread is None or after.thread is None:
        return None
    return HostDiff(
        thread_before=before.thread.thread,
        thread_after=after.thread.thread,
        time=change_of(old["time"], new["time"]),
        parts=_parts(HOST_PARTS, old, new),
    )


def _column(shares: Sequence[object], field: str) -> NDArray[np.int64]:
    return np.array([getattr(share, field) for share in shares], np.int64)


def _parts(names: Sequence[str], old: Values, new: Values) -> tuple[PartChange, ...]:
    return tuple(
        PartChange(part=name, time=change_of(old[name], new[name]))
        for name in names
        if old[name].any() or new[name].any()
    )
