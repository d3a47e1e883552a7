"""Memory: the peak and what makes it, steps, growth, the allocator's state and failures."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from profsuite.analyzers.memory.model import DeviceMemory, LargestBatch, MemoryReport, MemoryShare
from profsuite.exporters.document import Cell, Column, Name, Section, Table
from profsuite.exporters.names import printable
from profsuite.exporters.sections.words import pct, without_empty
from profsuite.exporters.units import count, duration, percent, plural, size

STEPS_SHOWN = 10
ABOVE = "above the recording's start"
"""What bytes are of a trace that has no totals."""


def memory_sections(report: MemoryReport) -> tuple[Section, ...]:
    """One section a device, in the order of the report; notes go to the last."""
    sections = [
        Section(_title(report, device), tuple(_tables(device)), tuple(_remarks(device))) for device in report.devices
    ]
    if not sections:
        return (Section("Memory", (), tuple(map(printable, report.notes))),)
    last = sections[-1]
    sections[-1] = Section(last.title, last.blocks, last.notes + tuple(map(printable, report.notes)))
    return tuple(sections)


def device_name(device: DeviceMemory) -> str:
    """``CPU``, ``CUDA 0``; empty where the source does not say."""
    kind = "" if device.device_type == "unknown" else device.device_type
    return kind if device.device is None else f"{kind} {device.device}".strip()


def _title(report: MemoryReport, device: DeviceMemory) -> str:
    name = device_name(device)
    return f"Memory, {printable(name)}" if name and (len(report.devices) > 1 or name != "CPU") else "Memory"


def _tables(device: DeviceMemory) -> Iterable[Table]:
    peak = device.peak
    yield _shares(_peak_line(device), "category", peak.by_category, detail=False)
    if peak.by_op:
        yield _shares("Alive at the peak, by op", "op", peak.by_op, detail=False)
    if peak.by_module:
        yield _shares("Alive at the peak, by module", "module", peak.by_module, detail=True)
    if peak.by_frame:
        yield _shares("Alive at the peak, by line of source", "line", peak.by_frame, detail=False)
    if peak.largest:
        yield _largest(device)
    if device.steps:
        yield _steps(device)
    if device.growth is not None and device.growth.monotone and device.growth.by_op:
        yield _shares("What stays and grows, by op", "op", device.growth.by_op, detail=True)
    if device.lifetimes:
        yield _lifetimes(device)
    if device.fragmentation is not None:
        yield _segments(device)
    if device.out_of_memory:
        yield _failures(device)
    if device.retries:
        yield _retries(device)


def _peak_line(device: DeviceMemory) -> str:
    peak = device.peak
    line = f"Peak {allocated(device)}"
    if peak.reserved_bytes is not None:
        line += f", {size(peak.reserved_bytes)} reserved"
    if peak.step is not None:
        line += f", in step {peak.step}"
    return f"{line}; by category"


def allocated(device: DeviceMemory) -> str:
    """The peak of what is allocated, in words."""
    return f"{size(device.peak.allocated_bytes)} {ABOVE if device.deltas_only else 'allocated'}"


def _shares(caption: str, heading: str, shares: Sequence[MemoryShare], detail: bool) -> Table:
    rows: list[tuple[Cell, ...]] = [
        (
            Name("(not recorded)" if share.name is None else share.name),
            size(share.bytes),
            pct(share.pct),
            "" if share.count is None else count(share.count),
        )
        for share in shares
    ]
    columns = (Column(heading, False), Column("alive"), Column("share"), Column("allocations", optional=True))
    return without_empty(caption, columns, rows, detail)


def _largest(device: DeviceMemory) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for one in device.peak.largest:
        where = one.name or one.op or one.module or ""
        lived = duration(one.end_ns - one.start_ns) if one.start_ns is not None and one.end_ns is not None else ""
        rows.append((Name(where), size(one.bytes), one.category, lived, Name(one.frame or "")))
    columns = (
        Column("allocation", False),
        Column("size"),
        Column("category", False),
        Column("lives for", optional=True),
        Column("line", False),
    )
    return without_empty("The largest allocations at the peak", columns, rows, detail=True)


def _steps(device: DeviceMemory) -> Table:
    steps = device.steps or ()
    shown = sorted(sorted(steps, key=lambda step: -step.peak_bytes)[:STEPS_SHOWN], key=steps.index)
    rows: list[tuple[Cell, ...]] = [
        (str(s.number), size(s.peak_bytes), size(s.end_bytes), "recorded in part" if s.truncated else "") for s in shown
    ]
    columns = (Column("step"), Column("peak"), Column("alive at its end"), Column("remark", False))
    caption = f"Memory by step{f', {ABOVE}' if device.deltas_only else ''}" + (
        f": the {STEPS_SHOWN} highest" if len(steps) > STEPS_SHOWN else ""
    )
    return without_empty(caption, columns, rows, detail=True)


def _lifetimes(device: DeviceMemory) -> Table:
    rows: list[tuple[Cell, ...]] = [
        (
            row.category,
            count(row.count),
            size(row.bytes),
            "" if row.median_ns is None else duration(row.median_ns),
            "" if row.max_ns is None else duration(row.max_ns),
        )
        for row in device.lifetimes or ()
    ]
    columns = (
        Column("category", False),
        Column("allocations"),
        Column("in all"),
        Column("median life"),
        Column("longest"),
    )
    return without_empty("How long allocations live", columns, rows, detail=True)


def _segments(device: DeviceMemory) -> Table:
    state = device.fragmentation
    assert state is not None
    scattered = "" if state.fragmentation_pct is None else f", fragmentation {percent(state.fragmentation_pct)}"
    caption = (
        f"{plural(state.num_segments, 'segment')}: {size(state.reserved_bytes)} reserved, "
        f"{size(state.free_bytes)} free in {plural(state.num_free_blocks, 'block')}{scattered}"
    )
    rows: list[tuple[Cell, ...]] = [
        (
            f"{segment.address:#x}",
            segment.kind or "",
            size(segment.total_bytes),
            size(segment.free_bytes),
            size(segment.largest_free_bytes),
            pct(segment.fragmentation_pct),
        )
        for segment in state.segments
    ]
    columns = (
        Column("segment", False),
        Column("kind", False, optional=True),
        Column("size"),
        Column("free"),
        Column("largest free"),
        Column("fragmentation"),
    )
    return without_empty(caption, columns, rows)


def _failures(device: DeviceMemory) -> Table:
    rows: list[tuple[Cell, ...]] = [
        (
            size(one.bytes),
            size(one.allocated_bytes),
            size(one.reserved_bytes),
            "" if one.device_free_bytes is None else size(one.device_free_bytes),
            Name(one.stack[0] if one.stack else ""),
        )
        for one in device.out_of_memory or ()
    ]
    columns = (
        Column("wanted"),
        Column("allocated"),
        Column("reserved"),
        Column("free on the device"),
        Column("line", False),
    )
    return without_empty("Allocations that failed", columns, rows)


def _retries(device: DeviceMemory) -> Table:
    rows: list[tuple[Cell, ...]] = [
        (
            size(one.freed_bytes),
            count(one.num_segments),
            "" if one.wanted_bytes is None else size(one.wanted_bytes),
            Name(one.frame or ""),
        )
        for one in device.retries or ()
    ]
    columns = (Column("given back"), Column("segments"), Column("for a segment of"), Column("line", False))
    return without_empty("Retries: segments given back to get an allocation through", columns, rows, detail=True)


def _remarks(device: DeviceMemory) -> Iterable[str]:
    growth = device.growth
    if growth is not None:
        steps = f"from step {growth.first_step} to {growth.last_step}"
        if growth.monotone:
            yield f"Alive at the end of a step: {size(growth.bytes_per_step)} more each step, {steps}."
        else:
            yield f"No growth: what is alive at the ends of the steps does not rise steadily {steps}."
    if device.before_bytes:
        yield f"{size(device.before_bytes)} were alive before the recording."
    if device.num_unfreed:
        yield f"{plural(device.num_unfreed, 'allocation')} of the recording {_was(device.num_unfreed)} not freed in it."
    if device.peak.unseen_bytes and not device.deltas_only:
        yield f"{size(device.peak.unseen_bytes)} of the peak belong to no allocation that was recorded."


def _was(number: int) -> str:
    return "was" if number == 1 else "were"


def batch_section(batch: LargestBatch) -> Section:
    """What would fit."""
    lines = (
        f"Peak {size(batch.peak_small_bytes)} at batch {batch.batch_small}, {size(batch.peak_big_bytes)} at batch "
        f"{batch.batch_big}: {size(batch.bytes_per_sample)} a sample on {size(batch.fixed_bytes)}.",
        "Memory does not grow with the batch between these sizes: nothing can be predicted."
        if batch.batch is None
        else f"The largest batch that fits {size(batch.capacity_bytes)} of allocated memory: {batch.batch:,}. "
        "Rounding and fragmentation come on top.",
    )
    return Section("What would fit", (), lines)
