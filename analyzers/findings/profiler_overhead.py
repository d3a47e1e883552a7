"""The device's tracer stops the job to make room for its records."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from profsuite.analyzers.base import Finding
from profsuite.analyzers.findings.wording import count, grade, ms, percent, share, somewhere, text, time, whole
from profsuite.analyzers.host_calls import matching
from profsuite.analyzers.ranking import longest_names
from profsuite.trace.classes import Role
from profsuite.trace.intervals import union_length

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from profsuite.analyzers.analysis import Analysis

FIRES_FROM = 0.01
WARNING = 0.05

LOADING = r"(?i)^(?:Lazy Function Loading|Runtime Triggered Module Loading|Driver Compiler)$"
"""Overhead rows that say what the driver did for the job."""

_FULL = r"(?i)^Command Buffer Full$"
"""The job is so far ahead of the device that it must wait: neither the tracer's doing nor a loss."""


def profiler_overhead(analysis: Analysis) -> tuple[Finding, ...]:
    """Fires when the tracer's own overhead rows (CUPTI's buffers and instrumentation) cover 1 % of the recording.

    Remedy: a schedule with warm-up; fewer steps, fewer kinds of activity.
    """
    rows = overhead_rows(analysis, loading=False)
    if not len(rows) or not analysis.host.window_ns:
        return ()
    cost = union_length(analysis.trace.array("slice", "ts")[rows], analysis.trace.end[rows])
    fraction = cost / analysis.recording_ns
    if fraction < FIRES_FROM:
        return ()
    top = longest_names(analysis.trace, rows)[0]
    return (
        Finding(
            id="profiler_overhead",
            title=f"The profiler itself takes {ms(cost)} ({percent(fraction)} of the {whole(analysis)})",
            severity=grade(fraction, WARNING),
            evidence=(
                time("overhead that the tracer reports", cost),
                share("share of the recording", fraction),
                count("times", len(rows)),
                text("longest", top.name, top.slice_ids),
                time("its total", top.total_ns),
            ),
            where=somewhere(analysis, top.slice_ids[0]),
            remedy=(
                "Times around it are longer than without the profiler. Give the schedule a warm-up "
                "(profsuite.schedule(wait=…, warmup=2, active=…)), in which buffers are made, and record fewer steps "
                "or fewer kinds of activity. What recording ops, shapes and stacks adds is not in this number."
            ),
            cost_ns=cost,
            counted_in=("host_bound",),
        ),
    )


def overhead_rows(analysis: Analysis, *, loading: bool) -> NDArray[np.int64]:
    """Overhead rows of the file: those of the tracer, or those of the driver that loads code."""
    trace = analysis.trace
    names = trace.array("slice", "name")
    if not len(names):
        return np.zeros(0, np.int64)
    loads = matching(trace, LOADING)
    wanted = loads if loading else ~loads & ~matching(trace, _FULL)
    return np.flatnonzero((trace.roles == Role.OVERHEAD) & wanted[names])
