"""From a ``DiffReport`` to the ``Document`` that the text, HTML and Markdown renderers write."""

from __future__ import annotations

from collections.abc import Sequence

from profsuite.analyzers.diff.change import Change
from profsuite.analyzers.diff.collectives import CollectiveChange
from profsuite.analyzers.diff.kernels import KernelChange
from profsuite.analyzers.diff.measured import Rest
from profsuite.analyzers.diff.ops import CallChange, OpChange, OpDiff
from profsuite.analyzers.diff.parts import DeviceDiff, HostDiff, PartChange
from profsuite.analyzers.diff.ranks import RanksDiff
from profsuite.analyzers.diff.report import DiffReport
from profsuite.analyzers.diff.sides import SideFacts
from profsuite.exporters.document import Cell, Column, Document, Name, Section, Table
from profsuite.exporters.names import printable
from profsuite.exporters.sections.words import CAUSES, DEVICE_PARTS, HOST_PARTS, without_empty
from profsuite.exporters.units import count, duration, plural, size

Row = OpChange | CallChange | KernelChange | CollectiveChange

VERDICTS = {"more": "more", "less": "less", "same": "same", "noise": "noise", "unknown": ""}
"""A judgement in a table; more and less are beyond the noise."""

CHANGE_COLUMNS = (Column("before"), Column("after"), Column("change"), Column("±", optional=True), Column("%"))


def document(report: DiffReport) -> Document:
    """The comparison in words and tables; times are per step (or of the whole window)."""
    sections = [_device(report, device) for device in report.devices]
    if report.host is not None:
        sections.append(_host(report, report.host))
    sections += [_ops(report), _kernels(report), _collectives(report)]
    if report.memory:
        sections.append(_memory(report))
    if report.notes:
        sections.append(Section("Limits of this comparison", (), tuple(printable(note) for note in report.notes)))
    return Document(
        source=f"{printable(report.before.source)} → {printable(report.after.source)}",
        facts=(*_facts("before", report.before), *_facts("after", report.after)),
        verdict=printable(report.summary),
        advice=None,
        sections=tuple(section for section in sections if section.blocks or section.notes),
        remarks=(),
        next_step=None,
    )


def ranks_document(diff: RanksDiff, full: bool = False) -> list[Document]:
    """A table of all ranks, then the comparison of the rank that changed most, or of all (``full``)."""
    rows: list[tuple[Cell, ...]] = []
    for report in diff.reports:
        rank = "" if report.after.rank is None else str(report.after.rank)
        if report.time is not None:
            rows.append((rank, Name(report.after.source), *change_cells(report.time), _word(report.time)))
    columns = (Column("rank"), Column("file", False, optional=True), *CHANGE_COLUMNS, Column("", False))
    unmatched = [f"{printable(u.source)}: {printable(u.reason)}" for u in diff.unmatched]
    head = Document(
        source=plural(len(diff.reports), "rank"),
        facts=("the busiest device of each",),
        verdict=printable(diff.summary),
        advice=None,
        sections=(Section("Ranks", (without_empty("Time of each rank", columns, rows),), tuple(unmatched)),),
        remarks=(),
        next_step=None,
    )
    shown: Sequence[DiffReport] = diff.reports
    if not full and len(shown) > 1:
        shown = [max(shown, key=lambda report: abs(report.time.change_ms_per_step) if report.time else 0.0)]
    return [head, *(document(report) for report in shown)]


def change_cells(change: Change) -> tuple[Cell, ...]:
    """Before, after, change, noise, percent."""
    return (
        duration(change.before_ms_per_step * 1e6),
        duration(change.after_ms_per_step * 1e6),
        signed(change.change_ms_per_step),
        "" if change.noise_ms_per_step is None else duration(change.noise_ms_per_step * 1e6),
        "" if not change.change_pct else f"{change.change_pct:+,.1f} %".replace("-", "−"),
    )


def signed(ms: float) -> str:
    """A change in ms with its sign and unit."""
    return "0" if ms == 0 else f"{'+' if ms > 0 else '−'}{duration(abs(ms) * 1e6)}"


def _word(change: Change) -> str:
    return VERDICTS[change.judgement]


def _facts(word: str, side: SideFacts) -> tuple[str, ...]:
    facts = [f"{word}: {plural(side.num_events, 'event')}"]
    if side.steps:
        facts.append(plural(len(side.steps), "step"))
    facts += [printable(name) for name in side.devices]
    if side.selection:
        facts.append(f"selected: {printable(side.selection)}")
    return tuple(facts)


def _per(report: DiffReport) -> str:
    return "per step" if report.per == "step" else "of the whole window"


def part_label(part: str) -> str:
    """A part's name in words; idle causes are set in."""
    if part.startswith("idle."):
        return f"idle: {CAUSES.get(part.removeprefix('idle.'), part)}"
    return DEVICE_PARTS.get(f"{part}_ns") or HOST_PARTS.get(f"{part}_ns") or part


def _parts(caption: str, time: Change, parts: Sequence[PartChange]) -> Table:
    rows: list[tuple[Cell, ...]] = [
        (part_label(part.part), *change_cells(part.time), _word(part.time)) for part in parts
    ]
    rows.append(("sum", *change_cells(time), _word(time)))
    return without_empty(caption, (Column("part", False), *CHANGE_COLUMNS, Column("", False)), rows)


def _device(report: DiffReport, device: DeviceDiff) -> Section:
    old, new = ("?" if d is None else str(d) for d in (device.device_before, device.device_after))
    name = f"device {new}" if old == new else f"device {old} before, {new} after"
    notes = []
    if device.overlap.before_ns or device.overlap.after_ns:
        notes.append(
            f"Kernels and copies sum to {signed(device.work.change_ms_per_step)}; of that "
            f"{signed(device.overlap.change_ms_per_step)} runs beside other work and takes no time of its own."
        )
    return Section("GPU time", (_parts(f"{name}, {_per(report)}", device.time, device.parts),), tuple(notes))


def _host(report: DiffReport, host: HostDiff) -> Section:
    return Section("Host time", (_parts(f"main thread, {_per(report)}", host.time, host.parts),))


def _ops(report: DiffReport) -> Section:
    on_device, ops = bool(report.devices), report.ops
    rows: list[tuple[Cell, ...]] = []
    for op in ops.rows:
        time = op.device if on_device else op.host
        if _changed(op, time):
            calls = _counts(report, op.calls_before, op.calls_after)
            rows.append((Name(op.name), calls, *change_cells(time), _mark(op, time)))
    if not rows:
        return Section("Changed ops", (), ("No op changed.",))
    what = "GPU self time" if on_device else "host self time"
    columns = (Column("op", False), Column("calls", optional=True), *CHANGE_COLUMNS, Column("", False))
    blocks = [without_empty(f"{plural(ops.num_ops, 'op')}; {what} {_per(report)}", columns, rows)]
    if places := _places(report, ops, on_device):
        blocks.append(places)
    notes = _rest(ops.rest, "op", on_device)
    if ops.unattributed.before_ns or ops.unattributed.after_ns:
        notes.append(f"Device work that no recorded op launched: {signed(ops.unattributed.change_ms_per_step)}.")
    return Section("Changed ops", tuple(blocks), tuple(notes))


def _kernels(report: DiffReport) -> Section:
    rows: list[tuple[Cell, ...]] = []
    for row in report.kernels.rows:
        if _changed(row, row.device):
            old, new = (
                f"{name} + {number - 1} more" if number > 1 else name or ""
                for name, number in ((row.name_before, row.num_names_before), (row.name_after, row.num_names_after))
            )
            runs = _counts(report, row.runs_before, row.runs_after)
            numbers = (runs, *change_cells(row.device), _mark(row, row.device))
            rows.append((Name(_arrow(old, new)), Name(row.op or ""), *numbers))
    columns = (Column("kernel", False), Column("op", False), Column("runs", optional=True), *CHANGE_COLUMNS)
    table = without_empty(f"Kernels and copies, {_per(report)}", (*columns, Column("", False)), rows)
    return Section("Changed kernels", (table,) if rows else (), tuple(_rest(report.kernels.rest, "row", True)))


def _collectives(report: DiffReport) -> Section:
    rows: list[tuple[Cell, ...]] = []
    for row in report.collectives.rows:
        elements = "" if row.num_elements is None else count(row.num_elements)
        group = "" if row.group_size is None else str(row.group_size)
        runs = _counts(report, row.runs_before, row.runs_after)
        facts = (Name(row.name), elements, Name(row.dtype or ""), group, runs)
        rows.append((*facts, *change_cells(row.device), _mark(row, row.device)))
    columns = (
        Column("collective", False),
        Column("elements", optional=True),
        Column("type", False, optional=True),
        Column("ranks", optional=True),
        Column("runs", optional=True),
        *CHANGE_COLUMNS,
        Column("", False),
    )
    table = without_empty(f"Communication on the device, {_per(report)}", columns, rows)
    return Section("Collectives", (table,) if rows else (), tuple(_rest(report.collectives.rest, "row", True)))


def _places(report: DiffReport, ops: OpDiff, on_device: bool) -> Table | None:
    rows: list[tuple[Cell, ...]] = []
    for call in ops.calls:
        time = call.device if on_device else call.host
        if _changed(call, time):
            shapes = Name(_arrow(call.shapes_before or "", call.shapes_after or ""))
            path = Name(" > ".join(call.path))
            rows.append((path, Name(call.module or ""), shapes, *change_cells(time), _mark(call, time)))
    if not rows:
        return None
    columns = (
        Column("call path", False),
        Column("module", False),
        Column("input shapes", False),
        *CHANGE_COLUMNS,
        Column("", False),
    )
    return without_empty(f"By call path, module and shapes, {_per(report)}", columns, rows, detail=True)


def _counts(report: DiffReport, before: int, after: int) -> str:
    """Calls or runs per step."""
    old, new = count(before / report.before.num_steps), count(after / report.after.num_steps)
    return new if old == new else f"{old} → {new}"


def _arrow(before: str, after: str) -> str:
    """What it was and what it has become, once where that is the same."""
    return f"{before} → {after}" if before and after and before != after else after or before


def _changed(row: Row, time: Change) -> bool:
    return time.judgement != "same" or row.status != "both"


def _mark(row: Row, time: Change) -> str:
    return row.status if row.status != "both" else _word(time)


def _rest(rest: Rest, noun: str, on_device: bool) -> list[str]:
    if not rest.num_rows:
        return []
    time = rest.device if on_device or rest.host is None else rest.host
    return [f"{plural(rest.num_rows, f'more {noun}')} sum to {signed(time.change_ms_per_step)}."]


def _memory(report: DiffReport) -> Section:
    rows: list[tuple[Cell, ...]] = []
    for memory in report.memory:
        for what in ("allocated", "reserved"):
            old, new = (getattr(memory, f"{what}_{side}_bytes") for side in ("before", "after"))
            if old is not None and new is not None:
                name = "" if memory.device_after is None else str(memory.device_after)
                change = "0" if new == old else f"{'+' if new > old else '−'}{size(abs(new - old))}"
                rows.append((name, what, size(old), size(new), change))
    columns = (Column("device"), Column("peak", False), Column("before"), Column("after"), Column("change"))
    return Section("Peak memory", (without_empty("Largest total of the allocator in the steps", columns, rows),))
