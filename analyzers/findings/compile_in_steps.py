"""torch.compile (or Triton) compiled during the recording."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from profsuite.analyzers.base import Finding
from profsuite.analyzers.findings.wording import count, grade, ms, percent, share, somewhere, text, time, whole
from profsuite.analyzers.host_calls import COMPILE
from profsuite.trace.intervals import union_length

if TYPE_CHECKING:
    from profsuite.analyzers.analysis import Analysis

FIRES_FROM = 0.01


def compile_in_steps(analysis: Analysis) -> tuple[Finding, ...]:
    """Fires when compilation takes 1 % of the host window.

    Remedy: profile after warm-up; find out why later steps compile.
    """
    trace = analysis.trace
    rows = analysis.rows_of(COMPILE)
    if not len(rows) or not analysis.host.window_ns:
        return ()
    cost = union_length(trace.array("slice", "ts")[rows], trace.end[rows])
    fraction = cost / analysis.host.window_ns
    if fraction < FIRES_FROM:
        return ()
    step = trace.array("slice", "step_id")[rows]
    steps = len(np.unique(step[step >= 0]))
    longest = int(rows[0])
    phases = analysis.compilation.phases[:1] if analysis.compilation else ()
    return (
        Finding(
            id="compile_in_steps",
            title=f"Compilation takes {ms(cost)} ({percent(fraction)} of the {whole(analysis)})",
            severity=grade(fraction, FIRES_FROM),
            evidence=(
                time("compiling", cost, [longest]),
                share("share of the recording", fraction),
                *((count("steps with compilation", steps),) if trace.num_rows("step") else ()),
                time("device idle for it", analysis.idle_ns("compile")),
                text("longest", analysis.name_of(longest), [longest]),
                *(text("most time of its own", phase.name, [phase.longest_slice_id]) for phase in phases),
            ),
            where=somewhere(analysis, longest),
            remedy=(
                "Run the warm-up steps before the recording starts; a TORCHINDUCTOR_CACHE_DIR that outlives the job "
                "spares the next one most of it. If later steps compile again, find out why with "
                "TORCH_LOGS=recompiles, and mark changing sizes with torch._dynamo.mark_dynamic or pad them."
            ),
            cost_ns=cost,
        ),
    )
