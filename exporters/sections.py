"""From a ``Report`` to the ``Document`` that the text, HTML and Markdown renderers write."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterable, Sequence
from importlib.util import find_spec

from msgspec.structs import replace

from profsuite.analyzers.base import Evidence, Finding, Place
from profsuite.analyzers.breakdown import DeviceBreakdown, TimeShares
from profsuite.analyzers.host import HostShares, ThreadBreakdown
from profsuite.analyzers.idle import IdleBreakdown
from profsuite.analyzers.kernels import KernelTable
from profsuite.analyzers.ops import OpRow, OpTable
from profsuite.analyzers.report import SECTIONS, Report
from profsuite.analyzers.steps import StepRow, StepSummary
from profsuite.exporters.document import Advice, Bar, Bars, Cell, Column, Document, Name, NextStep, Section, Table
from profsuite.exporters.names import printable, shorten
from profsuite.exporters.units import count, duration, percent, plural, size

CAUSES = {
    "compile": "compilation in progress",
    "gc": "Python garbage collection",
    "allocator": "device memory allocation",
    "input": "waiting for input data",
    "sync": "host waited for the device",
    "host": "host launched late",
    "dependency": "waiting for another stream",
    "queue": "launch latency",
    "collective_wait": "waiting for other ranks",
    "unknown": "unknown",
}
"""An idle cause in words."""

HOST_PARTS = {
    "sync_ns": "waiting for the device",
    "input_ns": "waiting for input data",
    "launch_ns": "launch and runtime calls",
    "allocator_ns": "device memory allocation",
    "compile_ns": "compilation",
    "gc_ns": "Python garbage collection",
    "op_ns": "ops",
    "python_ns": "Python",
    "unrecorded_ns": "nothing recorded",
}
"""A part of a thread's time in words."""

DEVICE_PARTS = {
    "compute_ns": "compute",
    "exposed_comm_ns": "exposed communication",
    "exposed_memcpy_ns": "exposed copies",
    "idle_ns": "idle",
}
"""A part of a device's time in words."""

SORTED_BY = {"device_self_ns": "GPU self time", "host_self_ns": "host self time"}
"""What the ops are sorted by, in words."""

PAGE = "the report as a web page"
"""What the next step shows where no rows can be queried."""

NAME_WIDTH = 80
"""Of a name within a sentence."""

STEPS_SHOWN = 10
THREADS_SHOWN = 8


def document(report: Report, only: Collection[str] | None = None) -> Document:
    """The report in words and tables; a section that is null in the report, or not in ``only``, is left out.

    The header and the steps still draw on the sections that are not shown.
    """
    shown = report
    if only is not None:
        shown = replace(report, **{name: None for name in SECTIONS if name not in only})
    sections: list[Section] = []
    if shown.breakdown is not None:
        sections.append(_device_section(report, shown.breakdown, shown.idle or ()))
    elif shown.idle:
        sections.append(Section("Idle time", tuple(_idle_table(idle) for idle in shown.idle)))
    if shown.host is not None:
        sections.append(_host_section(report, shown.host.threads))
    if shown.steps is not None:
        sections.append(_steps_section(shown.steps, report.breakdown or ()))
    if shown.ops is not None:
        sections.append(_ops_section(report, shown.ops))
    if shown.kernels is not None and (shown.kernels.rows or shown.breakdown is None):
        sections.append(_kernels_section(shown.kernels))
    return Document(
        source=printable(report.source),
        facts=_facts(report),
        verdict=printable(shown.verdict) if shown.verdict else None,
        advice=None if shown.findings is None else tuple(_advice(report, finding) for finding in shown.findings),
        sections=tuple(sections),
        remarks=tuple(_remarks(shown)),
        next_step=_next_step(shown),
    )


def _facts(report: Report) -> tuple[str, ...]:
    trace = report.trace
    facts = []
    if report.rank is not None:
        facts.append(f"rank {report.rank}" + ("" if trace.world_size is None else f" of {trace.world_size}"))
    facts.append(plural(trace.num_events, "event"))
    if report.steps is not None and report.steps.count:
        facts.append(plural(report.steps.count, "step"))
    if trace.duration_ns is not None:
        facts.append(duration(trace.duration_ns))
    names: dict[str, int] = {}
    for device in trace.devices:
        if device.name:
            names[device.name] = names.get(device.name, 0) + 1
    facts += [printable(name) if n == 1 else f"{n} x {printable(name)}" for name, n in names.items()]
    if trace.backend:
        facts.append(printable(trace.backend))
    if trace.selection:
        facts.append(f"selected: {printable(trace.selection)}")
    return tuple(facts)


def _advice(report: Report, finding: Finding) -> Advice:
    cost, saving = finding.cost_ns, finding.saving_ms_per_step
    return Advice(
        severity=finding.severity,
        title=printable(finding.title),
        seen=tuple(_evidence(evidence) for evidence in finding.evidence),
        where=_where(finding.where),
        cost=None if cost is None else f"{duration(cost)} in this {_part(report)}",
        saving=None if saving is None else f"{duration(saving * 1e6)} a step, by replay",
        remedy=printable(finding.remedy),
    )


def _evidence(evidence: Evidence) -> str:
    value, label = evidence.value, printable(evidence.label)
    if isinstance(value, str):
        return f"{label}: {shorten(value, NAME_WIDTH)}"
    text = {"ns": duration, "%": percent, "bytes": size}.get(evidence.unit, count)(value)
    if evidence.unit not in ("ns", "%", "bytes", "count", ""):
        text += f" {printable(evidence.unit)}"
    return f"{label} {text}"


def _where(place: Place) -> str | None:
    parts = [
        f"{word} {value}"
        for word in ("rank", "device", "stream", "step")
        if (value := getattr(place, word)) is not None
    ]
    if place.thread:
        parts.append(printable(place.thread if place.thread.startswith("thread ") else f"thread {place.thread}"))
    if place.op:
        parts.append(f"op {printable(place.op)}")
    if place.source:
        parts.append(printable(place.source))
    return ", ".join(parts) or None


def _part(report: Report) -> str:
    """What the numbers speak of."""
    return "recording" if report.trace.selection is None else "selection"


def _absent(report: Report, what: str, flag: str) -> str:
    """That there is none of something, and which flag records it; a selection may just have missed it."""
    if report.trace.selection is not None:
        return f"No {what} in this selection."
    return f"No {what} in this trace; activities=[{flag}] records that."


def _device_section(report: Report, devices: Sequence[DeviceBreakdown], idles: Sequence[IdleBreakdown]) -> Section:
    if not devices:
        reason = next((finding for finding in report.findings or () if finding.id == "no_device_work"), None)
        note = _absent(report, "device work", "ProfilerActivity.CPU, ProfilerActivity.CUDA")
        return Section("GPU time", (), (note if reason is None else f"{printable(reason.title)}.",))
    by_device = {idle.device: idle for idle in idles}
    if len(devices) == 1:
        device = devices[0]
        idle = by_device.get(device.device)
        return Section("GPU time", (_device_bars(device, idle),), tuple(_device_notes(device.shares)))
    rows = []
    for device in devices:
        shares = device.shares
        cells: list[Cell] = ["?" if device.device is None else str(device.device), duration(shares.window_ns)]
        cells += [_pct(shares.busy_pct), *(_of(getattr(shares, part), shares.window_ns) for part in DEVICE_PARTS)]
        cells += ["" if shares.overlap_pct is None else percent(shares.overlap_pct)]
        rows.append(tuple(cells))
    titles = ("device", "window", "busy", *DEVICE_PARTS.values(), "comm overlapped")
    blocks = [without_empty("Share of each device's time", tuple(Column(title) for title in titles), rows)]
    blocks += [_idle_table(idle) for idle in idles if idle.causes]
    return Section("GPU time", tuple(blocks))


def _device_bars(device: DeviceBreakdown, idle: IdleBreakdown | None) -> Bars:
    shares = device.shares
    bars = []
    for part, label in DEVICE_PARTS.items():
        ns = getattr(shares, part)
        if ns or part in ("compute_ns", "idle_ns"):
            bars.append(Bar(label, duration(ns), _share(ns, shares.window_ns)))
    for cause in idle.causes if idle is not None else ():
        label = CAUSES[cause.cause]
        bars.append(Bar(label, duration(cause.total_ns), _share(cause.total_ns, shares.window_ns), within=True))
    name = "device" if device.device is None else f"device {device.device}"
    return Bars(f"{name}: {duration(shares.window_ns)}, {plural(device.num_streams, 'stream')}", tuple(bars))


def _device_notes(shares: TimeShares) -> Iterable[str]:
    if shares.comm_ns and shares.overlap_pct is not None:
        yield f"Communication ran for {duration(shares.comm_ns)}; compute covers {percent(shares.overlap_pct)} of it."


def _idle_table(idle: IdleBreakdown) -> Table:
    rows: list[tuple[Cell, ...]] = [
        (CAUSES[c.cause], duration(c.total_ns), _pct(c.idle_pct), count(c.num_gaps)) for c in idle.causes
    ]
    name = "The device" if idle.device is None else f"Device {idle.device}"
    columns = (Column("cause", False), Column("time"), Column("of idle"), Column("gaps"))
    return Table(f"{name} was idle for {duration(idle.idle_ns)}", columns, tuple(rows))


def _host_section(report: Report, threads: Sequence[ThreadBreakdown]) -> Section:
    if not threads:
        return Section("Host time", (), (_absent(report, "host activity", "ProfilerActivity.CPU, ..."),))
    first = threads[0]
    launches = f", {plural(first.num_launches, 'launch', 'launches')}" if first.num_launches else ""
    caption = f"{printable(first.thread)}: {duration(first.shares.window_ns)}{launches}"
    blocks: list[Table | Bars] = [Bars(caption, tuple(_host_bars(first.shares)))]
    if len(threads) > 1:
        rows: list[tuple[Cell, ...]] = []
        for thread in threads[1:THREADS_SHOWN]:
            busy = thread.shares.window_ns - thread.shares.unrecorded_ns
            bars = _host_bars(thread.shares, recorded=True)
            most = f"{bars[0].label} {bars[0].value}" if bars else ""
            rows.append(
                (Name(thread.thread), duration(busy), count(thread.num_slices), count(thread.num_launches), most)
            )
        titles = (Column("thread", False), Column("recorded"), Column("slices"), Column("launches"))
        blocks.append(Table("Other threads", (*titles, Column("most of it", False)), tuple(rows)))
    left = len(threads) - THREADS_SHOWN
    return Section("Host time", tuple(blocks), (f"{plural(left, 'more thread')} not shown.",) if left > 0 else ())


def _host_bars(shares: HostShares, recorded: bool = False) -> list[Bar]:
    parts = [(getattr(shares, field), label) for field, label in HOST_PARTS.items() if field != "unrecorded_ns"]
    bars = [Bar(label, duration(ns), _share(ns, shares.window_ns)) for ns, label in sorted(parts, reverse=True) if ns]
    if shares.unrecorded_ns and not recorded:
        share = _share(shares.unrecorded_ns, shares.window_ns)
        bars.append(Bar(HOST_PARTS["unrecorded_ns"], duration(shares.unrecorded_ns), share))
    return bars


def _steps_section(summary: StepSummary, devices: Sequence[DeviceBreakdown]) -> Section:
    notes = [printable(summary.note)] if summary.note else []
    if not summary.steps:
        return Section("Steps", (), tuple(notes))
    busy = {step.number: step.shares for device in devices[:1] for step in device.steps}
    shown: list[StepRow] = sorted(summary.steps, key=lambda s: (not s.outlier, -s.dur_ns))[:STEPS_SHOWN]
    rows: list[tuple[Cell, ...]] = []
    for step in sorted(shown, key=lambda s: s.start_ns):
        shares = busy.get(step.number)
        remark = "outlier" if step.outlier else ""
        if step.excluded:
            remark = f"left out: {printable(step.excluded)}"
        rows.append((str(step.number), duration(step.dur_ns), "" if shares is None else _pct(shares.busy_pct), remark))
    if len(summary.steps) > STEPS_SHOWN:
        notes.append(f"The {STEPS_SHOWN} most telling of {plural(len(summary.steps), 'step')}; --format csv has all.")
    columns = (Column("step"), Column("time"), Column("GPU busy"), Column("remark", False))
    caption = f"{plural(summary.num_used, 'step')} counted"
    if summary.mean_ns is not None and summary.median_ns is not None:
        caption += f": mean {duration(summary.mean_ns)}, median {duration(summary.median_ns)}"
    if summary.std_ns is not None and summary.cv_pct is not None:
        caption += f", deviation {duration(summary.std_ns)} ({percent(summary.cv_pct)})"
    return Section("Steps", (without_empty(caption, columns, rows),), tuple(notes))


def _ops_section(report: Report, table: OpTable) -> Section:
    if not table.rows:
        return Section("Top ops", (), (_absent(report, "ops", "ProfilerActivity.CPU, ..."),))
    order = SORTED_BY.get(table.sorted_by, table.sorted_by)
    caption = f"{plural(table.num_ops, 'op')}, {plural(table.num_calls, 'call')}; by {order}"
    blocks = [_op_table(caption, table.rows, shapes=False)]
    if table.by_shape:
        blocks.append(_op_table("By input shapes", table.by_shape, shapes=True))
    notes = []
    if table.unattributed_device_ns:
        notes.append(f"{duration(table.unattributed_device_ns)} of device work was launched by no recorded op.")
    return Section("Top ops", tuple(blocks), tuple(notes))


def _op_table(caption: str, ops: Sequence[OpRow], shapes: bool) -> Table:
    rows: list[tuple[Cell, ...]] = []
    device = any(op.device_total_ns for op in ops)
    for op in ops:
        cells: list[Cell] = [Name(op.name), Name(op.input_dims or ""), count(op.count)]
        cells += [duration(op.host_self_ns), _pct(op.host_self_pct), duration(op.host_total_ns)]
        if device:
            cells += [duration(op.device_self_ns), _pct(op.device_self_pct), duration(op.device_total_ns)]
        rows.append(tuple(cells) if device else (*cells, "", "", ""))
    columns = (
        Column("op", False),
        Column("input shapes", False),
        Column("calls"),
        Column("host self"),
        Column("share", optional=device),
        Column("host total", optional=device),
        Column("GPU self"),
        Column("of GPU"),
        Column("GPU total", optional=True),
    )
    return without_empty(caption, columns, rows, detail=shapes)


def _kernels_section(table: KernelTable) -> Section:
    if not table.rows:
        return Section("Top kernels", (), ("No kernels in this trace.",))
    rows: list[tuple[Cell, ...]] = []
    for row in table.rows:
        occupancy = "" if row.occupancy_pct is None else percent(row.occupancy_pct)
        numbers = (count(row.count), duration(row.total_ns), _pct(row.device_pct), duration(row.mean_ns), occupancy)
        rows.append((Name(row.name), *numbers, Name(row.top_op or "")))
    columns = (
        Column("kernel", False),
        Column("runs"),
        Column("time"),
        Column("share"),
        Column("mean", optional=True),
        Column("occupancy", optional=True),
        Column("launched by", False, optional=True),
    )
    caption = f"{plural(table.num_kernels, 'kernel')} of {plural(table.num_names, 'name')}, {duration(table.total_ns)}"
    notes = []
    if table.num_short and table.short_pct is not None and table.short_time_pct is not None:
        notes.append(
            f"{count(table.num_short)} kernels ({percent(table.short_pct)}, {percent(table.short_time_pct)} of kernel "
            "time) run for less than 10 µs, about as long as a launch takes."
        )
    if table.from_graphs:
        notes.append(f"{count(table.from_graphs)} kernels were started by graph launches.")
    if all(row.occupancy_pct is None for row in table.rows):
        notes.append("Occupancy was not recorded.")
    return Section("Top kernels", (without_empty(caption, columns, rows),), tuple(notes))


def _remarks(report: Report) -> Iterable[str]:
    for row in report.health or ():
        lacking = row.byte_offset is None or row.kind.startswith("no_")
        place = "" if lacking else f" (first at byte {row.byte_offset:,})"
        yield f"{printable(row.kind)}: {printable(row.message)}{place}"


def _next_step(report: Report) -> NextStep | None:
    """The rows behind a finding, where there is something to query them with, else the report as a web page.

    None where there is no file to name, or rows of a part of it: they are counted from the part's first.
    """
    if report.source in ("-", "<stdin>") or report.trace.selection is not None:
        return None
    source = shlex.quote(printable(report.source))
    if find_spec("duckdb") is not None:
        for number, finding in enumerate(report.findings or (), 1):
            rows = next((evidence.slice_ids for evidence in finding.evidence if evidence.slice_ids), ())
            if rows:
                where = f'WHERE id IN ({", ".join(map(str, rows))})"'
                command = ("profsuite query", '"SELECT id, name, ts, dur FROM slice', where, source)
                return NextStep(f"the slices behind finding {number}", command)
    return NextStep(PAGE, ("profsuite analyze", source, "--format html", "--output report.html"))


def _share(part: int, whole: int) -> float:
    return 100.0 * part / whole if whole > 0 else 0.0


def _of(part: int, whole: int) -> str:
    return percent(_share(part, whole)) if whole > 0 else ""


def _pct(value: float | None) -> str:
    return "" if value is None else percent(value)


def without_empty(
    caption: str, columns: tuple[Column, ...], rows: Sequence[tuple[Cell, ...]], detail: bool = False
) -> Table:
    """A table without the columns in which no row has anything: what nobody measured is not shown."""
    keep = [i for i in range(len(columns)) if any(row[i] not in ("", Name("")) for row in rows)]
    kept = tuple(tuple(row[i] for i in keep) for row in rows)
    return Table(caption, tuple(columns[i] for i in keep), kept, detail)
