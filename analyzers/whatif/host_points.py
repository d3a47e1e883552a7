"""The moments of host threads that the rest of a job depends on, or that depend on it.

Launches, calls that wait for a device, steps, and where one thread gives work to another and waits for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from profsuite.analyzers.host_calls import ALLOCATOR, LAUNCH, SYNC
from profsuite.analyzers.whatif.collectives import collectives, waits
from profsuite.analyzers.whatif.parts import FORK, IS_ACTIVE, JOIN, LAUNCH_NS, SYNCED, Edges, Machine
from profsuite.trace.intervals import covered, merge

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from profsuite.analyzers.host_timeline import Timeline
    from profsuite.trace.intervals import IntervalSet

    Int64s = NDArray[np.int64]

UNLIMITED: Final = int(np.iinfo(np.int64).max)
_NEVER: Final = int(np.iinfo(np.int64).min)
SYNC_RETURN_NS: Final = 5_000
"""From the end of device work to the return of the call that waited for it, where none was seen."""
LONG_LAUNCH_NS: Final = 100_000
"""A launch that takes this long, and 20 times the median, waited: the queue of launches was full."""
LONG_CALL_NS: Final = 50_000
"""A launch call that takes at least this long issues its work not as it begins."""
NEAR_NS: Final = 50_000
"""A launch or allocation that waited returns this soon after the device work that it waited for."""
_FEW: Final = 0.02
"""A thread that is at work for less than this share of another's burst waits for it."""
# The order of moments of one time: what waits comes last.
_DONE, _FORK, _BEGIN, _PLAIN, _JOIN, _DONE_AT_ONCE = 1, 2, 3, 4, 5, 6


@dataclass(frozen=True)
class Points:
    """p moments, sorted by thread and time; ``edges`` number them -1, -2, ... and device work 0, 1, ...

    ``slice_id`` is the call a moment belongs to, else -1.  ``host_limit`` is what at most of the time since the
    thread's moment before was its own: 0 where it waited for another thread.  ``steps`` are the moments (start, end)
    of each step.  ``issue`` gives the moment at which a slice launched device work, -1 for slices that did not.
    """

    track: Int64s
    time: Int64s
    rank: Int64s
    slice_id: Int64s
    host_limit: Int64s
    steps: Int64s
    issue: Int64s
    edges: Edges


def host_points(machine: Machine) -> Points:
    """The moments of all host threads."""
    return _Collector(machine).points()


class _Collector:
    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.parts: list[tuple[Int64s, Int64s, Int64s, Int64s, Int64s]] = []
        self.count = 0
        self.links: list[tuple[Int64s, Int64s, Int64s, int]] = []

    def add(
        self,
        track: Int64s | int,
        time: Int64s,
        rank: Int64s | int,
        slice_id: Int64s | int = -1,
        limit: Int64s | int = UNLIMITED,
    ) -> Int64s:
        """Append moments; their numbers before sorting."""
        n = len(time)
        full = [np.broadcast_to(np.asarray(value, np.int64), (n,)) for value in (track, time, rank, slice_id, limit)]
        self.parts.append((full[0], full[1], full[2], full[3], full[4]))
        numbers = np.arange(self.count, self.count + n)
        self.count += n
        return numbers

    def link(self, target: Int64s, source: Int64s, weight: Int64s, kind: int) -> None:
        """Append edges between moments (negative: device work as -1 - its number)."""
        self.links.append((target, source, weight, kind))

    def points(self) -> Points:
        machine = self.machine
        # Other threads begin and end with their bursts.
        if machine.main is not None:
            self.add(machine.main, machine.threads[machine.main].time[[0, -1]], _PLAIN)
        steps = self._steps()
        issue = self._calls()
        if machine.main is not None:
            self._handovers(machine.main)
        columns: list[Int64s] = [np.concatenate(part) for part in zip(*self.parts, strict=True)]
        track, moment, rank, slice_id, limit = columns or [np.zeros(0, np.int64)] * 5
        order = np.lexsort((rank, moment, track))
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order))
        edges = Edges()
        for target, source, weight, kind in self.links:
            ends = [np.where(end >= 0, -1 - place[np.maximum(end, 0)], -1 - end) for end in (target, source)]
            edges.add(ends[0], ends[1], weight, kind)
        known = issue >= 0
        issue[known] = place[issue[known]]
        return Points(
            track[order], moment[order], rank[order], slice_id[order], limit[order], place[steps], issue, edges
        )

    def _steps(self) -> Int64s:
        """The moments of the main thread's steps, in order, without those that the recording cuts."""
        trace = self.machine.trace
        row = trace.array("step", "slice_id").astype(np.int64)[self.machine.whole_steps]
        row = row[self.machine.tracks[row] == self.machine.main] if self.machine.main is not None else row[:0]
        row = row[np.argsort(self.machine.ts[row], kind="stable")]
        if not len(row):
            return np.zeros((0, 2), np.int64)
        main = self.machine.main or 0
        begin = self.add(main, self.machine.ts[row], _PLAIN, row)
        finish = self.add(main, self.machine.ends[row], _PLAIN, row)
        return np.stack([begin, finish], axis=1)

    def _calls(self) -> Int64s:
        """Launches and waiting calls; the moment at which each slice launched, -1 for those that did not."""
        machine = self.machine
        issue = np.full(len(machine.ts), -1, np.int64)
        launched = np.zeros(len(machine.ts), bool)
        launched[machine.launch[machine.launch >= 0]] = True
        waits = _Waits(machine, np.flatnonzero(launched))
        called = launched.copy()
        called[waits.rows] = True
        rows = np.flatnonzero(called)
        waited = np.zeros(len(machine.ts), bool)
        waited[waits.rows] = True
        moments = np.where(waited[rows], machine.ts[rows], self._issued(rows))
        issue[rows] = self.add(machine.tracks[rows], moments, _PLAIN, rows)
        took = machine.ends[waits.rows] - machine.ts[waits.rows]
        rank = np.where(took > 0, _DONE, _DONE_AT_ONCE)
        done = self.add(machine.tracks[waits.rows], machine.ends[waits.rows], rank, waits.rows, waits.host_limit)
        seen = waits.work >= 0
        self.link(done[seen], -1 - waits.work[seen], waits.weight[seen], SYNCED)
        issue[~launched] = -1
        return issue

    def _issued(self, rows: Int64s) -> Int64s:
        """When calls issued their work: as they began, long ones (which load a module, say) as late as their first
        work allows.
        """
        machine = self.machine
        begin, finish = machine.ts[rows], machine.ends[rows]
        first = np.full(len(machine.ts), UNLIMITED)
        known = machine.launch >= 0
        np.minimum.at(first, machine.launch[known], machine.start[known])
        late = np.clip(np.minimum(first[rows], finish + LAUNCH_NS) - LAUNCH_NS, begin, finish)
        return np.where((finish - begin >= LONG_CALL_NS) & (first[rows] < UNLIMITED), late, begin)

    def _handovers(self, main: int) -> None:
        """Bursts of other threads: each begins where the main thread is, which waits for it if it does nothing else."""
        at_work = _activity(self.machine.threads[main])
        self._collectives(main, at_work)
        for track, line in self.machine.threads.items():
            if track == main:
                continue
            self._bursts_of(track, line, main, at_work)

    def _collectives(self, main: int, at_work: IntervalSet) -> None:
        """Collectives on threads: each begins once it is called and its thread is free, and ends a wait for it."""
        found = collectives(self.machine, main, at_work)
        calls = self.add(found.caller, found.called, _FORK)
        begin = self.add(found.track, found.begin, _PLAIN, found.rows, found.queued)
        finish = self.add(found.track, found.end, _PLAIN, found.rows)
        self.link(begin, calls, found.latency, FORK)
        waited = waits(found, at_work)
        self.add(main, waited.begin, _PLAIN)
        joins = self.add(main, waited.again, _JOIN, -1, 0)
        self.link(joins, finish[waited.collective], waited.again - found.end[waited.collective], JOIN)

    def _bursts_of(self, track: int, line: Timeline, main: int, at_work: IntervalSet) -> None:
        """The bursts of one thread."""
        start, end = _bursts(line, at_work)
        first, last = self.machine.threads[main].time[[0, -1]].tolist()
        given = (start >= first) & (start <= last)
        forks = self.add(main, start[given], _FORK)
        begin = self.add(track, start, _BEGIN, -1, 0)
        self.link(begin[given], forks, np.zeros(len(forks), np.int64), FORK)
        # The next time that the main thread is at work after the burst, if it was idle during it.
        following = np.searchsorted(at_work[0], end)
        idle = covered(start, end, at_work) <= _FEW * (end - start)
        finish = self.add(track, end, _PLAIN)
        waited = np.flatnonzero(given & idle & (following < len(at_work[0])))
        again = at_work[0][following[waited]]
        joins = self.add(main, again, _JOIN, -1, 0)
        self.link(joins, finish[waited], again - end[waited], JOIN)


def _activity(line: Timeline) -> IntervalSet:
    busy = IS_ACTIVE[line.code]
    return merge(line.time[:-1][busy], line.time[1:][busy])


def _bursts(line: Timeline, at_work: IntervalSet) -> IntervalSet:
    """When a thread was active, without the gaps during which the main thread did nothing either."""
    start, end = _activity(line)
    if not len(start):
        return start, end
    apart = covered(end[:-1], start[1:], at_work) > 0
    return start[np.concatenate([[True], apart])], end[np.concatenate([apart, [True]])]


class _Waits:
    """Host calls that waited for device work: their rows, what they waited for, how long they took by themselves.

    ``work`` is -1 where there was nothing to wait for, ``weight`` the time from that work's end to the call's;
    ``host_limit`` is what at most the call took by itself.
    """

    def __init__(self, machine: Machine, launches: Int64s) -> None:
        self.machine = machine
        classes = machine.classes
        syncs = np.flatnonzero((classes == SYNC) & np.isin(machine.tracks, list(machine.threads)))
        took = machine.ends[launches] - machine.ts[launches]
        long = took >= max(LONG_LAUNCH_NS, 20 * int(np.median(took))) if len(took) else np.zeros(0, bool)
        others = np.union1d(launches[long & (classes[launches] == LAUNCH)], np.flatnonzero(classes == ALLOCATOR))
        rows = np.concatenate([syncs, np.setdiff1d(others, syncs)])
        is_sync = np.arange(len(rows)) < len(syncs)
        begin, finish = machine.ts[rows], machine.ends[rows]
        # A copy that waits does so for itself too, a launch never.
        work = self._last_work(np.where(is_sync, begin, begin - 1), finish)
        ended = (
            np.where(work >= 0, machine.end[work], np.iinfo(np.int64).min)
            if machine.num_work
            else np.full(len(rows), np.iinfo(np.int64).min)
        )
        bound = (work >= 0) & (ended > begin)
        # Only calls that are made to wait do so for long; of others, those that return when work has ended.
        kept = is_sync | (bound & (finish - ended <= NEAR_NS))
        rows, begin, finish, work, ended, bound = (a[kept] for a in (rows, begin, finish, work, ended, bound))
        returns = (finish - ended)[bound]
        typical_return = int(np.median(returns)) if len(returns) else SYNC_RETURN_NS
        free = (finish - begin)[~bound]
        typical_call = int(np.median(free)) if len(free) else SYNC_RETURN_NS
        self.rows = rows
        self.work = work
        after = np.where(work >= 0, finish - np.where(work >= 0, ended, 0), 0)
        self.weight = np.where(bound, after, np.minimum(after, typical_return))
        self.host_limit = np.where(bound, np.minimum(finish - begin, typical_call), UNLIMITED)

    def _last_work(self, begin: Int64s, finish: Int64s) -> Int64s:
        """Of the work launched until each call began and ended when it returned, the piece that ended last."""
        machine = self.machine
        best = np.full(len(begin), -1, np.int64)
        best_end = np.full(len(begin), _NEVER)
        for number in range(machine.num_streams):
            rows = machine.stream_rows(number)
            # Work of unknown launch came after the work before it on its stream.
            known = machine.launch[rows] >= 0
            launched = np.maximum.accumulate(np.where(known, machine.launch_start[rows], _NEVER))
            ended = np.maximum.accumulate(machine.end[rows])
            which = np.searchsorted(launched, begin, "right") - 1
            there = which >= 0
            end = ended[np.maximum(which, 0)]
            better = there & (end <= finish) & (end > best_end)
            # the piece whose end the running maximum is
            owner = np.maximum.accumulate(np.where(machine.end[rows] == ended, np.arange(len(ended)), 0))
            best[better] = owner[np.maximum(which, 0)][better] + rows.start
            best_end[better] = end[better]
        return best
