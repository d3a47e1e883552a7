"""Operators: how often, how long on the host, and how much device time their launches caused."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from profsuite.analyzers.base import Ns, Pct, pct
from profsuite.analyzers.device_work import DeviceWork, device_work
from profsuite.analyzers.histogram import Histogram, histograms
from profsuite.analyzers.host_calls import host_classes
from profsuite.analyzers.op_calls import OpCalls
from profsuite.analyzers.ranking import numbered, sum_by_group
from profsuite.trace.intervals import merge_by_group, union_length

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from profsuite.trace.model import Trace


class OpRow(Struct, frozen=True, kw_only=True):
    """All calls of one op (or of one op with one set of input shapes).

    ``host_total_ns`` counts a call inside a call of the same name once; ``host_self_ns`` is without what the call
    contains.  Host times are summed over threads.  ``device_total_ns`` is the union of the device work launched
    anywhere inside the calls, ``device_self_ns`` of what no inner op launched; ``device_pct`` is the total's share
    of the device window (summed over devices), ``host_self_pct`` the self time's share of all ops' self time.
    ``input_dims`` is as recorded (JSON), null per name or where shapes were not recorded.  ``durations`` are of the
    calls on the host, from start to end; ``longest_slice_id`` is the row of the longest.
    """

    name: str
    input_dims: str | None
    count: int
    host_total_ns: Ns
    host_self_ns: Ns
    device_total_ns: Ns
    device_self_ns: Ns
    num_kernels: int
    host_self_pct: Pct | None
    device_pct: Pct | None
    device_self_pct: Pct | None
    durations: Histogram | None = None
    longest_slice_id: int | None = None


class OpTable(Struct, frozen=True, kw_only=True):
    """The ops that matter most, by device self time where there is device work, else by host self time.

    ``num_ops`` counts distinct names, ``num_calls`` all calls; ``unattributed_device_ns`` is device work (union)
    that no op launched.  ``by_shape`` is the same per name and input shapes, empty where shapes were not recorded.
    """

    num_ops: int
    num_calls: int
    sorted_by: str
    unattributed_device_ns: Ns
    rows: tuple[OpRow, ...]
    by_shape: tuple[OpRow, ...]


def ops(
    trace: Trace,
    work: tuple[DeviceWork, ...] | None = None,
    classes: NDArray[np.int8] | None = None,
    top: int = 10,
) -> OpTable:
    """The ``top`` ops, per name and per name and input shapes; definitions: docs/analyses.md, "Ops".

    ``work`` and ``classes`` (of ``host_classes``) save computing them again.
    """
    work = device_work(trace) if work is None else work
    classes = host_classes(trace) if classes is None else classes
    calls = OpCalls.of(trace, classes)
    launched = _Launched.of(work, calls)
    by = "device_self_ns" if len(launched.start) else "host_self_ns"
    names = numbered(trace.array("slice", "name")[calls.rows].astype(np.int64))
    by_name = _rows(trace, calls, launched, names, by, top)

    dims_of = np.full(len(classes), -1, np.int64)
    dims_of[trace.array("op", "slice_id")] = trace.array("op", "input_dims")
    dims = dims_of[calls.rows]
    by_shape: tuple[OpRow, ...] = ()
    if (dims >= 0).any():
        shaped = numbered(names * (int(dims.max()) + 2) + dims + 1)
        by_shape = _rows(trace, calls, launched, shaped, by, top, dims)
    return OpTable(
        num_ops=int(names.max()) + 1 if len(names) else 0,
        num_calls=len(calls.rows),
        sorted_by=by,
        unattributed_device_ns=sum(_union(w, calls.element[w.op_ids] < 0) for w in work),
        rows=by_name,
        by_shape=by_shape,
    )


def _union(work: DeviceWork, mask: NDArray[np.bool_]) -> int:
    return union_length(work.start[mask], work.end[mask])


@dataclass(frozen=True)
class _Launched:
    """Device work that ops launched, one device after the other, each sorted by start; ``op`` is its op's element.

    ``around`` and ``piece`` pair each piece of work with every op around its launch, the op itself first.
    Pieces that are ``alone`` overlap no other piece of their device.
    """

    start: NDArray[np.int64]
    end: NDArray[np.int64]
    device: NDArray[np.int64]
    op: NDArray[np.int64]
    around: NDArray[np.int64]
    piece: NDArray[np.int64]
    alone: NDArray[np.bool_]
    window: int

    @classmethod
    def of(cls, work: tuple[DeviceWork, ...], calls: OpCalls) -> _Launched:
        ops = [calls.element[w.op_ids] for w in work]
        has = [o >= 0 for o in ops]
        op = _joined([o[h] for o, h in zip(ops, has, strict=True)])
        around, pieces = [], []
        above, piece = op, np.arange(len(op))
        while len(piece):
            around.append(above)
            pieces.append(piece)
            above = calls.up[above]
            piece, above = piece[above >= 0], above[above >= 0]
        alone = [_alone(w.start[h], w.end[h]) for w, h in zip(work, has, strict=True)]
        return cls(
            _joined([w.start[h] for w, h in zip(work, has, strict=True)]),
            _joined([w.end[h] for w, h in zip(work, has, strict=True)]),
            _joined([np.full(int(h.sum()), i) for i, h in enumerate(has)]),
            op,
            _joined(around),
            _joined(pieces),
            np.concatenate([np.zeros(0, bool), *alone]),
            sum(w.window_ns for w in work),
        )

    def union(self, group: NDArray[np.int64], piece: NDArray[np.int64], size: int) -> NDArray[np.int64]:
        """Union of the pieces (elements) of each of ``size`` groups, ns, summed over devices."""
        alone = self.alone[piece]
        whole = piece[alone]
        total = sum_by_group(group[alone], self.end[whole] - self.start[whole], size)
        group, piece = group[~alone], piece[~alone]
        devices = int(self.device.max()) + 1 if len(self.device) else 1
        both, start, end = merge_by_group(group * devices + self.device[piece], self.start[piece], self.end[piece])
        return total + sum_by_group(both // devices, end - start, size)


def _alone(start: NDArray[np.int64], end: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which of the intervals (sorted by start) overlap no other one."""
    alone = np.ones(len(start), bool)
    reach = np.maximum.accumulate(end)
    alone[1:] &= start[1:] >= reach[:-1]
    alone[:-1] &= end[:-1] <= start[1:]
    return alone


def _joined(arrays: list[NDArray[np.int64]]) -> NDArray[np.int64]:
    return np.concatenate([np.zeros(0, np.int64), *arrays])


def _rows(
    trace: Trace,
    calls: OpCalls,
    launched: _Launched,
    group: NDArray[np.int64],
    by: str,
    top: int,
    dims: NDArray[np.int64] | None = None,
) -> tuple[OpRow, ...]:
    """The rows of the ``top`` groups; ``group`` numbers the calls' groups from 0 without holes."""
    size = int(group.max()) + 1 if len(group) else 0
    count = np.bincount(group, minlength=size)
    outer = calls.outermost(group)
    host_self = sum_by_group(group, calls.self_dur, size)
    host_total = sum_by_group(group[outer], calls.dur[outer], size)
    device_self = launched.union(group[launched.op], np.arange(len(launched.op)), size)
    # Of the calls of one group around a launch the outermost takes it, so that it counts once.
    counts = outer[launched.around]
    owner, piece = group[launched.around[counts]], launched.piece[counts]
    device_total = launched.union(owner, piece, size)
    num_kernels = np.bincount(owner, minlength=size)
    example = np.zeros(size, np.int64)
    example[group[::-1]] = np.arange(len(group))[::-1]

    all_self = int(host_self.sum())
    rank = device_self if by == "device_self_ns" else host_self
    names, words = trace.array("slice", "name"), trace.words("slice", "name")
    shapes = trace.words("op", "input_dims") if dims is not None else []
    longest = np.zeros(size, np.int64)
    by_length = np.argsort(calls.dur, kind="stable")
    longest[group[by_length]] = calls.rows[by_length]  # the last assignment stays
    shown = np.lexsort((-count, -host_self, -rank))[:top]
    return tuple(
        OpRow(
            name=words[names[calls.rows[example[g]]]],
            input_dims=shapes[dims[example[g]]] if dims is not None and dims[example[g]] >= 0 else None,
            count=int(count[g]),
            host_total_ns=int(host_total[g]),
            host_self_ns=int(host_self[g]),
            device_total_ns=int(device_total[g]),
            device_self_ns=int(device_self[g]),
            num_kernels=int(num_kernels[g]),
            host_self_pct=pct(int(host_self[g]), all_self),
            device_pct=pct(int(device_total[g]), launched.window),
            device_self_pct=pct(int(device_self[g]), launched.window),
            durations=durations,
            longest_slice_id=int(longest[g]),
        )
        for g, durations in zip(shown.tolist(), histograms(group, calls.dur, shown), strict=True)
    )
