"""Metrics: what was sampled beside the trace (devices, host), over time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from dash import html

from profsuite.dashboard.components import figure, name_column, note, number, section, table
from profsuite.dashboard.counters import Series
from profsuite.dashboard.pages.scalars import scalars
from profsuite.dashboard.pages.view import View
from profsuite.dashboard.quantities import Chart, Measured, charts
from profsuite.exporters.figures.figure import Figure
from profsuite.exporters.figures.plots import Curve, curves
from profsuite.exporters.units import time_scale

LACKS: Final = (
    "No counters in this trace. profsuite.profile samples the host and NVIDIA devices (channels=('host', 'nvml', …)); "
    "torch.profiler has some of its own with CUPTI counters."
)
FIGURES_SHOWN: Final = 24
POINTS: Final = 4000
"""Of a figure, in all its curves."""
SERIES_SHOWN: Final = 12


def metrics(view: View) -> Any:
    """The page."""
    found, logged = view.session.series, scalars(view)
    if not found:
        return html.Div([note(LACKS), *logged])
    shown = charts([Measured(s.counter, s.name, float(np.abs(s.value).max())) for s in found])[:FIGURES_SHOWN]
    drawn = [figure(_figure(chart, found, view.origin_ns), "", about="counters") for chart in shown]
    rest = len(found) - sum(len(chart.members[:SERIES_SHOWN]) for chart in shown)
    rows = [
        {
            "counter": series.counter,
            "series": series.name,
            "samples": len(series.value),
            "min": float(series.value.min()),
            "median": float(np.median(series.value)),
            "max": float(series.value.max()),
            "last": float(series.value[-1]),
        }
        for series in found
    ]
    columns = [
        name_column("counter", "counter"),
        name_column("series", "series"),
        number("samples", "samples", digits=0),
        *(number(name, name) for name in ("min", "median", "max", "last")),
    ]
    return html.Div(
        [
            section("Counters over time", html.Div(drawn, className="charts"), about="counters"),
            *([note(f"{rest:,} more series are in the table below and in the timeline.")] if rest > 0 else []),
            section(
                "All series",
                note("In the units that the recorder used."),
                table("metrics", columns, rows, LACKS),
                about="counters",
            ),
            *logged,
        ]
    )


def _figure(chart: Chart, found: Sequence[Series], origin: int) -> Figure:
    start, end = int(min(s.ts[0] for s in found)), int(max(s.ts[-1] for s in found)) + 1
    time = time_scale((start - origin, end - origin))
    members = chart.members[:SERIES_SHOWN]
    lines = []
    for n, name in zip(members, chart.names, strict=False):
        ts, low, high = found[n].view(start, end, POINTS // (2 * len(members)))
        # Where a pixel holds several samples, both ends of them are drawn.
        at = np.repeat((ts - origin) / time.divisor, 2)
        lines.append(Curve(name, at.tolist(), (np.column_stack((low, high)).ravel() * chart.factor).tolist()))
    unit = "as recorded" if chart.scale is None else chart.scale.unit or "number"
    return curves(chart.title, lines, f"{time.unit} since the start", unit, 260, chart.scale)
