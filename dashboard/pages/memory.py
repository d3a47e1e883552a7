"""Memory: what is allocated when, the peak and what makes it, how long things live, the allocator's state, failures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from dash import dcc, html

from profsuite.analyzers.memory.model import DeviceMemory, LiveAllocation, MemoryReport, MemoryShare
from profsuite.dashboard.alive import Moment, alive_at, alive_in
from profsuite.dashboard.catalog import Entry
from profsuite.dashboard.components import facts, figure, name_column, note, number, section, table
from profsuite.dashboard.inputs import Slider
from profsuite.dashboard.memory_files import MemoryFile
from profsuite.dashboard.pages.snapshot import allocator
from profsuite.dashboard.pages.view import View, address
from profsuite.dashboard.store import Session
from profsuite.exporters.figures.memory import lifetime_figure, memory_figure
from profsuite.exporters.sections.memory import ABOVE, device_name
from profsuite.exporters.units import duration, size

LACKS: Final = (
    "No memory events in this trace (looked for [memory] events). profile_memory=True records them, with profsuite "
    "memory=True."
)
NO_FILES: Final = (
    "No snapshot beside this trace (looked for .pickle and .pkl files in its folder). "
    "torch.cuda.memory._record_memory_history() and torch.cuda.memory._dump_snapshot(path) write one; "
    "profsuite.profile(memory=True) does on a GPU."
)


def memory(view: View) -> Any:
    """The page of a trace; app.py answers a click on a curve with ``moment_of_point``."""
    report = view.report.memory
    parts = [note(LACKS)] if report is None else _report(report, view.origin_ns)
    return html.Div([*parts, _files(view)])


def memory_file(entry: Entry, file: MemoryFile) -> Any:
    """The page of a snapshot or a memory timeline; app.py answers a click on a curve with ``moment_in_point``."""
    what = "snapshot of a caching allocator" if entry.kind == "snapshot" else "memory timeline of torch.profiler"
    return html.Div(
        [html.P(f"{entry.name}: {what}", className="facts"), *_report(file.report, _origin(file.report))]
        if file.report.devices
        else [note(f"{entry.name} says nothing of any device."), *(note(text) for text in file.report.notes)]
    )


def _origin(report: MemoryReport) -> int | None:
    """What the times of a file of memory alone count from, the first point of its curves; null without times."""
    return min((p.ts_ns for device in report.devices for p in device.timeline[:1] if p.ts_ns is not None), default=None)


def _report(report: MemoryReport, origin: int | None) -> list[Any]:
    parts = [part for n, device in enumerate(report.devices) for part in _device(report, n, device, origin)]
    return [*parts, *(note(text) for text in report.notes)]


def _files(view: View) -> Any:
    """The snapshots and timelines in the trace's folder."""
    own = view.session.entry
    folders = {own.job, str(own.path)}
    files = [entry for entry in view.others if entry.kind != "trace" and entry.job in folders]
    links = [
        html.Li([dcc.Link(entry.name, href=address(entry.key, "memory")), f" ({entry.kind})"])
        for entry in sorted(files, key=lambda entry: entry.name)
    ]
    return section("Snapshots of the allocator", html.Ul(links) if links else note(NO_FILES), about="memory")


def _device(report: MemoryReport, n: int, device: DeviceMemory, origin: int | None) -> list[Any]:
    name = device_name(device) or "the device"
    peak = device.peak
    above = f", {ABOVE}" if device.deltas_only else ""
    values = {
        f"peak allocated{above}": size(peak.allocated_bytes),
        "peak reserved": None if device.peak_reserved_bytes is None else size(device.peak_reserved_bytes),
        "peak in step": peak.step,
        "allocated before the recording": None if device.before_bytes is None else size(device.before_bytes),
        f"allocated at its end{above}": size(device.end_bytes),
        "allocations": None if device.num_allocations is None else f"{device.num_allocations:,}",
        "retries of the allocator": device.num_retries,
    }
    found = [section(f"Memory of {name}", facts(values), about="memory")]
    made = memory_figure(device, origin)
    if made is None:
        found.append(note("No curve: nothing was allocated or freed while it was recorded."))
    else:
        found.append(figure(made, "", about="memory", id={"kind": "memory", "of": n}))
    if made is not None and report.kind != "timeline":
        # A click does not reach those who have no mouse: the slider and it ask the same.
        found += [
            note("A click on the curve lists what is allocated then, as does the slider below."),
            _slider(n, device, origin),
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
        title = "Largest at the peak"
        found.append(section(title, _allocations(f"memory_largest_{n}", peak.largest, origin, True), about="memory"))
        no_times = "No lifetimes: this source has no times."
        found.append(figure(lifetime_figure(device, origin), no_times, about="memory"))
    if device.steps:
        rows = [{"step": s.number, "peak": s.peak_bytes / 1e6, "end": s.end_bytes / 1e6} for s in device.steps]
        columns = [
            number("step", "step", digits=0),
            number("peak", "peak", "MB", exact=True),
            number("end", "at its end", "MB", exact=True),
        ]
        found.append(section("By step", table(f"memory_steps_{n}", columns, rows, ""), about="memory"))
    if device.lifetimes:
        found.append(_lifetimes(n, device))
    return [*found, *allocator(n, device)]


def _slider(n: int, device: DeviceMemory, origin: int | None) -> Any:
    """Asks for a point of the curve without a mouse; it begins at the peak."""
    words = [
        f"entry {point.entry:,}"
        if point.ts_ns is None or origin is None
        else f"{(point.ts_ns - origin) / 1e6:,.3f} ms, {size(point.allocated_bytes)}"
        for point in device.timeline
    ]
    peak = max(range(len(words)), key=lambda each: device.timeline[each].allocated_bytes)
    return Slider({"kind": "moment", "of": n}, "What is allocated at", 0, len(words) - 1, 1, peak, words)


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
        number("mb", "alive", "MB", sort="desc", exact=True),
        number("pct", "share", "%", digits=2),
        number("count", "allocations", digits=0),
    ]
    if all(share.count is None for share in shares):
        columns.pop()
    return section(title, table(name, columns, rows, "Nothing was alive."), about="memory")


def _allocations(name: str, found: Sequence[LiveAllocation], origin: int | None, at_peak: bool) -> Any:
    def since(ts: int | None) -> float | None:
        return None if ts is None or origin is None else (ts - origin) / 1e6

    rows = [
        {
            "mb": one.bytes / 1e6,
            "category": one.category,
            "name": one.name or one.op,
            "module": one.module,
            "frame": one.frame,
            "at_ms": since(one.start_ns),
            "until_ms": since(one.end_ns),
            "saves": one.removing_saves_bytes / 1e6,
        }
        for one in found
    ]
    columns = [
        number("mb", "size", "MB", sort="desc", exact=True),
        {"field": "category", "headerName": "category"},
        name_column("name", "tensor or op"),
        name_column("module", "module"),
        name_column("frame", "source"),
        number("at_ms", "from", "ms"),
        number("until_ms", "until", "ms"),
        *([number("saves", "without it the peak falls by", "MB", exact=True)] if at_peak else []),
    ]
    always = ("mb", "category", "saves")
    shown = [c for c in columns if c["field"] in always or any(row[c["field"]] is not None for row in rows)]
    return table(name, shown, rows, "Nothing whose address was recorded is alive then.")


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
        number("mb", "allocated in all", "MB", sort="desc", exact=True),
        number("median_ms", "median lifetime", "ms"),
        number("max_ms", "longest", "ms"),
    ]
    return section("Lifetimes", table(f"memory_lifetimes_{n}", columns, rows, ""), about="memory")


def moment_of_point(session: Session, n: int, point: int) -> Any:
    """What is alive on the report's n-th device at a point of its curve."""
    report = session.report.memory
    if report is None or not 0 <= n < len(report.devices) or not 0 <= point < len(report.devices[n].timeline):
        return note("There is no such point.")
    device, origin = report.devices[n], session.pyramid.start_ns
    at_ns = device.timeline[point].ts_ns or 0
    found = alive_at(session.trace, session.analysis.timelines.classes, device.device_type, device.device, at_ns)
    return _moment(n, found, f"at {duration(at_ns - origin)}", origin)


def moment_in_point(file: MemoryFile, n: int, point: int) -> Any:
    """What is alive on the n-th device of a snapshot at a point of its curve."""
    if file.snapshot is None:
        return note(
            "A memory timeline has sums alone; a snapshot, or a trace with profile_memory=True, has allocations."
        )
    if not 0 <= n < len(file.report.devices) or not 0 <= point < len(file.report.devices[n].timeline):
        return note("There is no such point.")
    device, origin = file.report.devices[n], _origin(file.report)
    chosen = device.timeline[point]
    found = alive_in(file.snapshot, device.device or 0, chosen.entry or 0)
    when = f"after entry {chosen.entry:,}" if chosen.entry is not None else "then"
    if chosen.ts_ns is not None and origin is not None:
        when = f"at {duration(chosen.ts_ns - origin)}"
    return _moment(n, found, when, origin)


def _moment(n: int, found: Moment, when: str, origin: int | None) -> Any:
    what = f"{found.num_allocations:,} allocations of {size(found.num_bytes)} are alive {when}"
    rest = found.num_allocations - len(found.largest)
    held = [f"{share.name} {size(share.bytes)}" for share in found.by_category or ()]
    return section(
        what,
        *([note("By category: " + ", ".join(held))] if held else []),
        _allocations(f"memory_alive_{n}", found.largest, origin, False),
        *([note(f"The largest {len(found.largest)}; {rest:,} more are smaller.")] if rest else []),
        about="memory",
    )
