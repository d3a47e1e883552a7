"""The allocator of a snapshot: its segments and how full they are, retries, and allocations that failed."""

from __future__ import annotations

from typing import Any, Final

from dash import html

from profsuite.analyzers.memory.model import DeviceMemory, Fragmentation
from profsuite.dashboard.components import facts, figure, name_column, note, number, section, table
from profsuite.exporters.figures.memory import segment_figure
from profsuite.exporters.units import percent, size

NO_SEGMENTS: Final = "No segment was reserved when the snapshot was made."


def allocator(n: int, device: DeviceMemory) -> list[Any]:
    """What a snapshot says beyond a trace; nothing of what the source does not know."""
    found = []
    if device.fragmentation is not None:
        found.append(_segments(n, device, device.fragmentation))
    if device.out_of_memory is not None:
        found.append(_failures(n, device))
    if device.retries is not None:
        found.append(_retries(n, device))
    return found


def _segments(n: int, device: DeviceMemory, state: Fragmentation) -> Any:
    values = {
        "reserved": size(state.reserved_bytes),
        "in use": size(state.allocated_bytes),
        "freed, and still waited for by a stream": size(state.pending_bytes) if state.pending_bytes else None,
        "free": f"{size(state.free_bytes)} in {state.num_free_blocks:,} blocks",
        "largest free block": size(state.largest_free_bytes),
        "free in segments that empty_cache gives back": size(state.releasable_bytes),
        "free beside blocks in use": size(state.split_bytes),
        "lost to rounding": None if state.rounding_bytes is None else size(state.rounding_bytes),
        "fragmentation": None if state.fragmentation_pct is None else percent(state.fragmentation_pct),
        "segments": f"{state.num_segments:,}",
    }
    rows = [
        {
            # An address is a name: a double could not hold it.
            "address": f"{segment.address:#x}",
            "kind": segment.kind,
            "pool": segment.pool,
            "expandable": None if segment.expandable is None else ("yes" if segment.expandable else "no"),
            "total": segment.total_bytes / 1e6,
            "free": segment.free_bytes / 1e6,
            "largest": segment.largest_free_bytes / 1e6,
            "blocks": segment.num_blocks,
            "fragmentation": segment.fragmentation_pct,
        }
        for segment in state.segments
    ]
    columns: list[dict[str, Any]] = [
        {"field": "address", "headerName": "segment", "minWidth": 160},
        {"field": "kind", "headerName": "kind"},
        {"field": "pool", "headerName": "pool"},
        {"field": "expandable", "headerName": "expandable"},
        number("total", "size", "MB", exact=True),
        number("free", "free", "MB", sort="desc", exact=True),
        number("largest", "largest free block", "MB", exact=True),
        number("blocks", "blocks", digits=0),
        number("fragmentation", "fragmentation", "%", digits=1),
    ]
    return section(
        "The allocator's cache at the end",
        facts(values),
        figure(segment_figure(device), NO_SEGMENTS, about="memory"),
        table(f"memory_segments_{n}", columns, rows, NO_SEGMENTS) if rows else html.Div(),
        about="memory",
    )


def _failures(n: int, device: DeviceMemory) -> Any:
    rows = [
        {
            "wanted": one.bytes / 1e6,
            "allocated": one.allocated_bytes / 1e6,
            "reserved": one.reserved_bytes / 1e6,
            "cached": one.cached_bytes / 1e6,
            "driver": None if one.device_free_bytes is None else one.device_free_bytes / 1e6,
            "stack": " < ".join(one.stack),
        }
        for one in device.out_of_memory or ()
    ]
    columns = [
        number("wanted", "wanted", "MB", exact=True),
        number("allocated", "allocated", "MB", exact=True),
        number("reserved", "reserved", "MB", exact=True),
        number("cached", "reserved, not in use", "MB", exact=True),
        number("driver", "free on the device", "MB", exact=True),
        name_column("stack", "stack, innermost first", wrapText=True, autoHeight=True),
    ]
    empty = "No allocation failed in the history."
    return section("Allocations that failed", table(f"memory_oom_{n}", columns, rows, empty), about="memory")


def _retries(n: int, device: DeviceMemory) -> Any:
    rows = [
        {
            "freed": one.freed_bytes / 1e6,
            "segments": one.num_segments,
            "wanted": None if one.wanted_bytes is None else one.wanted_bytes / 1e6,
            "frame": one.frame,
        }
        for one in device.retries or ()
    ]
    columns = [
        number("freed", "given back", "MB", exact=True),
        number("segments", "segments", digits=0),
        number("wanted", "for a segment of", "MB", exact=True),
        name_column("frame", "source"),
    ]
    empty = "No retries: cached segments never had to be given back."
    more = (device.num_retries or 0) - len(rows)
    return section(
        "Retries of the allocator",
        table(f"memory_retries_{n}", columns, rows, empty),
        *([note(f"{more:,} more.")] if more > 0 else []),
        about="memory",
    )
