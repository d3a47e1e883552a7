"""Many kernels are too short to hide what launching them costs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from profsuite.analyzers.base import Evidence, Finding
from profsuite.analyzers.findings.wording import count, percent, somewhere, text, time
from profsuite.analyzers.kernels import SHORT_KERNEL_NS

if TYPE_CHECKING:
    from profsuite.analyzers.analysis import Analysis

MIN_KERNELS = 100
SHORT_PCT = 50.0
"""Share of kernels (by count) below 10 µs."""
IDLE_SHARE = 0.1
"""Share of the window lost to late or queued launches, from which short kernels cost time for certain."""


def small_kernels(analysis: Analysis) -> tuple[Finding, ...]:
    """Fires when half of at least 100 kernels are below 10 µs; a warning where launches leave the device idle.

    Remedy: torch.compile, fused optimizers, a larger batch, CUDA graphs.
    """
    table = analysis.kernels
    short = table.short_pct or 0.0
    if table.num_kernels < MIN_KERNELS or short < SHORT_PCT:
        return ()
    lost = analysis.idle_ns("host") + analysis.idle_ns("queue")
    hurts = analysis.share(lost) >= IDLE_SHARE
    if not hurts and (table.short_time_pct or 0.0) < 100 * IDLE_SHARE:
        return ()
    graphed = table.from_graphs >= table.num_kernels / 2
    evidence = [
        count("kernels", table.num_kernels),
        count(f"of them below {SHORT_KERNEL_NS // 1000} µs", table.num_short),
        Evidence(label="share of kernels", value=short, unit="%"),
        Evidence(label="share of kernel time", value=table.short_time_pct or 0.0, unit="%"),
        time("device idle for late or queued launches", lost),
        count("kernels launched by graphs", table.from_graphs),
    ]
    shortest = max(table.rows, key=lambda row: row.count * (row.mean_ns < SHORT_KERNEL_NS))
    if shortest.mean_ns < SHORT_KERNEL_NS:
        evidence.append(text("most frequent of the largest", shortest.name, [shortest.longest_slice_id]))
    return (
        Finding(
            id="small_kernels",
            title=f"{percent(short / 100)} of {table.num_kernels} kernels take less than 10 µs",
            severity="warning" if hurts else "info",
            evidence=tuple(evidence),
            where=somewhere(analysis),
            remedy=_FUSE if graphed else f"{_FUSE} Or replay them from a CUDA graph, which launches all with one call.",
            cost_ns=None,
        ),
    )


_FUSE = (
    "Fewer, larger kernels: torch.compile fuses neighbours, fused and foreach optimizers (fused=True) replace hundreds "
    "of small updates, a larger batch makes each kernel longer."
)
