"""The convolution library tries its algorithms out inside the job."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from profsuite.analyzers.base import Finding
from profsuite.analyzers.findings.wording import (
    count,
    grade,
    ms,
    per_step,
    percent,
    share,
    somewhere,
    text,
    time,
    whole,
)
from profsuite.analyzers.places import source_frame
from profsuite.analyzers.ranking import longest_names
from profsuite.analyzers.waits import autotuning
from profsuite.trace.intervals import union_length

if TYPE_CHECKING:
    from profsuite.analyzers.analysis import Analysis

FIRES_FROM = 0.02


def cudnn_autotuning(analysis: Analysis) -> tuple[Finding, ...]:
    """Fires when convolutions that time their algorithms with events (cudaEventElapsedTime inside) take 2 %.

    Remedy: profile after warm-up; few input sizes, or benchmark=False.
    """
    rows = np.flatnonzero(autotuning(analysis))
    if not len(rows) or not analysis.host.window_ns:
        return ()
    trace = analysis.trace
    cost = union_length(trace.array("slice", "ts")[rows], trace.end[rows])
    fraction = cost / analysis.recording_ns
    if fraction < FIRES_FROM:
        return ()
    step = trace.array("slice", "step_id")[rows]
    top = longest_names(trace, rows)[0]
    kinds = len(np.unique(trace.array("slice", "name")[rows]))
    return (
        Finding(
            id="cudnn_autotuning",
            title=(
                f"Convolutions try out algorithms: these calls take {ms(cost)} ({percent(fraction)} of the "
                f"{whole(analysis)})"
            ),
            severity=grade(fraction),
            evidence=(
                count("calls that try algorithms", len(rows), rows[:5].tolist()),
                count("different ops", kinds),
                time("in these calls", cost),
                share("share of the recording", fraction),
                *per_step("in these calls", analysis, cost),
                *((count("steps with them", len(np.unique(step[step >= 0]))),) if analysis.steps.count else ()),
                text("longest", top.name, top.slice_ids),
                time("its total", top.total_ns),
            ),
            where=somewhere(analysis, top.slice_ids[0], op=top.name, source=source_frame(trace, top.slice_ids[0])),
            remedy=(
                "torch.backends.cudnn.benchmark=True tries every new shape once: profile after warm-up. If it goes on, "
                "the input sizes change: pad them to a few sizes, or set benchmark=False."
            ),
            cost_ns=cost,
            counted_in=("host_bound", "allocator_calls"),
        ),
    )
