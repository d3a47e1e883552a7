"""An allocation failed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from profsuite.analyzers.base import Evidence, Finding, Place
from profsuite.analyzers.findings.wording import bytes_of, memory, text
from profsuite.analyzers.places import own_frame

if TYPE_CHECKING:
    from profsuite.analyzers.findings.wording import WithMemory
    from profsuite.analyzers.memory.model import DeviceMemory, OutOfMemory


def out_of_memory(analysis: WithMemory) -> tuple[Finding, ...]:
    """Fires on every allocation that a snapshot's history says failed.

    Remedy: a lower peak; expandable segments where enough was cached in pieces.
    """
    return tuple(_of(analysis, device, one) for device in memory(analysis) for one in device.out_of_memory or ())


def _of(analysis: WithMemory, device: DeviceMemory, one: OutOfMemory) -> Finding:
    evidence = [
        Evidence(label="wanted", value=one.bytes, unit="bytes"),
        Evidence(label="allocated then", value=one.allocated_bytes, unit="bytes"),
        Evidence(label="reserved then", value=one.reserved_bytes, unit="bytes"),
        Evidence(label="cached and not in use", value=one.cached_bytes, unit="bytes"),
    ]
    if one.device_free_bytes is not None:
        evidence.append(Evidence(label="free on the device", value=one.device_free_bytes, unit="bytes"))
    holder = next((share for share in device.peak.by_frame or () if share.name), None)
    if holder is not None and holder.name is not None:
        evidence.append(text("most of the peak was allocated at", holder.name))
    cached = one.cached_bytes >= one.bytes
    return Finding(
        id="out_of_memory",
        title=(
            f"An allocation of {bytes_of(one.bytes)} failed with {bytes_of(one.allocated_bytes)} allocated and "
            f"{bytes_of(one.reserved_bytes)} reserved"
        ),
        severity="critical",
        evidence=tuple(evidence),
        where=Place(
            rank=analysis.memory.rank if analysis.memory else None,
            device=device.device,
            start_ns=one.ts_ns,
            source=own_frame(one.stack) or (one.stack[0] if one.stack else None),
        ),
        remedy=(
            "More than that was cached, in pieces that are too small: set "
            "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, and keep sizes stable."
            if cached
            else "Lower the peak: a smaller batch with gradient accumulation, activation checkpointing, lower "
            "precision, or parameters and optimizer state sharded over ranks (FSDP)."
        ),
    )
