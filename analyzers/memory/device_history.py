"""The memory events of one device of a trace, and the allocations that they make, with what is known of each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from profsuite.analyzers.memory.allocations import BEFORE, Allocations, match
from profsuite.analyzers.memory.categories import categories
from profsuite.analyzers.memory.model import CATEGORIES, LiveAllocation
from profsuite.analyzers.memory.names import Labels, Named, label, named
from profsuite.analyzers.memory.origins import Origins, origins
from profsuite.analyzers.memory.peak import Grouping
from profsuite.analyzers.memory.phases import NEVER

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from profsuite.analyzers.memory.phases import Phases
    from profsuite.trace.model import Trace

    Int64s = NDArray[np.int64]

CPU = 0
NULL = -(2**63)


@dataclass(frozen=True)
class DeviceHistory:
    """One device: m events in the order of time, n allocations (the first ``num_seen`` from events, then from names).

    ``level`` is what is allocated after each event, ``before`` before the first, ``reserved`` what the allocator had
    (null where not recorded); bytes.  ``start_ns`` is -1 and ``end_ns`` ``NEVER`` where they were not recorded;
    ``codes`` are of ``CATEGORIES``; ``ops``, ``modules`` and ``frames`` name allocations, null where nothing does.
    """

    trace: Trace
    events: Events
    seen: Allocations
    allocations: Allocations
    labels: Labels
    tensors: Named | None
    level: Int64s
    before: int
    reserved: Int64s | None
    start_ns: Int64s
    end_ns: Int64s
    codes: NDArray[np.int8]
    ops: Grouping | None
    modules: Grouping | None
    frames: Grouping | None

    @classmethod
    def of(
        cls, trace: Trace, classes: NDArray[np.int8], passes: Phases, kind: int, ordinal: int, rows: Int64s
    ) -> DeviceHistory:
        """The history of a device (type and ordinal as recorded, -1 for none) from its rows of ``memory_event``."""
        events = Events.of(trace, rows)
        seen = _matched(events)
        tensors = named(trace, kind, ordinal if ordinal >= 0 else None)
        labels = label(seen, events.ts, tensors)
        allocations = labels.allocations
        level, before = _levels(events, allocations, len(seen.start))
        start, end, last = allocations.start, allocations.end, len(events.ts)
        made = np.maximum(start, 0)
        start_ns = np.where(start >= 0, np.append(events.ts, -1)[made], -1)
        end_ns = np.append(events.ts, NEVER)[np.minimum(end, last)]
        # What was only ever named has no allocation event: its start is when it was named, its op is not known.
        start_ns[len(seen.start) :] = -1
        origin = origins(trace, classes, np.append(events.track, -1)[np.where(start_ns >= 0, made, last)], start_ns)
        return cls(
            trace=trace,
            events=events,
            seen=seen,
            allocations=allocations,
            labels=labels,
            tensors=tensors,
            level=level,
            before=before,
            reserved=None if kind == CPU else events.reserved,
            start_ns=start_ns,
            end_ns=end_ns,
            codes=categories(trace, classes, start_ns, end_ns, origin, passes, labels.row, tensors),
            ops=Grouping(_op_names(trace, origin), trace.words("slice", "name")) if trace.num_rows("slice") else None,
            modules=_with_names(origin.modules, origin.module_names, labels.row, tensors),
            frames=None if origin.frame_names is None else Grouping(origin.frames, origin.frame_names),
        )

    def alive_at(self, event: int) -> Int64s:
        """The allocations that are alive right after an event (-1: before the first)."""
        return np.flatnonzero(self.allocations.alive_at(event))

    def by_category(self, event: Int64s) -> dict[str, Int64s]:
        """Bytes alive right after each of k events by category (those that ever hold something), int64[k].

        What the level has beyond the allocations is unknown, so that the categories sum to it.
        """
        start = np.maximum(self.allocations.start, BEFORE) + 1
        found: dict[str, Int64s] = {}
        for code, name in enumerate(CATEGORIES):
            mine = self.codes == code
            change = np.zeros(len(self.level) + 2, np.int64)
            np.add.at(change, start[mine], self.allocations.bytes[mine])
            np.subtract.at(change, self.allocations.end[mine] + 1, self.allocations.bytes[mine])
            found[name] = np.cumsum(change)[event + 1]
        explained = np.sum(list(found.values()), axis=0)
        found[CATEGORIES[-1]] = found[CATEGORIES[-1]] + np.maximum(self.level[event] - explained, 0)
        return {name: held for name, held in found.items() if held.any()}

    def describe(self, row: int, saves: int = 0) -> LiveAllocation:
        """An allocation in words; ``saves`` is how much lower the peak would be without it."""

        def name(grouping: Grouping | None) -> str | None:
            return grouping.names[grouping.codes[row]] if grouping is not None and grouping.codes[row] >= 0 else None

        begun, labelled = int(self.start_ns[row]), int(self.labels.row[row])
        over = int(self.end_ns[row]) if self.allocations.ended[row] and self.end_ns[row] < NEVER else None
        return LiveAllocation(
            bytes=int(self.allocations.bytes[row]),
            category=CATEGORIES[self.codes[row]],
            name=self.tensors.name[labelled] if self.tensors is not None and labelled >= 0 else None,
            op=name(self.ops),
            module=name(self.modules),
            frame=name(self.frames),
            step=step_at(self.trace, begun) if begun >= 0 else None,
            end_step=None if over is None else step_at(self.trace, over),
            start_ns=begun if begun >= 0 else None,
            end_ns=over,
            removing_saves_bytes=saves,
        )


def step_at(trace: Trace, ts: int) -> int | None:
    """The number of the step around a time, null outside of steps."""
    start = trace.array("step", "ts")
    inside = np.flatnonzero((start <= ts) & (ts < start + trace.array("step", "dur")))
    return int(trace.array("step", "number")[inside[-1]]) if len(inside) else None


@dataclass(frozen=True)
class Events:
    """The memory events of one device in the order of time; totals are null where not all events have them."""

    rows: Int64s
    ts: Int64s
    track: NDArray[np.int32]
    bytes: Int64s
    address: Int64s
    allocated: Int64s | None
    reserved: Int64s | None

    @classmethod
    def of(cls, trace: Trace, rows: Int64s) -> Events:
        """The events of some rows of ``memory_event``, those with a size."""
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

    @property
    def has_addresses(self) -> bool:
        """Whether any event has one, so that allocations and frees can be joined."""
        return bool((self.address != NULL).any())

    @property
    def deltas_only(self) -> bool:
        """Whether the events tell changes alone: neither a total nor an address."""
        return len(self.bytes) > 0 and self.allocated is None and not self.has_addresses


def _matched(events: Events) -> Allocations:
    """Allocations in terms of all events; events without an address only count in the curve."""
    has = events.address != NULL
    found = match(events.address[has], events.bytes[has])
    if has.all():
        return found
    event = np.flatnonzero(has)
    last = np.append(event, len(has))
    start = np.where(found.start >= 0, last[np.maximum(found.start, 0)], BEFORE)
    return Allocations(start, last[found.end], found.bytes, found.address, found.ended, len(has))


def _levels(events: Events, allocations: Allocations, num_seen: int) -> tuple[Int64s, int]:
    """Bytes allocated after each event, and before the first.

    The recorder's own total where it has one, raised where it began to count only after some memory that the
    recording knows of (on the CPU it does not count what was allocated before).  Else the running sum, less what must
    have been freed unrecorded, because its address was handed out anew.  The first ``num_seen`` allocations are from
    events, the others from names alone.
    """
    known = int(allocations.bytes[allocations.start == BEFORE].sum())
    if events.deltas_only:
        # What was freed must have been there.
        change = np.cumsum(events.bytes)
        known += max(0, -int(change.min(initial=0)))
        return known + change, known
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
