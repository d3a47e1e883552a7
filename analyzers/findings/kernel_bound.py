"""The device is busy computing: its kernels decide, not what surrounds them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from profsuite.analyzers.base import Finding
from profsuite.analyzers.findings.wording import count, percent, share, somewhere, text, time
from profsuite.analyzers.kernel_families import OTHER, family
from profsuite.analyzers.precision import Precision, capability, precision
from profsuite.analyzers.ranking import RankedName, longest_names, time_by_name
from profsuite.trace.classes import WORK_KINDS

if TYPE_CHECKING:
    from profsuite.analyzers.analysis import Analysis

FIRES_FROM = 0.8
"""Share of the window that compute kernels cover."""


def kernel_bound(analysis: Analysis) -> tuple[Finding, ...]:
    """Fires when compute kernels cover 80 % of the window; it is good news with a direction, hence ``info``.

    Remedy: by the largest family of kernels: precision, sizes, layouts, backends, fusion.
    """
    device = analysis.device
    if device is None or analysis.too_little:
        return ()
    compute = device.shares.compute_ns
    fraction = analysis.share(compute)
    if fraction < FIRES_FROM:
        return ()
    leading = leading_kernels(analysis)
    top = leading.largest
    mostly = "mostly" if leading.share > 0.5 else "most of all"
    op = next((row.top_op for row in analysis.kernels.rows if row.name == top.name), None)
    evidence = [
        time("compute", compute),
        share("share of the window", fraction),
        share("device busy", analysis.share(device.shares.busy_ns)),
        text("largest family", leading.family),
        share("its share of kernel time", leading.share),
        text("largest kernel", top.name, top.slice_ids[:1]),
        share("the kernel's share of kernel time", leading.share_of_largest),
        time("its total", top.total_ns),
        count("its runs", top.count),
    ]
    if op:
        evidence.append(text("launched by", op))
    return (
        Finding(
            id="kernel_bound",
            title=(
                f"The GPU computes {percent(fraction)} of its window, {mostly} {leading.family} "
                f"({percent(leading.share)} of kernel time)"
            ),
            severity="info",
            evidence=tuple(evidence),
            where=somewhere(analysis, op=op),
            remedy=kernel_remedy(analysis, leading),
            cost_ns=None,
        ),
    )


@dataclass(frozen=True, slots=True)
class LeadingKernels:
    """The family of compute kernels that takes most time, and the largest compute kernel of any family.

    Shares are of all kernels' time, as in the table of kernels; ``times`` is the family's time by name, ns.
    """

    family: str
    times: dict[str, int]
    share: float
    largest: RankedName
    share_of_largest: float


def leading_kernels(analysis: Analysis) -> LeadingKernels:
    """What takes most time among the compute kernels, of which there must be one."""
    code = WORK_KINDS.index("compute")
    rows = np.concatenate([work.ids[work.kind == code] for work in analysis.work])
    times = time_by_name(analysis.trace, rows)
    families: Counter[str] = Counter()
    for name, ns in times.items():
        families[family(name)] += ns
    leading, ns = families.most_common(1)[0]
    total, largest = analysis.kernels.total_ns, longest_names(analysis.trace, rows, top=1)[0]
    return LeadingKernels(
        family=leading,
        times={name: ns for name, ns in times.items() if family(name) == leading},
        share=ns / total,
        largest=largest,
        share_of_largest=largest.total_ns / total,
    )


def kernel_remedy(analysis: Analysis, leading: LeadingKernels) -> str:
    """What to do about kernels that take the time, on this device and in the precision that they have."""
    left = precision(analysis, leading.times)
    if leading.family == "matrix multiplications":
        return _matmul_remedy(left)
    in_sixteen = f" in {left.sixteen}" if left.sixteen else ""
    if leading.family == "attention":
        version = capability(analysis)
        backend = "memory-efficient" if version and version < (8, 0) else "flash or cuDNN"
        return (
            f"Use scaled_dot_product_attention's {backend} backend{in_sixteen}, or FlexAttention for masks; check the "
            "head size and that no mask forces the slow path."
        )
    if leading.family == "convolutions":
        autocast = f" (autocast{in_sixteen})" if in_sixteen else ""
        return (
            f"Use channels_last memory format{autocast}, and torch.backends.cudnn.benchmark=True where the input sizes "
            "are fixed."
        )
    if leading.family == "optimizer updates":
        return "Use the fused optimizer (fused=True); few large parameters update faster than many."
    if leading.family == OTHER:
        return "Look at the largest kernel first: its precision, its launch shape and the op behind it."
    lower = f", and lower precision ({left.sixteen}) to move fewer bytes" if left.sixteen else ""
    return (
        "These kernels move memory rather than compute: fuse them (torch.compile), use fused layers"
        f"{lower or ', and move fewer bytes'}."
    )


def _matmul_remedy(left: Precision) -> str:
    sizes = "sizes that are multiples of 64, so that the matrix units are used"
    if left.bits == 32 and left.lower:
        tf32 = f" or {left.tf32} (torch.set_float32_matmul_precision('high'))" if left.tf32 else ""
        return f"Run matrix multiplications in {left.lower} (autocast){tf32}, with {sizes}; then consider fewer FLOPs."
    if left.bits == 16:
        lower = f"consider {left.lower} or fewer FLOPs" if left.lower else "consider fewer FLOPs"
        return f"They run in 16 bits already: choose {sizes}, and {lower}."
    return f"They run in the lowest precision that helps on this GPU already: choose {sizes}, and consider fewer FLOPs."


def kernel_hint(analysis: Analysis, leading: LeadingKernels) -> str:
    """The same in half a sentence, for the verdict."""
    left = precision(analysis, leading.times)
    if leading.family == "matrix multiplications":
        formats = ", or ".join(filter(None, (left.lower, left.tf32)))
        return f"Lower precision ({formats}) or fewer FLOPs help" if formats else "Fewer FLOPs help"
    if leading.family == "attention":
        return "Check which attention backend runs, and its precision"
    if leading.family == "convolutions":
        return f"Try channels_last with {left.sixteen}" if left.sixteen else "Try channels_last"
    if leading.family == "optimizer updates":
        return "Use the fused optimizer"
    lower = f" and lower precision ({left.sixteen})" if left.sixteen else ""
    return f"Start with the largest kernels, with fusion (torch.compile){lower}"
