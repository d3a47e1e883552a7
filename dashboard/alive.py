"""What is allocated at a moment of a trace."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from profsuite.analyzers.memory.allocations import match
from profsuite.analyzers.memory.origins import origins
from profsuite.analyzers.memory.trace import DEVICE_TYPES

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from profsuite.trace.model import Trace

NULL: Final = -(2**63)
MOST: Final = 100


@dataclass(frozen=True, slots=True)
class Alive:
    """One allocation: its size, the op that made it, when it was made and freed (ns); null where not recorded."""

    num_bytes: int
    op: str | None
    start_ns: int | None
    end_ns: int | None


@dataclass(frozen=True, slots=True)
class Moment:
    """What is alive right after the last event up to ``ts_ns``: how many allocations of what size, and the largest."""

    ts_ns: int
    num_allocations: int
    num_bytes: int
    largest: tuple[Alive, ...]


def alive_at(
    trace: Trace, classes: NDArray[np.int8], device_type: str, device: int | None, ts_ns: int, top: int = MOST
) -> Moment:
    """The allocations of a device (as ``DeviceMemory`` names it) that are alive at a time of the file's clock."""
    kinds = [code for code, name in DEVICE_TYPES.items() if name == device_type]
    events = np.isin(trace.array("memory_event", "device_type"), kinds)
    events &= trace.array("memory_event", "device") == (-1 if device is None else device)
    events &= trace.array("memory_event", "address") != NULL
    events &= trace.array("memory_event", "bytes") != NULL
    rows = np.flatnonzero(events)
    rows = rows[np.argsort(trace.array("memory_event", "ts")[rows], kind="stable")]
    ts = trace.array("memory_event", "ts")[rows]
    found = match(trace.array("memory_event", "address")[rows], trace.array("memory_event", "bytes")[rows])
    there = np.flatnonzero(found.alive_at(int(np.searchsorted(ts, ts_ns, "right")) - 1))
    there = there[np.argsort(-found.bytes[there], kind="stable")]
    shown = there[:top]
    made = np.maximum(found.start[shown], 0)
    known = found.start[shown] >= 0
    start = np.where(known, np.append(ts, -1)[made], -1)
    track = np.where(known, np.append(trace.array("memory_event", "track_id")[rows], -1)[made], -1)
    op = origins(trace, classes, track.astype(np.int32), start).op
    end = np.append(ts, -1)[np.where(found.ended[shown], found.end[shown], len(ts))]
    name, words = trace.array("slice", "name"), trace.words("slice", "name")
    return Moment(
        ts_ns=ts_ns,
        num_allocations=len(there),
        num_bytes=int(found.bytes[there].sum()),
        largest=tuple(
            Alive(
                int(size),
                words[name[row]] if row >= 0 else None,
                int(begun) if is_known else None,
                int(ended) if ended >= 0 else None,
            )
            for size, row, begun, is_known, ended in zip(
                found.bytes[shown].tolist(), op.tolist(), start.tolist(), known.tolist(), end.tolist(), strict=True
            )
        ),
    )
