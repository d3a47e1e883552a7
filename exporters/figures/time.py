"""How devices spent their time: by step, by device or rank, and why they were idle."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from profsuite.analyzers.breakdown import TimeShares
from profsuite.analyzers.report import Report
from profsuite.exporters.figures.figure import BLUE, GREY, ORANGE, PURPLE, Figure, bars_across, ms, text
from profsuite.exporters.figures.plots import areas
from profsuite.exporters.sections.words import CAUSES, DEVICE_PARTS

STEPS_SHOWN = 500

PART_COLORS = {"compute_ns": BLUE, "exposed_comm_ns": ORANGE, "exposed_memcpy_ns": PURPLE, "idle_ns": GREY}


def step_figure(report: Report) -> Figure | None:
    """Each step's time on the device that is busy longest, by part; null without steps."""
    devices = [device for device in report.breakdown or () if device.steps]
    if not devices:
        return None
    device = max(devices, key=lambda d: d.shares.busy_ns)
    steps = device.steps
    name = "the device" if device.device is None else f"device {device.device}"
    title = f"Time of {name} by step"
    if len(steps) > STEPS_SHOWN:
        longest = sorted(range(len(steps)), key=lambda n: -steps[n].shares.window_ns)[:STEPS_SHOWN]
        steps = tuple(steps[n] for n in sorted(longest))
        title += f" (the longest {STEPS_SHOWN} of {len(device.steps):,})"
    return stacked(title, [str(step.number) for step in steps], [step.shares for step in steps], "step")


def over_time_figure(report: Report, origin_ns: int | None = None, height: int = 300) -> Figure | None:
    """How the device that is busy longest spent each stretch of its window, as shares; null without device work.

    Times are since ``origin_ns``, by default the device's first start.
    """
    device = max(report.breakdown or (), key=lambda d: d.shares.busy_ns, default=None)
    if device is None or device.over_time is None:
        return None
    found = device.over_time
    edges = found.edges_ns
    lengths = [end - start for start, end in pairwise(edges)]
    origin = edges[0] if origin_ns is None else origin_ns
    parts = []
    for part, label in DEVICE_PARTS.items():
        values: tuple[int, ...] = getattr(found, part, ())
        if any(values):
            shares = [100 * ns / length for ns, length in zip(values, lengths, strict=True)]
            # A part holds until the next stretch: the last needs an end.
            parts.append((label, PART_COLORS[part], [*shares, shares[-1]]))
    name = "the device" if device.device is None else f"device {device.device}"
    x = [(edge - origin) / 1e6 for edge in edges]
    made = areas(f"Utilisation of {name} over time", x, parts, ("ms since the start", "%"), height)
    made.layout["yaxis"] |= {"range": [0, 100]}
    return made


def device_figure(reports: Sequence[Report], least: int = 2) -> Figure | None:
    """Each device's window by part, of one rank or several; null where there are fewer than ``least`` devices."""
    rows = [
        (f"rank {report.rank} " if report.rank is not None else "", device)
        for report in reports
        for device in report.breakdown or ()
    ]
    if len(rows) < least or not rows:
        return None
    names = [f"{rank}GPU {'?' if device.device is None else device.device}" for rank, device in rows]
    return stacked("Time of each device", names, [device.shares for _, device in rows], "device")


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


def stacked(title: str, names: list[str], shares: list[TimeShares], axis: str) -> Figure:
    """Windows by part, one bar each; ``axis`` says what a bar is."""
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
