"""Gradients are filled with zeros instead of being dropped."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from profsuite.analyzers.base import Finding
from profsuite.analyzers.enclosing import inside
from profsuite.analyzers.findings.cpu_only import is_cpu_only
from profsuite.analyzers.findings.marked_time import host_marks, marked_time
from profsuite.analyzers.findings.wording import count, grade, ms, per_step, percent, share, somewhere, time, whole

if TYPE_CHECKING:
    from profsuite.analyzers.analysis import Analysis

FIRES_FROM = 0.01

_MARK = r"^Optimizer\.zero_grad#"
_FILL = r"^aten::(?:zero_|fill_|_foreach_zero_)$"


def optimizer_zero_grad(analysis: Analysis) -> tuple[Finding, ...]:
    """Fires when ``Optimizer.zero_grad`` fills gradients, and that takes 1 % of the window.

    Remedy: zero_grad(set_to_none=True).
    """
    marks = host_marks(analysis, _MARK)
    if not marks.any() or not (analysis.main is not None or is_cpu_only(analysis)):
        return ()
    trace = analysis.trace
    parent = trace.array("slice", "parent_id")
    fills = inside(trace, marks) & host_marks(analysis, _FILL)
    fills &= ~((parent >= 0) & fills[parent])
    spent = marked_time(analysis, marks)
    fraction = analysis.share(spent.cost_ns)
    if not fills.any() or fraction < FIRES_FROM:
        return ()
    rows = np.flatnonzero(marks)
    rows = rows[np.argsort(-trace.array("slice", "dur")[rows], kind="stable")]
    where = "GPU window" if analysis.device else whole(analysis)
    return (
        Finding(
            id="optimizer_zero_grad",
            title=f"Filling gradients with zeros takes {ms(spent.cost_ns)} ({percent(fraction)} of the {where})",
            severity=grade(fraction),
            evidence=(
                count("calls of zero_grad", len(rows), rows[:5].tolist()),
                count("fills", int(fills.sum()), np.flatnonzero(fills)[:5].tolist()),
                time("their work alone" if analysis.device else "in zero_grad", spent.alone_ns),
                *((time("device idle before that work", spent.idle_ns),) if analysis.device else ()),
                share("share of the window", fraction),
                *per_step("lost to it", analysis, spent.cost_ns),
            ),
            where=somewhere(analysis, int(rows[0])),
            remedy=(
                "Call zero_grad(set_to_none=True), the default since torch 2.0: it launches nothing, and the next "
                "backward writes its gradients instead of adding to zeros."
            ),
            cost_ns=spent.cost_ns,
            counted_in=("host_bound", "exposed_memcpy"),
        ),
    )
