"""GPU time breakdown: compute, exposed communication, exposed memory copies, idle; they sum to the window."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from profsuite.analyzers.base import Ns, Pct, pct
from profsuite.analyzers.device_work import COMM, COMPUTE, MEMORY, DeviceWork, device_work
from profsuite.trace.intervals import covered, merge

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from profsuite.trace.model import Trace


class TimeShares(Struct, frozen=True, kw_only=True):
    """How a device spent a window; the four of the first line sum to ``window_ns`` exactly.

    compute = union(compute); exposed_comm = union(comm) - what compute covers; exposed_memcpy = union(copies and
    fills) - what compute or comm covers; idle = window - union(all).  ``busy_ns`` = window - idle.  ``comm_ns`` is
    union(comm), ``overlapped_comm_ns`` what compute covers of it, ``overlap_pct`` their ratio, null without
    communication.  ``busy_pct`` is null in an empty window.
    """

    compute_ns: Ns
    exposed_comm_ns: Ns
    exposed_memcpy_ns: Ns
    idle_ns: Ns
    window_ns: Ns
    busy_ns: Ns
    comm_ns: Ns
    overlapped_comm_ns: Ns
    memcpy_ns: Ns
    busy_pct: Pct | None
    overlap_pct: Pct | None


class StepShares(Struct, frozen=True, kw_only=True):
    """How a device spent one step, from ``start_ns`` (file's clock) for ``shares.window_ns``.

    A step holds a device from when it has begun on the host and the earlier steps' work is done, until it has
    ended on the host and its own work is done.
    """

    number: int
    start_ns: Ns
    truncated: bool
    shares: TimeShares


OVER_TIME = 120
"""Stretches of a window of which ``TimeOverTime`` tells."""


class TimeOverTime(Struct, frozen=True, kw_only=True):
    """How a device spent its window, in stretches of equal length (to a nanosecond) that make it up.

    The time between the windows of a recording with a schedule is in them, with nothing.

    ``edges_ns`` (file's clock) are one more than the stretches; the parts are those of ``TimeShares``, and each sums to
    its value for the whole window.
    """

    edges_ns: tuple[Ns, ...]
    compute_ns: tuple[Ns, ...]
    exposed_comm_ns: tuple[Ns, ...]
    exposed_memcpy_ns: tuple[Ns, ...]


class DeviceBreakdown(Struct, frozen=True, kw_only=True):
    """How one device spent its window, first device start to last device end, and each step.

    Of selected steps the window is theirs: from when the first has begun on the host until the last has ended there
    and the device's work is done.  Of a recording with a schedule the time between its windows does not count.
    ``device`` is null where the file does not say which; ``over_time`` in an empty window.
    """

    device: int | None
    start_ns: Ns
    num_compute: int
    num_comm: int
    num_memcpy: int
    num_streams: int
    shares: TimeShares
    steps: tuple[StepShares, ...]
    over_time: TimeOverTime | None = None


def breakdown(trace: Trace, work: tuple[DeviceWork, ...] | None = None) -> tuple[DeviceBreakdown, ...]:
    """The time breakdown of every device with work, by ordinal; whole recording and each step.

    Definitions: docs/analyses.md, "GPU time breakdown".  ``work`` saves computing it again.
    """
    return tuple(_device(trace, w) for w in (device_work(trace) if work is None else work))


def _device(trace: Trace, work: DeviceWork) -> DeviceBreakdown:
    covers = _Covers(work)
    start, end = work.window
    whole = covers.shares(np.array([start]), np.array([end]), work.breaks_ns)[0]
    steps = step_windows(trace, work)
    shares = covers.shares(steps.start, steps.end)
    numbers = trace.array("step", "number").tolist()
    truncated = trace.array("step", "truncated").tolist()
    counts = np.bincount(work.kind, minlength=3).tolist()
    return DeviceBreakdown(
        device=work.device,
        start_ns=start,
        num_compute=counts[COMPUTE],
        num_comm=counts[COMM],
        num_memcpy=counts[MEMORY],
        num_streams=len(np.unique(work.streams)),
        shares=whole,
        steps=tuple(
            StepShares(number=numbers[row], start_ns=begin, truncated=bool(truncated[row]), shares=share)
            for row, begin, share in zip(steps.rows.tolist(), steps.start.tolist(), shares, strict=True)
        ),
        over_time=covers.over_time(start, end),
    )


@dataclass(frozen=True)
class StepWindows:
    """When each step held a device: ``rows`` of the ``step`` table by time, ``start`` and ``end`` in ns."""

    rows: NDArray[np.int64]
    start: NDArray[np.int64]
    end: NDArray[np.int64]


def step_windows(trace: Trace, work: DeviceWork) -> StepWindows:
    """When each step held a device.

    From when the step has begun on the host and the device has done the earlier steps' work, until it has ended on
    the host and its own work is done: windows never overlap, and steps that follow each other leave no hole.
    """
    ts, dur = trace.array("step", "ts"), trace.array("step", "dur")
    rows = np.argsort(ts, kind="stable")
    host_start, host_end = ts[rows], ts[rows] + dur[rows]
    done = host_start.copy()  # by when the step's own device work is done
    step_of = trace.array("slice", "step_id")[work.ids]
    rank = np.empty(len(rows), np.int64)
    rank[rows] = np.arange(len(rows))
    has = step_of >= 0
    np.maximum.at(done, rank[step_of[has]], work.end[has])
    begin = host_start.copy()
    if work.free is not None and len(begin):
        begin[0], done[0] = max(int(begin[0]), work.free), max(int(done[0]), work.free)
    finish = np.maximum.accumulate(np.maximum(host_end, done))
    begin[1:] = np.maximum(host_start[1:], finish[:-1])
    return StepWindows(rows, begin, finish)


class _Covers:
    """How much of any window each class of work covers."""

    def __init__(self, work: DeviceWork) -> None:
        compute, comm, memory = (work.kind == kind for kind in (COMPUTE, COMM, MEMORY))
        everything = np.ones(len(work.kind), bool)
        self._sets = [
            merge(work.start[mask], work.end[mask]) for mask in (compute, compute | comm, comm, memory, everything)
        ]

    def shares(self, start: NDArray[np.int64], end: NDArray[np.int64], less_ns: int = 0) -> list[TimeShares]:
        columns = [covered(start, end, covers) for covers in self._sets]
        window = end - start - less_ns
        return [_shares(*row) for row in zip(*(c.tolist() for c in (*columns, window)), strict=True)]

    def over_time(self, start: int, end: int) -> TimeOverTime | None:
        if end <= start:
            return None
        # In Python's numbers: a double cannot hold a time of the epoch, nor int64 the product.
        count = min(OVER_TIME, end - start)
        edges = np.array([start + n * (end - start) // count for n in range(count + 1)], np.int64)
        compute, kernels, _, _, busy = (covered(edges[:-1], edges[1:], covers) for covers in self._sets)
        return TimeOverTime(
            edges_ns=tuple(edges.tolist()),
            compute_ns=tuple(compute.tolist()),
            exposed_comm_ns=tuple((kernels - compute).tolist()),
            exposed_memcpy_ns=tuple((busy - kernels).tolist()),
        )


def _shares(compute: int, kernels: int, comm: int, memory: int, busy: int, window: int) -> TimeShares:
    exposed = kernels - compute
    return TimeShares(
        compute_ns=compute,
        exposed_comm_ns=exposed,
        exposed_memcpy_ns=busy - kernels,
        idle_ns=window - busy,
        window_ns=window,
        busy_ns=busy,
        comm_ns=comm,
        overlapped_comm_ns=comm - exposed,
        memcpy_ns=memory,
        busy_pct=pct(busy, window),
        overlap_pct=pct(comm - exposed, comm),
    )
