"""The roofline: what ops achieved against how much they compute for each byte, below what the device allows."""

from __future__ import annotations

from math import sqrt
from typing import Any, Final

from profsuite.analyzers.report import Report
from profsuite.analyzers.roofline import Roofline, RooflineOp
from profsuite.exporters.figures.figure import BLUE, GREEN, GREY, ORANGE, Figure, axis, text
from profsuite.exporters.units import duration

KINDS: Final = {
    "compute": ("bound by arithmetic", ORANGE, "circle"),
    "memory": ("bound by memory", BLUE, "diamond"),
    None: ("bound not known", GREY, "square"),
}
SMALLEST, LARGEST = 8, 30
"""Pixels of a marker; its area goes by device time."""
DASHES: Final = ("solid", "dash", "dot", "dashdot")


def roofline_figure(report: Report) -> Figure | None:
    """The ops whose FLOPs, bytes and device time are known, below the roofs of the formats that they use; else null.

    Heights are of the FLOPs that no kernel can leave out (``needed_flops``), as the bounds are.
    """
    found = report.roofline
    if found is None:
        return None
    ops = [op for op in found.ops if op.attained.intensity and op.attained.bytes_per_s and op.device_ns]
    if not ops:
        return None
    data = [*_roofs(found, ops)]
    longest = max(op.device_ns or 0 for op in ops)
    for bound, (label, color, symbol) in KINDS.items():
        mine = [op for op in ops if op.attained.bound == bound]
        if mine:
            data.append(
                {
                    "type": "scatter",
                    "mode": "markers",
                    "name": label,
                    "x": [op.attained.intensity for op in mine],
                    "y": [_rate(op) for op in mine],
                    "customdata": [_words(op) for op in mine],
                    "marker": {
                        "color": color,
                        "symbol": symbol,
                        "opacity": 0.75,
                        "size": [SMALLEST + (LARGEST - SMALLEST) * sqrt((op.device_ns or 0) / longest) for op in mine],
                    },
                    "hovertemplate": "%{customdata}<br>%{x:,.4~g} FLOP/B, %{y:,.4~s}FLOP/s<extra></extra>",
                }
            )
    layout = {
        "xaxis": axis("FLOP/B", type="log", dtick=1, exponentformat="power"),
        "yaxis": axis("FLOP/s", type="log", dtick=1, exponentformat="power"),
        "showlegend": True,
    }
    return Figure("Roofline: ops by shapes, area by GPU time", tuple(data), layout, height=420)


def _rate(op: RooflineOp) -> float:
    return (op.attained.intensity or 0) * (op.attained.bytes_per_s or 0)


def _words(op: RooflineOp) -> str:
    share = op.attained.pct_of_roofline
    reached = "" if share is None else f", {share:,.1f} % of the roofline"
    return f"{text(op.name)} {text(op.input_dims, 60)}<br>{duration(op.device_ns or 0)}{reached}"


def _roofs(found: Roofline, ops: list[RooflineOp]) -> list[dict[str, Any]]:
    peaks = found.peaks
    if peaks is None or peaks.bandwidth_bytes_per_s is None:
        return []
    bandwidth = peaks.bandwidth_bytes_per_s
    lowest = min(op.attained.intensity or 1 for op in ops) / 2
    highest = max(op.attained.intensity or 1 for op in ops) * 2
    roofs = []
    for n, dtype in enumerate(sorted({op.attained.dtype for op in ops if op.attained.dtype is not None})):
        peak = peaks.compute(dtype)
        if peak is None:
            continue
        corners = sorted({lowest, min(max(peak / bandwidth, lowest), highest), highest})
        roofs.append(
            {
                "type": "scatter",
                "mode": "lines",
                "name": f"roof, {text(dtype)}",
                "x": corners,
                "y": [min(peak, x * bandwidth) for x in corners],
                "line": {"color": GREEN, "width": 1.5, "dash": DASHES[n % len(DASHES)]},
                "hovertemplate": f"roof, {text(dtype)}: %{{y:,.4~s}}FLOP/s at %{{x:,.4~g}} FLOP/B<extra></extra>",
            }
        )
    return roofs
