"""How devices spent their time: by step, by device or rank, and why they were idle."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from profsuite.analyzers.breakdown import TimeShares
from profsuite.analyzers.report import Report
from profsuite.exporters.figures.figure import BLUE, GREY, ORANGE, PURPLE, Figure, bars_across, ms, text
from profsuite.exporters.sections.words import CAUSES, DEVICE_PARTS

PART_COLORS = {"compute_ns": BLUE, "exposed_comm_ns": ORANGE, "exposed_memcpy_ns": PURPLE, "idle_ns": GREY}


def step_figure(report: Report) -> Figure | None:
    """Each step's time on the device that is busy longest, by part; null without steps."""
    devices = [device for device in report.breakdown or () if device.steps]
    if not devices:
        return None
    device = max(devices, key=lambda d: d.shares.busy_ns)
    shares = [step.shares for step in device.steps]
    name = "the device" if device.device is None else f"device {device.device}"
    return _stacked(f"Time of {name} by step", [str(step.number) for step in device.steps], shares, "step")


def device_figure(reports: Sequence[Report]) -> Figure | None:
    """Each device's window by part, of one rank or several; null where there are fewer than two devices."""
    rows = [
        (f"rank {report.rank} " if report.rank is not None else "", device)
        for report in reports
        for device in report.breakdown or ()
    ]
    if len(rows) < 2:
        return None
    names = [f"{rank}GPU {'?' if device.device is None else device.device}" for rank, device in rows]
    return _stacked("Time of each device", names, [device.shares for _, device in rows], "device")


def idle_figure(report: Report) -> Figure | None:
    """Idle time by cause; null without any."""
    idles = [idle for idle in report.idle or () if idle.causes]
    if not idles:
        return None
    totals: dict[str, int] = {}
    for idle in idles:
        for cause in idle.causes:
            totals[cause.cause] = totals.get(cause.cause, 0) + cause.total_ns
    order = sorted(totals, key=lambda cause: -totals[cause])
    values = [ms(totals[cause]) for cause in order]
    return bars_across("Why the GPU was idle", [CAUSES[cause] for cause in order], [("idle", GREY, values)])


def _stacked(title: str, names: list[str], shares: list[TimeShares], axis: str) -> Figure:
    data: list[dict[str, Any]] = []
    for part, label in DEVICE_PARTS.items():
        values = [ms(getattr(share, part)) for share in shares]
        if any(values):
            data.append(
                {
                    "type": "bar",
                    "name": text(label),
                    "x": [text(name) for name in names],
                    "y": values,
                    "marker": {"color": PART_COLORS[part]},
                    "hovertemplate": f"{axis} %{{x}}<br>{text(label)}: %{{y:,.6~f}} ms<extra></extra>",
                }
            )
    layout = {
        "barmode": "stack",
        "xaxis": {"title": {"text": axis}, "type": "category"},
        "yaxis": {"title": {"text": "ms"}, "rangemode": "tozero"},
        "showlegend": True,
    }
    return Figure(title, tuple(data), layout)
