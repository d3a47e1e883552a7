"""Metrics: what was sampled beside the trace (devices, host), over time."""

from __future__ import annotations

from collections import defaultdict
from typing import Any, Final

import numpy as np
from dash import html

from profsuite.dashboard.components import figure, name_column, note, number, section, table
from profsuite.dashboard.counters import Series
from profsuite.dashboard.pages.scalars import scalars
from profsuite.dashboard.pages.view import View
from profsuite.exporters.figures.plots import Curve, curves

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
    origin = view.session.pyramid.start_ns
    start, end = min(s.ts[0] for s in found), max(s.ts[-1] for s in found) + 1
    groups: dict[str, list[Series]] = defaultdict(list)
    for series in found:
        groups[series.counter].append(series)
    charts = []
    for name, members in list(groups.items())[:FIGURES_SHOWN]:
        lines = []
        shown = members[:SERIES_SHOWN]
        for series in shown:
            ts, low, high = series.view(int(start), int(end), POINTS // (2 * len(shown)))
            # Where a pixel holds several samples, both ends of them are drawn.
            at = np.repeat((ts - origin) / 1e9, 2)
            lines.append(Curve(series.name, at.tolist(), np.column_stack((low, high)).ravel().tolist()))
        charts.append(figure(curves(name, lines, "s since the start", "as recorded", 260), "", about="counters"))
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
    rest = len(groups) - FIGURES_SHOWN
    return html.Div(
        [
            section("Counters over time", html.Div(charts, className="charts"), about="counters"),
            *([note(f"{rest} more counters are in the table below and in the timeline.")] if rest > 0 else []),
            section(
                "All series",
                note("In the units that the recorder used."),
                table("metrics", columns, rows, LACKS),
                about="counters",
            ),
            *logged,
        ]
    )
