"""Compile: what torch.compile did and could not do, and the kernels that came of it, back to the user's source."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from dash import html

from profsuite.analyzers.compile_time import CompileTime, compile_time
from profsuite.analyzers.compiled_kernels import CompiledKernels, compiled_kernels
from profsuite.dashboard.components import facts, figure, link_column, name_column, note, number, section, table
from profsuite.dashboard.pages.view import View
from profsuite.exporters.figures.figure import ORANGE, bars_across
from profsuite.exporters.units import duration, percent, plural

RECORDS: Final = "profsuite.profile(..., channels=(..., 'compile')) records them where the job compiles."
LACKS: Final = (
    "torch.compile did not compile in this trace (looked for torch's marks (dynamo_timed), and for compile events of "
    f"profsuite's recorder). Recordings that begin before the first call have the marks; the events, too: {RECORDS}"
)
NO_EVENTS: Final = f"Why a graph broke, which guard failed, what the caches did is in compile events: {RECORDS}"
NO_KERNELS: Final = (
    "No kernels of compiled functions in this trace (looked for torch's marks Torch-Compiled Region, ops with "
    "generated source, and Inductor's names of kernels). They are in recordings of compiled code with "
    "activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]; with_stack=True adds the lines of Python."
)
ABOUT: Final = "compiled-functions"
ABOUT_TIME: Final = "compile-time"
TOP: Final = 100
BARS: Final = 12
LONG_NS: Final = 10**10
"""From here on bars are in seconds."""
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
    trace = view.session.trace
    found = compile_time(trace, TOP)
    return html.Div(
        [
            *([] if found is None else _time(found, view)),
            *_events(view, marked=found is not None),
            _kernels(compiled_kernels(trace, TOP), view),
        ]
    )


def _time(found: CompileTime, view: View) -> list[Any]:
    """What torch's own marks say: the phases, and the steps in which the compiler ran."""
    values = {
        "time in the compiler": f"{duration(found.total_ns)} of {duration(found.recording_ns)}",
        "of the recording": None if found.pct is None else percent(found.pct),
        "entered": plural(found.num_entries, "time"),
        f"on {found.num_threads} threads, together": duration(found.threads_ns) if found.num_threads > 1 else None,
    }
    shown = found.phases[:BARS]
    unit, size = ("s", 1e9) if shown[0].self_ns >= LONG_NS else ("ms", 1e6)
    own = [phase.self_ns / size for phase in shown]
    bars = bars_across(
        "Time in the compiler, by phase", [phase.name for phase in shown], [("of its own", ORANGE, own)], unit
    )
    rows = [
        {
            "name": phase.name,
            "count": phase.count,
            "self_ms": phase.self_ns / 1e6,
            "total_ms": phase.total_ns / 1e6,
            "longest_ms": phase.longest_ns / 1e6,
            "place": view.slice_link("longest", phase.longest_slice_id),
        }
        for phase in found.phases
    ]
    columns = [
        name_column("name", "phase"),
        number("count", "times", digits=0),
        number("self_ms", "of its own", "ms", sort="desc"),
        number("total_ms", "total", "ms"),
        number("longest_ms", "longest", "ms"),
        link_column("place"),
    ]
    parts = [facts(values), figure(bars, ""), table("compile_phases", columns, rows, "")]
    return [section("Time in the compiler", *parts, about=ABOUT_TIME), *_steps(found, view)]


def _steps(found: CompileTime, view: View) -> list[Any]:
    title = "Steps that compiled"
    if found.steps is None:
        return [section(title, note(NO_STEPS), about=ABOUT_TIME)]
    trace = view.session.trace
    start = trace.array("step", "ts")
    end = start + trace.array("step", "dur")
    rows = [
        {
            "step": step.number,
            "entered": step.num_entries,
            "total_ms": step.total_ns / 1e6,
            "place": view.time_link("show", int(start[step.step_id]), int(end[step.step_id])),
        }
        for step in found.steps
    ]
    columns = [
        number("step", "step", digits=0, sort="asc"),
        number("entered", "compiler entered", digits=0),
        number("total_ms", "time in it", "ms"),
        link_column("place"),
    ]
    return [section(title, table("compile_steps", columns, rows, OUTSIDE), about=ABOUT_TIME)]


NO_STEPS: Final = "This trace marks no steps: call prof.step() once an iteration to see which of them compile."
OUTSIDE: Final = "The compiler ran in no step: only before, between or after them."


def _events(view: View, marked: bool) -> list[Any]:
    """What the recorder saw torch.compile do; ``marked``: torch's marks have shown that it compiled."""
    rows = view.session.trace.table("compile_event").to_pylist()
    if not rows:
        return [section("torch.compile", note(NO_EVENTS if marked else LACKS), about=ABOUT)]
    origin = view.origin_ns
    by_kind = {kind: [row for row in rows if row["kind"] == kind] for kind in KINDS}
    times = np.array([row["dur"] for row in by_kind["compile"] if row["dur"] is not None], np.int64)
    summary = {title.lower(): f"{len(by_kind[kind]):,}" for kind, title in KINDS.items()}
    if len(times):
        summary["time of compilations (nested ones count in both)"] = duration(int(times.sum()))
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
