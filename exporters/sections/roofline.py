"""Roofline: what ops and kernels achieved, of what the device can do."""

from __future__ import annotations

from collections.abc import Sequence

from profsuite.analyzers.attained import Attained
from profsuite.analyzers.costs.peaks import DevicePeaks
from profsuite.analyzers.roofline import Roofline, RooflineOp
from profsuite.analyzers.roofline_kernels import RooflineKernel
from profsuite.exporters.document import Cell, Column, Name, Section, Table
from profsuite.exporters.names import printable
from profsuite.exporters.sections.words import pct, without_empty
from profsuite.exporters.units import count, duration, percent, rate


def roofline_section(roofline: Roofline) -> Section | None:
    """The ops and kernels with their bounds; None where there is neither device work nor a known cost."""
    if not roofline.device_ns and roofline.flops is None:
        return None
    notes = list(_notes(roofline))
    blocks: list[Table] = []
    if roofline.ops:
        blocks.append(_ops(roofline, roofline.ops))
    if roofline.kernels and roofline.ops:
        blocks.append(_kernels(roofline.kernels))
    return Section("Roofline", tuple(blocks), tuple(notes))


def _notes(roofline: Roofline) -> Sequence[str]:
    notes: list[str] = []
    if roofline.peaks is not None:
        notes.append(_peaks(roofline.peaks, {op.attained.dtype for op in roofline.ops}))
    if roofline.coverage_pct is not None and roofline.ops:
        priced = roofline.priced_pct or 0.0
        part = f" ({percent(priced)} in part)" if priced != roofline.coverage_pct else ""
        notes.append(f"Cost formulas explain {percent(roofline.coverage_pct)} of the compute kernels' time{part}.")
    if roofline.flops is not None:
        notes.append(_flops(roofline))
    if roofline.matrix_units_pct is not None:
        notes.append(
            f"Of the products that can use matrix units, {percent(roofline.matrix_units_pct)} of the time does, by the "
            "kernels' names."
        )
    if roofline.launch_bound_pct:
        notes.append(f"{percent(roofline.launch_bound_pct)} of the compute kernels' time is in kernels below 10 µs.")
    if roofline.tail_loss_ns:
        notes.append(f"Unfilled last waves waste up to {duration(roofline.tail_loss_ns)} in kernels of 10 µs or more.")
    if any(op.attained.beyond for op in roofline.ops):
        notes.append(
            "beyond: faster than the roofline; the data came from a cache, or the formula or the peak does not fit."
        )
    if roofline.note is not None:
        notes.append(printable(roofline.note))
    return notes


def _peaks(peaks: DevicePeaks, used: set[str | None]) -> str:
    rates = peaks.flops_per_s.items()
    parts = [f"{dtype} {rate(value, 'FLOP/s')}" for dtype, value in rates if dtype in used]
    if peaks.bandwidth_bytes_per_s is not None:
        parts.append(f"memory {rate(peaks.bandwidth_bytes_per_s, 'B/s')}")
    return f"Peaks of {printable(peaks.name)}: {', '.join(parts)} ({printable(peaks.source)})."


def _flops(roofline: Roofline) -> str:
    unpriced = roofline.unpriced_products_pct or 0.0
    text = f"Products{' whose cost is known' if unpriced else ''}: {rate(roofline.flops or 0, 'FLOP')}"
    if roofline.forward_flops is not None and roofline.backward_flops is not None:
        forward, backward = rate(roofline.forward_flops, "FLOP"), rate(roofline.backward_flops, "FLOP")
        text += f" (forward {forward}, backward {backward})"
    if roofline.flops_per_step is not None:
        text += f", {rate(roofline.flops_per_step, 'FLOP')} a step"
    if roofline.mfu_pct is not None:
        text += f"; {percent(roofline.mfu_pct)} of the peak over the GPU window (MFU)"
    elif unpriced and roofline.peaks is not None:
        text += f"; no MFU, since products of unknown cost take {percent(unpriced)} of kernel time"
    return f"{text}."


def _ops(roofline: Roofline, ops: Sequence[RooflineOp]) -> Table:
    rows: list[tuple[Cell, ...]] = []
    both = len({op.direction for op in ops}) > 1
    for op in ops:
        head: tuple[Cell, ...] = (
            Name(op.name),
            _PASS[op.direction] if both else "",
            Name(shapes(op.input_dims)),
        )
        time = "" if op.device_ns is None else duration(op.device_ns)
        rows.append((*head, count(op.count), time, pct(op.device_pct), *_attained(op.attained), _units(op)))
    columns = (
        Column("op", False),
        Column("pass", False),
        Column("input shapes", False),  # what tells one row from another
        Column("calls", optional=True),
        Column("GPU time"),
        Column("share", optional=True),
        *_ATTAINED,
        Column("matrix units", False, optional=True),
    )
    caption = (
        "Ops by shapes" if len(ops) == roofline.num_ops else f"The first {len(ops)} of {roofline.num_ops} ops by shapes"
    )
    return without_empty(caption, columns, rows)


_PASS = {"forward": "fwd", "backward": "bwd"}
"""A direction in a narrow column."""

_ATTAINED = (
    Column("FLOP/s", optional=True),
    Column("B/s", optional=True),
    Column("FLOP/B", optional=True),
    Column("bound", False),
    Column("of roofline"),
)


def _attained(attained: Attained | None) -> tuple[str, ...]:
    if attained is None:
        return ("",) * len(_ATTAINED)
    return (
        "" if attained.flops_per_s is None or not attained.flops else rate(attained.flops_per_s, ""),
        "" if attained.bytes_per_s is None else rate(attained.bytes_per_s, ""),
        "" if attained.intensity is None else f"{attained.intensity:.3g}",
        attained.bound or "",
        "beyond" if attained.beyond else pct(attained.pct_of_roofline),
    )


def _units(op: RooflineOp) -> str:
    if op.could_use is None:
        return ""
    return {True: "used", False: f"not used ({op.could_use})", None: ""}[op.matrix_units]


def _kernels(kernels: Sequence[RooflineKernel]) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for kernel in kernels:
        waves = "" if kernel.waves is None else f"{kernel.waves:.3g}"
        rows.append(
            (
                Name(kernel.name),
                count(kernel.count),
                duration(kernel.total_ns),
                pct(kernel.device_pct),
                *_attained(kernel.attained),
                waves,
                pct(kernel.tail_loss_pct),
            )
        )
    columns = (
        Column("kernel", False),
        Column("runs", optional=True),
        Column("GPU time"),
        Column("share", optional=True),
        *_ATTAINED,
        Column("waves", optional=True),
        Column("lost in the last", optional=True),
    )
    return without_empty("Kernels; FLOPs and bytes of those that are alone in their op", columns, rows, detail=True)


def shapes(dims: str) -> str:
    """Recorded shapes without the blanks between them, and without what has none (scalars)."""
    return "".join(dims.split()).replace(",[]", "")
