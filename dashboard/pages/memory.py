"""Memory: what is allocated when, the peak and what makes it, how long things live, growth, failures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from dash import html

from profsuite.analyzers.memory.model import DeviceMemory, MemoryShare
from profsuite.dashboard.alive import alive_at
from profsuite.dashboard.components import facts, figure, name_column, note, number, section, table
from profsuite.dashboard.figures import Curve, curves
from profsuite.dashboard.pages.view import View
from profsuite.dashboard.store import Session
from profsuite.exporters.sections.memory import device_name
from profsuite.exporters.units import duration, size

LACKS: Final = (
    "No memory events in this trace (looked for [memory] events). profile_memory=True records them, with profsuite "
    "memory=True; profsuite memory reads snapshots."
)


def memory(view: View) -> Any:
    """The page; app.py answers a click on a curve with ``moment``."""
    report = view.report.memory
    if report is None:
        return note(LACKS)
    parts = [part for n, device in enumerate(report.devices) for part in _device(view, n, device)]
    return html.Div([*parts, *(note(text) for text in report.notes)])


def _device(view: View, n: int, device: DeviceMemory) -> list[Any]:
    origin, name = view.session.pyramid.start_ns, device_name(device) or "the device"
    peak = device.peak
    values = {
        "peak allocated": size(peak.allocated_bytes),
        "peak reserved": None if device.peak_reserved_bytes is None else size(device.peak_reserved_bytes),
        "peak in step": peak.step,
        "allocated before the recording": None if device.before_bytes is None else size(device.before_bytes),
        "allocated at its end": size(device.end_bytes),
        "allocations": None if device.num_allocations is None else f"{device.num_allocations:,}",
        "retries of the allocator": device.num_retries,
    }
    found = [section(f"Memory of {name}", facts(values), about="memory")]
    points = [point for point in device.timeline if point.ts_ns is not None]
    if points:
        at = [((point.ts_ns or 0) - origin) / 1e6 for point in points]
        lines = [Curve("allocated", at, [point.allocated_bytes / 1e6 for point in points])]
        if any(point.reserved_bytes is not None for point in points):
            reserved = [None if p.reserved_bytes is None else p.reserved_bytes / 1e6 for p in points]
            lines.append(Curve("reserved", at, reserved))
        made = curves(f"Memory of {name} over time", lines, "ms since the start", "MB")
        found += [
            figure(made, "", id={"kind": "memory", "of": n}),
            note("A click on the curve lists what is allocated then."),
            html.Div(id={"kind": "alive", "of": n}, role="status"),
        ]
    found.append(
        _shares(f"Alive at the peak, by category, {name}", f"memory_category_{n}", "category", peak.by_category)
    )
    if peak.by_op:
        found.append(_shares("Alive at the peak, by op", f"memory_op_{n}", "op", peak.by_op))
    if peak.by_module:
        found.append(_shares("Alive at the peak, by module", f"memory_module_{n}", "module", peak.by_module))
    if peak.by_frame:
        found.append(_shares("Alive at the peak, by line of source", f"memory_frame_{n}", "line", peak.by_frame))
    if peak.largest:
        found.append(_largest(n, device, origin))
    if device.steps:
        rows = [{"step": s.number, "peak": s.peak_bytes / 1e6, "end": s.end_bytes / 1e6} for s in device.steps]
        columns = [number("step", "step", digits=0), number("peak", "peak", "MB"), number("end", "at its end", "MB")]
        found.append(section("By step", table(f"memory_steps_{n}", columns, rows, "")))
    if device.lifetimes:
        found.append(_lifetimes(n, device))
    return found


def _shares(title: str, name: str, heading: str, shares: Sequence[MemoryShare]) -> Any:
    rows = [
        {
            "name": "(not recorded)" if share.name is None else share.name,
            "mb": share.bytes / 1e6,
            "pct": share.pct,
            "count": share.count,
        }
        for share in shares
    ]
    columns = [
        name_column("name", heading),
        number("mb", "alive", "MB", sort="desc"),
        number("pct", "share", "%", digits=2),
        number("count", "allocations", digits=0),
    ]
    return section(title, table(name, columns, rows, "Nothing was alive."))


def _largest(n: int, device: DeviceMemory, origin: int) -> Any:
    rows = [
        {
            "mb": one.bytes / 1e6,
            "category": one.category,
            "name": one.name or one.op,
            "module": one.module,
            "frame": one.frame,
            "at_ms": None if one.start_ns is None else (one.start_ns - origin) / 1e6,
            "until_ms": None if one.end_ns is None else (one.end_ns - origin) / 1e6,
            "saves": one.removing_saves_bytes / 1e6,
        }
        for one in device.peak.largest
    ]
    columns = [
        number("mb", "size", "MB", sort="desc"),
        {"field": "category", "headerName": "category"},
        name_column("name", "tensor or op"),
        name_column("module", "module"),
        name_column("frame", "source"),
        number("at_ms", "from", "ms"),
        number("until_ms", "until", "ms"),
        number("saves", "without it the peak falls by", "MB"),
    ]
    shown = [c for c in columns if c["field"] not in ("module", "frame") or any(row[c["field"]] for row in rows)]
    return section("Largest at the peak", table(f"memory_largest_{n}", shown, rows, ""))


def _lifetimes(n: int, device: DeviceMemory) -> Any:
    rows = [
        {
            "category": row.category,
            "count": row.count,
            "mb": row.bytes / 1e6,
            "median_ms": None if row.median_ns is None else row.median_ns / 1e6,
            "max_ms": None if row.max_ns is None else row.max_ns / 1e6,
        }
        for row in device.lifetimes or ()
    ]
    columns = [
        {"field": "category", "headerName": "category"},
        number("count", "allocations", digits=0),
        number("mb", "allocated in all", "MB", sort="desc"),
        number("median_ms", "median lifetime", "ms"),
        number("max_ms", "longest", "ms"),
    ]
    return section("Lifetimes", table(f"memory_lifetimes_{n}", columns, rows, ""))


def moment(session: Session, n: int, at_ms: float) -> Any:
    """What is alive on the report's n-th device at a time (ms since the start of the recording)."""
    report = session.report.memory
    if report is None or not 0 <= n < len(report.devices):
        return note("There is no such device.")
    device, origin = report.devices[n], session.pyramid.start_ns
    classes = session.analysis.timelines.classes
    at_ns = origin + round(at_ms * 1e6)
    found = alive_at(session.trace, classes, device.device_type, device.device, at_ns)
    rows = [
        {
            "mb": one.num_bytes / 1e6,
            "op": one.op,
            "at_ms": None if one.start_ns is None else (one.start_ns - origin) / 1e6,
            "until_ms": None if one.end_ns is None else (one.end_ns - origin) / 1e6,
        }
        for one in found.largest
    ]
    columns = [
        number("mb", "size", "MB", sort="desc"),
        name_column("op", "allocated by"),
        number("at_ms", "from", "ms"),
        number("until_ms", "until", "ms"),
    ]
    what = f"{found.num_allocations:,} allocations of {size(found.num_bytes)} are alive at {duration(at_ms * 1e6)}"
    rest = found.num_allocations - len(rows)
    return section(
        what,
        table(f"memory_alive_{n}", columns, rows, "Nothing whose address was recorded is alive then."),
        *([note(f"The largest {len(rows)}; {rest:,} more are smaller.")] if rest else []),
    )
