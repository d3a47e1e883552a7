"""What changed from one run to another, as figures."""

from __future__ import annotations

from profsuite.analyzers.diff.parts import PartChange
from profsuite.analyzers.diff.report import DiffReport
from profsuite.exporters.diff.document import part_label
from profsuite.exporters.figures.figure import BLUE, GREEN, ORANGE, Figure, bars_across

MS = 1e6
"""Nanoseconds of one."""


def parts_figure(report: DiffReport) -> Figure | None:
    """The parts of a step (or window) of the first device, before and after; of the host where there is no device."""
    found: tuple[PartChange, ...] = ()
    title = "The host's time, before and after"
    if report.devices:
        found, title = report.devices[0].parts, "The device's time, before and after"
    elif report.host is not None:
        found = report.host.parts
    rows = [p for p in found if p.time.before_ms_per_step is not None and p.time.after_ms_per_step is not None]
    if not rows:
        return None
    columns = (
        ("before", BLUE, [(p.time.before_ms_per_step or 0.0) * MS for p in rows]),
        ("after", ORANGE, [(p.time.after_ms_per_step or 0.0) * MS for p in rows]),
    )
    return bars_across(title, [part_label(p.part) for p in rows], columns, _per(report))


def change_figure(report: DiffReport, most: int = 12) -> Figure | None:
    """The ops that changed most, in either direction; null without a change."""
    on_device = bool(report.devices)
    changes = [(op.name, (op.device if on_device else op.host).change_ms_per_step) for op in report.ops.rows]
    known = sorted(((n, c) for n, c in changes if c), key=lambda each: -abs(each[1]))[:most]
    if not known:
        return None
    columns = (
        ("slower", ORANGE, [max(change, 0.0) * MS for _, change in known]),
        ("faster", GREEN, [min(change, 0.0) * MS for _, change in known]),
    )
    made = bars_across("The ops that changed most", [name for name, _ in known], columns, _per(report))
    return Figure(made.title, made.data, made.layout | {"barmode": "relative"}, 120 + 24 * len(known))


def _per(report: DiffReport) -> str:
    return " per step" if report.per == "step" else ""
