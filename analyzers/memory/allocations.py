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
    order = np.argsort(address, kind="stable")
    sorted_address, is_allocation = address[order], num_bytes[order] > 0
    same_as_next = np.append(sorted_address[1:] == sorted_address[:-1], False) if num else np.zeros(0, bool)
    follower = np.append(order[1:], num) if num else order
    follower_frees = np.append(~is_allocation[1:], False) if num else is_allocation

    begins = np.flatnonzero(is_allocation)
    start = order[begins]
    end = np.where(same_as_next[begins], follower[begins], num)
    ended = same_as_next[begins] & follower_frees[begins]

    # A free is matched if what came before it at its address is an allocation.
    before = np.append(False, same_as_next[:-1] & is_allocation[:-1]) if num else np.zeros(0, bool)
    lone = order[np.flatnonzero(~is_allocation & ~before)]
    # Of several lone frees at one address only the first can be of memory from before; the others' allocations were
    # missed, and nobody knows since when they lived: they count from before their free.
    first = np.append(True, sorted_address[1:] != sorted_address[:-1]) if num else np.zeros(0, bool)
    from_before = np.zeros(num, bool)
    from_before[order] = first
    lone_start = np.where(from_before[lone], BEFORE, lone)
    return Allocations(
        start=np.concatenate((start, lone_start)).astype(np.int64),
        end=np.concatenate((end, lone)).astype(np.int64),
        bytes=np.concatenate((num_bytes[start], -num_bytes[lone])),
        address=np.concatenate((address[start], address[lone])),
        ended=np.concatenate((ended, np.ones(len(lone), bool))),
        num_events=num,
    )
