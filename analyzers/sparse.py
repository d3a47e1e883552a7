"""Products with sparse matrices: what they compute, against what the dense product of the same sizes would take."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from profsuite.analyzers.attained import attained
from profsuite.analyzers.base import Ns, Pct, pct
from profsuite.analyzers.costs.call import OpCall, Tensor, UnknownInputError
from profsuite.analyzers.costs.dtypes import FP32
from profsuite.analyzers.costs.gemm import product

if TYPE_CHECKING:
    from collections.abc import Sequence

    from profsuite.analyzers.costs.peaks import DevicePeaks
    from profsuite.analyzers.device_costs import DeviceCosts
    from profsuite.analyzers.roofline import RooflineOp

ASSUMED_EFFICIENCY = 0.5
"""Share of its roofline at which a dense product is assumed to run where the trace has none of that format."""

SEMI_STRUCTURED = "2:4"


class SparseRow(Struct, frozen=True, kw_only=True):
    """All calls of one sparse product with the same inputs, in one direction.

    ``layout`` is the sparse factor's (``sparse_csr``, ``2:4``; ``sparse`` where only that is known), ``density_pct``
    the share of elements that it stores, null where the trace does not have their number.  ``effective_flops_per_s``
    counts the FLOPs on stored elements, ``dense_equivalent_flops_per_s`` those that a dense product of these sizes
    would need, in the same time.  ``dense_ns`` estimates the time of that dense product: its least time by the device's
    peaks, over the share of the roofline that dense products of that format reach in this trace (``dense_basis`` is
    ``measured``) or half of it (``assumed``); null without peaks.
    """

    name: str
    input_dims: str
    direction: Literal["forward", "backward"]
    layout: str
    density_pct: Pct | None
    count: int
    device_ns: Ns | None
    device_pct: Pct | None
    effective_flops_per_s: float | None
    dense_equivalent_flops_per_s: float | None
    dense_ns: float | None
    dense_basis: Literal["measured", "assumed"] | None
    slice_id: int | None


class SparseTable(Struct, frozen=True, kw_only=True):
    """Sparse products, most device time first; empty where there are none."""

    num_calls: int
    device_ns: Ns
    device_pct: Pct | None
    rows: tuple[SparseRow, ...]


def sparse(work: DeviceCosts, ops: Sequence[RooflineOp], peaks: DevicePeaks | None, top: int = 10) -> SparseTable:
    """The sparse products of a trace; ``ops`` is of ``roofline_ops``; definitions: docs/analyses.md, "Sparse"."""
    _, example = work.groups
    rows = []
    for op, element in zip(ops, example.tolist(), strict=True):
        if op.kind == "sparse gemm":
            call = work.costs.priced[int(work.costs.price[element])].call
            rows.append(_row(op, call, ops, peaks))
    rows.sort(key=lambda row: (-(row.device_ns or 0), -row.count))
    spent = sum(row.device_ns or 0 for row in rows)
    return SparseTable(
        num_calls=sum(row.count for row in rows),
        device_ns=spent,
        device_pct=pct(min(spent, work.total_ns), work.total_ns),
        rows=tuple(rows[:top]),
    )


def _row(op: RooflineOp, call: OpCall, ops: Sequence[RooflineOp], peaks: DevicePeaks | None) -> SparseRow:
    sizes = _sizes(call)
    dense_flops = None if sizes is None else 2 * prod(sizes) * op.count
    dense_ns, basis = (None, None) if sizes is None else _dense(call, sizes, op, ops, peaks)
    layout, density = _layout(call)
    seconds = op.device_ns / 1e9 if op.device_ns else None
    return SparseRow(
        name=op.name,
        input_dims=op.input_dims,
        direction=op.direction,
        layout=layout,
        density_pct=density,
        count=op.count,
        device_ns=op.device_ns,
        device_pct=op.device_pct,
        effective_flops_per_s=op.attained.flops_per_s,
        dense_equivalent_flops_per_s=dense_flops / seconds if dense_flops is not None and seconds else None,
        dense_ns=dense_ns,
        dense_basis=basis,
        slice_id=op.longest_slice_id,
    )


def _layout(call: OpCall) -> tuple[str, float | None]:
    if "semi_structured" in call.name or "cslt" in call.name:
        return SEMI_STRUCTURED, 50.0
    factor = next((tensor for tensor in call.every_tensor if tensor.is_sparse), None)
    if factor is None:
        return "sparse", None
    return factor.layout, None if factor.nnz is None else pct(min(factor.nnz, factor.numel), factor.numel)


_FACTORS = {
    "aten::mm": (0, 1),
    "aten::_sparse_mm": (0, 1),
    "aten::_sparse_sparse_matmul": (0, 1),
    "aten::addmm": (1, 2),
    "aten::_sparse_addmm": (1, 2),
    "aten::s_addmm": (1, 2),
    "aten::_cslt_sparse_mm": (0, 1),
    "aten::_sparse_semi_structured_mm": (0, 2),
    "aten::_sparse_semi_structured_addmm": (1, 3),
}
"""Positions of the two factors; the first one's columns are the second one's rows, whatever is stored of it."""


def _sizes(call: OpCall) -> tuple[int, int, int] | None:
    """m, n and k of the product; null for what is no plain one."""
    try:
        if call.name == "aten::_sparse_semi_structured_linear":
            x, weight = call.tensor(0), call.tensor(1)
            return x.numel // x.shape[-1], weight.shape[0], x.shape[-1]
        first, second = _FACTORS[call.name]
        a, b = call.tensor(first), call.tensor(second)
        return a.shape[0], b.shape[1], b.shape[0]
    except (KeyError, IndexError, ZeroDivisionError, UnknownInputError):
        return None


def _dense(
    call: OpCall,
    sizes: tuple[int, int, int],
    op: RooflineOp,
    ops: Sequence[RooflineOp],
    peaks: DevicePeaks | None,
) -> tuple[float | None, Literal["measured", "assumed"] | None]:
    m, n, k = sizes
    dtype = next((tensor.dtype for tensor in call.every_tensor if tensor.dtype is not None), FP32)
    formats = {dtype.name} | ({"tf32"} if dtype.name == "fp32" else set())
    dense = [other for other in ops if other.kind == "gemm" and other.device_ns and other.attained.dtype in formats]
    # In which format fp32 is multiplied the trace's dense products tell; torch's default is fp32 itself.
    rated = max(dense, key=lambda other: other.device_ns or 0).attained.dtype if dense else dtype.name
    cost = product(Tensor((m, k), dtype), Tensor((k, n), dtype), m, n, k)
    least = attained(cost, op.count, None, rated, peaks).bound_ns
    if least is None:
        return None, None
    reached = [
        (other.attained.bound_ns or 0.0, other.device_ns or 0)
        for other in dense
        if other.attained.dtype == rated and other.attained.pct_of_roofline
    ]
    if not reached:
        return least / ASSUMED_EFFICIENCY, "assumed"
    return least * sum(time for _, time in reached) / sum(bound for bound, _ in reached), "measured"
