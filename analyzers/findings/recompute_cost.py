"""Activation checkpointing: the backward pass runs parts of the forward pass again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from profsuite.analyzers.base import Finding
from profsuite.analyzers.enclosing import inside, outermost
from profsuite.analyzers.findings.cpu_only import is_cpu_only
from profsuite.analyzers.findings.low_memory_use import memory_peak
from profsuite.analyzers.findings.marked_time import host_marks, marked_time
from profsuite.analyzers.findings.wording import count, ms, per_step, percent, share, somewhere, text, time, whole
from profsuite.analyzers.host_calls import OP
from profsuite.analyzers.places import source_frame
from profsuite.analyzers.ranking import longest_names

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from profsuite.analyzers.analysis import Analysis

FIRES_FROM = 0.03
ROOM = 0.7
"""Share of the device's memory; below it, storing more activations is worth a warning."""

_BACKWARD = r"^autograd::engine::evaluate_function"
_FORWARD = (
    r"^aten::(?:linear|conv[123]d|layer_norm|rms_norm|batch_norm|group_norm|scaled_dot_product_attention|embedding"
    r"|gelu|silu|relu|dropout)$"
)
"""Ops of a model that no formula of a derivative contains: with them, it is no backward of a backward."""


def recompute_cost(analysis: Analysis) -> tuple[Finding, ...]:
    """Fires when forward ops that run again inside the backward pass take 3 % of the window.

    Remedy: checkpoint fewer layers, or only what is cheap to recompute, where memory is left.
    """
    marks = recomputed(analysis)
    if not marks.any() or not (analysis.main is not None or is_cpu_only(analysis)):
        return ()
    spent = marked_time(analysis, marks)
    fraction = analysis.share(spent.cost_ns)
    if fraction < FIRES_FROM:
        return ()
    trace, peak = analysis.trace, memory_peak(analysis)
    rows = outermost(trace, marks)
    top = longest_names(trace, rows, top=1)[0]
    where = "GPU window" if analysis.device else whole(analysis)
    evidence = [
        count("forward ops run again", len(rows), top.slice_ids),
        text("longest", top.name, top.slice_ids),
        time("their work alone" if analysis.device else "their time", spent.alone_ns),
        *((time("device idle before that work", spent.idle_ns),) if analysis.device else ()),
        share("share of the window", fraction),
        *per_step("recomputing", analysis, spent.cost_ns),
    ]
    if peak is not None:
        evidence.append(share("memory reserved at most", peak.fraction))
    return (
        Finding(
            id="recompute_cost",
            title=f"Activation checkpointing recomputes for {ms(spent.cost_ns)} ({percent(fraction)} of the {where})",
            severity="warning" if peak is not None and peak.fraction < ROOM else "info",
            evidence=tuple(evidence),
            where=somewhere(analysis, top.slice_ids[0], op=top.name, source=source_frame(trace, top.slice_ids[0])),
            remedy=(
                "It buys memory with time: where memory is left, checkpoint fewer layers, or only what is cheap to "
                "recompute (selective checkpointing, create_selective_checkpoint_contexts; torch.compile chooses by "
                "itself with torch._functorch.config.activation_memory_budget)."
            ),
            cost_ns=spent.cost_ns,
            counted_in=("host_bound",),
        ),
    )


def recomputed(analysis: Analysis) -> NDArray[np.bool_]:
    """Ops that record for autograd inside a backward function, where layers of a model are among them.

    Ops of an ordinary backward have no sequence number, and backward functions have a forward thread.
    """
    trace = analysis.trace
    result = np.zeros(trace.num_rows("slice"), bool)
    if not trace.num_rows("op"):
        return result
    recorded = trace.array("op", "sequence_number") >= 0
    forward = trace.array("op", "forward_thread_id") <= 0
    result[trace.array("op", "slice_id")[recorded & forward]] = True
    result &= (analysis.timelines.classes == OP) & inside(trace, host_marks(analysis, _BACKWARD))
    layers = result & host_marks(analysis, _FORWARD)
    return result if layers.any() else np.zeros(len(result), bool)
