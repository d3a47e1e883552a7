"""Copies that only change the order of elements in memory take a visible part of the time."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from profsuite.analyzers.base import Finding
from profsuite.analyzers.findings.dtype_conversions import conversion
from profsuite.analyzers.findings.kernel_share import FIRES_FROM, kernel_share
from profsuite.analyzers.findings.wording import count, grade, percent, share, somewhere, text, time
from profsuite.analyzers.ranking import longest_names

if TYPE_CHECKING:
    from profsuite.analyzers.analysis import Analysis
    from profsuite.analyzers.costs.call import OpCall, Tensor

TRANSPOSES = re.compile(
    r"nchw_?to_?nhwc|nhwc_?to_?nchw|transpose_?(?:kernel|read|nchw|packed)|batched_transpose", re.IGNORECASE
)
"""In the names of kernels that transpose: ``cudnn::ops::nchwToNhwcKernel``, ``batched_transpose_32x32_pack``."""


def layout_transposes(analysis: Analysis) -> tuple[Finding, ...]:
    """Fires when copies that change the layout take 5 % of the window: transposing kernels, copies to contiguous.

    Remedy: channels_last throughout, no contiguous() after permute.
    """
    work, trace = analysis.device_costs, analysis.trace
    words = trace.words("slice", "name")
    names = trace.array("slice", "name")[work.ids].astype(np.int64)
    by_name = np.zeros(len(words) + 1, bool)
    by_name[[code for code in np.unique(names).tolist() if TRANSPOSES.search(str(words[code])[:4096])]] = True
    reorders = np.array([reorders_memory(priced.call) for priced in work.costs.priced] + [False], bool)
    price = np.where(work.owner >= 0, work.costs.price[work.owner], -1) if len(work.costs.price) else work.owner
    chosen = np.flatnonzero(by_name[names] | reorders[price])
    ns = int(work.union(np.zeros(len(chosen), np.int64), chosen, 1)[0])
    fraction = kernel_share(analysis, ns)
    if fraction < FIRES_FROM:
        return ()
    first = longest_names(trace, work.ids[chosen], top=1)[0]
    convolutions = bool(by_name[names[chosen]].any())
    return (
        Finding(
            id="layout_transposes",
            title=f"Copies that only reorder elements in memory take {percent(fraction)} of the window",
            severity=grade(fraction),
            evidence=(
                time("copies that change the layout", ns, first.slice_ids),
                share("share of the window", fraction),
                count("kernels", len(chosen)),
                text("the largest part in", first.name, first.slice_ids[:1]),
                time("its time", first.total_ns),
            ),
            where=somewhere(analysis, first.slice_ids[0]),
            remedy=_CONVOLUTIONS if convolutions else _COPIES,
            cost_ns=ns,
            counted_in=("far_from_roofline", "low_occupancy_tail", "unfused_pointwise"),
        ),
    )


_CONVOLUTIONS = (
    "Convert the model and its input to channels_last once (model.to(memory_format=torch.channels_last)): the library "
    "then transposes nothing around convolutions."
)
_COPIES = (
    "Avoid .contiguous() and reshape after permute or transpose: choose the layout in which the next op reads, use ops "
    "that take strides, or let torch.compile fuse the copy into its neighbours."
)


def reorders_memory(call: OpCall) -> bool:
    """Whether a copy keeps dtype and elements and changes their order; false where strides were not recorded."""
    if call.name == "aten::clone":
        source = call.optional(0)
        return source is not None and _is_permuted(source)
    if call.name != "aten::copy_" or conversion(call) is not None:
        return False
    target, source = call.optional(0), call.optional(1)
    if target is None or source is None or target.shape != source.shape or not target.strides or not source.strides:
        return False
    return _order(target) != _order(source) and not _repeats(source)


def _is_permuted(tensor: Tensor) -> bool:
    order = _order(tensor)
    return bool(tensor.strides) and order != sorted(order) and not _repeats(tensor)


def _order(tensor: Tensor) -> list[int]:
    """Dimensions of more than one element from the largest stride to the smallest."""
    axes = [axis for axis, size in enumerate(tensor.shape) if size > 1]
    return sorted(axes, key=lambda axis: -(tensor.strides or ())[axis]) if tensor.strides else axes


def _repeats(tensor: Tensor) -> bool:
    return any(stride == 0 and size > 1 for stride, size in zip(tensor.strides or (), tensor.shape, strict=False))
