"""What collectives on host threads cost the main thread beside its waits: they take part of its core, and its caches.

Measured in the recording itself: the same op, on inputs of the same shapes, takes longer while a collective runs on
another thread of the process than it takes otherwise.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from profsuite.analyzers.host_calls import OP, communicates
from profsuite.analyzers.whatif.parts import IS_ACTIVE
from profsuite.trace.intervals import covered, intersect, merge

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from profsuite.analyzers.analysis import Analysis
    from profsuite.analyzers.whatif.graph import Graph

    Int64s = NDArray[np.int64]

FEW: Final = 30
"""Ops that ran while a collective did; of fewer nothing is concluded."""


def taken_share(analysis: Analysis, beside: Int64s, main: int) -> float:
    """Of the main thread's time in ops while collectives ran on other threads, what those took: 0 to 1.

    ``beside`` are the rows of these collectives.  Ops without ops inside are compared by name and shapes of inputs:
    with T the time of those that ran while a collective did all along, and m the median of their like that met none,
    the share is 1 - sum(m) / sum(T), at least 0.  0 where fewer than ``FEW`` ops have their like.
    """
    trace = analysis.trace
    start, end, track = trace.array("slice", "ts"), trace.end, trace.array("slice", "track_id")
    is_op = analysis.timelines.classes == OP
    parent = trace.array("slice", "parent_id")
    outer = np.zeros(len(start), bool)
    outer[parent[is_op & (parent >= 0)]] = True
    codes = trace.array("slice", "name")
    ops = np.flatnonzero(is_op & ~outer & (track == main) & ~communicates(trace)[codes])
    shape = np.full(len(start), -1, np.int64)
    shape[trace.array("op", "slice_id")] = trace.array("op", "input_dims")
    length = end[ops] - start[ops]
    met = covered(start[ops], end[ops], merge(start[beside], end[beside]))
    inside, outside = (met == length) & (length > 0), met == 0
    _, like = np.unique(np.stack([codes[ops], shape[ops]]), axis=1, return_inverse=True)
    like = like.reshape(-1)
    typical = _medians(like, length, outside)[like]
    known = inside & (typical >= 0)
    if int(known.sum()) < FEW:
        return 0.0
    return max(0.0, 1.0 - float(typical[known].sum()) / float(length[known].sum()))


def time_beside(analysis: Analysis, graph: Graph, beside: Int64s, main: int, edges: Int64s) -> Int64s:
    """For each of some edges of the main thread: how long it was at work while a collective ran, ns."""
    trace = analysis.trace
    line = analysis.timelines.threads[main]
    busy = IS_ACTIVE[line.code]
    at_work = merge(line.time[:-1][busy], line.time[1:][busy])
    running = intersect(at_work, merge(trace.array("slice", "ts")[beside], trace.end[beside]))
    begin, end = (graph.time[side[edges]] + graph.origin_ns for side in (graph.source, graph.target))
    return covered(begin, end, running)


def _medians(group: Int64s, value: Int64s, counted: NDArray[np.bool_]) -> NDArray[np.float64]:
    """The median of the counted values of each group; -1 for groups without any."""
    found = np.full(int(group.max(initial=-1)) + 1, -1.0)
    rows = np.flatnonzero(counted)
    rows = rows[np.lexsort((value[rows], group[rows]))]
    used, first, count = np.unique(group[rows], return_index=True, return_counts=True)
    low, high = rows[first + (count - 1) // 2], rows[first + count // 2]
    found[used] = (value[low] + value[high]) / 2
    return found
