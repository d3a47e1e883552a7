"""Memory of a trace: from its memory events, device by device."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from profsuite.analyzers.host_calls import host_classes
from profsuite.analyzers.memory.allocations import BEFORE, Allocations, match
from profsuite.analyzers.memory.categories import categories
from profsuite.analyzers.memory.growth import growth, step_memory
from profsuite.analyzers.memory.lifetimes import lifetimes
from profsuite.analyzers.memory.model import (
    CATEGORIES,
    DeviceMemory,
    LiveAllocation,
    MemoryPeak,
    MemoryReport,
    MemoryShare,
)
from profsuite.analyzers.memory.names import Named, label, named
from profsuite.analyzers.memory.origins import Origins, origins
from profsuite.analyzers.memory.peak import Grouping, by_category, largest, points
from profsuite.analyzers.memory.phases import NEVER, Phases, phases

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from profsuite.trace.model import Trace

    Int64s = NDArray[np.int64]

DEVICE_TYPES = {0: "CPU", 1: "CUDA", 6: "HIP", 9: "XLA", 12: "XPU", 13: "MPS", 15: "HPU", 19: "MTIA", 20: "PrivateUse1"}
"""Names of the numbers of c10::DeviceType that have memory of their own."""

MOST_DEVICES = 64
"""Of one process; a file that names more is damaged, and those with fewest events are left out."""

CPU = 0
NULL = -(2**63)


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


@dataclass(frozen=True)
class _Events:
    """The memory events of one device in the order of time; totals are null where not all events have them."""

    rows: Int64s
    ts: Int64s
    track: NDArray[np.int32]
    bytes: Int64s
    address: Int64s
    allocated: Int64s | None
    reserved: Int64s | None

    @classmethod
    def of(cls, trace: Trace, rows: Int64s) -> _Events:
        ts, size = trace.array("memory_event", "ts")[rows], trace.array("memory_event", "bytes")[rows]
        known = size != NULL
        rows, ts = rows[known], ts[known]
        if not bool((ts[1:] >= ts[:-1]).all()):
            rows = rows[np.argsort(ts, kind="stable")]
        column: Callable[[str], Int64s] = lambda name: trace.array("memory_event", name)[rows]  # noqa: E731
        allocated, reserved = column("total_allocated_bytes"), column("total_reserved_bytes")
        return cls(
            rows,
            column("ts"),
            trace.array("memory_event", "track_id")[rows],
            column("bytes"),
            column("address"),
            None if (allocated == NULL).any() else allocated,
            None if (reserved == NULL).any() or not reserved.any() else reserved,
        )


def _matched(events: _Events) -> Allocations:
    """Allocations in terms of all events; events without an address only count in the curve."""
    has = events.address != NULL
    found = match(events.address[has], events.bytes[has])
    if has.all():
        return found
    event = np.flatnonzero(has)
    last = np.append(event, len(has))
    start = np.where(found.start >= 0, last[np.maximum(found.start, 0)], BEFORE)
    return Allocations(start, last[found.end], found.bytes, found.address, found.ended, len(has))


def _device(
    trace: Trace, classes: NDArray[np.int8], passes: Phases, kind: int, ordinal: int, rows: Int64s, top: int
) -> DeviceMemory:
    events = _Events.of(trace, rows)
    device = ordinal if ordinal >= 0 else None
    seen = _matched(events)
    tensors = named(trace, kind, device)
    labels = label(seen, events.ts, tensors)
    allocations = labels.allocations
    level, before = _levels(events, allocations, len(seen.start))
    reserved = None if kind == CPU else events.reserved
    at = int(np.argmax(level)) if len(level) else -1
    peak_bytes = int(level[at]) if at >= 0 else before

    start, end = allocations.start, allocations.end
    made = np.maximum(start, 0)
    known = start >= 0
    last = len(events.ts)
    start_ns = np.where(known, np.append(events.ts, -1)[made], -1)
    end_ns = np.append(events.ts, NEVER)[np.minimum(end, last)]
    # What was only ever named has no allocation event: its start is when it was named, its op is not known.
    by_name = np.arange(len(start)) >= len(seen.start)
    start_ns[by_name] = -1
    origin = origins(trace, classes, np.append(events.track, -1)[np.where(start_ns >= 0, made, last)], start_ns)
    codes = categories(trace, classes, start_ns, end_ns, origin, passes, labels.row, tensors)

    alive = np.flatnonzero(allocations.alive_at(at))
    unseen = max(0, peak_bytes - int(allocations.bytes[alive].sum()))
    modules = _with_names(origin.modules, origin.module_names, labels.row, tensors)
    groupings = (
        Grouping(_op_names(trace, origin), trace.words("slice", "name")) if trace.num_rows("slice") else None,
        modules,
        None if origin.frame_names is None else Grouping(origin.frames, origin.frame_names),
    )
    describe = _describer(trace, allocations, codes, groupings, start_ns, end_ns, tensors, labels.row)
    within = _step_events(trace, events.ts, at) if at >= 0 else (0, 0)
    steps = step_memory(trace, events.ts, level, before)
    ended = seen.ended & (seen.start >= 0)
    lone = seen.start < 0
    return DeviceMemory(
        device_type=DEVICE_TYPES.get(kind, f"device type {kind}" if kind >= 0 else "unknown"),
        device=device,
        num_allocations=int((events.bytes > 0).sum()),
        num_frees=int((events.bytes < 0).sum()),
        num_frees_without_allocation=int((events.bytes < 0).sum() - ended.sum()),
        freed_without_allocation_bytes=int(-events.bytes[events.bytes < 0].sum() - seen.bytes[ended].sum()),
        num_unfreed=int((~seen.ended & ~lone).sum()),
        num_breaks=_breaks(events),
        before_bytes=before,
        end_bytes=int(level[-1]) if len(level) else before,
        peak=MemoryPeak(
            ts_ns=int(events.ts[at]) if at >= 0 else None,
            entry=None,
            step=_step_at(trace, int(events.ts[at])) if at >= 0 else None,
            allocated_bytes=peak_bytes,
            reserved_bytes=None if reserved is None else int(reserved[at]),
            unseen_bytes=unseen,
            by_category=by_category(codes, allocations.bytes, alive, unseen, peak_bytes),
            by_op=_shares(groupings[0], allocations, alive, peak_bytes, top),
            by_module=_shares(groupings[1], allocations, alive, peak_bytes, top),
            by_frame=_shares(groupings[2], allocations, alive, peak_bytes, top),
            largest=largest(allocations, alive, level, within, top, describe),
        ),
        peak_reserved_bytes=None if reserved is None else int(reserved.max()),
        timeline=points(events.ts, level, reserved),
        lifetimes=lifetimes(codes, allocations.bytes, end_ns - start_ns, allocations.ended & known & ~by_name),
        steps=steps,
        growth=growth(trace, steps, events.ts, allocations, groupings, top),
        fragmentation=None,
        num_retries=None,
        retries=None,
        out_of_memory=None,
    )


def _levels(events: _Events, allocations: Allocations, num_seen: int) -> tuple[Int64s, int]:
    """Bytes allocated after each event, and before the first.

    The recorder's own total where it has one, raised where it began to count only after some memory that the
    recording knows of (on the CPU it does not count what was allocated before).  Else the running sum, less what must
    have been freed unrecorded, because its address was handed out anew.  The first ``num_seen`` allocations are from
    events, the others from names alone.
    """
    known = int(allocations.bytes[allocations.start == BEFORE].sum())
    unrecorded = ~allocations.ended & (allocations.end < len(events.ts))
    if events.allocated is None:
        level = known + np.cumsum(events.bytes)
        # Frees of what nobody saw allocated take nothing from what is known.
        phantom = allocations.start == allocations.end
        return level - _ending(allocations, unrecorded, level) + _ending(allocations, phantom, level), known
    counted = int(events.allocated[0] - events.bytes[0]) if len(events.bytes) else 0
    if known <= counted:
        return events.allocated, counted
    unrecorded[:num_seen] = False
    return events.allocated + np.maximum(known - counted - _ending(allocations, unrecorded, events.bytes), 0), known


def _ending(allocations: Allocations, which: NDArray[np.bool_], like: Int64s) -> Int64s:
    """Bytes of some allocations that have ended by each event."""
    change = np.zeros(len(like), np.int64)
    np.add.at(change, allocations.end[which], allocations.bytes[which])
    return np.cumsum(change)


def _breaks(events: _Events) -> int | None:
    if events.allocated is None:
        return None
    return int((np.diff(events.allocated) != events.bytes[1:]).sum())


def _step_at(trace: Trace, ts: int) -> int | None:
    start = trace.array("step", "ts")
    inside = np.flatnonzero((start <= ts) & (ts < start + trace.array("step", "dur")))
    return int(trace.array("step", "number")[inside[-1]]) if len(inside) else None


def _step_events(trace: Trace, ts: Int64s, event: int) -> tuple[int, int]:
    """The events of the step that an event lies in (first, end), all of them where it lies in none."""
    start = trace.array("step", "ts")
    end = start + trace.array("step", "dur")
    inside = np.flatnonzero((start <= ts[event]) & (ts[event] < end))
    if not len(inside):
        return 0, len(ts)
    step = inside[-1]
    return int(np.searchsorted(ts, start[step], "left")), int(np.searchsorted(ts, end[step], "left"))


def _op_names(trace: Trace, origin: Origins) -> Int64s:
    names = np.append(trace.array("slice", "name"), -1).astype(np.int64)
    return names[origin.op]


def _with_names(codes: Int64s, words: list[str] | None, row: Int64s, tensors: Named | None) -> Grouping | None:
    """Modules by the call that allocated; where the collector named the tensor, by the module that owns it."""
    if tensors is None or not any(tensors.module):
        return None if words is None else Grouping(codes, words)
    numbers: dict[str, int] = {}
    offset = len(words or ())
    own = np.array([-1 if m is None else offset + numbers.setdefault(m, len(numbers)) for m in tensors.module] + [-1])
    told = own[row]
    return Grouping(np.where(told >= 0, told, codes), [*(words or ()), *numbers])


def _shares(
    grouping: Grouping | None, allocations: Allocations, alive: Int64s, total: int, top: int
) -> tuple[MemoryShare, ...] | None:
    return None if grouping is None else grouping.shares(allocations.bytes, alive, total, top)


def _describer(
    trace: Trace,
    allocations: Allocations,
    codes: NDArray[np.int8],
    groupings: tuple[Grouping | None, Grouping | None, Grouping | None],
    start_ns: Int64s,
    end_ns: Int64s,
    tensors: Named | None,
    labels: Int64s,
) -> Callable[[int, int], LiveAllocation]:
    def name(grouping: Grouping | None, row: int) -> str | None:
        return grouping.names[grouping.codes[row]] if grouping is not None and grouping.codes[row] >= 0 else None

    def describe(row: int, saves: int) -> LiveAllocation:
        begun = int(start_ns[row])
        over = int(end_ns[row]) if allocations.ended[row] and end_ns[row] < NEVER else None
        return LiveAllocation(
            bytes=int(allocations.bytes[row]),
            category=CATEGORIES[codes[row]],
            name=tensors.name[labels[row]] if tensors is not None and labels[row] >= 0 else None,
            op=name(groupings[0], row),
            module=name(groupings[1], row),
            frame=name(groupings[2], row),
            step=_step_at(trace, begun) if begun >= 0 else None,
            end_step=None if over is None else _step_at(trace, over),
            start_ns=begun if begun >= 0 else None,
            end_ns=over,
            removing_saves_bytes=saves,
        )

    return describe


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
