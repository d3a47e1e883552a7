"""The allocator had to give cached memory back to get an allocation through."""

from __future__ import annotations

from typing import TYPE_CHECKING

from profsuite.analyzers.base import Evidence, Finding, Place
from profsuite.analyzers.findings.wording import bytes_of, count, memory, times

if TYPE_CHECKING:
    from profsuite.analyzers.findings.wording import WithMemory
    from profsuite.analyzers.memory.model import DeviceMemory


def allocator_retries(analysis: WithMemory) -> tuple[Finding, ...]:
    """Fires on every retry in a snapshot: each stops the device until it is idle.

    Remedy: a lower peak, or expandable segments.
    """
    return tuple(found for device in memory(analysis) if (found := _of(analysis, device)) is not None)


def _of(analysis: WithMemory, device: DeviceMemory) -> Finding | None:
    if not device.retries or not device.num_retries:
        return None
    largest = max(device.retries, key=lambda retry: retry.freed_bytes)
    evidence = [
        count("retries", device.num_retries),
        Evidence(label="given back by the largest", value=largest.freed_bytes, unit="bytes"),
    ]
    if largest.wanted_bytes is not None:
        evidence.append(Evidence(label="for a segment of", value=largest.wanted_bytes, unit="bytes"))
    if device.peak_reserved_bytes is not None:
        evidence.append(Evidence(label="most reserved", value=device.peak_reserved_bytes, unit="bytes"))
    return Finding(
        id="allocator_retries",
        title=(
            f"Device memory ran out {times(device.num_retries)}: cached segments (up to "
            f"{bytes_of(largest.freed_bytes)}) were given back to the driver for an allocation"
        ),
        severity="warning",
        evidence=tuple(evidence),
        where=Place(
            rank=analysis.memory.rank if analysis.memory else None,
            device=device.device,
            start_ns=largest.ts_ns,
            source=largest.frame,
        ),
        remedy=(
            "The job runs at the limit of its memory, and each retry waits for the device: lower the peak (smaller "
            "batch, activation checkpointing), or set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True."
        ),
    )
