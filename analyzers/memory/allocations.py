"""Allocations: the memory events of one device, each allocation joined to its free."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Int64s = NDArray[np.int64]

BEFORE = -1
"""Start of what was allocated before the first event."""


@dataclass(frozen=True)
class Allocations:
    """n allocations among m events that are in the order of time.

    ``start`` and ``end`` are events (0 to m - 1): from ``start`` on until before ``end`` an allocation is alive.
    ``start`` is ``BEFORE`` where the recording only saw the free; ``end`` is m where it saw none.  ``ended`` tells
    frees that were recorded from ends that follow from the address being handed out anew.
    """

    start: Int64s
    end: Int64s
    bytes: Int64s
    address: Int64s
    ended: NDArray[np.bool_]
    num_events: int

    def alive_at(self, event: int) -> NDArray[np.bool_]:
        """Which are alive right after an event."""
        return (self.start <= event) & (self.end > event)


def match(address: Int64s, num_bytes: Int64s) -> Allocations:
    """Join the allocations (bytes > 0) and frees (bytes < 0) of one device, given in the order of time.

    A free ends the allocation that was last made at its address.  A free without one is an allocation that was alive
    before the recording, of the size that was freed.  An allocation at an address that is still taken ends what was
    there: its free was not recorded.
    """
    num = len(address)
    if not num:
        none = np.zeros(0, np.int64)
        return Allocations(none, none, none, none, np.zeros(0, bool), 0)
    order = np.argsort(address, kind="stable")
    if num < 2**31:
        order = order.astype(np.int32)  # a history may have tens of millions of events
    same = np.append(np.diff(address[order]) == 0, False)  # the next event in this order is at the same address
    is_allocation = num_bytes[order] > 0

    begins = np.flatnonzero(is_allocation)
    start = order[begins]
    follower = order[np.minimum(begins + 1, num - 1)]
    end = np.where(same[begins], follower, num)
    ended = same[begins] & ~is_allocation[np.minimum(begins + 1, num - 1)]

    # A free is matched if what came before it at its address is an allocation.
    before = np.append(False, same[:-1] & is_allocation[:-1])
    frees = np.flatnonzero(~is_allocation & ~before)
    lone = order[frees]
    # Of several lone frees at one address only the first can be of memory from before; the others' allocations were
    # missed, and nobody knows since when they lived: they count from before their free.
    lone_start = np.where(np.append(False, same[:-1])[frees], lone, BEFORE)
    return Allocations(
        start=np.concatenate((start, lone_start)).astype(np.int64),
        end=np.concatenate((end, lone)).astype(np.int64),
        bytes=np.concatenate((num_bytes[start], -num_bytes[lone])),
        address=np.concatenate((address[start], address[lone])),
        ended=np.concatenate((ended, np.ones(len(lone), bool))),
        num_events=num,
    )
