"""Elementwise kernels run one after another, where one kernel could do the work of several."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from profsuite.analyzers.base import Finding
from profsuite.analyzers.findings.device_time import alone_ns, dispatch_before_ns, launched_in, longest_of
from profsuite.analyzers.findings.marked_time import host_marks
from profsuite.analyzers.findings.wording import count, ms, per_step, percent, share, somewhere, text, time
from profsuite.analyzers.host_calls import matching
from profsuite.analyzers.ranking import longest_names
from profsuite.trace.classes import WORK_KINDS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from profsuite.analyzers.analysis import Analysis

FIRES_FROM = 0.1
"""Share of the window; fusing gives back only a part of it, so it is never critical."""

_ELEMENTWISE = r"elementwise_kernel"
_OTHERWISE = r"index_elementwise|distribution_elementwise|multi_tensor"
_ELSEWHERE = r"^Optimizer\.|^autograd::engine::evaluate_function: torch::autograd::AccumulateGrad"
"""Where compiling the model fuses nothing: the optimizer, and adding up or bucketing gradients."""


def unfused_pointwise(analysis: Analysis) -> tuple[Finding, ...]:
    """Fires when two or more elementwise kernels in a row, on one stream, take 10 % of the window all together.

    The time is that of the kernels alone, and what dispatch and launching leave the device idle between those of a
    row.  Kernels that an optimizer or the accumulation of gradients launched don't count.

    Remedy: torch.compile, fused layers.
    """
    if analysis.main is None or analysis.too_little:
        return ()
    own, first = pointwise_rows(analysis)
    kernels, idle = alone_ns(analysis, own), dispatch_before_ns(analysis, own & ~first)
    cost = kernels + idle
    fraction = analysis.share(cost)
    if not own.any() or fraction < FIRES_FROM:
        return ()
    trace, work = analysis.trace, analysis.work[analysis.main]
    number, rows = int(own.sum()), int(first.sum())
    ops = longest_names(trace, work.op_ids[own & (work.op_ids >= 0)], top=3)
    evidence = [
        count("elementwise kernels in rows of two or more", number, longest_of(analysis, own)),
        count("such rows", rows),
        share("share of all kernels and copies", number / len(work.ids)),
        time("these kernels alone", kernels),
        time("device idle between them for dispatch and launches", idle),
        share("share of the window", fraction),
        *per_step("lost to them at most", analysis, cost),
    ]
    if ops:
        evidence.append(text("launched by", ", ".join(op.name for op in ops), [op.slice_ids[0] for op in ops]))
    return (
        Finding(
            id="unfused_pointwise",
            title=(
                f"Elementwise kernels that follow each other take {ms(cost)} ({percent(fraction)} of the GPU window), "
                f"{number / rows:.1f} in a row"
            ),
            severity="warning",
            evidence=tuple(evidence),
            where=somewhere(analysis, op=ops[0].name if ops else None),
            remedy=(
                "torch.compile fuses each such row into one kernel: intermediate results then stay in registers, and "
                "there is one launch. Without it use fused layers and fewer changes of dtype."
            ),
            cost_ns=cost,
            counted_in=("host_bound", "dtype_conversions"),
        ),
    )


def pointwise_rows(analysis: Analysis) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Which work of the main device is an elementwise kernel beside another on its stream; which begins a row."""
    assert analysis.main is not None
    trace, work = analysis.trace, analysis.work[analysis.main]
    pointwise = matching(trace, _ELEMENTWISE) & ~matching(trace, _OTHERWISE)
    own = pointwise[trace.array("slice", "name")[work.ids]] & (work.kind == WORK_KINDS.index("compute"))
    own &= ~launched_in(analysis, host_marks(analysis, _ELSEWHERE))
    order = np.argsort(work.streams, kind="stable")  # by stream, then by start
    same = work.streams[order][1:] == work.streams[order][:-1]
    joined = own[order][1:] & own[order][:-1] & same
    has_before, has_after = np.append(False, joined), np.append(joined, False)
    rows, first = np.zeros(len(own), bool), np.zeros(len(own), bool)
    rows[order] = has_before | has_after
    first[order] = has_after & ~has_before
    return rows, first
