"""Casts between number formats take a visible part of the time."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from profsuite.analyzers.base import Finding
from profsuite.analyzers.findings.kernel_share import FIRES_FROM, device_time, kernel_share, largest, slices_of, slowest
from profsuite.analyzers.findings.wording import count, grade, percent, share, somewhere, text, time

if TYPE_CHECKING:
    from profsuite.analyzers.analysis import Analysis
    from profsuite.analyzers.costs.call import OpCall


def dtype_conversions(analysis: Analysis) -> tuple[Finding, ...]:
    """Fires when copies whose source and result differ in dtype take 5 % of the window; needs recorded shapes.

    Remedy: one format from the input to the result, no casts in loops, torch.compile.
    """
    casts = [(op, pair) for op, call in analysis.priced_ops if op.device_ns and (pair := conversion(call)) is not None]
    ops = [op for op, _ in casts]
    ns = device_time(ops)
    fraction = kernel_share(analysis, ns)
    if fraction < FIRES_FROM:
        return ()
    spent: Counter[str] = Counter()
    for op, (before, after) in casts:
        spent[f"{before} to {after}"] += op.device_ns or 0
    often, most = spent.most_common(1)[0]
    first = slowest(ops, 1)[0]
    return (
        Finding(
            id="dtype_conversions",
            title=f"Conversions between number formats take {percent(fraction)} of the window",
            severity=grade(fraction),
            evidence=(
                time("conversions", ns, slices_of(ops)),
                share("share of the window", fraction),
                count("casts", sum(op.count for op in ops)),
                text("mostly from" if 2 * most > sum(spent.values()) else "the largest part from", often),
                time("its time", most),
                *largest(ops),
            ),
            where=somewhere(analysis, first.longest_slice_id, op=first.name),
            remedy=(
                "Keep tensors in one format: create and load them in it, hold weights in the format that they are used "
                "in (autocast casts weights in each forward pass unless its cache is on), take casts out of loops; "
                "torch.compile fuses those that stay into their neighbours."
            ),
            cost_ns=ns,
            counted_in=("far_from_roofline", "low_occupancy_tail", "unfused_pointwise"),
        ),
    )


def conversion(call: OpCall) -> tuple[str, str] | None:
    """The formats that a copy converts from and to; null where it is no copy, or keeps the format."""
    if call.name == "aten::_to_copy":
        source, target = call.tensor(0).dtype, call.dtype(1)
    elif call.name == "aten::copy_":
        source, target = call.tensor(1).dtype, call.tensor(0).dtype
    else:
        return None
    if source is None or target is None or source == target:
        return None
    return source.name, target.name
