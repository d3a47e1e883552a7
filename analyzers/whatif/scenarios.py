"""The standard questions: what the job would take without each of its obstacles."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct
from msgspec.structs import replace

from profsuite.analyzers.base import Ns
from profsuite.analyzers.whatif.edits import Edit
from profsuite.analyzers.whatif.hiding import LatencyHiding, latency_hiding
from profsuite.analyzers.whatif.path import CriticalPath, critical_path
from profsuite.analyzers.whatif.replay import WhatIf

if TYPE_CHECKING:
    from profsuite.analyzers.analysis import Analysis
    from profsuite.analyzers.whatif.graph import Graph

EARLY_COMM: Final = "collectives as early as their inputs"

SCENARIOS: Final[dict[str, Edit]] = {
    "no waits for input": Edit(no_input_wait=True),
    "no communication": Edit(no_comm=True),
    EARLY_COMM: Edit(early_comm=True),
    "no waits of the host for the device": Edit(no_sync=True),
    "no launch overhead": Edit(no_launch_overhead=True),
    "one graph launch a step": Edit(graphs=True),
    "Python at no cost": Edit(scales=(("python", 0.0),)),
    "matrix multiplications twice as fast": Edit(scales=(("gemm", 0.5),)),
    "attention twice as fast": Edit(scales=(("attention", 0.5),)),
    "convolutions twice as fast": Edit(scales=(("conv", 0.5),)),
    "copies at no cost": Edit(scales=(("memcpy", 0.0),)),
}
"""A question in words, and the edit that it means."""


class Replays(Struct, frozen=True, kw_only=True):
    """The critical path, and the scenarios that apply: those that save most first.

    ``length_ns`` is the measured time of the job that they are compared with; ``hiding`` is null without communication.
    """

    length_ns: Ns
    path: CriticalPath
    hiding: LatencyHiding | None
    scenarios: tuple[WhatIf, ...]


def replays(analysis: Analysis, graph: Graph | None, top: int = 10) -> Replays | None:
    """The critical path and what every scenario that applies would save; null where there is nothing to replay."""
    if graph is None:
        return None
    found = []
    for name, edit in SCENARIOS.items():
        outcome = analysis.outcome(edit)
        if outcome is not None and outcome.saving_ns > 0:
            found.append(replace(outcome, name=name))
    found.sort(key=lambda outcome: -outcome.saving_ns)
    return Replays(
        length_ns=graph.length_ns,
        path=critical_path(analysis, graph, top),
        hiding=latency_hiding(analysis, graph),
        scenarios=tuple(found),
    )
