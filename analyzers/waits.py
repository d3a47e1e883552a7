"""What the host's waits for a device are for: to read a value, to copy, or just to wait."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

import numpy as np

from profsuite.analyzers.enclosing import enclosing_of
from profsuite.analyzers.host_calls import OP, SYNC, UNRECORDED, matching, waits_for_values

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from profsuite.analyzers.analysis import Analysis
    from profsuite.trace.model import Trace


class Wait(IntEnum):
    """Why the host waited."""

    NONE = 0
    """The slice is no wait."""
    VALUE = 1
    """An op brings a value, or a size that depends on values, to the host: ``.item()``, ``nonzero``."""
    TO_HOST = 2
    """A blocking copy to the host: ``.cpu()``, ``.tolist()``, printing a tensor."""
    FROM_PAGEABLE = 3
    """A copy to the device from pageable memory: it blocks however it is asked for."""
    FROM_HOST = 4
    """A blocking copy to the device from pinned memory, or from memory of a kind that the file does not tell."""
    OTHER_COPY = 5
    """A blocking copy between devices, or on one."""
    IN_OP = 6
    """An op waits, for a reason that the file does not tell."""
    EXPLICIT = 7
    """A call for its own sake: ``torch.cuda.synchronize()``, ``event.synchronize()``."""
    AUTOTUNING = 8
    """A convolution times one of its algorithms."""


_ITEM = r"^aten::item$"
_TO_DEVICE = r"(?i)HtoD|HOST_TO_DEVICE|Host -> Device"
_TO_HOST = r"(?i)DtoH|DEVICE_TO_HOST|Device -> Host"
_PAGEABLE = r"(?i)pageable"
_STREAM = r"StreamSynchronize"
_ELAPSED = r"^(?:cuda|hip)EventElapsedTime\w*$"
_CONVOLUTION = r"^aten::\w*conv\w*$"


def copies_to_device(trace: Trace) -> NDArray[np.bool_]:
    """Whether a copy of each distinct name goes from the host to a device."""
    return matching(trace, _TO_DEVICE)


def copies_to_host(trace: Trace) -> NDArray[np.bool_]:
    """Whether a copy of each distinct name goes from a device to the host."""
    return matching(trace, _TO_HOST)


def copies_pageable(trace: Trace) -> NDArray[np.bool_]:
    """Whether a copy of each distinct name reads or writes pageable memory of the host."""
    return matching(trace, _PAGEABLE)


def autotuning(analysis: Analysis) -> NDArray[np.bool_]:
    """Convolution ops that read the time between events, the innermost ones: they try algorithms out."""
    trace, classes = analysis.trace, analysis.timelines.classes
    result = np.zeros(len(classes), bool)
    if len(classes):
        name = trace.array("slice", "name")
        elapsed = np.flatnonzero(matching(trace, _ELAPSED)[name] & (classes != UNRECORDED))
        around = enclosing_of(trace, classes == OP, elapsed)
        result[around[around >= 0]] = True
        result &= matching(trace, _CONVOLUTION)[name]
    return result


@dataclass(frozen=True)
class Waits:
    """Of every slice: why the host waits in it (a ``Wait``), and the copy on the device it waits for.

    ``copy`` is a row of ``slice``, -1 without one.  The call that copies and the wait after it have the same.
    """

    kind: NDArray[np.int8]
    copy: NDArray[np.int64]

    def number(self, rows: NDArray[np.int64]) -> int:
        """How many waits the slices ``rows`` are: those for one copy are one."""
        copy = self.copy[rows]
        return int((copy < 0).sum()) + len(np.unique(copy[copy >= 0]))


def host_waits(analysis: Analysis) -> Waits:
    """Why the host waits in each slice.

    An op around a wait that reads values decides first.  Then the copy that the call made, or that the last call
    before it under the same op made (torch copies with an asynchronous call and then waits for the stream).
    """
    trace, classes = analysis.trace, analysis.timelines.classes
    kinds = np.zeros(len(classes), np.int8)
    waits = np.flatnonzero(classes == SYNC)
    copies = np.full(len(classes), -1)
    if not len(waits):
        return Waits(kinds, copies)
    name, parent = trace.array("slice", "name"), trace.array("slice", "parent_id").astype(np.int64)
    reads = (waits_for_values(trace) | matching(trace, _ITEM))[name] & (classes == OP)
    in_op = enclosing_of(trace, classes == OP, waits) >= 0
    result = np.where(in_op, Wait.IN_OP, Wait.EXPLICIT)
    copied = _copy_of(trace, waits, parent, (parent >= 0) & (classes[parent] == OP))
    known = copied >= 0
    copy_name = name[np.maximum(copied, 0)]
    result[known] = Wait.OTHER_COPY
    to_device = known & copies_to_device(trace)[copy_name]
    result[to_device] = np.where(copies_pageable(trace)[copy_name][to_device], Wait.FROM_PAGEABLE, Wait.FROM_HOST)
    result[known & copies_to_host(trace)[copy_name]] = Wait.TO_HOST
    result[enclosing_of(trace, reads, waits) >= 0] = Wait.VALUE
    result[enclosing_of(trace, autotuning(analysis), waits) >= 0] = Wait.AUTOTUNING
    kinds[waits], copies[waits] = result, copied
    return Waits(kinds, copies)


def _copy_of(
    trace: Trace, waits: NDArray[np.int64], parent: NDArray[np.int64], in_op: NDArray[np.bool_]
) -> NDArray[np.int64]:
    """The copy on the device that each wait belongs to, as a row of ``slice``, -1 without one."""
    launch, copy = trace.array("memcpy", "launch_id"), trace.array("memcpy", "slice_id").astype(np.int64)
    launch, copy = launch[launch >= 0].astype(np.int64), copy[launch >= 0]
    made = np.full(len(parent), -1)
    made[launch] = copy
    found = made[waits]
    # The last copy launched before the wait by the same op: both lists sorted by (parent, start).
    start = trace.array("slice", "ts")
    calls = np.unique(launch[in_op[launch]])
    on_stream = matching(trace, _STREAM)[trace.array("slice", "name")[waits]]
    left = np.flatnonzero((found < 0) & on_stream & in_op[waits])
    if not len(calls) or not len(left):
        return found
    of = waits[left]
    both = np.concatenate([calls, of])
    order = np.lexsort((np.arange(len(both)), start[both], parent[both]))
    is_call = order < len(calls)
    last = np.maximum.accumulate(np.where(is_call, np.arange(len(order)), -1))
    call = np.where(last >= 0, both[order[np.maximum(last, 0)]], 0)
    same = (last >= 0) & (parent[call] == parent[both[order]])
    at = order[~is_call] - len(calls)
    found[left[at]] = np.where(same, made[call], -1)[~is_call]
    return found
