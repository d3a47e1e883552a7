"""Kernels: which take the time, how they were launched, and how near they come to what the device can do."""

from __future__ import annotations

from typing import Any, Final

from dash import html

from profsuite.dashboard.components import (
    figure,
    histogram_cell,
    histogram_column,
    kernel_column,
    link_column,
    name_column,
    note,
    number,
    section,
    table,
    with_short,
)
from profsuite.dashboard.pages.view import View
from profsuite.dashboard.places import placed
from profsuite.exporters.figures.roofline import roofline_figure
from profsuite.exporters.figures.work import kernel_figure
from profsuite.exporters.sections.roofline import roofline_section, shapes

EMPTY: Final = "No kernels in this trace; activities=[..., ProfilerActivity.CUDA] records them."
NO_COSTS: Final = (
    "No roofline: it takes kernels whose op's FLOPs and bytes are known (looked for input shapes); record_shapes=True "
    "records them."
)

COLUMNS: Final[list[dict[str, Any]]] = [
    kernel_column("name", "kernel", minWidth=290),
    name_column("top_op", "launched by", minWidth=150),
    {"field": "kind", "headerName": "kind", "maxWidth": 110, "hide": True},
    number("count", "runs", digits=0),
    number("total_ms", "time", "ms", sort="desc"),
    number("device_pct", "share", "%", digits=2),
    number("mean_us", "mean", "µs"),
    number("min_us", "min", "µs", hide=True),
    number("max_us", "max", "µs", hide=True),
    histogram_column("durations", "spread of times"),
    number("occupancy_pct", "occupancy", "%", digits=1),
    link_column("longest"),
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
            "durations": histogram_cell(row.durations),
            "occupancy_pct": row.occupancy_pct,
            "top_op": row.top_op,
            "longest": view.slice_link("longest", row.longest_slice_id),
        }
        for row in (found.rows if found is not None else ())
    ]
    return html.Div(
        [
            section("Kernels", table("kernels", COLUMNS, with_short(rows, "name"), EMPTY), about="kernels"),
            placed(kernel_figure(view.report), EMPTY, "kernels", view.origin_ns, about="kernels"),
            _roofline(view),
        ]
    )


def _roofline(view: View) -> Any:
    found = view.report.roofline
    rows = [
        {
            "name": op.name,
            "input_dims": shapes(op.input_dims),
            "direction": op.direction,
            "count": op.count,
            "device_ms": None if op.device_ns is None else op.device_ns / 1e6,
            "device_pct": op.device_pct,
            "flops_per_s": None if op.attained.flops_per_s is None else op.attained.flops_per_s / 1e12,
            "bytes_per_s": None if op.attained.bytes_per_s is None else op.attained.bytes_per_s / 1e9,
            "intensity": op.attained.intensity,
            "bound": op.attained.bound,
            "reached": op.attained.pct_of_roofline,
            "kernel": op.main_kernel,
            "longest": view.slice_link("longest", op.longest_slice_id),
        }
        for op in (found.ops if found is not None else ())
    ]
    columns = [
        name_column("name", "op"),
        name_column("input_dims", "input shapes"),
        {"field": "direction", "headerName": "pass", "maxWidth": 110},
        number("count", "calls", digits=0),
        number("device_ms", "GPU time", "ms", sort="desc"),
        number("device_pct", "share", "%", digits=2),
        number("flops_per_s", "achieved", "TFLOP/s"),
        number("bytes_per_s", "moved", "GB/s", digits=2),
        number("intensity", "intensity", "FLOP/B", digits=2),
        {"field": "bound", "headerName": "bound", "maxWidth": 110},
        number("reached", "of the roofline", "%", digits=1),
        kernel_column("kernel", "kernel", minWidth=290),
        link_column("longest"),
    ]
    said = None if found is None else roofline_section(found)
    return section(
        "Roofline",
        *([note(text) for text in said.notes] if said is not None else []),
        figure(roofline_figure(view.report), NO_COSTS, about="roofline"),
        table("roofline", columns, with_short(rows, "kernel"), NO_COSTS) if rows else html.Div(),
        about="roofline",
    )
