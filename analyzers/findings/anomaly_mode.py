"""Autograd's anomaly mode is on: every backward function checks its gradients for NaN, and reads the answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from profsuite.analyzers.base import Finding
from profsuite.analyzers.enclosing import enclosing
from profsuite.analyzers.findings.marked_time import host_marks, marked_time
from profsuite.analyzers.findings.wording import count, grade, ms, per_step, percent, share, somewhere, time, whole
from profsuite.trace.intervals import union_length

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from profsuite.analyzers.analysis import Analysis

_BACKWARD = r"^autograd::engine::evaluate_function"
_CHECK = r"^aten::isnan$"
_ANSWER = r"^aten::(?:_is_any_true|any|item|is_nonzero)$"


def anomaly_mode(analysis: Analysis) -> tuple[Finding, ...]:
    """Fires when the autograd engine itself, not a backward function, runs ``aten::isnan``: only this mode does.

    What it costs in all is not known: of the stacks that it keeps for every forward op there is no record.

    Remedy: remove detect_anomaly outside of debugging.
    """
    marks = checks(analysis)
    if not marks.any():
        return ()
    trace = analysis.trace
    rows = np.flatnonzero(marks)
    held = union_length(trace.array("slice", "ts")[rows], trace.end[rows])
    spent = marked_time(analysis, marks)
    gaps = analysis.gaps
    waited = 0
    if gaps is not None:
        around = enclosing(trace, marks)
        waited = int(gaps.dur[(gaps.wait >= 0) & (around[np.maximum(gaps.wait, 0)] >= 0)].sum())
    cost = spent.cost_ns + waited
    fraction = analysis.share(cost)
    checked = np.flatnonzero(host_marks(analysis, _CHECK) & marks)
    where = "GPU window" if analysis.device else whole(analysis)
    return (
        Finding(
            id="anomaly_mode",
            title=(
                f"Autograd's anomaly mode is on: its checks alone take {ms(cost)} ({percent(fraction)} of the {where})"
            ),
            severity="critical" if grade(fraction) == "critical" else "warning",
            evidence=(
                count("gradients checked for NaN", len(checked), checked[:5].tolist()),
                time("the host is in the checks", held),
                time("their work alone" if analysis.device else "their time", spent.alone_ns),
                *((time("device idle for them", spent.idle_ns + waited),) if analysis.device else ()),
                time("both together", cost),
                share("share of the window", fraction),
                *per_step("in the checks", analysis, cost),
            ),
            where=somewhere(analysis, int(checked[0])),
            remedy=(
                "Remove torch.autograd.detect_anomaly() and set_detect_anomaly(True) outside of debugging. The checks "
                "are the smaller part: it also keeps a Python stack for every forward op, which no recording shows."
            ),
            cost_ns=None,
        ),
    )


def checks(analysis: Analysis) -> NDArray[np.bool_]:
    """The checks: direct children of the engine's own marks, where ``isnan`` is among them."""
    trace = analysis.trace
    engine, check = host_marks(analysis, _BACKWARD), host_marks(analysis, _CHECK)
    parent = trace.array("slice", "parent_id")
    if not engine.any() or not check.any():
        return np.zeros(len(parent), bool)
    direct = (parent >= 0) & engine[parent]
    checked = np.zeros(len(parent), bool)
    checked[parent[direct & check]] = True
    marks: NDArray[np.bool_] = direct & checked[parent] & (check | host_marks(analysis, _ANSWER))
    return marks
