"""Memory: what is allocated when, how long the largest allocations live, how full the allocator's segments are."""

from __future__ import annotations

from typing import Any, Final

from profsuite.analyzers.memory.model import DeviceMemory, MemoryReport
from profsuite.exporters.figures.figure import (
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    RED,
    SKY,
    YELLOW,
    Figure,
    axis,
    hover,
    labels,
    names_down,
    text,
)
from profsuite.exporters.figures.plots import areas
from profsuite.exporters.sections.memory import device_name
from profsuite.exporters.units import duration, size, size_scale, time_scale

COLORS: Final = {
    "parameter": BLUE,
    "gradient": ORANGE,
    "optimizer_state": GREEN,
    "activation": SKY,
    "temporary": PURPLE,
    "input": YELLOW,
    "autograd_detail": RED,
    "unknown": GREY,
}
"""Of the categories, the same everywhere."""
LINE: Final = 32
"""What a line of a legend takes, with the room around it, pixels."""


def memory_figure(device: DeviceMemory, origin_ns: int | None = None, height: int = 320) -> Figure | None:
    """What is allocated over time, by category where the source knows them, and what is reserved; null without a curve.

    Times are since ``origin_ns``, by default the first point; a snapshot without times is drawn by its entries.
    """
    points = device.timeline
    if not points:
        return None
    by_time = all(point.ts_ns is not None for point in points)
    if not by_time and any(point.entry is None for point in points):
        return None
    if by_time:
        origin = (points[0].ts_ns or 0) if origin_ns is None else origin_ns
        since = [(point.ts_ns or 0) - origin for point in points]
        time = time_scale(since)
        x, x_title = time.all(since), f"{time.unit} since the start"
    else:
        x, x_title = [float(point.entry or 0) for point in points], "entry of the history"
    scale = size_scale(max(point.allocated_bytes, point.reserved_bytes or 0) for point in points)
    parts = [
        (curve.category.replace("_", " "), COLORS.get(curve.category, GREY), scale.all(curve.bytes))
        for curve in device.over_time or ()
    ] or [("allocated", SKY, scale.all(point.allocated_bytes for point in points))]
    # The legend of many categories takes lines of its own.
    height += LINE * (len(parts) // 3)
    made = areas(f"Memory of {device_name(device) or 'the device'} over time", x, parts, x_title, scale, height)
    if all(point.reserved_bytes is None for point in points):
        return made
    reserved: dict[str, Any] = {
        "type": "scatter",
        "mode": "lines",
        "name": "reserved",
        "x": x,
        "y": [None if point.reserved_bytes is None else scale.of(point.reserved_bytes) for point in points],
        "line": {"shape": "hv", "color": RED, "width": 1.5, "dash": "dot"},
        "hovertemplate": f"reserved: {hover('y', scale)}<extra></extra>",
    }
    return Figure(made.title, (*made.data, reserved), made.layout, made.height)


def main_memory_figure(report: MemoryReport | None, origin_ns: int | None = None, height: int = 320) -> Figure | None:
    """``memory_figure`` of the device to speak of first; null without one."""
    return None if report is None or report.main is None else memory_figure(report.main, origin_ns, height)


def lifetime_figure(device: DeviceMemory, origin_ns: int | None = None, most: int = 25) -> Figure | None:
    """From when to when the largest allocations at the peak live; null where their times are not recorded.

    Those whose begin or end was not recorded reach the edge of the curve.
    """
    stamps = [point.ts_ns for point in device.timeline if point.ts_ns is not None]
    shown = device.peak.largest[:most]
    if not stamps or not any(one.start_ns is not None for one in shown):
        return None
    origin = stamps[0] if origin_ns is None else origin_ns
    spans = [(one.start_ns or stamps[0], one.end_ns or max(stamps[-1], one.start_ns or 0)) for one in shown]
    scale = time_scale(edge - origin for span in spans for edge in span)
    names = labels([f"{size(one.bytes)} {one.name or one.op or one.frame or one.category}" for one in shown])
    data = []
    for category in dict.fromkeys(one.category for one in shown):
        mine = [n for n, one in enumerate(shown) if one.category == category]
        data.append(
            {
                "type": "bar",
                "orientation": "h",
                "name": text(category.replace("_", " ")),
                "y": [names[n] for n in mine],
                "base": [scale.of(spans[n][0] - origin) for n in mine],
                "x": [scale.of(spans[n][1] - spans[n][0]) for n in mine],
                "customdata": [names[n] for n in mine],
                "marker": {"color": COLORS.get(category, GREY)},
                "hovertext": [
                    f"{names[n]}<br>from {duration(spans[n][0] - origin)} for {duration(spans[n][1] - spans[n][0])}"
                    for n in mine
                ],
                "hoverinfo": "text",
            }
        )
    layout = {
        "barmode": "overlay",
        "xaxis": axis(f"{scale.unit} since the start"),
        "yaxis": names_down(categoryorder="array", categoryarray=names),
        "showlegend": True,
    }
    return Figure("Lifetimes of the largest allocations at the peak", tuple(data), layout, height=120 + 22 * len(names))


def segment_figure(device: DeviceMemory) -> Figure | None:
    """How full the segments with most free memory are; null where the source does not know segments."""
    state = device.fragmentation
    if state is None or not state.segments:
        return None
    segments = state.segments
    names = [f"{segment.address:#x}" for segment in segments]
    scale = size_scale(segment.total_bytes for segment in segments)
    columns = (
        ("in use", BLUE, [segment.total_bytes - segment.free_bytes for segment in segments]),
        ("free, the largest block", SKY, [segment.largest_free_bytes for segment in segments]),
        ("free, in other blocks", ORANGE, [segment.free_bytes - segment.largest_free_bytes for segment in segments]),
    )
    data = tuple(
        {
            "type": "bar",
            "orientation": "h",
            "name": label,
            "y": names,
            "x": scale.all(values),
            "marker": {"color": color},
            "hovertemplate": f"%{{y}}<br>{label}: {hover('x', scale)}<extra></extra>",
        }
        for label, color, values in columns
    )
    layout = {
        "barmode": "stack",
        "xaxis": axis(scale.unit, rangemode="tozero"),
        "yaxis": names_down(type="category"),
        "showlegend": True,
    }
    return Figure("Segments with most free memory", data, layout, height=140 + 22 * len(names))
