"""The allocator caches memory in pieces that are too small for a large allocation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from profsuite.analyzers.base import Evidence, Finding, Place
from profsuite.analyzers.findings.wording import bytes_of, count, memory, percent

if TYPE_CHECKING:
    from profsuite.analyzers.findings.wording import WithMemory
    from profsuite.analyzers.memory.model import DeviceMemory

FIRES_FROM = 0.1
"""Share of the reserved memory that lies split beside blocks in use and is no part of the largest free block."""
SCATTERED_PCT = 50.0
CRITICAL_FROM = 0.3


def memory_fragmentation(analysis: WithMemory) -> tuple[Finding, ...]:
    """Fires when free pieces beside blocks in use hold 10 % of the reserved memory, and half of the free is scattered.

    Free segments do not count: the allocator gives those back when it needs to.

    Remedy: expandable segments, stable sizes.
    """
    return tuple(found for device in memory(analysis) if (found := _of(analysis, device)) is not None)


def _of(analysis: WithMemory, device: DeviceMemory) -> Finding | None:
    state = device.fragmentation
    if state is None or not state.reserved_bytes or state.fragmentation_pct is None:
        return None
    share = state.split_bytes / state.reserved_bytes
    if share < FIRES_FROM or state.fragmentation_pct < SCATTERED_PCT:
        return None
    expandable = any(segment.expandable for segment in state.segments)
    return Finding(
        id="memory_fragmentation",
        title=(
            f"{bytes_of(state.split_bytes)} ({percent(share)} of the reserved memory) is free only in pieces beside "
            f"blocks in use; the largest piece is {bytes_of(state.largest_free_bytes)}"
        ),
        severity="critical" if share >= CRITICAL_FROM else "warning",
        evidence=(
            Evidence(label="reserved", value=state.reserved_bytes, unit="bytes"),
            Evidence(label="allocated", value=state.allocated_bytes, unit="bytes"),
            Evidence(label="free", value=state.free_bytes, unit="bytes"),
            Evidence(label="fragmentation", value=state.fragmentation_pct, unit="%"),
            count("free blocks", state.num_free_blocks),
            count("segments", state.num_segments),
        ),
        where=Place(rank=analysis.memory.rank if analysis.memory else None, device=device.device),
        remedy=(
            "The segments are expandable already: keep sizes stable (pad to few lengths), allocate what lives long "
            "before what lives short, and lower the peak."
            if expandable
            else "Set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True; keep sizes stable (pad to few lengths), and "
            "allocate what lives long before what lives short."
        ),
    )
