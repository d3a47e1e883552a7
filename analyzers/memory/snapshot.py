"""Memory of a snapshot: the allocator's history played back from the state that it ended in, device by device."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from profsuite.analyzers.memory.allocations import Allocations, match
from profsuite.analyzers.memory.fragmentation import fragmentation
from profsuite.analyzers.memory.lifetimes import lifetimes
from profsuite.analyzers.memory.model import (
    UNKNOWN,
    DeviceMemory,
    LiveAllocation,
    MemoryPeak,
    MemoryReport,
    OutOfMemory,
)
from profsuite.analyzers.memory.peak import Grouping, by_category, largest, points
from profsuite.analyzers.memory.retries import retries
from profsuite.analyzers.places import own_frame

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from profsuite.trace.snapshot import Snapshot

    Int64s = NDArray[np.int64]

NULL = -(2**63)

SHOWN = 20
"""Retries, failures and their frames in a report."""


def snapshot_memory(snapshot: Snapshot, top: int = 10) -> MemoryReport:
    """What a snapshot says of memory; lists hold ``top`` rows.  Devices without segments and history are left out."""
    devices = np.union1d(snapshot.array("segment", "device"), snapshot.array("entry", "device")).tolist()
    frames = StackFrames(snapshot)
    return MemoryReport(
        source=snapshot.source,
        kind="snapshot",
        rank=None,
        devices=tuple(_device(snapshot, frames, device, top) for device in devices),
        notes=tuple(_notes(snapshot)),
    )


class StackFrames:
    """The frame that stands for each stack: the innermost of the user's own code (codes into ``names``)."""

    def __init__(self, snapshot: Snapshot) -> None:
        numbers: dict[str, int] = {}
        stacks = snapshot.num_rows("stack")
        self.codes = np.full(stacks + 1, -1, np.int64)
        used = np.zeros(stacks + 1, bool)  # the last is of -1, no stack
        for table in ("entry", "block"):
            used[snapshot.array(table, "stack_id")] = True
        for stack in np.flatnonzero(used[:stacks]).tolist():
            frame = own_frame(snapshot.frames_of(stack))
            if frame is None:
                frame = snapshot.frame_text(int(snapshot.array("stack", "frame_id")[stack]))
            self.codes[stack] = numbers.setdefault(frame, len(numbers))
        self.names = list(numbers)

    def name(self, stack: int) -> str | None:
        """The frame of one stack; null of -1."""
        return self.names[self.codes[stack]] if stack >= 0 and self.codes[stack] >= 0 else None


@dataclass(frozen=True)
class History:
    """The entries of one device: bytes allocated, active (allocated, or freed and pending) and reserved after each."""

    first: int
    action: NDArray[np.int32]
    bytes: Int64s
    stack: NDArray[np.int32]
    ts: Int64s | None
    allocated: Int64s
    active: Int64s
    reserved: Int64s
    words: dict[str, int]

    def of(self, *actions: str) -> NDArray[np.bool_]:
        """Which entries are one of these actions."""
        flags = np.zeros(len(self.words) + 1, bool)
        flags[[self.words[a] for a in actions if a in self.words]] = True
        return flags[self.action]


def history(snapshot: Snapshot, device: int) -> History:
    """Curves of one device.

    They end where the snapshot's segments stand, and are played back from there: what the history's ring buffer lost
    does not shift them.  Allocated falls when a free is requested, active when it is completed; both are of the bytes
    that were asked for.
    """
    # Entries are in the order of devices: views, for a history may be much larger than anything else.
    first, stop = np.searchsorted(snapshot.array("entry", "device"), (device, device + 1)).tolist()
    words = {word: code for code, word in enumerate(snapshot.words("entry", "action"))}
    action, size = snapshot.array("entry", "action")[first:stop], snapshot.array("entry", "bytes")[first:stop]
    if len(size) and int(size.min()) == NULL:
        size = np.where(size == NULL, 0, size)

    def change(up: tuple[str, ...], down: tuple[str, ...]) -> Int64s:
        sign = np.zeros(len(words) + 1, np.int8)
        sign[[words[a] for a in up if a in words]] = 1
        sign[[words[a] for a in down if a in words]] = -1
        curve = size * sign[action]
        return np.cumsum(curve, out=curve)

    own = snapshot.array("segment", "device") == device
    block = own[snapshot.array("block", "segment_id")] if snapshot.num_rows("segment") else np.zeros(0, bool)
    states = snapshot.words("block", "state")
    active_now = np.array([s != "inactive" for s in states] or [False])[snapshot.array("block", "state")] & block
    in_use = np.array([s == "active_allocated" for s in states] or [False])[snapshot.array("block", "state")] & block
    asked = snapshot.array("block", "requested_bytes")
    asked = np.where(asked == NULL, snapshot.array("block", "bytes"), asked)

    def ending_at(end: int, curve: Int64s) -> Int64s:
        if len(curve):
            curve += end - int(curve[-1])
        return curve

    ts = snapshot.array("entry", "ts")[first:stop]
    return History(
        first=first,
        action=action,
        bytes=size,
        stack=snapshot.array("entry", "stack_id")[first:stop],
        ts=None if not len(ts) or int(ts.min()) == NULL else ts,
        allocated=ending_at(int(asked[in_use].sum()), change(("alloc",), ("free_requested",))),
        active=ending_at(int(asked[active_now].sum()), change(("alloc",), ("free_completed",))),
        reserved=ending_at(
            int(snapshot.array("segment", "total_bytes")[own].sum()),
            change(("segment_alloc", "segment_map"), ("segment_free", "segment_unmap")),
        ),
        words=words,
    )


@dataclass(frozen=True)
class SnapshotHistory:
    """The history of a device of a snapshot, the allocations in it (their events are its entries) and their frames."""

    past: History
    allocations: Allocations
    frames: Grouping | None

    @classmethod
    def of(cls, snapshot: Snapshot, frames: StackFrames, device: int) -> SnapshotHistory:
        """The history of one device."""
        past = history(snapshot, device)
        # Addresses are taken until a free is completed, memory is in use until it is requested.
        has = past.of("alloc", "free_requested")
        event = np.flatnonzero(has)
        address = snapshot.array("entry", "address")[past.first + event]
        made, size = past.of("alloc")[event], past.bytes[event]
        # An allocation of no bytes takes a block all the same.
        found = match(address, np.where(made, np.maximum(size, 1), -size))
        exact = np.where(found.start >= 0, size[np.maximum(found.start, 0)], found.bytes)
        del has, address, made, size
        allocations, stacks = _with_survivors(snapshot, device, past, found, exact, event)
        return cls(past, allocations, Grouping(frames.codes[stacks], frames.names) if frames.names else None)

    def time(self, entry: int) -> int | None:
        """When an entry of the device happened, ns; null where that was not recorded."""
        return int(self.past.ts[entry]) if self.past.ts is not None and 0 <= entry < len(self.past.ts) else None

    def describe(self, row: int, saves: int = 0) -> LiveAllocation:
        """An allocation in words; ``saves`` is how much lower the peak would be without it."""
        code = -1 if self.frames is None else int(self.frames.codes[row])
        return LiveAllocation(
            bytes=int(self.allocations.bytes[row]),
            category="unknown",
            name=None,
            op=None,
            module=None,
            frame=self.frames.names[code] if self.frames is not None and code >= 0 else None,
            step=None,
            end_step=None,
            start_ns=self.time(int(self.allocations.start[row])),
            end_ns=self.time(int(self.allocations.end[row])) if self.allocations.ended[row] else None,
            removing_saves_bytes=saves,
        )


def _device(snapshot: Snapshot, frames: StackFrames, device: int, top: int) -> DeviceMemory:
    played = SnapshotHistory.of(snapshot, frames, device)
    past, allocations, grouping = played.past, played.allocations, played.frames

    level = past.allocated
    at = int(np.argmax(level)) if len(level) else -1
    end_bytes = int(level[-1]) if len(level) else int(allocations.bytes.sum())
    peak_bytes = int(level[at]) if at >= 0 else end_bytes
    alive = np.flatnonzero(allocations.alive_at(at))
    unseen = max(0, peak_bytes - int(allocations.bytes[alive].sum()))
    codes = np.full(len(allocations.start), UNKNOWN, np.int8)
    found_retries = retries(snapshot, past, frames)
    ended = allocations.ended & (allocations.start >= 0)
    before = allocations.start < 0
    duration = np.zeros(len(allocations.start), np.int64)
    if past.ts is not None:
        ends = np.append(past.ts, past.ts[-1])
        duration = ends[allocations.end] - ends[np.maximum(allocations.start, 0)]
    seen_free = before & allocations.ended
    first = level[0] - _first_change(past) if len(level) else end_bytes
    return DeviceMemory(
        device_type="accelerator",  # the file does not say which
        device=device,
        num_allocations=int(past.of("alloc").sum()),
        num_frees=int(past.of("free_requested").sum()),
        num_frees_without_allocation=int(seen_free.sum()),
        freed_without_allocation_bytes=int(allocations.bytes[seen_free].sum()),
        num_unfreed=int((~allocations.ended & ~before).sum()),
        num_breaks=None,
        before_bytes=int(first),
        end_bytes=end_bytes,
        peak=MemoryPeak(
            ts_ns=played.time(at),
            entry=past.first + at if at >= 0 else None,
            step=None,
            allocated_bytes=peak_bytes,
            reserved_bytes=int(past.reserved[at]) if at >= 0 else _reserved_now(snapshot, device),
            unseen_bytes=unseen,
            by_category=by_category(codes, allocations.bytes, alive, unseen, peak_bytes),
            by_op=None,
            by_module=None,
            by_frame=None if grouping is None else grouping.shares(allocations.bytes, alive, peak_bytes, top),
            largest=largest(allocations, alive, level, (0, len(level)), top, played.describe) if len(level) else (),
        ),
        peak_reserved_bytes=int(past.reserved.max()) if len(level) else _reserved_now(snapshot, device),
        timeline=points(past.ts, past.allocated, past.reserved, first=past.first),
        lifetimes=lifetimes(codes, allocations.bytes, duration, ended) if past.ts is not None else None,
        steps=None,
        growth=None,
        fragmentation=fragmentation(snapshot, device, top),
        num_retries=None if found_retries is None else len(found_retries),
        retries=None if found_retries is None else found_retries[:SHOWN],
        out_of_memory=_failures(snapshot, past),
    )


def _first_change(past: History) -> int:
    """What the first entry did to the allocated bytes."""
    return int(past.of("alloc")[0]) * int(past.bytes[0]) - int(past.of("free_requested")[0]) * int(past.bytes[0])


def _reserved_now(snapshot: Snapshot, device: int) -> int:
    return int(snapshot.array("segment", "total_bytes")[snapshot.array("segment", "device") == device].sum())


def _with_survivors(
    snapshot: Snapshot, device: int, past: History, found: Allocations, sizes: Int64s, event: Int64s
) -> tuple[Allocations, NDArray[np.int32]]:
    """Allocations in terms of the history's entries, and those that were made before it and are alive at its end.

    The latter are blocks in use at addresses that the history never allocated (or has freed again since).
    """
    last = len(past.action)
    entry = np.append(event, last)
    start = np.where(found.start >= 0, entry[np.maximum(found.start, 0)], found.start)
    end = entry[np.minimum(found.end, len(event))]
    own = (
        snapshot.array("segment", "device")[snapshot.array("block", "segment_id")] == device
        if snapshot.num_rows("block")
        else np.zeros(0, bool)
    )
    states = np.array([s == "active_allocated" for s in snapshot.words("block", "state")] or [False])
    blocks = np.flatnonzero(own & states[snapshot.array("block", "state")])
    address = snapshot.array("block", "address")[blocks]
    open_now = found.address[(end == last) & ~found.ended]
    blocks = blocks[~np.isin(address, open_now)]
    asked = snapshot.array("block", "requested_bytes")[blocks]
    asked = np.where(asked == NULL, snapshot.array("block", "bytes")[blocks], asked)
    stack = np.append(past.stack, -1)[np.where(start >= 0, start, last)]
    allocations = Allocations(
        start=np.concatenate((start, np.full(len(blocks), -1))),
        end=np.concatenate((end, np.full(len(blocks), last))),
        bytes=np.concatenate((sizes, asked)),
        address=np.concatenate((found.address, snapshot.array("block", "address")[blocks])),
        ended=np.concatenate((found.ended, np.zeros(len(blocks), bool))),
        num_events=last,
    )
    return allocations, np.concatenate((stack, snapshot.array("block", "stack_id")[blocks]))


def _failures(snapshot: Snapshot, past: History) -> tuple[OutOfMemory, ...]:
    free = snapshot.array("entry", "device_free_bytes")
    return tuple(
        OutOfMemory(
            entry=past.first + i,
            ts_ns=int(past.ts[i]) if past.ts is not None else None,
            bytes=int(past.bytes[i]),
            device_free_bytes=None if free[past.first + i] == NULL else int(free[past.first + i]),
            allocated_bytes=int(past.allocated[i]),
            reserved_bytes=int(past.reserved[i]),
            cached_bytes=int(past.reserved[i] - past.active[i]),
            stack=tuple(snapshot.frames_of(int(past.stack[i]))),
        )
        for i in np.flatnonzero(past.of("oom"))[:SHOWN].tolist()
    )


def _notes(snapshot: Snapshot) -> list[str]:
    if snapshot.fault:
        return [snapshot.fault]
    if not snapshot.num_rows("entry"):
        return [
            "The snapshot has no history, only the state when it was made: call "
            "torch.cuda.memory._record_memory_history() before what is to be seen."
        ]
    if not snapshot.num_rows("stack"):
        return ["The history has no stacks: torch.cuda.memory._record_memory_history(stacks='python') records them."]
    return []
