"""The steps."""

from __future__ import annotations

from collections.abc import Sequence

from profsuite.analyzers.breakdown import DeviceBreakdown
from profsuite.analyzers.steps import StepRow, StepSummary
from profsuite.exporters.document import Cell, Column, Section
from profsuite.exporters.names import printable
from profsuite.exporters.sections.words import pct, without_empty
from profsuite.exporters.units import duration, percent, plural

STEPS_SHOWN = 10


def steps_section(summary: StepSummary, devices: Sequence[DeviceBreakdown]) -> Section:
    """The most telling steps and their statistics, with how long the busiest device was busy in each whole one."""
    notes = [printable(summary.note)] if summary.note else []
    if not summary.steps:
        return Section("Steps", (), tuple(notes))
    busiest = max(devices, key=lambda device: device.shares.busy_ns, default=None)
    # Of a step that is cut the device's part may be missing, rather than idle.
    busy = {step.number: step.shares for step in (busiest.steps if busiest else ()) if not step.truncated}
    shown: list[StepRow] = sorted(summary.steps, key=lambda s: (not s.outlier, -s.dur_ns))[:STEPS_SHOWN]
    rows: list[tuple[Cell, ...]] = []
    for step in sorted(shown, key=lambda s: s.start_ns):
        shares = busy.get(step.number)
        remark = "outlier" if step.outlier else ""
        if step.excluded:
            remark = f"left out: {printable(step.excluded)}"
        rows.append((str(step.number), duration(step.dur_ns), "" if shares is None else pct(shares.busy_pct), remark))
    if len(summary.steps) > STEPS_SHOWN:
        notes.append(f"The {STEPS_SHOWN} most telling of {plural(len(summary.steps), 'step')}; --format csv has all.")
    columns = (Column("step"), Column("time"), Column("GPU busy"), Column("remark", False))
    caption = f"{plural(summary.num_used, 'step')} counted"
    if summary.mean_ns is not None and summary.median_ns is not None:
        caption += f": mean {duration(summary.mean_ns)}, median {duration(summary.median_ns)}"
    if summary.std_ns is not None and summary.cv_pct is not None:
        caption += f", deviation {duration(summary.std_ns)} ({percent(summary.cv_pct)})"
    return Section("Steps", (without_empty(caption, columns, rows),), tuple(notes))
