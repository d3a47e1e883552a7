"""Kernels: which take the time, how they were launched, and by what."""

from __future__ import annotations

from typing import Any

from dash import html

from profsuite.dashboard.components import figure, name_column, number, section, table
from profsuite.dashboard.pages.view import View
from profsuite.exporters.figures.work import kernel_figure

EMPTY = "No kernels in this trace; activities=[..., ProfilerActivity.CUDA] records them."

COLUMNS: list[dict[str, Any]] = [
    name_column("name", "kernel"),
    {"field": "kind", "headerName": "kind", "maxWidth": 110},
    number("count", "runs", digits=0),
    number("total_ms", "time", "ms", sort="desc"),
    number("device_pct", "share", "%", digits=2),
    number("mean_us", "mean", "µs"),
    number("min_us", "min", "µs"),
    number("max_us", "max", "µs"),
    number("occupancy_pct", "occupancy", "%", digits=1),
    name_column("top_op", "launched by"),
    {"field": "longest", "headerName": "timeline", "cellRenderer": "markdown", "maxWidth": 130, "filter": False},
]


def kernels(view: View) -> Any:
    """The page."""
    found = view.report.kernels
    rows = [
        {
            "name": row.name,
            "kind": row.kind,
            "count": row.count,
            "total_ms": row.total_ns / 1e6,
            "device_pct": row.device_pct,
            "mean_us": row.mean_ns / 1e3,
            "min_us": row.min_ns / 1e3,
            "max_us": row.max_ns / 1e3,
            "occupancy_pct": row.occupancy_pct,
            "top_op": row.top_op,
            # digits and the trace's key alone: no name from the trace is in this text
            "longest": f"[longest]({view.link('timeline', selected=row.longest_slice_id)})",
        }
        for row in (found.rows if found is not None else ())
    ]
    return html.Div(
        [
            section("Kernels", table("kernels", COLUMNS, rows, EMPTY), about="kernels"),
            figure(kernel_figure(view.report), EMPTY),
        ]
    )
