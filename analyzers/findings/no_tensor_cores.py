"""Products that the device's matrix units could do run on its vector units."""

from __future__ import annotations

from typing import TYPE_CHECKING

from profsuite.analyzers.base import Finding
from profsuite.analyzers.findings.kernel_share import FIRES_FROM, device_time, kernel_share, largest, slices_of, slowest
from profsuite.analyzers.findings.wording import grade, percent, share, somewhere, text, time

if TYPE_CHECKING:
    from profsuite.analyzers.analysis import Analysis
    from profsuite.analyzers.roofline import RooflineOp


def no_tensor_cores(analysis: Analysis) -> tuple[Finding, ...]:
    """Fires when products in kernels of vector units take 5 % of the window, on a device whose matrix units could.

    By the kernels' names; a name that does not tell counts as neither.

    Remedy: TF32 or 16 bits, and sizes that are multiples of 8.
    """
    ops = [op for op in analysis.roofline_ops if op.could_use is not None and op.matrix_units is False and op.device_ns]
    ns = device_time(ops)
    fraction = kernel_share(analysis, ns)
    if fraction < FIRES_FROM:
        return ()
    first = slowest(ops, 1)[0]
    return (
        Finding(
            id="no_tensor_cores",
            title=f"Products take {percent(fraction)} of the window on vector units, though the GPU has matrix units",
            severity=grade(fraction),
            evidence=(
                time("products on vector units", ns, slices_of(ops)),
                share("share of the window", fraction),
                *largest(ops),
                *((text("its kernel", first.main_kernel),) if first.main_kernel else ()),
                text("its operands", first.attained.dtype or "unknown"),
            ),
            where=somewhere(analysis, first.longest_slice_id, op=first.name),
            remedy=_remedy(first),
            cost_ns=ns,
            counted_in=("far_from_roofline", "low_occupancy_tail", "unfused_attention"),
        ),
    )


def _remedy(op: RooflineOp) -> str:
    if op.could_use == "tf32":
        return (
            "Allow TF32 for fp32 products (torch.set_float32_matmul_precision('high'), "
            "torch.backends.cudnn.allow_tf32 = True), or run them in bf16 with autocast."
        )
    return (
        "Choose sizes that matrix units take: make every dimension of the product a multiple of 8 (16 for 8-bit "
        "formats), pad the vocabulary and the heads, and keep inputs contiguous."
    )
