"""The device is busy computing: its kernels decide, not what surrounds them."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from profsuite.analyzers.base import Finding
from profsuite.analyzers.findings.wording import count, percent, share, somewhere, text, time
from profsuite.analyzers.kernel_families import OTHER, family
from profsuite.analyzers.ranking import time_by_name
from profsuite.trace.classes import WORK_KINDS

if TYPE_CHECKING:
    from profsuite.analyzers.analysis import Analysis

FIRES_FROM = 0.8
"""Share of the window that compute kernels cover."""


def kernel_bound(analysis: Analysis) -> tuple[Finding, ...]:
    """Fires when compute kernels cover 80 % of the window; it is good news with a direction, hence ``info``."""
    device = analysis.device
    if device is None:
        return ()
    compute = device.shares.compute_ns
    fraction = analysis.share(compute)
    if fraction < FIRES_FROM:
        return ()
    leading, its_ns, total = leading_family(analysis)
    top = analysis.kernels.rows[0]
    evidence = [
        time("compute", compute),
        share("share of the window", fraction),
        share("device busy", analysis.share(device.shares.busy_ns)),
        text("largest family", leading),
        share("its share of kernel time", its_ns / total),
        text("largest kernel", top.name, [top.longest_slice_id]),
        time("its total", top.total_ns),
        count("its runs", top.count),
    ]
    if top.top_op:
        evidence.append(text("launched by", top.top_op))
    return (
        Finding(
            id="kernel_bound",
            title=f"The GPU computes {percent(fraction)} of its window, mostly {leading} ({percent(its_ns / total)})",
            severity="info",
            evidence=tuple(evidence),
            where=somewhere(analysis, op=top.top_op),
            remedy=kernel_remedy(leading),
            cost_ns=None,
        ),
    )


def leading_family(analysis: Analysis) -> tuple[str, int, int]:
    """The family of compute kernels that takes most time on the main device, its time, and all families' time, ns."""
    assert analysis.main is not None
    work = analysis.work[analysis.main]
    times: Counter[str] = Counter()
    for name, ns in time_by_name(analysis.trace, work.ids[work.kind == WORK_KINDS.index("compute")]).items():
        times[family(name)] += ns
    leading, longest = times.most_common(1)[0]
    return leading, longest, sum(times.values())


_BY_FAMILY = {
    "matrix multiplications": (
        "Run matrix multiplications in bf16 or fp16 (autocast) or TF32 (torch.set_float32_matmul_precision('high')), "
        "with sizes that are multiples of 64, so that the matrix units are used; then consider FP8 or fewer FLOPs."
    ),
    "attention": (
        "Use scaled_dot_product_attention's flash or cuDNN backend in bf16, or FlexAttention for masks; check the "
        "head size and that no mask forces the slow path."
    ),
    "convolutions": (
        "Use channels_last memory format with bf16 or fp16 autocast, and torch.backends.cudnn.benchmark=True where the "
        "input sizes are fixed."
    ),
    "optimizer updates": "Use the fused optimizer (fused=True); few large parameters update faster than many.",
    OTHER: "Look at the largest kernel first: its precision, its launch shape and the op behind it.",
}

_MEMORY_BOUND = (
    "These kernels move memory rather than compute: fuse them (torch.compile), use fused layers, and lower precision "
    "(bf16) to move fewer bytes."
)


def kernel_remedy(family_name: str) -> str:
    """What to do about kernels of a family that take the time."""
    return _BY_FAMILY.get(family_name, _MEMORY_BOUND)
