"""Latency hiding: how much of the exposed communication a better schedule could hide.

A collective can start when its inputs are ready and its stream is free; it often starts later, because the host
launches it late.  The recording is replayed with every collective as early as that, and what is then exposed is what no
earlier launch can hide: only less communication, or more work to hide it behind.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from profsuite.analyzers.base import Ns
from profsuite.analyzers.device_work import COMM, COMPUTE
from profsuite.analyzers.whatif.edits import Edit
from profsuite.analyzers.whatif.parts import DEPENDENCY
from profsuite.analyzers.whatif.replay import times
from profsuite.trace.intervals import merge, subtract_length

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from profsuite.analyzers.analysis import Analysis
    from profsuite.analyzers.whatif.graph import Graph


class LatencyHiding(Struct, frozen=True, kw_only=True):
    """Exposed communication of all devices, as recorded and with every collective as early as its inputs.

    ``hideable_ns`` = ``exposed_ns`` - ``remaining_ns``, at least 0.  ``num_known`` of the ``num_collectives`` have
    inputs that are known (work that they wait for); the others keep their launch.
    """

    exposed_ns: Ns
    remaining_ns: Ns
    hideable_ns: Ns
    num_collectives: int
    num_known: int


def latency_hiding(analysis: Analysis, graph: Graph) -> LatencyHiding | None:
    """What an earlier launch of collectives could hide; null without communication on a device."""
    comm = np.flatnonzero(graph.kind == COMM)
    if not len(comm):
        return None
    early = times(analysis, graph, Edit(early_comm=True))
    exposed, remaining = _exposed(analysis, graph, graph.time), _exposed(analysis, graph, early)
    depends = np.zeros(graph.num_nodes, bool)
    depends[graph.target[graph.edge == DEPENDENCY]] = True
    return LatencyHiding(
        exposed_ns=exposed,
        remaining_ns=min(exposed, remaining),
        hideable_ns=max(0, exposed - remaining),
        num_collectives=len(comm),
        num_known=int(depends[comm].sum()),
    )


def _exposed(analysis: Analysis, graph: Graph, finish: NDArray[np.int64]) -> int:
    """Communication that no compute covers, ns, where nodes finish at the given times."""
    total = 0
    begin = finish - graph.own
    for work in analysis.work:
        mine = np.zeros(analysis.trace.num_rows("slice"), bool)
        mine[work.ids] = True
        here = (graph.kind >= 0) & mine[graph.slice_id]
        sets = [
            merge(begin[here & (graph.kind == kind)], finish[here & (graph.kind == kind)]) for kind in (COMM, COMPUTE)
        ]
        total += subtract_length(sets[0], sets[1])
    return total
