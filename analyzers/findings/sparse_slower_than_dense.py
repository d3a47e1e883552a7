"""Sparse products that a dense one would beat."""

from __future__ import annotations

from typing import TYPE_CHECKING

from profsuite.analyzers.base import Evidence, Finding
from profsuite.analyzers.findings.kernel_share import kernel_share
from profsuite.analyzers.findings.wording import grade, ms, somewhere, text, time

if TYPE_CHECKING:
    from profsuite.analyzers.analysis import Analysis

MARGIN = 1.5
"""A sparse product must take this much longer than the estimate for a dense one."""


def sparse_slower_than_dense(analysis: Analysis) -> tuple[Finding, ...]:
    """Fires when sparse products take half as long again as dense ones of their sizes; needs the device's peaks.

    Remedy: dense products, blocks or 2:4 sparsity.
    """
    slow = (row for row in analysis.sparse.rows if row.device_ns and row.dense_ns)
    rows = [row for row in slow if (row.device_ns or 0) > MARGIN * (row.dense_ns or 0)]
    if not rows:
        return ()
    spent, dense = sum(row.device_ns or 0 for row in rows), sum(row.dense_ns or 0.0 for row in rows)
    lost = spent - int(dense)
    first = max(rows, key=lambda row: row.device_ns or 0)
    evidence = [
        time("sparse products", spent, [row.slice_id for row in rows[:5] if row.slice_id is not None]),
        time("dense ones of these sizes would take", int(dense)),
        text("by", _BASIS[first.dense_basis or "assumed"]),
        text("largest", f"{first.name} {''.join(first.input_dims.split()).replace(',[]', '')}"),
        text("layout", first.layout),
    ]
    if first.density_pct is not None:
        evidence.append(Evidence(label="density", value=first.density_pct, unit="%"))
    return (
        Finding(
            id="sparse_slower_than_dense",
            title=f"Sparse products take {ms(spent)}, dense ones would take about {ms(dense)}",
            severity=grade(kernel_share(analysis, lost)),
            evidence=tuple(evidence),
            where=somewhere(analysis, first.slice_id, op=first.name),
            remedy=(
                "Multiply densely (tensor.to_dense()) where the matrix fits and more than a few percent of it are "
                "stored; else use blocks (BSR) or 2:4 sparsity, which matrix units take."
            ),
            cost_ns=lost,
            counted_in=("far_from_roofline", "low_occupancy_tail"),
        ),
    )


_BASIS = {
    "measured": "the share of the roofline that dense products reach in this trace",
    "assumed": "half of the roofline, since no dense product of that format runs in this trace",
}
