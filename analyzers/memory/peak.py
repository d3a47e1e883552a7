"""What is alive at a moment, by category, op, module and frame; and the points of a curve worth keeping."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from profsuite.analyzers.base import pct
from profsuite.analyzers.memory.model import CATEGORIES, LiveAllocation, MemoryPoint, MemoryShare
from profsuite.analyzers.ranking import numbered, sum_by_group

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from profsuite.analyzers.memory.allocations import Allocations

    Int64s = NDArray[np.int64]

POINTS = 400
"""Points of a curve in a report."""


@dataclass(frozen=True)
class Grouping:
    """Codes (-1 for none), one an allocation, and the name of each."""

    codes: Int64s
    names: list[str]

    def shares(self, num_bytes: Int64s, rows: Int64s, total: int, top: int) -> tuple[MemoryShare, ...]:
        """The ``top`` names by the bytes of the allocations ``rows``, with their share of ``total``.

        Names that were dropped are summed under ``(N others)``, so that the shares sum to what ``rows`` hold.
        """
        if not len(rows):
            return ()
        codes = self.codes[rows] + 1
        group = numbered(codes)
        size = int(group.max()) + 1
        sums, counts = sum_by_group(group, num_bytes[rows], size), np.bincount(group, minlength=size)
        code_of = np.zeros(size, np.int64)
        code_of[group] = codes - 1
        order = np.lexsort((code_of, -sums)).tolist()
        shares = [
            _share(self.names[code_of[g]] if code_of[g] >= 0 else None, int(sums[g]), int(counts[g]), total)
            for g in order[:top]
        ]
        if rest := order[top:]:
            left = f"({len(rest)} other{'s' if len(rest) > 1 else ''})"
            shares.append(_share(left, int(sums[rest].sum()), int(counts[rest].sum()), total))
        return tuple(shares)


def _share(name: str | None, num_bytes: int, count: int | None, total: int) -> MemoryShare:
    return MemoryShare(name=name, bytes=num_bytes, count=count, pct=pct(min(num_bytes, total), total))


def by_category(
    codes: NDArray[np.int8], num_bytes: Int64s, rows: Int64s, unseen: int, total: int
) -> tuple[MemoryShare, ...]:
    """The categories that hold something, the largest first; ``unseen`` bytes are unknown, and no allocation."""
    sums = sum_by_group(codes[rows].astype(np.int64), num_bytes[rows], len(CATEGORIES))
    counts = np.bincount(codes[rows], minlength=len(CATEGORIES))
    sums[-1] += unseen
    order = sorted(range(len(CATEGORIES)), key=lambda code: -int(sums[code]))
    # How many allocations the unseen bytes are nobody knows.
    number: list[int | None] = [int(count) for count in counts]
    number[-1] = number[-1] or None
    return tuple(_share(CATEGORIES[c], int(sums[c]), number[c], total) for c in order if sums[c] > 0)


def removing_saves(level: Int64s, first: int, allocations: Allocations, row: int) -> int:
    """How much lower the highest ``level`` would be without one allocation, bytes (at most its size).

    ``level`` is that of the events from ``first`` on, and the allocation is alive at one of them.
    """
    start = max(int(allocations.start[row]) - first, 0)
    end = min(int(allocations.end[row]) - first, len(level))
    outside = max(
        int(level[:start].max()) if start else 0,
        int(level[end:].max()) if end < len(level) else 0,
    )
    inside = int(level[start:end].max()) - int(allocations.bytes[row])
    return max(0, int(level.max()) - max(outside, inside))


def largest(
    allocations: Allocations,
    rows: Int64s,
    level: Int64s,
    within: tuple[int, int],
    top: int,
    describe: Callable[[int, int], LiveAllocation],
) -> tuple[LiveAllocation, ...]:
    """The ``top`` allocations of ``rows``; ``describe`` gets a row and how much its removal lowers the peak.

    The peak is that of the events from the first of ``within`` to before the second.
    """
    first, stop = within
    order = rows[np.argsort(-allocations.bytes[rows], kind="stable")[:top]]
    return tuple(describe(row, removing_saves(level[first:stop], first, allocations, row)) for row in order.tolist())


def curve_points(level: Int64s) -> Int64s:
    """At most ``POINTS`` events of a curve: the highest of each stretch of events, and the last event."""
    count = len(level)
    if count <= POINTS:
        return np.arange(count)
    edges = np.linspace(0, count, POINTS, dtype=np.int64)
    highest = [int(a + np.argmax(level[a:b])) for a, b in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True)]
    return np.unique([*highest, count - 1])


def points(
    ts: Int64s | None,
    allocated: Int64s,
    reserved: Int64s | None,
    chosen: Int64s | None = None,
    first: int | None = None,
) -> tuple[MemoryPoint, ...]:
    """The points of a curve that are ``chosen``, by default ``curve_points``; ``first`` is the first event's entry."""
    chosen = curve_points(allocated) if chosen is None else chosen
    return tuple(
        MemoryPoint(
            ts_ns=None if ts is None else int(ts[i]),
            allocated_bytes=int(allocated[i]),
            reserved_bytes=None if reserved is None else int(reserved[i]),
            entry=None if first is None else first + i,
        )
        for i in chosen.tolist()
    )
