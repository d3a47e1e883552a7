"""Memory of a trace: from its memory events, device by device."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from profsuite.analyzers.host_calls import host_classes
from profsuite.analyzers.memory.device_history import DeviceHistory, Events, step_at
from profsuite.analyzers.memory.growth import growth, step_memory
from profsuite.analyzers.memory.lifetimes import lifetimes
from profsuite.analyzers.memory.model import CategoryCurve, DeviceMemory, MemoryPeak, MemoryReport, MemoryShare
from profsuite.analyzers.memory.peak import Grouping, by_category, curve_points, largest, points
from profsuite.analyzers.memory.phases import Phases, phases

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from profsuite.analyzers.memory.allocations import Allocations
    from profsuite.trace.model import Trace

    Int64s = NDArray[np.int64]

DEVICE_TYPES = {0: "CPU", 1: "CUDA", 6: "HIP", 9: "XLA", 12: "XPU", 13: "MPS", 15: "HPU", 19: "MTIA", 20: "PrivateUse1"}
"""Names of the numbers of c10::DeviceType that have memory of their own."""

MOST_DEVICES = 64
"""Of one process; a file that names more is damaged, and those with fewest events are left out."""


def trace_memory(trace: Trace, classes: NDArray[np.int8] | None = None, top: int = 10) -> MemoryReport | None:
    """What a trace says of memory; null where it has no memory events.

    ``classes`` (of ``host_classes``) saves computing them again; lists hold ``top`` rows.
    """
    if not trace.num_rows("memory_event"):
        return None
    classes = host_classes(trace) if classes is None else classes
    passes = phases(trace, classes)
    kind, ordinal = trace.array("memory_event", "device_type"), trace.array("memory_event", "device")
    keys, counts = np.unique((kind.astype(np.int64) << 32) | (ordinal.astype(np.int64) + 1), return_counts=True)
    keys = keys[np.argsort(-counts, kind="stable")[:MOST_DEVICES]]
    both = list(zip((keys >> 32).tolist(), ((keys & (2**32 - 1)) - 1).tolist(), strict=True))
    devices = [
        _device(trace, classes, passes, k, o, np.flatnonzero((kind == k) & (ordinal == o)), top) for k, o in both
    ]
    devices.sort(key=lambda device: (device.device_type == "CPU", device.device or 0))
    return MemoryReport(
        source=trace.info.source,
        kind="trace",
        rank=trace.info.rank,
        devices=tuple(devices),
        notes=tuple(_notes(trace, devices, len(counts))),
    )


def _device(
    trace: Trace, classes: NDArray[np.int8], passes: Phases, kind: int, ordinal: int, rows: Int64s, top: int
) -> DeviceMemory:
    history = DeviceHistory.of(trace, classes, passes, kind, ordinal, rows)
    events, seen, allocations = history.events, history.seen, history.allocations
    level, before, reserved = history.level, history.before, history.reserved
    at = int(np.argmax(level)) if len(level) else -1
    peak_bytes = int(level[at]) if at >= 0 else before
    alive = history.alive_at(at)
    unseen = max(0, peak_bytes - int(allocations.bytes[alive].sum()))
    groupings = (history.ops, history.modules, history.frames)
    within = _step_events(trace, events.ts, at) if at >= 0 else (0, 0)
    steps = step_memory(trace, events.ts, level, before)
    ended = seen.ended & (seen.start >= 0)
    lone = seen.start < 0
    joined = events.has_addresses or not len(events.bytes)
    # What was only ever named has no allocation event.
    by_event = (np.arange(len(allocations.start)) < len(seen.start)) & (allocations.start >= 0)
    shown = curve_points(level)
    return DeviceMemory(
        device_type=DEVICE_TYPES.get(kind, f"device type {kind}" if kind >= 0 else "unknown"),
        device=ordinal if ordinal >= 0 else None,
        num_allocations=int((events.bytes > 0).sum()),
        num_frees=int((events.bytes < 0).sum()),
        num_frees_without_allocation=int((events.bytes < 0).sum() - ended.sum()) if joined else None,
        freed_without_allocation_bytes=(
            int(-events.bytes[events.bytes < 0].sum() - seen.bytes[ended].sum()) if joined else None
        ),
        num_unfreed=int((~seen.ended & ~lone).sum()) if joined else None,
        num_breaks=_breaks(events),
        before_bytes=None if events.deltas_only else before,
        end_bytes=int(level[-1]) if len(level) else before,
        peak=MemoryPeak(
            ts_ns=int(events.ts[at]) if at >= 0 else None,
            entry=None,
            step=step_at(trace, int(events.ts[at])) if at >= 0 else None,
            allocated_bytes=peak_bytes,
            reserved_bytes=None if reserved is None else int(reserved[at]),
            unseen_bytes=unseen,
            by_category=by_category(history.codes, allocations.bytes, alive, unseen, peak_bytes),
            by_op=_shares(groupings[0], allocations, alive, peak_bytes, top),
            by_module=_shares(groupings[1], allocations, alive, peak_bytes, top),
            by_frame=_shares(groupings[2], allocations, alive, peak_bytes, top),
            largest=largest(allocations, alive, level, within, top, history.describe),
        ),
        peak_reserved_bytes=None if reserved is None else int(reserved.max()),
        timeline=points(events.ts, level, reserved, shown),
        over_time=_over_time(history.by_category(shown)),
        deltas_only=events.deltas_only,
        lifetimes=lifetimes(
            history.codes, allocations.bytes, history.end_ns - history.start_ns, allocations.ended & by_event
        ),
        steps=steps,
        growth=growth(trace, steps, events.ts, allocations, groupings, top),
        fragmentation=None,
        num_retries=None,
        retries=None,
        out_of_memory=None,
    )


def _over_time(found: dict[str, Int64s]) -> tuple[CategoryCurve, ...]:
    return tuple(CategoryCurve(category=name, bytes=tuple(held.tolist())) for name, held in found.items())


def _breaks(events: Events) -> int | None:
    if events.allocated is None:
        return None
    return int((np.diff(events.allocated) != events.bytes[1:]).sum())


def _step_events(trace: Trace, ts: Int64s, event: int) -> tuple[int, int]:
    """The events of the step that an event lies in (first, end), all of them where it lies in none."""
    start = trace.array("step", "ts")
    end = start + trace.array("step", "dur")
    inside = np.flatnonzero((start <= ts[event]) & (ts[event] < end))
    if not len(inside):
        return 0, len(ts)
    step = inside[-1]
    return int(np.searchsorted(ts, start[step], "left")), int(np.searchsorted(ts, end[step], "left"))


def _shares(
    grouping: Grouping | None, allocations: Allocations, alive: Int64s, total: int, top: int
) -> tuple[MemoryShare, ...] | None:
    return None if grouping is None else grouping.shares(allocations.bytes, alive, total, top)


def _notes(trace: Trace, devices: list[DeviceMemory], num_devices: int) -> list[str]:
    notes = []
    if num_devices > len(devices):
        notes.append(f"The file names {num_devices:,} devices; the {len(devices)} with most events are shown.")
    table = trace.tables.get("tensor")
    if table is None or not table.num_rows:
        notes.append(
            "Parameters, gradients and optimizer state are not told apart (unknown): "
            "profsuite.profile(memory=True) records their names."
        )
    if any(d.deltas_only for d in devices):
        notes.append(
            "The memory events of this file tell changes alone, neither addresses nor totals: bytes are counted from "
            "what was allocated when the recording began, and what is alive at the peak is not known. Newer versions "
            "of torch record both."
        )
    if all(d.peak.by_module is None and d.peak.by_frame is None for d in devices):
        notes.append(
            "No modules and no Python frames in this trace; with_stack=True (profile: stacks=True) records them."
        )
    if broken := sum(d.num_breaks or 0 for d in devices):
        notes.append(
            f"After {broken:,} events the recorder's own total differs from the sum of events: "
            "some memory was not reported, and counts as unknown."
        )
    return notes
