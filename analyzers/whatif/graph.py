"""The dependency graph of a recording: its nodes in topological order, and why each comes when it does.

A node is a piece of device work, which finishes at its end, or a moment of a host thread.  Every edge carries the
least time from its source's finish to its target's start.  The weights are chosen so that the graph, computed
again unchanged, gives every measured time exactly: what no known cause explains hangs on the cause that comes last.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np

from profsuite.analyzers.host_calls import CLASSES
from profsuite.analyzers.recorded import between
from profsuite.analyzers.whatif.device_edges import device_edges
from profsuite.analyzers.whatif.host_points import UNLIMITED, Points, host_points
from profsuite.analyzers.whatif.parts import ANCHOR, END, HOST, Edges, Machine
from profsuite.trace.intervals import clip, length
from profsuite.trace.ordering import sorted_by

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from profsuite.analyzers.analysis import Analysis
    from profsuite.trace.intervals import IntervalSet

    Int64s = NDArray[np.int64]

_ROOT: Final = 0


@dataclass(frozen=True)
class Graph:
    """n nodes in topological order and m edges, sorted by their target; times are ns since ``origin_ns``.

    ``time`` is when a node finished in the recording, ``own`` what of that was its own duration (device work).
    ``slice_id`` is the row of the device work, or of the host call that a moment belongs to, else -1; ``track`` the
    host thread of a moment, -1 for device work; ``kind`` of device work is its code of ``WORK_KINDS``, else -1.
    Edge ``e`` of target ``i`` (``first[i] <= e < first[i + 1]``) comes from ``source[e]`` and takes ``weight[e]``, of
    which its kind (``edge[e]``, a code of ``EDGES``) leaves ``rest[e]`` unexplained; ``is_running`` marks the host
    edges whose weight is what the thread did meanwhile.  ``start`` and ``end`` are the nodes between which the job is
    measured, ``steps`` the (start, end) nodes of each step on the main thread, whose track is ``main`` (null without
    host threads).  ``unrecorded`` is the time between the windows of a recording with a schedule (ns since
    ``origin_ns``): the graph runs through it, and the job's length does not count it.
    """

    origin_ns: int
    time: Int64s
    own: Int64s
    slice_id: Int64s
    track: Int64s
    kind: NDArray[np.int8]
    first: Int64s
    source: NDArray[np.int32]
    weight: Int64s
    rest: Int64s
    edge: NDArray[np.int8]
    is_running: NDArray[np.bool_]
    start: int
    end: int
    steps: NDArray[np.int64]
    num_anchored: int
    main: int | None
    unrecorded: IntervalSet

    @property
    def num_nodes(self) -> int:
        """n."""
        return len(self.time)

    @cached_property
    def target(self) -> Int64s:
        """The target of each edge."""
        return np.repeat(np.arange(self.num_nodes), np.diff(self.first))

    @property
    def length_ns(self) -> int:
        """The measured time between ``start`` and ``end``."""
        return self.took_ns(self.time)

    def took_ns(self, finish: Int64s) -> int:
        """From ``start`` to ``end``, ns, where nodes finish at these times; without the time between windows."""
        return int(finish[self.end] - finish[self.start]) - self._left_out_ns

    @cached_property
    def _left_out_ns(self) -> int:
        return length(clip(self.unrecorded, int(self.time[self.start]), int(self.time[self.end])))


def build(analysis: Analysis) -> Graph | None:
    """The graph of a recording, null where nothing with a duration was recorded on a host thread or a device."""
    machine = Machine(analysis)
    if not machine.num_work and not machine.threads:
        return None
    points = host_points(machine)
    num_work, num_points = machine.num_work, len(points.time)
    # The root, then device work, then host points, then the end.
    edges = Edges()
    _thread_edges(points, edges, 1 + num_work)
    edges.add_shifted(points.edges, 1, 1 + num_work)
    edges.add_shifted(device_edges(machine, points), 1, 1 + num_work)
    end_time = _end(machine, points, edges, 1 + num_work + num_points)
    time = np.concatenate([[machine.origin], machine.end, points.time, [end_time]]) - machine.origin
    own = np.concatenate([[0], machine.end - machine.start, np.zeros(num_points + 1, np.int64)])
    rank = np.concatenate([[-1], np.zeros(num_work, np.int64), points.rank, [9]])
    nodes = {
        "slice_id": np.concatenate([[-1], machine.ids, points.slice_id, [-1]]),
        "track": np.concatenate([[-1], np.full(num_work, -1), points.track, [-1]]),
        "kind": np.concatenate([[-1], machine.kind, np.full(num_points + 1, -1)]).astype(np.int8),
    }
    return _sorted(machine, points, time, own, rank, nodes, edges)


def _thread_edges(points: Points, edges: Edges, shift: int) -> None:
    """Each point of a thread follows the one before; what is blocked or idle meanwhile takes no time of its own."""
    same = np.flatnonzero(points.track[1:] == points.track[:-1]) + 1
    weight = np.minimum(points.time[same] - points.time[same - 1], points.host_limit[same])
    edges.add(same + shift, same - 1 + shift, weight, HOST, running=points.host_limit[same] == UNLIMITED)


def _end(machine: Machine, points: Points, edges: Edges, node: int) -> int:
    """Edges to the end of the job, and when that is: the last step's end on the host and on the devices."""
    shift = 1 + machine.num_work
    if len(points.steps):
        last = points.steps[:, 1]
        counted = machine.step >= 0
    else:
        last = (
            np.flatnonzero(np.append(points.track[1:] != points.track[:-1], True))
            if len(points.time)
            else np.zeros(0, np.int64)
        )
        counted = np.ones(machine.num_work, bool)
    edges.add(np.full(len(last), node), last + shift, np.zeros(len(last), np.int64), END)
    works = np.flatnonzero(counted)
    # The last of each stream is enough: the others come before it, but for work that overlaps.
    streams = machine.stream[works]
    order = np.lexsort((machine.end[works], streams))
    final = works[order[np.append(streams[order][1:] != streams[order][:-1], True)]] if len(works) else works
    edges.add(np.full(len(final), node), final + 1, np.zeros(len(final), np.int64), END)
    times = np.concatenate([points.time[last], machine.end[final]])
    return int(times.max()) if len(times) else machine.origin


def _sorted(
    machine: Machine,
    points: Points,
    time: Int64s,
    own: Int64s,
    rank: Int64s,
    nodes: dict[str, NDArray[np.int64]],
    edges: Edges,
) -> Graph:
    """Nodes in the order of time, edges by target; whatever is not explained exactly is anchored to the root."""
    order = sorted_by(time, rank)
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    time, own = time[order], own[order]
    begin = time - own
    found = edges.arrays()
    found = found._replace(target=place[found.target], source=place[found.source])
    early = time[found.source] + found.weight - begin[found.target]
    kept = (found.source < found.target) & (early <= 0)
    exact = np.zeros(len(time), bool)
    exact[found.target[kept & (early == 0)]] = True
    exact[_ROOT] = True
    loose = np.flatnonzero(~exact)
    if len(loose):
        anchors = Edges()
        anchors.add(loose, np.zeros(len(loose), np.int64), begin[loose], ANCHOR, begin[loose])
        anchors.extend(found)
        found, kept = anchors.arrays(), np.concatenate([np.ones(len(loose), bool), kept])
    # By target; of equal edges the first decides, so those with a cause come before those without.
    by_target = sorted_by(found.target, found.kind)
    found = found.at(by_target if kept.all() else by_target[kept[by_target]])
    first = np.zeros(len(time) + 1, np.int64)
    np.cumsum(np.bincount(found.target, minlength=len(time)), out=first[1:])
    shift = 1 + machine.num_work
    unrecorded = between(machine.analysis.recording)
    steps = place[points.steps + shift] if len(points.steps) else np.zeros((0, 2), np.int64)
    return Graph(
        origin_ns=machine.origin,
        time=time,
        own=own,
        slice_id=nodes["slice_id"][order],
        track=nodes["track"][order],
        kind=nodes["kind"][order].astype(np.int8),
        first=first,
        source=found.source.astype(np.int32),
        weight=found.weight,
        rest=found.rest,
        edge=found.kind,
        is_running=found.running,
        start=int(steps[0, 0]) if len(steps) else _ROOT,
        end=int(place[-1]),
        steps=steps,
        num_anchored=len(loose),
        main=machine.main,
        unrecorded=(unrecorded[0] - machine.origin, unrecorded[1] - machine.origin),
    )


def edge_times(analysis: Analysis, graph: Graph) -> NDArray[np.int64]:
    """How long the thread of each running edge was in each class of host time: one row a class, one column an edge."""
    running = np.flatnonzero(graph.is_running)
    tracks = graph.track[graph.target[running]]
    table = np.zeros((len(CLASSES), len(running)), np.int64)
    for thread, line in analysis.timelines.threads.items():
        at = np.flatnonzero(tracks == thread)
        if len(at):
            begin, end = graph.time[graph.source[running[at]]], graph.time[graph.target[running[at]]]
            table[:, at] = line.shares(begin + graph.origin_ns, end + graph.origin_ns).T
    return table
