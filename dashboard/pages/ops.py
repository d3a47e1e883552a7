"""Ops: what each operator costs on the host and on the device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dash import html

from profsuite.analyzers.ops import OpRow
from profsuite.dashboard.components import (
    histogram_cell,
    histogram_column,
    link_column,
    name_column,
    note,
    number,
    section,
    table,
)
from profsuite.dashboard.pages.view import View
from profsuite.dashboard.places import placed
from profsuite.exporters.figures.work import op_figure
from profsuite.exporters.sections.roofline import shapes
from profsuite.exporters.units import duration

EMPTY = "No ops in this trace; activities=[ProfilerActivity.CPU, ...] records them."


def ops(view: View) -> Any:
    """The page."""
    found = view.report.ops
    rows = found.rows if found is not None else ()
    notes = []
    if found is not None and found.unattributed_device_ns:
        notes.append(note(f"{duration(found.unattributed_device_ns)} of device work was launched by no recorded op."))
    return html.Div(
        [
            section("Ops", table("ops", COLUMNS, _rows(view, rows), EMPTY), *notes, about="ops"),
            placed(op_figure(view.report), EMPTY, "ops", view.origin_ns, about="ops"),
            section(
                "Ops by input shapes",
                table(
                    "ops_by_shape",
                    [COLUMNS[0], name_column("input_dims", "input shapes"), *COLUMNS[1:]],
                    _rows(view, found.by_shape if found is not None else ()),
                    "No input shapes in this trace; record_shapes=True records them.",
                ),
                about="ops",
            ),
        ]
    )


COLUMNS: list[dict[str, Any]] = [
    name_column("name", "op"),
    number("count", "calls", digits=0),
    number("host_self_ms", "host self", "ms"),
    number("host_total_ms", "host total", "ms"),
    histogram_column("durations", "spread of host times"),
    number("device_self_ms", "GPU self", "ms", sort="desc"),
    number("device_total_ms", "GPU total", "ms"),
    number("device_self_pct", "of GPU", "%", digits=2),
    link_column("longest"),
]


def _rows(view: View, found: Sequence[OpRow]) -> list[dict[str, Any]]:
    return [
        {
            "name": row.name,
            "input_dims": None if row.input_dims is None else shapes(row.input_dims),
            "count": row.count,
            "host_self_ms": row.host_self_ns / 1e6,
            "host_total_ms": row.host_total_ns / 1e6,
            "device_self_ms": row.device_self_ns / 1e6,
            "device_total_ms": row.device_total_ns / 1e6,
            "device_self_pct": row.device_self_pct,
            "durations": histogram_cell(row.durations),
            "longest": view.slice_link("longest", row.longest_slice_id),
        }
        for row in found
    ]
