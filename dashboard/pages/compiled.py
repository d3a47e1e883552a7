"""Compile: what torch.compile did and could not do, and the kernels that came of it, back to the user's source."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from dash import html

from profsuite.analyzers.compiled_kernels import CompiledKernels, compiled_kernels
from profsuite.dashboard.components import facts, link_column, name_column, note, number, section, table
from profsuite.dashboard.pages.view import View
from profsuite.exporters.units import percent

LACKS: Final = (
    "No events of torch.compile in this trace (looked for compile events of profsuite's recorder). "
    "profsuite.profile(..., channels=(..., 'compile')) records them where the job compiles."
)
NO_KERNELS: Final = (
    "No kernels of compiled functions in this trace (looked for torch's marks Torch-Compiled Region, ops with "
    "generated source, and Inductor's names of kernels). They are in recordings of compiled code with "
    "activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]; with_stack=True adds the lines of Python."
)
ABOUT: Final = "compiled-functions"
TOP: Final = 100
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
    return html.Div([*_events(view), _kernels(compiled_kernels(view.session.trace, TOP), view)])


def _events(view: View) -> list[Any]:
    """What the recorder saw torch.compile do."""
    rows = view.session.trace.table("compile_event").to_pylist()
    if not rows:
        return [section("torch.compile", note(LACKS), about=ABOUT)]
    origin = view.origin_ns
    by_kind = {kind: [row for row in rows if row["kind"] == kind] for kind in KINDS}
    times = np.array([row["dur"] for row in by_kind["compile"] if row["dur"] is not None], np.int64)
    summary = {title.lower(): f"{len(by_kind[kind]):,}" for kind, title in KINDS.items()}
    if len(times):
        summary["time of compilations (nested ones count in both)"] = f"{times.sum() / 1e6:,.3f} ms"
    tables = [
        section(title, _table(view, kind, by_kind[kind], origin), about=ABOUT)
        for kind, title in KINDS.items()
        if by_kind[kind]
    ]
    return [section("torch.compile", facts(summary), about=ABOUT), *tables]


def _kernels(found: CompiledKernels | None, view: View) -> Any:
    title = "Kernels of compiled functions, back to their source"
    if found is None:
        return section(title, note(NO_KERNELS), about=ABOUT)
    values = {
        "kernels of compiled functions": f"{found.total_ns / 1e6:,.3f} ms",
        "of all kernels' time": None if found.pct is None else percent(found.pct),
        "of it in kernels that the compiler wrote": f"{found.generated_ns / 1e6:,.3f} ms",
        "different kernels": f"{found.num_names:,}",
    }
    rows = [
        {
            "name": row.name,
            "by": "compiler" if row.generated else "library",
            "count": row.count,
            "total_ms": row.total_ns / 1e6,
            "pct": row.pct,
            "region": row.region,
            "source": row.source if row.function is None else f"{row.function}, {row.source or '?'}",
            "frame": row.frame,
            "file": row.file,
            "op": row.op,
            "place": view.slice_link("longest", row.longest_slice_id),
        }
        for row in found.rows
    ]
    columns = [
        name_column("name", "kernel"),
        {"field": "by", "headerName": "written by", "minWidth": 120, "maxWidth": 130},
        number("count", "runs", digits=0),
        number("total_ms", "time", "ms", sort="desc"),
        number("pct", "share", "%", digits=2),
        {"field": "region", "headerName": "function", "minWidth": 130, "maxWidth": 140},
        name_column("source", "compiled function"),
        name_column("frame", "line of Python"),
        name_column("file", "generated source"),
        name_column("op", "launched by"),
        link_column("place"),
    ]
    names = ("region", "source", "frame", "file", "op")
    empty = [name for name in names if all(row[name] is None for row in rows)]
    lacks = [text for name, text in MISSING.items() if name in empty]
    shown = [column for column in columns if column["field"] not in empty]
    return section(
        title, facts(values), table("compile_kernels", shown, rows, NO_KERNELS), *map(note, lacks), about=ABOUT
    )


MISSING: Final = {
    "source": "The compiled functions' names are not in this trace: profsuite.profile(channels=(..., 'compile')) "
    "records them where the job compiles.",
    "frame": "No lines of Python: with_stack=True records them.",
}


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
        link_column("place"),
    ]
    empty = [
        name for name in ("dur_ms", "frame", "name", "reason", "source") if all(row[name] is None for row in found)
    ]
    return table(f"compile_{kind}", [column for column in columns if column["field"] not in empty], found, "")


def _place(view: View, start: int, dur: int | None) -> str:
    margin = max(dur or 0, 1_000_000)
    return f"[show]({view.link('timeline', start=start - margin, end=start + (dur or 0) + margin)})"
