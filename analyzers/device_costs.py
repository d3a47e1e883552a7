"""Compute kernels and the op calls that answer for them."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from profsuite.analyzers.costs.dtypes import DTYPES, Dtype
from profsuite.analyzers.costs.registry import cost_of
from profsuite.analyzers.device_work import COMPUTE, DeviceWork
from profsuite.analyzers.ranking import numbered
from profsuite.trace.intervals import merge_by_group

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from profsuite.analyzers.costs.call import OpCall
    from profsuite.analyzers.op_costs import OpCosts
    from profsuite.trace.model import Trace


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


LIST_KERNELS = re.compile(r"multi_tensor_apply|CatArrayBatchedCopy|FusedAdam|FusedSgd|FusedAdagrad")
"""In the names of kernels that take lists of tensors of one dtype."""

ELEMENT = re.compile(r"\b(?:float|double|c10::BFloat16|c10::Half)\b|OpaqueType<(\d)u>")
"""The first of these in such a name is the tensors' element: a dtype, or where only moved its size."""


def element_of_lists(kernels: Iterable[str]) -> Dtype | None:
    """The dtype of tensors in lists, of which recorders say none, by the names of an op's kernels.

    A kernel that only moves elements tells their size; null where names differ, or do not tell.
    """
    found: set[Dtype] = set()
    for kernel in kernels:
        if LIST_KERNELS.search(kernel) is None or (match := ELEMENT.search(kernel)) is None:
            return None
        size = match[1]
        found.add(Dtype(f"{size} bytes", int(size)) if size else DTYPES[match[0]])
    return found.pop() if len(found) == 1 else None


def with_lists(trace: Trace, work: DeviceCosts) -> DeviceCosts:
    """The same, with the bytes of ops on lists where their kernels' names tell the dtype."""
    priced = list(work.costs.priced)
    lists = np.array([p.cost.num_bytes is None and _has_list(p.call) for p in priced] + [False], bool)
    price = np.where(work.owner >= 0, work.costs.price[work.owner], -1) if len(work.costs.price) else work.owner
    at = np.flatnonzero(lists[price])
    if not len(at):
        return work
    words, name = trace.words("slice", "name"), trace.array("slice", "name")
    kernels: dict[int, set[str]] = {}
    pairs = np.unique(np.stack([price[at], name[work.ids[at]].astype(np.int64)]), axis=1)
    for number, code in pairs.T.tolist():
        kernels.setdefault(number, set()).add(str(words[code]))
    for number, names in kernels.items():
        dtype = element_of_lists(names)
        cost = None if dtype is None else cost_of(_with_dtype(priced[number].call, dtype))
        if cost is not None:
            priced[number] = replace(priced[number], cost=cost)
    return replace(work, costs=replace(work.costs, priced=tuple(priced)))


def _has_list(call: OpCall) -> bool:
    return any(isinstance(arg, tuple) for arg in call.args)


def _with_dtype(call: OpCall, dtype: Dtype) -> OpCall:
    args = (tuple(replace(each, dtype=dtype) for each in arg) if isinstance(arg, tuple) else arg for arg in call.args)
    return replace(call, args=tuple(args))


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
