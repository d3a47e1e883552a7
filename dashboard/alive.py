"""What is allocated at a moment of a trace, or of a snapshot's history."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from profsuite.analyzers.memory.device_history import DeviceHistory
from profsuite.analyzers.memory.peak import by_category
from profsuite.analyzers.memory.phases import phases
from profsuite.analyzers.memory.snapshot import SnapshotHistory, StackFrames
from profsuite.analyzers.memory.trace import DEVICE_TYPES

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from profsuite.analyzers.memory.model import LiveAllocation, MemoryShare
    from profsuite.trace.model import Trace
    from profsuite.trace.snapshot import Snapshot

    Int64s = NDArray[np.int64]

MOST: Final = 100


@dataclass(frozen=True, slots=True)
class Moment:
    """What is alive right after an event: how many allocations of what size, by category, and the largest.

    ``by_category`` is null where the source knows none.
    """

    num_allocations: int
    num_bytes: int
    by_category: tuple[MemoryShare, ...] | None
    largest: tuple[LiveAllocation, ...]


def alive_at(
    trace: Trace, classes: NDArray[np.int8], device_type: str, device: int | None, ts_ns: int, top: int = MOST
) -> Moment:
    """What is alive on a device (as ``DeviceMemory`` names it) after the last event up to a time of the file's clock.

    Of what the recorder's total has beyond the allocations it reported nothing is known: it is not in it.
    """
    ordinal = -1 if device is None else device
    kinds = [code for code, name in DEVICE_TYPES.items() if name == device_type]
    events = np.isin(trace.array("memory_event", "device_type"), kinds)
    rows = np.flatnonzero(events & (trace.array("memory_event", "device") == ordinal))
    if not len(rows):
        return Moment(0, 0, (), ())
    history = DeviceHistory.of(trace, classes, phases(trace, classes), kinds[0], ordinal, rows)
    alive = history.alive_at(int(np.searchsorted(history.events.ts, ts_ns, "right")) - 1)
    size = history.allocations.bytes
    total = int(size[alive].sum())
    return Moment(
        num_allocations=len(alive),
        num_bytes=total,
        by_category=by_category(history.codes, size, alive, 0, total),
        largest=tuple(history.describe(row) for row in _largest(size, alive, top)),
    )


def alive_in(snapshot: Snapshot, device: int, entry: int, top: int = MOST) -> Moment:
    """What is alive on a device of a snapshot right after an entry (a row of the whole history)."""
    played = SnapshotHistory.of(snapshot, StackFrames(snapshot), device)
    size = played.allocations.bytes
    alive = np.flatnonzero(played.allocations.alive_at(entry - played.past.first))
    return Moment(
        num_allocations=len(alive),
        num_bytes=int(size[alive].sum()),
        by_category=None,
        largest=tuple(played.describe(row) for row in _largest(size, alive, top)),
    )


def _largest(size: Int64s, alive: Int64s, top: int) -> list[int]:
    found: list[int] = alive[np.argsort(-size[alive], kind="stable")[:top]].tolist()
    return found
