"""Matrix products: ``2 m n k`` FLOPs, a multiply-add counted as two; biases are not counted."""

from __future__ import annotations

from math import prod

from profsuite.analyzers.costs.call import OpCall, Tensor
from profsuite.analyzers.costs.registry import Cost, bytes_of, dtype_name, formula, require, total_bytes
from profsuite.analyzers.costs.sparse import sparse_product


def product(a: Tensor, b: Tensor, m: int, n: int, k: int, *more: Tensor | None, batch: int = 1) -> Cost:
    """The cost of ``batch`` products of m x k by k x n; ``more`` is read besides ``a`` and ``b``."""
    return Cost(
        kind="gemm" if batch == 1 else "batched gemm",
        flops=2 * batch * m * n * k,
        bytes_read=total_bytes((a, b, *more)),
        bytes_written=bytes_of(batch * m * n, a),
        dtype=dtype_name(a),
    )


def _two(a: Tensor, b: Tensor, *more: Tensor | None) -> Cost:
    require(len(a.shape) == len(b.shape) == 2 and a.shape[1] == b.shape[0])
    if a.is_sparse or b.is_sparse:
        return sparse_product(a, b, *more)
    return product(a, b, a.shape[0], b.shape[1], a.shape[1], *more)


@formula("aten::mm", kind="gemm")
def mm(call: OpCall) -> Cost:
    """m x k by k x n: 2 m n k (torch.utils.flop_counter.mm_flop); reads both, writes m x n."""
    return _two(call.tensor(0), call.tensor(1))


@formula("aten::addmm", "aten::_addmm_activation", kind="gemm")
def addmm(call: OpCall) -> Cost:
    """As mm (flop_counter.addmm_flop: the addition of the bias is not counted); reads the bias too."""
    return _two(call.tensor(1), call.tensor(2), call.tensor(0))


@formula("aten::linear", "aten::mkldnn_linear", kind="gemm", composite=True)
def linear(call: OpCall) -> Cost:
    """... x k by the weight n x k, transposed: as mm with m the product of the leading sizes."""
    x, weight = call.tensor(0), call.tensor(1)
    require(len(weight.shape) == 2 and x.shape[-1:] == weight.shape[1:])
    require(not x.is_sparse and not weight.is_sparse)
    return product(x, weight, prod(x.shape[:-1]), weight.shape[0], weight.shape[1], call.optional(2))


@formula("aten::matmul", kind="gemm", composite=True)
def matmul(call: OpCall) -> Cost:
    """torch.matmul's rules: leading sizes are broadcast, a vector is a matrix of one row or column."""
    a, b = call.tensor(0), call.tensor(1)
    require(len(a.shape) >= 1 and len(b.shape) >= 1 and not a.is_sparse and not b.is_sparse)
    left = a.shape if len(a.shape) > 1 else (1, *a.shape)
    right = b.shape if len(b.shape) > 1 else (*b.shape, 1)
    require(left[-1] == right[-2])
    batch = prod(broadcast(left[:-2], right[:-2]))
    return product(a, b, left[-2], right[-1], left[-1], batch=batch)


@formula("aten::bmm", kind="batched gemm")
def bmm(call: OpCall) -> Cost:
    """b products of m x k by k x n: 2 b m n k (flop_counter.bmm_flop)."""
    return _batched(call.tensor(0), call.tensor(1))


@formula("aten::baddbmm", "aten::baddbmm_", kind="batched gemm")
def baddbmm(call: OpCall) -> Cost:
    """As bmm (flop_counter.baddbmm_flop); reads what is added too."""
    return _batched(call.tensor(1), call.tensor(2), call.tensor(0))


@formula("aten::addbmm", "aten::addbmm_", kind="batched gemm")
def addbmm(call: OpCall) -> Cost:
    """As bmm, the b products summed into one: 2 b m n k; writes m x n."""
    a, b = call.tensor(1), call.tensor(2)
    cost = _batched(a, b, call.tensor(0))
    return Cost(
        kind="batched gemm",
        flops=cost.flops,
        bytes_read=cost.bytes_read,
        bytes_written=bytes_of(a.shape[1] * b.shape[2], a),
        dtype=cost.dtype,
    )


def _batched(a: Tensor, b: Tensor, *more: Tensor | None) -> Cost:
    require(len(a.shape) == len(b.shape) == 3 and a.shape[0] == b.shape[0] and a.shape[2] == b.shape[1])
    require(not a.is_sparse and not b.is_sparse)
    cost = product(a, b, a.shape[1], b.shape[2], a.shape[2], *more, batch=a.shape[0])
    return Cost(
        kind="batched gemm",
        flops=cost.flops,
        bytes_read=cost.bytes_read,
        bytes_written=cost.bytes_written,
        dtype=cost.dtype,
    )


@formula("aten::mv", kind="gemm")
def mv(call: OpCall) -> Cost:
    """m x k by k: 2 m k."""
    return _vector(call.tensor(0), call.tensor(1))


@formula("aten::addmv", "aten::addmv_", kind="gemm")
def addmv(call: OpCall) -> Cost:
    """As mv; reads what is added too.  An inner mv of it is part of it."""
    return _vector(call.tensor(1), call.tensor(2), call.tensor(0))


def _vector(a: Tensor, x: Tensor, *more: Tensor | None) -> Cost:
    require(len(a.shape) == 2 and len(x.shape) == 1 and a.shape[1] == x.shape[0] and not a.is_sparse)
    return product(a, x, a.shape[0], 1, a.shape[1], *more)


@formula("aten::dot", "aten::vdot", kind="gemm")
def dot(call: OpCall) -> Cost:
    """k by k: 2 k."""
    a, b = call.tensor(0), call.tensor(1)
    require(len(a.shape) == 1 and a.shape == b.shape)
    return product(a, b, 1, 1, a.shape[0])


def broadcast(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """The shape that torch broadcasts the shapes to; ``UnknownInputError`` if they do not fit."""
    rank = max(map(len, shapes), default=0)
    sizes = []
    for axis in range(-rank, 0):
        each = {shape[axis] for shape in shapes if len(shape) >= -axis} - {1}
        require(len(each) <= 1)
        sizes.append(each.pop() if each else 1)
    return tuple(sizes)
