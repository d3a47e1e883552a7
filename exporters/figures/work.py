"""What takes the time: the critical path, what each obstacle costs, ops and kernels."""

from __future__ import annotations

from typing import Final

from profsuite.analyzers.report import Report
from profsuite.exporters.figures.figure import BLUE, GREEN, ORANGE, SKY, Figure, bars_across
from profsuite.exporters.sections.whatif import LEAST_SHARE, PATH_CAUSES

BARS: Final = 25
"""Of a figure, so that it can be seen at once; the tables have the rest."""


def path_figure(report: Report) -> Figure | None:
    """The critical path by cause, a step where steps are known; null where nothing could be replayed."""
    if report.whatif is None:
        return None
    path = report.whatif.path
    parts = [part for part in path.parts if (part.path_pct or 0) >= LEAST_SHARE]
    names = [PATH_CAUSES[part.cause] for part in parts]
    values = [part.total_ns / (path.num_steps or 1) for part in parts]
    return bars_across("The critical path", names, [("on the path", ORANGE, values)], _per(path.num_steps))


def saving_figure(report: Report) -> Figure | None:
    """What removing each obstacle would save, by replay, a step where steps are known; null where nothing would."""
    if report.whatif is None:
        return None
    length, steps = report.whatif.length_ns, report.whatif.path.num_steps
    found = [s for s in report.whatif.scenarios if s.saving_ns * 100 >= LEAST_SHARE * length]
    if not found:
        return None
    values = [scenario.saving_ns / (steps or 1) for scenario in found]
    names = [scenario.name for scenario in found]
    return bars_across("What would be saved, by replay", names, [("saved", GREEN, values)], _per(steps))


def _per(steps: int) -> str:
    """What values are of that were divided by the steps, if there are any."""
    return f" a step (mean of {steps:,})" if steps > 1 else " a step" if steps else ", whole recording"


def op_figure(report: Report) -> Figure | None:
    """The ops that take most time, on the host and on the device, each with its longest call; null without ops."""
    if report.ops is None or not report.ops.rows:
        return None
    rows = report.ops.rows[:BARS]
    columns = [("host self", SKY, [op.host_self_ns for op in rows])]
    if any(op.device_self_ns for op in rows):
        columns.insert(0, ("GPU self", BLUE, [op.device_self_ns for op in rows]))
    return bars_across("Top ops", [op.name for op in rows], columns, places=[op.longest_slice_id for op in rows])


def kernel_figure(report: Report) -> Figure | None:
    """The kernels that take most time, each with its longest run; null without kernels."""
    if report.kernels is None or not report.kernels.rows:
        return None
    rows = report.kernels.rows[:BARS]
    columns = [("time", BLUE, [row.total_ns for row in rows])]
    return bars_across("Top kernels", [row.name for row in rows], columns, places=[r.longest_slice_id for r in rows])
