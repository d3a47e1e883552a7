"""What each piece of device work waits for: its stream, its launch, work of other streams.

Typical delays (from the end of one kernel to the start of the next, from a launch to its kernel) are the medians of
this recording.  Where work starts later than all its known causes explain, and work of another stream ended just
before, it waited for that; else the unexplained time belongs to the cause that came last.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from profsuite.analyzers.device_work import COMM
from profsuite.analyzers.host_calls import matching
from profsuite.analyzers.idle import QUEUE_NS
from profsuite.analyzers.whatif.parts import DEPENDENCY, LAUNCH_NS, LAUNCHED, STREAM, Edges, Machine

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from profsuite.analyzers.whatif.host_points import Points

    Int64s = NDArray[np.int64]

LONGEST_LAUNCH_NS: Final = 30_000
"""A longer median comes from launches that waited for something else, as at a recording's start."""
BACK_TO_BACK_NS: Final = 1_000
"""From the end of a kernel to the start of the next of its stream, where none was seen that was queued."""
EVENT_NS: Final = 2_000
"""From the end of a kernel to the start of one that waits for it on another stream, at least."""
UNEXPLAINED_NS: Final = 5_000
"""Later than this after all known causes, work of another stream is looked for."""
RECENT_NS: Final = 20_000
"""Work of another stream that ended this short before, or in a tenth of the delay, was what was waited for."""
_NEVER: Final = int(np.iinfo(np.int64).min)
_OPTIMIZER: Final = r"^Optimizer\.step#"


def device_edges(machine: Machine, points: Points) -> Edges:
    """The edges into all device work."""
    edges = Edges()
    if not machine.num_work:
        return edges
    work = np.arange(machine.num_work)
    start, end = machine.start, machine.end
    follows = np.ones(len(work), bool)
    follows[machine.begins] = False
    before = np.where(follows, work - 1, 0)
    # Work that overlaps the work before it does not wait for its end.
    follows &= end >= end[before]
    gap = np.where(follows, start - end[before], 0)
    launched = machine.launch >= 0
    issue = np.where(launched, points.issue[machine.launch], -1)
    launched &= issue >= 0
    issued = np.where(launched, points.time[np.maximum(issue, 0)] if len(points.time) else start, start)
    launched &= issued <= start
    latency = np.where(launched, start - issued, 0)

    queued = follows & launched & (issued < end[before] - QUEUE_NS) & (gap >= 0) & (gap <= QUEUE_NS)
    typical_gap = int(np.median(gap[queued])) if queued.any() else BACK_TO_BACK_NS
    alone = launched & (~follows | (end[before] <= issued))
    typical_latency = min(int(np.median(latency[alone])), LONGEST_LAUNCH_NS) if alone.any() else LAUNCH_NS

    stream_weight = np.minimum(gap, typical_gap)
    launch_weight = np.minimum(latency, typical_latency)
    from_stream = np.where(follows, end[before] + stream_weight, _NEVER)
    from_launch = np.where(launched, issued + launch_weight, _NEVER)
    dependent, source = _known_dependencies(machine)
    event_weight = np.minimum(start[dependent] - end[source], EVENT_NS)
    from_others = np.full(len(work), _NEVER)
    np.maximum.at(from_others, dependent, end[source] + event_weight)

    reached = np.maximum(np.maximum(from_stream, from_launch), from_others)
    late = np.flatnonzero((reached > _NEVER) & (start - reached > UNEXPLAINED_NS))
    delay = start[late] - reached[late]
    culprit = _recent_work(machine, late, start[late] - np.minimum(delay - 1, np.maximum(RECENT_NS, delay // 10)))
    found = culprit >= 0
    after = start[late[found]] - end[culprit[found]]
    edges.add(late[found], culprit[found], after, DEPENDENCY, np.maximum(after - EVENT_NS, 0))
    rest = np.where(reached > _NEVER, start - reached, 0)
    rest[late[found]] = 0

    # Each piece's unexplained rest goes to one of its edges that reach furthest.
    by_launch = launched & (from_launch == reached)
    by_stream = follows & (from_stream == reached) & ~by_launch
    by_others = (from_others[dependent] == reached[dependent]) & (end[source] + event_weight == reached[dependent])
    by_others &= ~by_launch[dependent] & ~by_stream[dependent]
    for target, origin, weight, takes, kind in (
        (work[follows], before[follows], stream_weight[follows], by_stream[follows], STREAM),
        (work[launched], -1 - issue[launched], launch_weight[launched], by_launch[launched], LAUNCHED),
        (dependent, source, event_weight, by_others, DEPENDENCY),
    ):
        share = np.where(takes, rest[target], 0)
        edges.add(target, origin, weight + share, kind, share)
    return edges


def _known_dependencies(machine: Machine) -> tuple[Int64s, Int64s]:
    """Work that waits for another stream by the rules of torch: (dependent, source), each source ended in time.

    A collective waits for the work that the thread launched before it (c10d makes its stream wait for the current
    one); the first work of an optimizer's step waits for the collectives launched before it.
    """
    is_comm = machine.kind == COMM
    if not is_comm.any():
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    dependents, sources = [], []
    order = np.lexsort((np.arange(machine.num_work), machine.launch_start, machine.device))
    number = np.arange(len(order))
    other = np.maximum.accumulate(np.where(~is_comm[order], number, -1))
    at = number[is_comm[order] & (machine.launch[order] >= 0) & (other >= 0)]
    dependents.append(order[at])
    sources.append(order[other[at]])
    for first in _optimizer_starts(machine, order):
        for stream in np.unique(machine.stream[is_comm & (machine.device == machine.device[first])]).tolist():
            rows = machine.stream_rows(stream)
            before = np.searchsorted(machine.launch_start[rows], machine.launch_start[first]) - 1
            if before >= 0 and is_comm[rows.start + before]:
                dependents.append(np.array([first]))
                sources.append(np.array([rows.start + before]))
    dependent, source = np.concatenate(dependents), np.concatenate(sources)
    good = (machine.end[source] <= machine.start[dependent]) & (machine.device[source] == machine.device[dependent])
    return dependent[good], source[good]


def _optimizer_starts(machine: Machine, order: Int64s) -> list[int]:
    """The first work launched within each step of an optimizer, on each device."""
    trace = machine.trace
    rows = np.flatnonzero(matching(trace, _OPTIMIZER)[trace.array("slice", "name")] & (machine.classes > 0))
    found = []
    for device in np.unique(machine.device).tolist():
        mine = order[(machine.device[order] == device) & (machine.launch[order] >= 0)]
        launched = machine.launch_start[mine]
        first = np.searchsorted(launched, machine.ts[rows])
        inside = first < len(mine)
        inside[inside] &= launched[first[inside]] < machine.ends[rows[inside]]
        found += mine[first[inside]].tolist()
    return found


def _recent_work(machine: Machine, late: Int64s, since: Int64s) -> Int64s:
    """For each late piece of work: the piece of another stream of its device that ended last before its start.

    -1 where none ended since the given time.
    """
    culprit = np.full(len(late), -1, np.int64)
    for device in np.unique(machine.device[late]).tolist():
        mine = np.flatnonzero(machine.device == device)
        by_end = mine[np.argsort(machine.end[mine], kind="stable")]
        ends = machine.end[by_end]
        at = np.flatnonzero(machine.device[late] == device)
        place = np.searchsorted(ends, machine.start[late[at]], "right") - 1
        # The last to end may be of the same stream: look a few back.
        for _ in range(4):
            candidate = by_end[np.maximum(place, 0)]
            good = (place >= 0) & (ends[np.maximum(place, 0)] >= since[at]) & (culprit[at] < 0)
            good &= machine.stream[candidate] != machine.stream[late[at]]
            culprit[at[good]] = candidate[good]
            place = place - 1
    return culprit
