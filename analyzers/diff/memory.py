"""Peak device memory before and after."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from profsuite.analyzers.diff.parts import pairs

if TYPE_CHECKING:
    from profsuite.analyzers.diff.sides import Side

CPU = 0
"""c10::DeviceType of the host."""


class MemoryChange(Struct, frozen=True, kw_only=True):
    """The most that a device's allocator had given out, and had reserved, while the steps ran; null: not recorded."""

    device_before: int | None
    device_after: int | None
    allocated_before_bytes: int | None
    allocated_after_bytes: int | None
    allocated_change_bytes: int | None
    reserved_before_bytes: int | None
    reserved_after_bytes: int | None
    reserved_change_bytes: int | None


def memory_changes(before: Side, after: Side) -> tuple[MemoryChange, ...]:
    """One row a device of which both sides have ``[memory]`` events in their steps; empty without."""
    old, new = memory_peaks(before), memory_peaks(after)
    found = []
    for left, right in pairs(list(old), list(new)):
        device_before, device_after = list(old)[left], list(new)[right]
        allocated = (old[device_before][0], new[device_after][0])
        reserved = (old[device_before][1], new[device_after][1])
        found.append(
            MemoryChange(
                device_before=device_before,
                device_after=device_after,
                allocated_before_bytes=allocated[0],
                allocated_after_bytes=allocated[1],
                allocated_change_bytes=_difference(*allocated),
                reserved_before_bytes=reserved[0],
                reserved_after_bytes=reserved[1],
                reserved_change_bytes=_difference(*reserved),
            )
        )
    return tuple(found)


def memory_peaks(side: Side) -> dict[int | None, tuple[int | None, int | None]]:
    """By device ordinal: the largest bytes allocated, and reserved, after any event in the steps; null if unknown."""
    trace = side.trace
    device, kind = trace.array("memory_event", "device"), trace.array("memory_event", "device_type")
    inside = kind > CPU
    if side.span is not None:
        ts = trace.array("memory_event", "ts")
        inside = inside & (ts >= side.span[0]) & (ts < side.span[1])
    allocated = trace.array("memory_event", "total_allocated_bytes", null=-1)
    reserved = trace.array("memory_event", "total_reserved_bytes", null=-1)
    peaks: dict[int | None, tuple[int | None, int | None]] = {}
    for ordinal in np.unique(device[inside]).tolist():
        of = inside & (device == ordinal)
        most = [int(values[of].max()) for values in (allocated, reserved)]
        if max(most) >= 0:
            known = [value if value >= 0 else None for value in most]
            peaks[ordinal if ordinal >= 0 else None] = (known[0], known[1])
    return peaks


def _difference(before: int | None, after: int | None) -> int | None:
    return None if before is None or after is None else after - before
