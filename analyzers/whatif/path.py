"""The critical path: the chain of work and waits that decides when the job ends, split by cause.

Making anything shorter that is not on it saves nothing; ``slack_ns`` says by how much each piece of device work may
take longer before it delays the end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, get_args

import numpy as np
from msgspec import Struct

from profsuite.analyzers.base import Ns, Pct, pct
from profsuite.analyzers.host_calls import CLASSES, UNRECORDED
from profsuite.analyzers.whatif.parts import ANCHOR, DEPENDENCY, FORK, HOST, JOIN, LAUNCHED, STREAM, SYNCED
from profsuite.trace.dag import earliest, latest, path_back
from profsuite.trace.intervals import covered

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from profsuite.analyzers.analysis import Analysis
    from profsuite.analyzers.whatif.graph import Graph

    Int64s = NDArray[np.int64]

PathCause = Literal[
    "compute", "comm", "memcpy",
    "host_python", "host_op", "host_launch", "host_allocator", "host_sync", "host_input", "host_compile", "host_gc",
    "host_unrecorded", "stream_wait", "launch_latency", "dependency_wait", "sync_return", "thread_wait", "unknown",
]  # fmt: skip
"""What the time on the path is: device work by kind, a thread's time by class, or a wait by its edge.

stream_wait      from the end of a kernel to the start of the next on its stream
launch_latency   from the launch call's start to the kernel's
dependency_wait  from the end of work on another stream to the start
sync_return      from the end of device work to the return of the call that waited for it
thread_wait      from the end of another thread's work to the thread's going on, or from a call to a thread's start
"""

PATH_CAUSES: tuple[PathCause, ...] = get_args(PathCause)
_HOST_CAUSES: tuple[PathCause, ...] = (
    "host_unrecorded", "host_python", "host_op", "host_launch", "host_allocator", "host_sync", "host_input",
    "host_compile", "host_gc",
)  # fmt: skip
_EDGE_CAUSES: dict[int, PathCause] = {
    STREAM: "stream_wait", LAUNCHED: "launch_latency", DEPENDENCY: "dependency_wait", SYNCED: "sync_return",
    FORK: "thread_wait", JOIN: "thread_wait", ANCHOR: "unknown",
}  # fmt: skip
_WORK_CAUSES: tuple[PathCause, ...] = ("compute", "comm", "memcpy")


class PathPart(Struct, frozen=True, kw_only=True):
    """One cause on the path: its total, and its share of the path."""

    cause: PathCause
    total_ns: Ns
    path_pct: Pct | None


class PathSlice(Struct, frozen=True, kw_only=True):
    """Device work of one name on the path: total and number there, out of how many in all."""

    name: str
    total_ns: Ns
    count: int
    count_all: int
    slice_ids: tuple[int, ...]


class CriticalPath(Struct, frozen=True, kw_only=True):
    """The longest path through the recording; ``parts`` sum to ``length_ns`` exactly, largest first.

    From ``start_ns`` (file's clock; the first step's start, without steps the recording's) for ``length_ns``.
    ``top`` are the kernels and copies that are on it for longest.  ``replay_error_ns`` is by how much the graph,
    computed again unchanged, misses the measured time; ``num_unexplained`` how many of its ``num_nodes`` nodes have
    no known cause.
    """

    start_ns: Ns
    length_ns: Ns
    num_steps: int
    num_nodes: int
    num_unexplained: int
    replay_error_ns: int
    device_pct: Pct | None
    parts: tuple[PathPart, ...]
    top: tuple[PathSlice, ...]


def path_nodes(graph: Graph) -> tuple[Int64s, Int64s]:
    """The nodes of the longest path in order, and the edge that leads to each (-1 for the first)."""
    return _path_nodes(graph, earliest(graph.first, graph.source, graph.weight, graph.own)[1])


def _path_nodes(graph: Graph, binding: Int64s) -> tuple[Int64s, Int64s]:
    begin = int(graph.time[graph.start])
    order = path_back(graph.source, binding, graph.time, begin, graph.end)[::-1]
    return order, np.concatenate([[-1], binding[order[1:]]])


def critical_path(analysis: Analysis, graph: Graph, top: int = 10) -> CriticalPath:
    """The longest path, split by cause, and the ``top`` kernels and copies on it."""
    finish, binding = earliest(graph.first, graph.source, graph.weight, graph.own)
    nodes, edges = _path_nodes(graph, binding)
    begin = int(graph.time[graph.start])
    totals = dict.fromkeys(PATH_CAUSES, 0)
    # Each node's time: from the finish of the one before on the path to its own start, and its own duration (of
    # work that overlaps the work before, the rest of it).
    since = np.maximum(np.concatenate([[begin], graph.time[nodes[:-1]]]), begin)
    until = np.maximum(graph.time[nodes] - graph.own[nodes], since)
    work_time = np.maximum(graph.time[nodes] - until, 0)
    kind = graph.kind[nodes]
    for code, cause in enumerate(_WORK_CAUSES):
        totals[cause] += int(work_time[kind == code].sum())
    reached = edges >= 0
    kinds = np.where(reached, graph.edge[np.maximum(edges, 0)], ANCHOR)
    running = reached & graph.is_running[np.maximum(edges, 0)]
    left_out = covered(since, until, graph.unrecorded)
    waits = until - since - left_out
    rest = np.minimum(np.where(reached, graph.rest[np.maximum(edges, 0)], 0), waits)
    totals["unknown"] += int(rest[kinds != HOST].sum())
    for code, cause in _EDGE_CAUSES.items():
        totals[cause] += int((waits - rest)[reached & (kinds == code)].sum())
    totals["host_sync"] += int(waits[reached & (kinds == HOST) & ~running].sum())
    for track in np.unique(graph.track[nodes[running]]).tolist():
        at = np.flatnonzero(running & (graph.track[nodes] == track))
        line = analysis.timelines.threads[track]
        shares = line.shares(since[at] + graph.origin_ns, until[at] + graph.origin_ns).sum(axis=0)
        shares[UNRECORDED] -= left_out[at].sum()
        for code, total in enumerate(shares.tolist()):
            totals[_HOST_CAUSES[code]] += total
    length = graph.length_ns
    device = sum(totals[cause] for cause in _WORK_CAUSES)
    return CriticalPath(
        start_ns=begin + graph.origin_ns,
        length_ns=length,
        num_steps=len(graph.steps),
        num_nodes=graph.num_nodes,
        num_unexplained=graph.num_anchored,
        replay_error_ns=graph.took_ns(finish) - length,
        device_pct=pct(device, length),
        parts=tuple(
            PathPart(cause=cause, total_ns=total, path_pct=pct(total, length))
            for cause, total in sorted(totals.items(), key=lambda item: -item[1])
            if total
        ),
        top=_top(analysis, graph, nodes[kind >= 0], work_time[kind >= 0], top),
    )


def _top(analysis: Analysis, graph: Graph, nodes: Int64s, took: Int64s, top: int) -> tuple[PathSlice, ...]:
    trace = analysis.trace
    codes, words = trace.array("slice", "name"), trace.words("slice", "name")
    ids = graph.slice_id[nodes]
    every = np.bincount(codes[graph.slice_id[graph.kind >= 0]], minlength=len(words))
    used, number = np.unique(codes[ids], return_inverse=True)
    total = np.zeros(len(used), np.int64)
    np.add.at(total, number, took)
    count = np.bincount(number, minlength=len(used))
    found = []
    for place in np.argsort(-total, kind="stable")[:top].tolist():
        mine = np.flatnonzero(number == place)
        longest = mine[np.argsort(-took[mine], kind="stable")[:5]]
        found.append(
            PathSlice(
                name=words[used[place]],
                total_ns=int(total[place]),
                count=int(count[place]),
                count_all=int(every[used[place]]),
                slice_ids=tuple(ids[longest].tolist()),
            )
        )
    return tuple(found)


def slack_ns(graph: Graph) -> Int64s:
    """For each node: how much later it might have finished without delaying the end of the job."""
    bound = np.maximum(graph.time, graph.time[graph.end])
    return latest(graph.first, graph.source, graph.weight, graph.own, bound) - graph.time


def slice_slack(analysis: Analysis, graph: Graph) -> Int64s:
    """The slack of each row of ``slice`` that is device work or a host call of the graph, ns; -1 for others."""
    slack = np.full(analysis.trace.num_rows("slice"), -1, np.int64)
    known = graph.slice_id >= 0
    # A call has two moments: the later one's counts, and nodes are in the order of time.
    slack[graph.slice_id[known]] = slack_ns(graph)[known]
    return slack


assert len(_HOST_CAUSES) == len(CLASSES)
