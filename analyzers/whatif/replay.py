"""A recording computed again, as it was or with edits: how long the job takes then."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from profsuite.analyzers.base import Ns
from profsuite.analyzers.whatif.edits import Edit, apply
from profsuite.trace.dag import earliest

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from profsuite.analyzers.analysis import Analysis
    from profsuite.analyzers.whatif.graph import Graph


class WhatIf(Struct, frozen=True, kw_only=True):
    """What an edit would do to the job.

    ``measured_ns`` and ``predicted_ns`` are from the first step's start to the last one's end (the whole recording
    without steps), ``saving_ns`` their difference: negative where the job would take longer.  Under an edit with
    ``bare_step_ns`` both are without the recording's cost, so ``measured_ns`` is computed too.  The ``_per_step``
    fields are these over the number of steps, so means; null without steps.  ``device_removed_ns`` is what the edit
    takes off the durations of kernels, copies and fills between the two moments, summed over streams (negative where
    it adds): more than ``saving_ns`` where the host, or other work, then decides when the job is done.
    """

    name: str
    measured_ns: Ns
    predicted_ns: Ns
    saving_ns: int
    num_steps: int
    measured_ms_per_step: float | None
    predicted_ms_per_step: float | None
    saving_ms_per_step: float | None
    device_removed_ns: int


def replay(analysis: Analysis, graph: Graph, edit: Edit | None = None, name: str = "") -> WhatIf:
    """The job under an edit, unchanged by default; ``ValueError`` for a pattern that nothing matches."""
    own, weight = (graph.own, graph.weight) if edit is None else apply(analysis, graph, edit)
    finish = earliest(graph.first, graph.source, weight, own)[0]
    measured = graph.length_ns
    if edit is not None and edit.bare_step_ns is not None:
        bare = times(analysis, graph, Edit(bare_step_ns=edit.bare_step_ns))
        measured = graph.took_ns(bare)
    predicted = graph.took_ns(finish)
    steps = len(graph.steps)
    inside = (graph.time > graph.time[graph.start]) & (graph.time <= graph.time[graph.end])
    return WhatIf(
        name=name,
        measured_ns=measured,
        predicted_ns=predicted,
        saving_ns=measured - predicted,
        num_steps=steps,
        measured_ms_per_step=measured / steps / 1e6 if steps else None,
        predicted_ms_per_step=predicted / steps / 1e6 if steps else None,
        saving_ms_per_step=(measured - predicted) / steps / 1e6 if steps else None,
        device_removed_ns=int((graph.own - own)[inside].sum()),
    )


def times(analysis: Analysis, graph: Graph, edit: Edit | None = None) -> NDArray[np.int64]:
    """When each node finishes under an edit, ns since ``origin_ns``."""
    if edit is None:
        return earliest(graph.first, graph.source, graph.weight, graph.own)[0]
    own, weight = apply(analysis, graph, edit)
    return earliest(graph.first, graph.source, weight, own)[0]
