"""Gradients of embeddings and of indexing: indices are sorted, and rows added one index after another."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from profsuite.analyzers.base import Finding
from profsuite.analyzers.findings.device_time import alone_ns, launched_in
from profsuite.analyzers.findings.marked_time import host_marks
from profsuite.analyzers.findings.wording import (
    WARNING,
    count,
    grade,
    ms,
    per_step,
    percent,
    share,
    somewhere,
    text,
    time,
)
from profsuite.analyzers.host_calls import matching
from profsuite.analyzers.ranking import longest_names

if TYPE_CHECKING:
    from profsuite.analyzers.analysis import Analysis

_OPS = r"^aten::(?:embedding_dense_backward|_index_put_impl_|_embedding_bag_dense_backward)$"
_KERNELS = (
    r"indexing_backward_kernel|embedding_backward_feature_kernel|compute_grad_weight|EmbeddingBag_accGradParameters"
)


def sorted_gradients(analysis: Analysis) -> tuple[Finding, ...]:
    """Fires when the kernels of such gradients (their sorts included) take 5 % of the window alone.

    Remedy: nn.Embedding or index_select instead of indexing, sparse=True, fused tables.
    """
    if analysis.main is None:
        return ()
    trace, work = analysis.trace, analysis.work[analysis.main]
    names = trace.array("slice", "name")
    adds = matching(trace, _KERNELS)[names[work.ids]]
    if not adds.any():
        return ()
    # Of the ops, only calls that add up: an index_put without accumulation sorts nothing.
    called = np.zeros(len(names), bool)
    ops = work.op_ids[adds]
    called[ops[ops >= 0]] = True
    own = adds | launched_in(analysis, called & host_marks(analysis, _OPS))
    cost = alone_ns(analysis, own)
    fraction = analysis.share(cost)
    if fraction < WARNING:
        return ()
    top = longest_names(trace, work.ids[own])[0]
    callers = longest_names(trace, ops[ops >= 0], top=1)
    op = callers[0].name if callers else None
    return (
        Finding(
            id="sorted_gradients",
            title=f"Gradients of embeddings and indexing take {ms(cost)} ({percent(fraction)} of the GPU window)",
            severity=grade(fraction),
            evidence=(
                time("their kernels alone", cost),
                share("share of the window", fraction),
                *per_step("their kernels", analysis, cost),
                count("kernels", int(own.sum())),
                text("longest", top.name, top.slice_ids),
                time("its total", top.total_ns),
                *((text("launched by", op, callers[0].slice_ids),) if op else ()),
            ),
            where=somewhere(analysis, op=op),
            remedy=(
                "Select rows with nn.Embedding or index_select instead of tensor[index] where gradients flow; for "
                "large tables use sparse=True with SparseAdam, or fused tables (fbgemm); often repeated rows "
                "(padding_idx) are added one by one, so leave them out."
            ),
            cost_ns=cost,
        ),
    )
