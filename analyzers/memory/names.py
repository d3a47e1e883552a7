"""What the collector knew by name: parameters, gradients and optimizer state, joined to allocations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from profsuite.analyzers.memory.allocations import BEFORE, Allocations
from profsuite.analyzers.memory.model import CATEGORIES, GRADIENT, OPTIMIZER_STATE, PARAMETER

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    from profsuite.trace.model import Trace

    Int64s = NDArray[np.int64]

ROLES = (PARAMETER, GRADIENT, OPTIMIZER_STATE)
"""Roles that the ``tensor`` table has, by falling precedence where one storage has several."""


@dataclass(frozen=True)
class Named:
    """Tensors of one device that the collector named: when, where, how large; ``role`` is a category's code."""

    ts: Int64s
    address: Int64s
    bytes: Int64s
    role: NDArray[np.int8]
    name: list[str | None]
    module: list[str | None]

    @property
    def roles(self) -> frozenset[int]:
        """The roles that were recorded."""
        return frozenset(np.unique(self.role).tolist())


def named(trace: Trace, device_type: int, device: int | None) -> Named | None:
    """The ``tensor`` table's rows of a device; null where the trace has none (other recorders, older versions)."""
    table = trace.tables.get("tensor")
    if table is None or not table.num_rows:
        return None
    ordinal = _integers(table, "device", -1)
    here = _integers(table, "device_type", -1) == device_type
    if device is not None and device_type != 0:
        here &= (ordinal == device) | (ordinal < 0)
    address = _integers(table, "address", 0)
    roles = np.array([_code(role) for role in table.column("role").to_pylist()], np.int8)
    rows = np.flatnonzero(here & (address != 0) & (roles >= 0))
    if not len(rows):
        return None
    names, modules = table.column("name").to_pylist(), table.column("module").to_pylist()
    return Named(
        _integers(table, "ts", 0)[rows],
        address[rows],
        _integers(table, "bytes", 0)[rows],
        roles[rows],
        [names[row] for row in rows.tolist()],
        [modules[row] for row in rows.tolist()],
    )


def _code(role: str | None) -> int:
    return CATEGORIES.index(role) if role in ("parameter", "gradient", "optimizer_state") else -1


def _integers(table: pa.Table, column: str, null: int) -> Int64s:
    """A column as int64 without nulls."""
    values: Any = table.column(column)
    return np.array([null if value is None else value for value in values.to_pylist()], np.int64)


@dataclass(frozen=True)
class Labels:
    """For each allocation the row of ``Named`` that names it (-1: none), after those that only a name tells of.

    ``allocations`` are those given and, after them, memory that was named but never seen to be allocated.
    """

    allocations: Allocations
    row: Int64s


def label(allocations: Allocations, event_ts: Int64s, tensors: Named | None) -> Labels:
    """Join named tensors to the allocation that is alive at their address when they are named."""
    count = len(allocations.start)
    row = np.full(count, -1, np.int64)
    if tensors is None:
        return Labels(allocations, row)
    # The moment of a name, as an event: the last one not after it.
    event = np.searchsorted(event_ts, tensors.ts, "right") - 1
    order = np.lexsort((allocations.start, allocations.address))
    width = allocations.num_events + 2
    addresses, which = np.unique(np.concatenate((allocations.address, tensors.address)), return_inverse=True)
    key = which[:count][order] * width + allocations.start[order] + 1
    place = np.searchsorted(key, which[count:] * width + event + 1, "right") - 1
    at = order[np.maximum(place, 0)] if count else np.zeros(len(event), np.int64)
    hit = np.zeros(len(event), bool)
    if count:
        hit = (place >= 0) & (allocations.address[at] == tensors.address) & (allocations.end[at] > event)
    # The assignment that is made last stays: of several roles the one that takes precedence.
    by_rank = np.argsort(-np.array([ROLES.index(role) for role in tensors.role.tolist()]), kind="stable")
    chosen = by_rank[hit[by_rank]]
    row[at[chosen]] = chosen

    lost = by_rank[~hit[by_rank]]
    if not len(lost):
        return Labels(allocations, row)
    # One allocation an address: who named it last in the order of precedence counts.
    latest: dict[int, int] = {int(tensors.address[i]): int(i) for i in lost.tolist()}
    rows = np.array(list(latest.values()), np.int64)
    number = np.searchsorted(addresses, tensors.address[rows])
    following = np.searchsorted(key, number * width + event[rows] + 1, "right")
    after = np.full(len(rows), allocations.num_events, np.int64)
    preceded = np.zeros(len(rows), bool)
    if count:
        next_at = order[np.minimum(following, count - 1)]
        same = (following < count) & (allocations.address[next_at] == tensors.address[rows])
        after = np.where(same, allocations.start[next_at], after)
        last_at = order[np.maximum(following - 1, 0)]
        preceded = (following > 0) & (allocations.address[last_at] == tensors.address[rows])
    start = np.where(preceded, event[rows], BEFORE)
    size = tensors.bytes[rows]
    extended = Allocations(
        start=np.concatenate((allocations.start, start)),
        end=np.concatenate((allocations.end, after)),
        bytes=np.concatenate((allocations.bytes, size)),
        address=np.concatenate((allocations.address, tensors.address[rows])),
        ended=np.concatenate((allocations.ended, np.zeros(len(rows), bool))),
        num_events=allocations.num_events,
    )
    return Labels(extended, np.concatenate((row, rows)))
