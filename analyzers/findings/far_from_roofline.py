"""Much of the time goes to ops that reach little of what the device allows them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from profsuite.analyzers.base import Evidence, Finding
from profsuite.analyzers.costs.registry import MATRIX_KINDS
from profsuite.analyzers.findings.kernel_share import device_time, kernel_share, largest, slices_of, slowest
from profsuite.analyzers.findings.wording import grade, percent, share, somewhere, text, time
from profsuite.analyzers.kernels import SHORT_KERNEL_NS

if TYPE_CHECKING:
    from profsuite.analyzers.analysis import Analysis
    from profsuite.analyzers.roofline import RooflineOp

FAR_PCT = 20.0
"""Share of its roofline below which an op is far from it."""
FIRES_FROM = 0.2
"""Share of the window that such ops take."""


def far_from_roofline(analysis: Analysis) -> tuple[Finding, ...]:
    """Fires when ops below 20 % of their roofline take 20 % of the window; needs shapes, and the device's peaks.

    Remedy: larger batches and fusion for short kernels; precision, sizes and layout where compute bounds, fusion
    where memory does.
    """
    ops = [
        op
        for op in analysis.roofline_ops
        if op.device_ns
        and op.attained.pct_of_roofline is not None
        and op.attained.pct_of_roofline < FAR_PCT
        # The bytes alone bound a product whose FLOPs depend on data: it may well be near what they allow.
        and (op.attained.needed_flops is not None or op.kind not in MATRIX_KINDS)
    ]
    ns = device_time(ops)
    fraction = kernel_share(analysis, ns)
    if fraction < FIRES_FROM:
        return ()
    bound = sum(op.attained.bound_ns or 0.0 for op in ops)
    lost = ns - int(bound)
    first = slowest(ops, 1)[0]
    reached = first.attained.pct_of_roofline or 0.0
    return (
        Finding(
            id="far_from_roofline",
            title=f"Ops that reach less than a fifth of what the GPU allows take {percent(fraction)} of the window",
            severity=grade(kernel_share(analysis, lost)),
            evidence=(
                time("time of these ops", ns, slices_of(ops)),
                share("share of the window", fraction),
                time("least time that the peaks allow", int(bound)),
                *largest(ops),
                Evidence(label="its share of the roofline", value=reached, unit="%"),
                text("its bound", first.attained.bound or "unknown"),
            ),
            where=somewhere(analysis, first.longest_slice_id, op=first.name),
            remedy=_remedy(ops),
            cost_ns=lost,
            counted_in=("low_occupancy_tail", "no_tensor_cores", "unfused_attention"),
        ),
    )


def _remedy(ops: list[RooflineOp]) -> str:
    short = device_time(op for op in ops if (op.device_ns or 0) < SHORT_KERNEL_NS * op.num_kernels)
    if 2 * short >= device_time(ops):
        return (
            "Their kernels are below 10 µs, too short to fill the GPU: raise the batch size, and fuse them "
            "(torch.compile, fused layers and optimizers)."
        )
    by_compute = device_time(op for op in ops if op.attained.bound == "compute")
    if 2 * by_compute >= device_time(ops):
        return (
            "They are bound by compute: check that matrix units are used and in which format, make sizes multiples of "
            "64, use channels_last for convolutions, and let torch.compile with max-autotune choose the kernels."
        )
    return (
        "They are bound by memory: fuse neighbours (torch.compile), so that tensors are read once, keep inputs "
        "contiguous in the order in which they are read, and move fewer bytes (bf16)."
    )
