"""The driver loads or compiles kernels' code while the job runs: each kernel's first launch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from profsuite.analyzers.base import Finding
from profsuite.analyzers.findings.marked_time import host_marks
from profsuite.analyzers.findings.profiler_overhead import overhead_rows
from profsuite.analyzers.findings.wording import count, grade, ms, percent, share, somewhere, text, time, whole
from profsuite.analyzers.ranking import longest_names
from profsuite.trace.intervals import union_length

if TYPE_CHECKING:
    from profsuite.analyzers.analysis import Analysis

FIRES_FROM = 0.01

_LOAD = r"^(?:cu|cuda|hip)(?:Module|Library)Load\w*$"


def module_loading(analysis: Analysis) -> tuple[Finding, ...]:
    """Fires when loading code (cuModuleLoad and the like, lazy loading as the tracer reports it) takes 1 %.

    Remedy: profile after warm-up; warm up every shape.
    """
    rows = np.union1d(np.flatnonzero(host_marks(analysis, _LOAD)), overhead_rows(analysis, loading=True))
    if not len(rows) or not analysis.host.window_ns:
        return ()
    trace = analysis.trace
    cost = union_length(trace.array("slice", "ts")[rows], trace.end[rows])
    fraction = cost / analysis.recording_ns
    if fraction < FIRES_FROM:
        return ()
    step = trace.array("slice", "step_id")[rows]
    top = longest_names(trace, rows)[0]
    return (
        Finding(
            id="module_loading",
            title=f"Loading kernels' code takes {ms(cost)} ({percent(fraction)} of the {whole(analysis)})",
            severity=grade(fraction),
            evidence=(
                time("loading", cost),
                share("share of the recording", fraction),
                count("times", len(rows)),
                count("steps with it", len(np.unique(step[step >= 0]))),
                text("longest", top.name, top.slice_ids),
                time("its total", top.total_ns),
            ),
            where=somewhere(analysis, top.slice_ids[0]),
            remedy=(
                "Code is loaded at a kernel's first launch: profile after warm-up. Where later steps load too, new "
                "shapes bring new kernels: warm up with every shape, or set CUDA_MODULE_LOADING=EAGER. "
                "'Driver Compiler' means that the binary has no code for this GPU."
            ),
            cost_ns=cost,
            counted_in=("host_bound", "compile_in_steps"),
        ),
    )
