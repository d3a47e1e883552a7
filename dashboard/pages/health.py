"""Trace health: what the file lacked or got wrong, and what that means for the numbers."""

from __future__ import annotations

from typing import Any

from dash import html

from profsuite.dashboard.components import facts, name_column, number, section, table
from profsuite.dashboard.pages.view import View

COLUMNS = [
    {"field": "kind", "headerName": "kind", "maxWidth": 200},
    number("count", "events", digits=0, maxWidth=130),
    number("byte_offset", "first at", "byte", digits=0, maxWidth=170),
    name_column("message", "what was found", wrapText=True, autoHeight=True),
]


def health(view: View) -> Any:
    """The page."""
    trace = view.report.trace
    values = {
        "file": view.session.entry.name,
        "events": f"{trace.num_events:,}",
        "slices": f"{trace.num_slices:,}",
        "bytes, unpacked": f"{trace.num_bytes:,}",
        "reader": trace.reader,
        "rank": view.report.rank,
        "world size": trace.world_size,
        "backend": trace.backend,
        "devices": ", ".join(device.name for device in trace.devices if device.name) or None,
    }
    rows = [
        {"kind": row.kind, "count": row.count, "byte_offset": row.byte_offset, "message": row.message}
        for row in view.report.health or ()
    ]
    return html.Div(
        [
            section(
                "The file",
                facts(values),
                about="the-file",
            ),
            section(
                "Health",
                table("health", COLUMNS, rows, "Nothing was wrong with this file."),
                about="what-the-health-table-says",
            ),
        ]
    )
