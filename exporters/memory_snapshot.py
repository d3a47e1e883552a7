"""A CUDA memory snapshot, as ``torch.cuda.memory._dump_snapshot`` writes it: for pytorch.org/memory_viz.

The history is the trace's allocations and frees with the stacks of the host at that time.  The allocator's segments
are in no trace: a run of 2 MiB pages that the trace's addresses lie in stands for each.  Streams are not known
either; all is on stream 0.
"""

from __future__ import annotations

import pickle
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from profsuite.errors import ProfsuiteError
from profsuite.exporters.stacks import allocating_nodes, python_frame, stacks
from profsuite.trace.readers.fields import NULL_INT64

if TYPE_CHECKING:
    from profsuite.exporters.source import Source
    from profsuite.exporters.stacks import Stacks
    from profsuite.exporters.target import Target
    from profsuite.trace.model import Trace

PROTOCOL: Final = 4
"""The highest that memory_viz reads."""

CPU: Final = 0
"""c10::DeviceType of the host."""

PAGE: Final = 2 * 2**20
"""Bytes: CUDA's allocator takes segments from the driver in multiples of it."""

MOST_DEVICES: Final = 1_024

EARLIER: Final = {"name": "allocated before the recording", "filename": "??", "line": 0}
"""The frame of what was there at the start and stayed; its size is known, its address is made up."""


@dataclass(frozen=True, slots=True)
class MemorySnapshot:
    """The format."""

    name: str = "memory-snapshot"
    suffix: str = ".snapshot.pickle"
    carries: str = "Allocations and frees on devices with their stacks, and what is allocated at the end."
    compresses: bool = False
    merges: bool = False

    def write(self, source: Source, target: Target) -> str:
        """Write one pickle; ``ProfsuiteError`` where the trace has no allocations on a device."""
        trace = source.trace()
        made, num_events = snapshot(trace)
        if not num_events:
            raise ProfsuiteError(
                f"{trace.info.source}: has no allocations on a device; profile_memory=True records them"
            )
        with target.path.open("wb") as out:
            pickle.dump(made, out, PROTOCOL)
        return f"{num_events:,} allocations and frees"


FORMAT = MemorySnapshot()


def snapshot(trace: Trace) -> tuple[dict[str, Any], int]:
    """The snapshot's dict, and the number of allocations and frees in it.

    Events without an address or a size are left out: nothing can be joined to them.
    """
    device, kind = trace.array("memory_event", "device"), trace.array("memory_event", "device_type")
    address, size = trace.array("memory_event", "address"), trace.array("memory_event", "bytes")
    known = (kind > CPU) & (address >= 0) & (size != 0) & (size != NULL_INT64)
    rows = np.flatnonzero(known)
    rows = rows[np.argsort(trace.array("memory_event", "ts")[rows], kind="stable")]
    ordinals = np.maximum(device[rows], 0)
    num_devices = int(ordinals.max()) + 1 if len(rows) else 0
    if num_devices > MOST_DEVICES:
        raise ProfsuiteError(f"{trace.info.source}: names device {num_devices - 1:,}; there cannot be as many")
    found = stacks(trace)
    nodes = allocating_nodes(trace, rows, found.node)
    frames = _Frames(found)
    segments: list[dict[str, Any]] = []
    traces = []
    for ordinal in range(num_devices):
        mine = ordinals == ordinal
        history = _History(trace, rows[mine], [frames.of(node) for node in nodes[mine].tolist()])
        traces.append(history.entries)
        segments += history.segments(ordinal)
    return {
        "segments": segments,
        "device_traces": traces,
        "allocator_settings": {},
        "external_annotations": [],
    }, len(rows)


@dataclass
class _Frames:
    """Stacks as lists of frames, the innermost first; equal ones are the same list, which pickle writes once."""

    found: Stacks
    _stacks: dict[int, list[dict[str, Any]]] = field(default_factory=dict)
    _frames: dict[int, dict[str, Any]] = field(default_factory=dict)

    def of(self, node: int) -> list[dict[str, Any]]:
        """The frames of a node, without its thread; none of node -1."""
        if node not in self._stacks:
            path = list(self.found.path(node))[:-1]
            self._stacks[node] = [self._frame(frame) for frame in path]
        return self._stacks[node]

    def _frame(self, number: int) -> dict[str, Any]:
        if number not in self._frames:
            name, file, line = python_frame(self.found.frames[number])
            self._frames[number] = {"name": name, "filename": file or "??", "line": line or 0}
        return self._frames[number]


class _History:
    """Allocations and frees of one device, in order, and what they leave."""

    def __init__(self, trace: Trace, rows: Any, frames: list[list[dict[str, Any]]]) -> None:
        base = trace.info.base_time_ns or 0
        time = ((trace.array("memory_event", "ts")[rows] + base) // 1000).tolist()
        address = trace.array("memory_event", "address")[rows].tolist()
        size = trace.array("memory_event", "bytes")[rows].tolist()
        self.entries: list[dict[str, Any]] = []
        live: dict[int, tuple[int, list[dict[str, Any]]]] = {}
        for at, where, num_bytes, stack in zip(time, address, size, frames, strict=True):
            entry = {"addr": where, "size": abs(num_bytes), "stream": 0, "time_us": at, "frames": stack}
            if num_bytes > 0:
                self.entries.append({"action": "alloc", **entry})
                live[where] = (num_bytes, stack)
            else:
                # A free of one call: the allocator asks and completes at once, unless other streams use the block.
                self.entries.append({"action": "free_requested", **entry})
                self.entries.append({"action": "free_completed", **entry})
                live.pop(where, None)
        self._live = live
        self._touched = _pages([(where, abs(num_bytes)) for where, num_bytes in zip(address, size, strict=True)])
        total = trace.array("memory_event", "total_allocated_bytes")[rows]
        last = int(total[-1]) if len(total) else NULL_INT64
        held = sum(num_bytes for num_bytes, _ in live.values())
        self._earlier = max(0, last - held) if last != NULL_INT64 else 0

    def segments(self, device: int) -> list[dict[str, Any]]:
        """The segments at the end, with their blocks."""
        made = []
        blocks = sorted(((where, *kept) for where, kept in self._live.items()), key=lambda block: block[0])
        place = 0
        for first, end in self._touched:
            mine = []
            while place < len(blocks) and blocks[place][0] < end:
                mine.append(blocks[place])
                place += 1
            made.append(_segment(device, first, end, mine))
        if self._earlier:
            first = self._touched[-1][1] if self._touched else PAGE
            end = first + _up(self._earlier)
            made.append(_segment(device, first, end, [(first, self._earlier, [EARLIER])]))
        return made


def _up(num_bytes: int) -> int:
    """Bytes in whole pages."""
    return -(-num_bytes // PAGE) * PAGE


def _pages(ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Runs of pages (first, end) in which the ranges (address, size) lie, in order."""
    runs: list[tuple[int, int]] = []
    for where, num_bytes in sorted(set(ranges)):
        first, end = where // PAGE * PAGE, _up(where + num_bytes)
        if runs and first <= runs[-1][1]:
            runs[-1] = (runs[-1][0], max(runs[-1][1], end))
        else:
            runs.append((first, end))
    return runs


def _segment(device: int, first: int, end: int, blocks: list[tuple[int, int, list[dict[str, Any]]]]) -> dict[str, Any]:
    """A segment; blocks and the gaps between them follow one another without a hole.

    Where blocks overlap (a free was not recorded) the earlier one ends where the next begins.
    """
    made: list[dict[str, Any]] = []
    reached = first
    for number, (where, num_bytes, frames) in enumerate(blocks):
        if where > reached:
            made.append(_block(reached, where - reached, 0, "inactive", []))
        stop = blocks[number + 1][0] if number + 1 < len(blocks) else end
        size = min(num_bytes, stop - where)
        made.append(_block(where, size, num_bytes, "active_allocated", frames))
        reached = where + size
    if reached < end:
        made.append(_block(reached, end - reached, 0, "inactive", []))
    held = sum(num_bytes for _, num_bytes, _ in blocks)
    return {
        "device": device,
        "address": first,
        "total_size": end - first,
        "allocated_size": held,
        "active_size": held,
        "requested_size": held,
        "stream": 0,
        "segment_type": "large" if end - first > PAGE else "small",
        "segment_pool_id": (0, 0),
        "is_expandable": False,
        "frames": [],
        "blocks": made,
    }


def _block(where: int, size: int, requested: int, state: str, frames: list[dict[str, Any]]) -> dict[str, Any]:
    return {"address": where, "size": size, "requested_size": requested, "state": state, "frames": frames}
