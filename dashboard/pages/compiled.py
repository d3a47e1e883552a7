"""Compile: what torch.compile did and could not do, back to the user's source."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from dash import html

from profsuite.dashboard.components import facts, name_column, note, number, section, table
from profsuite.dashboard.pages.view import View

LACKS: Final = (
    "No events of torch.compile in this trace (looked for compile events of profsuite's recorder). "
    "profsuite.profile(..., channels=(..., 'compile')) records them where the job compiles."
)
KINDS: Final = {
    "compile": "Compilations",
    "graph_break": "Graph breaks",
    "recompile": "Recompilations",
    "cache_miss": "Cache misses",
    "cache_hit": "Cache hits",
}
WHY: Final = {"graph_break": "why the graph broke", "recompile": "which guard failed", "compile": "why it failed"}


def compiled(view: View) -> Any:
    """The page."""
    rows = view.session.trace.table("compile_event").to_pylist()
    if not rows:
        return note(LACKS)
    origin = view.session.pyramid.start_ns
    by_kind = {kind: [row for row in rows if row["kind"] == kind] for kind in KINDS}
    times = np.array([row["dur"] for row in by_kind["compile"] if row["dur"] is not None], np.int64)
    summary = {title.lower(): f"{len(by_kind[kind]):,}" for kind, title in KINDS.items()}
    if len(times):
        summary["time of compilations (nested ones count in both)"] = f"{times.sum() / 1e6:,.3f} ms"
    return html.Div(
        [
            section("torch.compile", facts(summary)),
            *(
                section(title, _table(view, kind, by_kind[kind], origin))
                for kind, title in KINDS.items()
                if by_kind[kind]
            ),
        ]
    )


def _table(view: View, kind: str, rows: list[dict[str, Any]], origin: int) -> Any:
    found = [
        {
            "at_ms": (row["ts"] - origin) / 1e6,
            "dur_ms": None if row["dur"] is None else row["dur"] / 1e6,
            "frame": None if row["frame_id"] is None else f"{row['frame_id']}/{row['frame_compile_id'] or 0}",
            "name": row["name"],
            "reason": row["reason"],
            "source": None if row["file"] is None else f"{row['file']}:{row['line'] or '?'}",
            "place": _place(view, row["ts"] - origin, row["dur"]),
        }
        for row in rows
    ]
    columns = [
        number("at_ms", "at", "ms", sort="asc", maxWidth=150),
        number("dur_ms", "took", "ms", maxWidth=150),
        {"field": "frame", "headerName": "frame", "maxWidth": 110},
        name_column("name", "what"),
        name_column("reason", WHY.get(kind, "reason"), wrapText=True, autoHeight=True),
        name_column("source", "source"),
        {"field": "place", "headerName": "timeline", "cellRenderer": "markdown", "maxWidth": 130, "filter": False},
    ]
    empty = [
        name for name in ("dur_ms", "frame", "name", "reason", "source") if all(row[name] is None for row in found)
    ]
    return table(f"compile_{kind}", [column for column in columns if column["field"] not in empty], found, "")


def _place(view: View, start: int, dur: int | None) -> str:
    margin = max(dur or 0, 1_000_000)
    return f"[show]({view.link('timeline', start=start - margin, end=start + (dur or 0) + margin)})"
