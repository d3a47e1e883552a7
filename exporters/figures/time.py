"""How devices spent their time: by step, by device or rank, and why they were idle."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

from profsuite.analyzers.breakdown import TimeShares
from profsuite.analyzers.report import Report
from profsuite.exporters.figures.figure import (
    BLUE,
    GREY,
    ORANGE,
    PURPLE,
    RED,
    SKY,
    Figure,
    Place,
    axis,
    bars_across,
    hover,
    names_along,
    text,
)
from profsuite.exporters.figures.plots import areas
from profsuite.exporters.sections.words import CAUSES, DEVICE_PARTS
from profsuite.exporters.units import PERCENT, time_scale

STEPS_SHOWN = 500

PART_COLORS = {"compute_ns": BLUE, "exposed_comm_ns": ORANGE, "exposed_memcpy_ns": PURPLE, "idle_ns": GREY}


def step_figure(report: Report) -> Figure | None:
    """Each step's time on the device that is busy longest, by part; on the host where no device works; null without."""
    devices = [device for device in report.breakdown or () if device.steps]
    if not devices:
        return _host_step_figure(report)
    device = max(devices, key=lambda d: d.shares.busy_ns)
    steps = device.steps
    name = "the device" if device.device is None else f"device {device.device}"
    title = f"Time of {name} by step"
    shown = _longest([step.shares.window_ns for step in steps])
    if len(shown) < len(steps):
        title += f" (the longest {len(shown)} of {len(steps):,})"
    steps = tuple(steps[n] for n in shown)
    places = [(step.start_ns, step.start_ns + step.shares.window_ns) for step in steps]
    return stacked(title, [str(step.number) for step in steps], [step.shares for step in steps], "step", places)


def _host_step_figure(report: Report) -> Figure | None:
    """How long each step took on the host, with the outliers and those that the recording cuts in colours of theirs."""
    steps = () if report.steps is None else report.steps.steps
    if not steps:
        return None
    shown = _longest([step.dur_ns for step in steps])
    title = "Time of each step on the host; no device's work was recorded in them"
    if len(shown) < len(steps):
        title += f" (the longest {len(shown)} of {len(steps):,})"
    steps = tuple(steps[n] for n in shown)
    scale = time_scale(step.dur_ns for step in steps)
    kinds = ["cut" if step.excluded is not None else "out" if step.outlier else "in line" for step in steps]
    names = {"in line": ("step", SKY), "out": ("outlier", RED), "cut": ("cut by the recording", GREY)}
    data = tuple(
        {
            "type": "bar",
            "name": label,
            "x": [str(step.number) for step in steps],
            "y": [scale.of(step.dur_ns) if of == kind else None for step, of in zip(steps, kinds, strict=True)],
            "marker": {"color": color},
            "hovertemplate": f"step %{{x}}<br>{label}: {hover('y', scale)}<extra></extra>",
        }
        for kind, (label, color) in names.items()
        if kind in kinds
    )
    layout = {
        "barmode": "stack",
        "bargap": _gap(len(steps)),
        "xaxis": names_along("step"),
        "yaxis": axis(scale.unit, rangemode="tozero"),
        "showlegend": len(data) > 1,
    }
    return Figure(title, data, layout, places=tuple((step.start_ns, step.start_ns + step.dur_ns) for step in steps))


def _longest(lengths: Sequence[int]) -> list[int]:
    """Which of the steps are drawn, in their order."""
    return sorted(sorted(range(len(lengths)), key=lambda n: -lengths[n])[:STEPS_SHOWN])


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
    since = [edge - origin for edge in edges]
    scale = time_scale(since)
    # A point is the begin of its stretch, the last one the end of the last.
    places = [*pairwise(edges), (edges[-2], edges[-1])]
    title, x_title = f"Utilisation of {name} over time", f"{scale.unit} since the start"
    made = areas(title, scale.all(since), parts, x_title, PERCENT, height, places)
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
    values = [totals[cause] for cause in order]
    return bars_across("Why the GPU was idle", [CAUSES[cause] for cause in order], [("idle", GREY, values)])


def stacked(
    title: str, names: list[str], shares: list[TimeShares], what: str, places: Iterable[Place | None] = ()
) -> Figure:
    """Windows by part, one bar each; ``what`` says what a bar is, ``places`` where, as in ``Figure``."""
    data: list[dict[str, Any]] = []
    scale = time_scale(share.window_ns for share in shares)
    for part, label in DEVICE_PARTS.items():
        values = scale.all(getattr(share, part) for share in shares)
        if any(values):
            data.append(
                {
                    "type": "bar",
                    "name": text(label),
                    "x": [text(name) for name in names],
                    "y": values,
                    "marker": {"color": PART_COLORS[part]},
                    "hovertemplate": f"{what} %{{x}}<br>{text(label)}: {hover('y', scale)}<extra></extra>",
                }
            )
    layout = {
        "barmode": "stack",
        "bargap": _gap(len(names)),
        "xaxis": names_along(what),
        "yaxis": axis(scale.unit, rangemode="tozero"),
        "showlegend": True,
    }
    return Figure(title, tuple(data), layout, places=tuple(places))


def _gap(count: int) -> float:
    """The gap between bars by their width with it: a few bars are not as wide as the figure."""
    return max(0.15, 1 - 0.14 * count)
