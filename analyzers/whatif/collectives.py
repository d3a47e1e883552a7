"""Collectives that run on host threads, as Gloo's do: what each begins after, and which waits they end.

A process group runs a queue of its own: a call puts a collective into it, a thread takes it out as soon as one is free,
and the caller goes on until it waits for the result.  Spans of running collectives are all that is recorded of those
threads, and of the wait nothing at all: it is a hole between two ops of the waiting thread.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from profsuite.analyzers.host_calls import OP, PYTHON, communicates
from profsuite.analyzers.whatif.parts import IS_ACTIVE

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from profsuite.analyzers.whatif.parts import Machine
    from profsuite.trace.intervals import IntervalSet

    Int64s = NDArray[np.int64]

WAIT_NS: Final = 50_000
"""A hole between ops shorter than this, or than five typical other ones, is the thread's own time."""
LATE_NS: Final = 100_000
"""From a call to the start of its collective on a thread that is free, and has a core, it takes less."""
RESUME_NS: Final = 100_000
"""A thread that waited for a collective goes on within this time of its end, or a tenth of the wait."""


class Collectives(NamedTuple):
    """Collectives on threads other than the main one, by thread and start; n rows.

    ``begin`` and ``end`` are of the running collective, ``caller`` is the thread whose call at ``called`` put it into
    the queue; where the thread had no core, it is the moment since which it had one.  ``latency`` is from there to the
    start, where the thread was free, else 0, and ``queued`` from the end of the thread's collective before to the
    start, 0 where it was free.
    """

    rows: Int64s
    track: Int64s
    begin: Int64s
    end: Int64s
    caller: Int64s
    called: Int64s
    latency: Int64s
    queued: Int64s


class Waits(NamedTuple):
    """Waits of the main thread: since when, for which collective, and when the thread went on."""

    begin: Int64s
    collective: Int64s
    again: Int64s


def collectives(machine: Machine, main: int, at_work: IntervalSet) -> Collectives:
    """The collectives of a recording; ``at_work`` is when the main thread is."""
    trace = machine.trace
    codes = trace.array("slice", "name")
    named = communicates(trace)[codes]
    # A thread with ops of its own is a backward thread, whose spans say when it calls collectives.
    apart = [thread for thread, line in machine.threads.items() if thread != main and not IS_ACTIVE[line.code].any()]
    rows = np.flatnonzero(
        named & (machine.classes == PYTHON) & np.isin(machine.tracks, apart) & (machine.ends > machine.ts)
    )
    # A span that lies within one that is still running on its thread is that one's.
    rows = rows[np.lexsort((machine.ts[rows], machine.tracks[rows]))]
    rows = _outermost(machine, rows)
    track, begin, end = machine.tracks[rows].astype(np.int64), machine.ts[rows], machine.ends[rows]
    caller, called = np.full(len(rows), main, np.int64), _last_at_work(begin, at_work)
    calls = np.flatnonzero(named & (machine.classes == OP))
    words = trace.words("slice", "name")
    told = zip(words, communicates(trace), strict=True)
    kinds = np.array([_kind(word) if collective else "" for word, collective in told] or [""])
    for kind in np.unique(kinds[codes[rows]]).tolist():
        which = np.flatnonzero(kinds[codes[rows]] == kind)
        which = which[np.argsort(begin[which], kind="stable")]
        mine = calls[kinds[codes[calls]] == kind]
        mine = mine[np.argsort(machine.ts[mine], kind="stable")]
        # First in, first out; the first may have been called before the recording began.
        started = np.searchsorted(machine.ts[mine], begin[which], "right")
        early = max(0, int((np.arange(len(which)) - started + 1).max(initial=0)))
        mine = mine[: len(which) - early]
        which = which[early : early + len(mine)]
        caller[which] = machine.tracks[mine]
        called[which] = np.minimum(machine.ends[mine], begin[which])
    before = np.concatenate([[np.iinfo(np.int64).min], end[:-1]])
    before[np.concatenate([[True], track[1:] != track[:-1]])[: len(rows)]] = np.iinfo(np.int64).min
    before = before[: len(rows)]
    busy = before > called
    # A free thread that begins this late had no core: it gets the caller's once that one waits, or is interrupted.
    late = ~busy & (caller == main) & (begin - called > LATE_NS)
    called[late] = np.maximum(called, _last_at_work(begin, at_work))[late]
    latency = np.where(busy, 0, begin - called)
    queued = np.where(busy, begin - np.where(busy, before, 0), 0)
    return Collectives(rows, track, begin, end, caller, called, latency, queued)


def waits(found: Collectives, at_work: IntervalSet) -> Waits:
    """Where the main thread did nothing until a collective ended that had been called before."""
    hole, again = at_work[1][:-1], at_work[0][1:]
    none = np.zeros(0, np.int64)
    if not len(hole) or not len(found.rows):
        return Waits(none, none, none)
    length = again - hole
    order = np.argsort(found.end, kind="stable")
    last = np.searchsorted(found.end[order], again, "right") - 1
    which = order[np.maximum(last, 0)]
    end = found.end[which]
    waited = (last >= 0) & (end > hole) & (found.called[which] <= hole)
    waited &= again - end <= np.maximum(RESUME_NS, length // 10)
    others = length[~waited]
    waited &= length >= max(WAIT_NS, 5 * int(np.median(others)) if len(others) else 0)
    return Waits(hole[waited], which[waited], again[waited])


def _outermost(machine: Machine, rows: Int64s) -> Int64s:
    """Without spans that begin before an earlier one of their thread has ended."""
    kept = np.ones(len(rows), bool)
    for track in np.unique(machine.tracks[rows]).tolist():
        at = np.flatnonzero(machine.tracks[rows] == track)
        reach = np.maximum.accumulate(machine.ends[rows[at]])
        kept[at[1:]] = machine.ts[rows[at[1:]]] >= reach[:-1]
    return rows[kept]


def _last_at_work(time: Int64s, at_work: IntervalSet) -> Int64s:
    """The last moment until each time at which a thread was at work; the time itself where it never was."""
    first, last = at_work
    place = np.searchsorted(first, time, "right") - 1
    return np.where(place >= 0, np.minimum(time, last[np.maximum(place, 0)]), time) if len(first) else time.copy()


def _kind(name: str) -> str:
    """``allreduce`` of ``gloo:all_reduce`` and of ``c10d::allreduce_``."""
    return "".join(c for c in name.rpartition(":")[2].lower() if c.isalpha())
