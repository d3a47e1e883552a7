"""Fragmentation: how much of what the allocator caches is of use for a large allocation."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from profsuite.analyzers.memory.model import Fragmentation, SegmentMemory

if TYPE_CHECKING:
    from profsuite.trace.snapshot import Snapshot

NULL = -(2**63)


def fragmentation(snapshot: Snapshot, device: int, top: int = 10) -> Fragmentation | None:
    """Of the segments of a device when the snapshot was made; null where it has none.

    Fragmentation is 1 - largest free block / free, of a segment and of all.  A free block is an inactive one.
    """
    own = np.flatnonzero(snapshot.array("segment", "device") == device)
    if not len(own):
        return None
    number = np.full(snapshot.num_rows("segment"), -1, np.int64)
    number[own] = np.arange(len(own))
    segment = number[snapshot.array("block", "segment_id")]
    rows = np.flatnonzero(segment >= 0)
    segment, size = segment[rows], snapshot.array("block", "bytes")[rows]
    words, state = snapshot.words("block", "state"), snapshot.array("block", "state")[rows]
    is_free = np.array([w == "inactive" for w in words] or [False])[state]
    in_use = np.array([w == "active_allocated" for w in words] or [False])[state]
    pending = ~is_free & ~in_use
    free, highest = np.zeros(len(own), np.int64), np.zeros(len(own), np.int64)
    np.add.at(free, segment[is_free], size[is_free])
    np.maximum.at(highest, segment[is_free], size[is_free])
    total = snapshot.array("segment", "total_bytes")[own]
    count = np.bincount(segment, minlength=len(own))
    asked = snapshot.array("block", "requested_bytes")[rows][in_use]
    all_free, releasable = int(free.sum()), int(free[free == total].sum())
    kinds, pools = snapshot.words("segment", "kind"), snapshot.words("segment", "pool")

    def word(names: list[str], column: str, row: int) -> str | None:
        code = int(snapshot.array("segment", column)[row])
        return names[code] if code >= 0 else None

    expandable = snapshot.table("segment").column("expandable")
    return Fragmentation(
        reserved_bytes=int(total.sum()),
        allocated_bytes=int(size[in_use].sum()),
        pending_bytes=int(size[pending].sum()),
        free_bytes=all_free,
        largest_free_bytes=int(highest.max()),
        num_free_blocks=int(is_free.sum()),
        releasable_bytes=releasable,
        split_bytes=all_free - releasable,
        rounding_bytes=None if (asked == NULL).any() else int(size[in_use].sum() - asked.sum()),
        num_segments=len(own),
        fragmentation_pct=_pct(int(highest.max()), all_free),
        segments=tuple(
            SegmentMemory(
                address=int(snapshot.array("segment", "address")[own[i]]),
                kind=word(kinds, "kind", int(own[i])),
                pool=word(pools, "pool", int(own[i])),
                expandable=expandable[int(own[i])].as_py(),
                total_bytes=int(total[i]),
                free_bytes=int(free[i]),
                largest_free_bytes=int(highest[i]),
                num_blocks=int(count[i]),
                fragmentation_pct=_pct(int(highest[i]), int(free[i])),
            )
            for i in np.argsort(-free, kind="stable")[:top].tolist()
        ),
    )


def _pct(highest: int, free: int) -> float | None:
    return 100.0 * (free - highest) / free if free > 0 else None
