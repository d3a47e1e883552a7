"""Idle time, attributed: every gap of a device gets one cause, and the causes sum to the idle time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np
from msgspec import Struct

from profsuite.analyzers.base import Ns, Pct, pct
from profsuite.analyzers.device_work import COMM, NO_STREAM, DeviceWork, device_work
from profsuite.analyzers.host_calls import ALLOCATOR, COMPILE, GC, INPUT, LAUNCH, OP, SYNC, waits_for_events
from profsuite.analyzers.host_timeline import HostTimelines, host_timelines
from profsuite.analyzers.places import thread_label
from profsuite.trace.intervals import covered, merge

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from profsuite.trace.intervals import IntervalSet
    from profsuite.trace.model import Trace

Cause = Literal[
    "compile",
    "gc",
    "allocator",
    "input",
    "sync",
    "host",
    "dependency",
    "queue",
    "collective_wait",
    "unknown",
]


class IdleCause(Struct, frozen=True, kw_only=True):
    """The gaps of one cause: their total, their number, and the total as a share of the device's idle time."""

    cause: Cause
    total_ns: Ns
    num_gaps: int
    idle_pct: Pct | None


class HostSplit(Struct, frozen=True, kw_only=True):
    """What the launching thread did in the gaps of cause ``host``; sums to them exactly.

    ``launch_ns`` is time in runtime and driver calls, and from the launch call's end to the device's start;
    ``op_ns`` the ops' own dispatch; ``python_ns`` everything else (Python, and what was not recorded).
    """

    python_ns: Ns
    op_ns: Ns
    launch_ns: Ns


class Gap(Struct, frozen=True, kw_only=True):
    """One gap of a device: when (file's clock), how long, why, and what ended it.

    ``next_slice_id`` is the row of the kernel or copy that ended it, ``next_op`` the op that launched it,
    ``blamed`` the call that the cause names (the sync, the loader, the cudaMalloc).
    """

    start_ns: Ns
    dur_ns: Ns
    cause: Cause
    next_slice_id: int
    next_name: str
    next_op: str | None
    blamed: str | None
    stream: int | None
    thread: str | None
    step: int | None


class IdleBreakdown(Struct, frozen=True, kw_only=True):
    """All gaps of one device; ``causes`` are those that occur, largest first.

    ``top_gaps`` are the longest that work ended: not the time after the last work of selected steps.
    """

    device: int | None
    idle_ns: Ns
    num_gaps: int
    causes: tuple[IdleCause, ...]
    host: HostSplit
    top_gaps: tuple[Gap, ...]


CAUSES: tuple[Cause, ...] = get_args(Cause)
"""Causes in the order in which they are tried: the first that holds is the gap's."""

QUEUE_NS = 10_000
"""Launch-latency bound: a gap below it, on one stream, is what a queued launch costs by itself."""

TOLERANCE_NS = 5_000
"""How far host and device clocks may disagree when a wait's end is compared with a gap's start."""


def idle(
    trace: Trace,
    work: tuple[DeviceWork, ...] | None = None,
    timelines: HostTimelines | None = None,
    top: int = 10,
) -> tuple[IdleBreakdown, ...]:
    """Every gap of every device with work, by its cause; the ``top`` longest gaps of each.

    Predicates: docs/analyses.md, "Idle, attributed".  ``work`` and ``timelines`` save computing them again.
    """
    work = device_work(trace) if work is None else work
    timelines = host_timelines(trace) if timelines is None else timelines
    calls = _Calls(trace, timelines)
    return tuple(_device(trace, w, timelines, calls, top) for w in work)


def gap_causes(trace: Trace, work: DeviceWork, timelines: HostTimelines) -> NDArray[np.int8]:
    """The cause of each gap of a device, in order of time, as a code of ``CAUSES``."""
    return device_gaps(trace, work, timelines).cause


def device_gaps(trace: Trace, work: DeviceWork, timelines: HostTimelines) -> Gaps:
    """Every gap of a device, in order of time."""
    return _attribute(trace, work, timelines, _Calls(trace, timelines))


def gap_times(
    trace: Trace, work: DeviceWork, timelines: HostTimelines
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int8]]:
    """Start and end (ns) of each gap of a device, in order of time, and its cause as a code of ``CAUSES``."""
    gaps = _attribute(trace, work, timelines, _Calls(trace, timelines))
    return gaps.start, gaps.end, gaps.cause


class _Calls:
    """The waits of each host thread and the event waits of each stream, sorted; shared by all devices."""

    def __init__(self, trace: Trace, timelines: HostTimelines) -> None:
        self.start, self.end = trace.array("slice", "ts"), trace.end
        self.track = trace.array("slice", "track_id")
        self.claims = {code: self._cover(timelines, code) for code in (COMPILE, GC)}
        syncs = self._by_class(timelines, SYNC)
        syncs = syncs[np.argsort(self.start[syncs], kind="stable")]
        self.syncs = {track: syncs[self.track[syncs] == track] for track in timelines.threads}
        called = np.flatnonzero(timelines.classes == LAUNCH)
        called = called[waits_for_events(trace)[trace.array("slice", "name")[called]]]
        self.wait_calls = {t: np.sort(self.start[called[self.track[called] == t]]) for t in timelines.threads}
        kinds = np.array([k == "Stream Wait Event" for k in trace.words("sync", "sync_kind")] or [False])
        kind = trace.array("sync", "sync_kind")
        self.wait_rows = trace.array("sync", "slice_id")[kinds[kind] & (kind >= 0)].astype(np.int64)

    def _cover(self, timelines: HostTimelines, code: int) -> IntervalSet:
        rows = self._by_class(timelines, code)
        return merge(self.start[rows], self.end[rows])

    def _by_class(self, timelines: HostTimelines, code: int) -> NDArray[np.int64]:
        return np.flatnonzero(timelines.classes == code)


@dataclass(frozen=True)
class Gaps:
    """The gaps of one device, one element a gap, in order of time; ``thread`` is -1 without a launch.

    ``start`` and ``end`` are ns on the file's clock, ``cause`` a code of ``CAUSES``.  ``follows`` is the element of
    work that ends the gap, -1 for the end of the window.  ``wait`` is the row of ``slice`` of the host's wait that
    a gap of cause ``sync`` follows, -1 for other causes.  ``split`` has the three parts of ``HostSplit``, ns.
    """

    start: NDArray[np.int64]
    end: NDArray[np.int64]
    follows: NDArray[np.int64]
    thread: NDArray[np.int64]
    cause: NDArray[np.int8]
    wait: NDArray[np.int64]
    split: NDArray[np.int64]

    @property
    def dur(self) -> NDArray[np.int64]:
        """Length of each gap, ns."""
        return self.end - self.start


def _attribute(trace: Trace, work: DeviceWork, timelines: HostTimelines, calls: _Calls) -> Gaps:
    follows, after, before, start, end = _bounds(work)
    dur = end - start
    launch = work.launch_ids[after]
    known = launch >= 0
    launch_start = np.where(known, calls.start[launch], 0)
    launch_end = np.where(known, calls.end[launch], 0)
    thread = np.where(known, calls.track[launch], -1).astype(np.int64)
    if len(follows) and follows[-1] < 0:  # after the last work: until its end the CPU has launched nothing
        steps = trace.array("step", "ts") + trace.array("step", "dur")
        known[-1], launch_start[-1], launch_end[-1] = True, end[-1], end[-1]
        thread[-1] = calls.track[trace.array("step", "slice_id")[steps.argmax()]]

    # Work that was launched before the gap began did not wait for the CPU, whatever that did meanwhile.
    in_time = known & (launch_end <= start)
    late = known & ~in_time
    holds = np.zeros((len(CAUSES), len(after)), bool)
    for code, name in ((COMPILE, "compile"), (GC, "gc")):
        holds[CAUSES.index(name)] = ~in_time & (2 * covered(start, end, calls.claims[code]) >= dur)
    split = np.zeros((len(after), 3), np.int64)
    wait = np.full(len(after), -1, np.int64)
    for track in np.unique(thread).tolist():
        if track not in timelines.threads:
            continue
        at = np.flatnonzero(late & (thread == track))
        line = timelines.threads[track]
        allocating, loading = line.spent((ALLOCATOR, INPUT), start[at], end[at])
        holds[CAUSES.index("allocator"), at] = 2 * allocating >= dur[at]
        holds[CAUSES.index("input"), at] = 2 * loading >= dur[at]
        wait[at] = _woken_from(calls, track, start[at], end[at], launch_start[at])
        holds[CAUSES.index("sync"), at] = wait[at] >= 0
        returned = np.minimum(launch_end[at], end[at])
        op, *called = line.spent((OP, LAUNCH, ALLOCATOR, SYNC), start[at], returned)
        split[at, 1] = op
        split[at, 2] = sum(called) + (end[at] - returned)
    split[:, 0] = dur - split[:, 1] - split[:, 2]

    holds[CAUSES.index("host")] = late
    other_stream = work.streams[before] != work.streams[after]
    holds[CAUSES.index("dependency")] = in_time & (other_stream | _waited(trace, work, calls, before, after, thread))
    holds[CAUSES.index("queue")] = in_time & (dur < QUEUE_NS)
    holds[CAUSES.index("collective_wait")] = in_time & (work.kind[after] == COMM)
    holds[CAUSES.index("unknown")] = True
    cause = holds.argmax(axis=0).astype(np.int8)
    split[cause != CAUSES.index("host")] = 0
    wait[cause != CAUSES.index("sync")] = -1
    return Gaps(start, end, follows, thread, cause, wait, split)


def _bounds(work: DeviceWork) -> tuple[NDArray[np.int64], ...]:
    """What follows each gap (-1: the window's end), an element of work that stands for it, what ended last, its time.

    Before the first and after the last work there is a gap only in the window of selected steps.
    """
    after = work.gaps
    before = work.last[after - 1]
    follows, start, end = after, work.gap_start, work.start[after]
    first, last = work.window
    done = int(work.end[work.last[-1]])
    if first < work.start[0]:
        follows, after, before = np.append(0, follows), np.append(0, after), np.append(0, before)
        start, end = np.append(first, start), np.append(work.start[0], end)
    done = done if work.free is None else max(done, work.free)
    if last > done:
        final = int(work.last[-1])
        follows, after, before = np.append(follows, -1), np.append(after, final), np.append(before, final)
        start, end = np.append(start, done), np.append(end, last)
    return follows, after, before, start, end


def _woken_from(
    calls: _Calls, track: int, start: NDArray[np.int64], end: NDArray[np.int64], launch_start: NDArray[np.int64]
) -> NDArray[np.int64]:
    """The wait that the thread was in when the gap began, woke up from in it, and launched only then; else -1."""
    rows = calls.syncs[track]
    if not len(rows):
        return np.full(len(start), -1)
    at = np.searchsorted(calls.start[rows], start, "left") - 1
    wait = rows[np.maximum(at, 0)]
    woke = calls.end[wait]
    waited = (at >= 0) & (woke > start - TOLERANCE_NS) & (woke <= np.minimum(end, launch_start))
    return np.where(waited, wait, -1)


def _waited(
    trace: Trace,
    work: DeviceWork,
    calls: _Calls,
    before: NDArray[np.int64],
    after: NDArray[np.int64],
    thread: NDArray[np.int64],
) -> NDArray[np.bool_]:
    """Whether an event wait was put into the stream between the two launches.

    ``cuda_sync`` rows name the stream; without them any cudaStreamWaitEvent of the thread counts.
    """
    launch, earlier = work.launch_ids[after], work.launch_ids[before]
    until = np.where(launch >= 0, calls.start[launch], work.start[after])
    since = np.where(earlier >= 0, calls.start[earlier], work.end[before])
    result = np.zeros(len(after), bool)
    if len(calls.wait_rows):
        stream = trace.array("track", "stream")[calls.track[calls.wait_rows]]
        device = trace.array("track", "device")[calls.track[calls.wait_rows]]
        ours = device == (-1 if work.device is None else work.device)
        for value in np.unique(stream[ours]).tolist():
            at = np.flatnonzero(work.streams[after] == value)
            times = np.sort(calls.start[calls.wait_rows[ours & (stream == value)]])
            result[at] = _any_between(times, since[at], until[at])
        return result
    for track in np.unique(thread).tolist():  # of those that launch here: a device may have few of many threads
        if track not in calls.wait_calls:
            continue
        times = calls.wait_calls[track]
        at = np.flatnonzero(thread == track)
        result[at] = _any_between(times, since[at], until[at])
    return result


def _any_between(times: NDArray[np.int64], since: NDArray[np.int64], until: NDArray[np.int64]) -> NDArray[np.bool_]:
    return np.searchsorted(times, until, "right") > np.searchsorted(times, since, "right")


def _device(trace: Trace, work: DeviceWork, timelines: HostTimelines, calls: _Calls, top: int) -> IdleBreakdown:
    gaps = _attribute(trace, work, timelines, calls)
    total = int(gaps.dur.sum())
    causes = []
    for code, cause in enumerate(CAUSES):
        of = gaps.cause == code
        if of.any():
            ns = int(gaps.dur[of].sum())
            causes.append(IdleCause(cause=cause, total_ns=ns, num_gaps=int(of.sum()), idle_pct=pct(ns, total)))
    python, op, launch = gaps.split.sum(axis=0).tolist()
    longest = np.argsort(-gaps.dur, kind="stable")
    longest = longest[gaps.follows[longest] >= 0][:top]
    return IdleBreakdown(
        device=work.device,
        idle_ns=total,
        num_gaps=len(gaps.dur),
        causes=tuple(sorted(causes, key=lambda c: -c.total_ns)),
        host=HostSplit(python_ns=python, op_ns=op, launch_ns=launch),
        top_gaps=tuple(_gap(trace, work, timelines, calls, gaps, i) for i in longest.tolist()),
    )


_CLAIMED = {"compile": COMPILE, "gc": GC, "allocator": ALLOCATOR, "input": INPUT, "sync": SYNC}


def _gap(trace: Trace, work: DeviceWork, timelines: HostTimelines, calls: _Calls, gaps: Gaps, i: int) -> Gap:
    names, name = trace.words("slice", "name"), trace.array("slice", "name")
    start, end = int(gaps.start[i]), int(gaps.end[i])
    element, thread, cause = int(gaps.follows[i]), int(gaps.thread[i]), CAUSES[gaps.cause[i]]
    row, op = int(work.ids[element]), int(work.op_ids[element])
    step = int(trace.array("slice", "step_id")[row])
    stream = int(work.streams[element])
    blamed = None
    if cause in _CLAIMED:
        of = timelines.classes == _CLAIMED[cause]
        if cause not in ("compile", "gc"):
            of = of & (calls.track == thread)
        since = start - TOLERANCE_NS if cause == "sync" else start
        rows = np.flatnonzero(of & (calls.end > since) & (calls.start < end))
        if len(rows):
            held = np.minimum(calls.end[rows], end) - np.maximum(calls.start[rows], since)
            blamed = names[name[rows[held.argmax()]]]
    return Gap(
        start_ns=start,
        dur_ns=end - start,
        cause=cause,
        next_slice_id=row,
        next_name=names[name[row]],
        next_op=names[name[op]] if op >= 0 else None,
        blamed=blamed,
        stream=stream if stream != NO_STREAM else None,
        thread=thread_label(trace, thread) if thread >= 0 else None,
        step=int(trace.array("step", "number")[step]) if step >= 0 else None,
    )
