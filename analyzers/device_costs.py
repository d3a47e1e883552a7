"""Compute kernels and the op calls that answer for them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from profsuite.analyzers.device_work import COMPUTE, DeviceWork
from profsuite.analyzers.ranking import numbered
from profsuite.trace.intervals import merge_by_group

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from profsuite.analyzers.op_costs import OpCosts


@dataclass(frozen=True)
class DeviceCosts:
    """The compute kernels of all devices, one element each.

    ``ids`` are rows of ``slice``; ``launcher`` is the innermost op around the launch, ``owner`` the call that answers
    for the kernel (elements of ``OpCalls``), -1 where there is none, or none with a known cost; ``device`` numbers the
    devices from 0.
    """

    costs: OpCosts
    ids: NDArray[np.int64]
    start: NDArray[np.int64]
    end: NDArray[np.int64]
    device: NDArray[np.int64]
    launcher: NDArray[np.int64]
    owner: NDArray[np.int64]

    @property
    def dur(self) -> NDArray[np.int64]:
        """Duration of each kernel, ns."""
        return self.end - self.start

    @cached_property
    def counted(self) -> NDArray[np.int64]:
        """The owners whose kernels were recorded; of a recording without device work all owners."""
        if not len(self.ids):
            return self.costs.owners
        seen = np.zeros(len(self.costs.owner), bool)
        seen[self.owner[self.owner >= 0]] = True
        return np.flatnonzero(seen)

    def union(self, group: NDArray[np.int64], piece: NDArray[np.int64], size: int) -> NDArray[np.int64]:
        """Device time of each of ``size`` groups of kernels (elements ``piece``), ns: their union on each device."""
        devices = int(self.device.max()) + 1 if len(self.device) else 1
        both, start, end = merge_by_group(group * devices + self.device[piece], self.start[piece], self.end[piece])
        total = np.zeros(size, np.int64)
        np.add.at(total, both // devices, end - start)
        return total

    @cached_property
    def total_ns(self) -> int:
        """Device time of all compute kernels, ns: their union, summed over devices."""
        return int(self.union(np.zeros(len(self.ids), np.int64), np.arange(len(self.ids)), 1)[0])

    @cached_property
    def groups(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Group of each counted owner, and one owner of each group: calls of one price and one direction."""
        counted = self.counted
        key = self.costs.price[counted] * 2 + self.costs.backward[counted]
        group = numbered(key)
        size = int(group.max()) + 1 if len(group) else 0
        example = np.zeros(size, np.int64)
        example[group[::-1]] = counted[::-1]
        return group, example


def device_costs(work: tuple[DeviceWork, ...], costs: OpCosts) -> DeviceCosts:
    """The compute kernels of ``work``, each with the call that answers for it."""
    parts: list[tuple[NDArray[np.int64], ...]] = []
    for number, each in enumerate(work):
        compute = each.kind == COMPUTE
        launcher = costs.calls.element[each.op_ids[compute]]
        owner = np.where(launcher >= 0, costs.owner[launcher], -1) if len(costs.owner) else launcher
        ids, start, end = each.ids[compute], each.start[compute], each.end[compute]
        parts.append((ids, start, end, np.full(len(ids), number, np.int64), launcher, owner))
    empty = np.zeros(0, np.int64)
    columns = [np.concatenate([empty, *(part[i] for part in parts)]).astype(np.int64) for i in range(6)]
    return DeviceCosts(costs, *columns)
