"""Reductions and pooling: the input read once, results as the dimensions say.

FLOPs: one an element of the input (a sum of n elements is counted as n), two for norms (square, add), four for
variances (mean 1, centring 1, square and add 2); what only compares counts its comparisons.
"""

from __future__ import annotations

from math import prod

from profsuite.analyzers.costs.call import OpCall, Tensor, UnknownInputError
from profsuite.analyzers.costs.convolution import output_size
from profsuite.analyzers.costs.dtypes import BOOL, INT64, Dtype
from profsuite.analyzers.costs.registry import Cost, bytes_of, dtype_name, formula, require

_DIMS = ("ScalarList", "GenericList", "Scalar", "Int")


def _kept(call: OpCall, at: int) -> int:
    """Number of results, where input ``at`` names the dimensions that are reduced (none: all)."""
    x = call.tensor(0)
    if at >= len(call.types) or call.types[at] == "":
        return 1
    if call.types[at] not in _DIMS:
        raise UnknownInputError(call.name)
    if call.value(at) == "[]":
        return 1
    if not x.shape:
        return 1
    axes = {axis % len(x.shape) for axis in call.ints(at)}
    return prod(size for axis, size in enumerate(x.shape) if axis not in axes)


def _cost(x: Tensor, per_element: int, results: int, out: Dtype | None, copies: int = 1) -> Cost:
    require(not x.is_sparse)
    return Cost(
        kind="reduction",
        flops=per_element * x.numel,
        bytes_read=x.nbytes,
        bytes_written=None if out is None else copies * results * out.num_bytes,
        dtype=dtype_name(x),
    )


@formula(
    "aten::sum",
    "aten::mean",
    "aten::nansum",
    "aten::prod",
    "aten::amax",
    "aten::amin",
    "aten::logsumexp",
    kind="reduction",
    values=True,
)
def plain(call: OpCall) -> Cost:
    """One FLOP an element; input 1 names the dimensions; sums of integers are int64, a dtype given is the result's."""
    x = call.tensor(0)
    given = (
        call.dtype(len(call.types) - 1)
        if call.types and call.types[-1] == "Scalar" and len(call.types) in (2, 4)
        else None
    )
    if len(call.types) == 2:  # (self, dtype): everything is reduced
        return _cost(x, 1, 1, given or _summed(call.name, x))
    return _cost(x, 1, _kept(call, 1), given or _summed(call.name, x))


def _summed(name: str, x: Tensor) -> Dtype | None:
    sums = name in ("aten::sum", "aten::nansum", "aten::prod")
    return INT64 if sums and x.dtype is not None and not x.dtype.is_floating else x.dtype


@formula("aten::max", "aten::min", kind="reduction", values=True)
def extreme(call: OpCall) -> Cost:
    """One comparison an element; with a dimension the places (int64) are written too; of two tensors elementwise."""
    x = call.tensor(0)
    if call.optional(1) is not None:
        raise UnknownInputError(call.name)  # elementwise: torch records an inner maximum or minimum
    results = _kept(call, 1)
    size = None if x.dtype is None else x.dtype.num_bytes + (INT64.num_bytes if len(call.types) > 1 else 0)
    return Cost(
        kind="reduction",
        flops=x.numel,
        bytes_read=x.nbytes,
        bytes_written=None if size is None else results * size,
        dtype=dtype_name(x),
    )


@formula("aten::argmax", "aten::argmin", kind="reduction", values=True)
def place(call: OpCall) -> Cost:
    """One comparison an element; writes places (int64)."""
    return _cost(call.tensor(0), 1, _kept(call, 1), INT64)


@formula("aten::any", "aten::all", kind="reduction", values=True)
def truth(call: OpCall) -> Cost:
    """One operation an element; writes bools."""
    return _cost(call.tensor(0), 1, _kept(call, 1), BOOL)


@formula("aten::norm", "aten::linalg_vector_norm", kind="reduction", values=True)
def norm(call: OpCall) -> Cost:
    """Two FLOPs an element; input 2 names the dimensions."""
    x = call.tensor(0)
    return _cost(x, 2, _kept(call, 2), x.dtype)


@formula("aten::var", "aten::std", kind="reduction", values=True)
def variance(call: OpCall) -> Cost:
    """Four FLOPs an element; input 1 names the dimensions (with two inputs: all)."""
    x = call.tensor(0)
    return _cost(x, 4, 1 if len(call.types) == 2 else _kept(call, 1), x.dtype)


@formula("aten::var_mean", "aten::std_mean", kind="reduction", values=True)
def variance_and_mean(call: OpCall) -> Cost:
    """As ``var``, with two results."""
    x = call.tensor(0)
    return _cost(x, 4, 1 if len(call.types) == 2 else _kept(call, 1), x.dtype, copies=2)


@formula("aten::cumsum", "aten::cumsum_", "aten::cumprod", kind="reduction")
def scan(call: OpCall) -> Cost:
    """One FLOP an element, as many results."""
    x = call.tensor(0)
    integers = x.dtype is not None and not x.dtype.is_floating and not call.name.endswith("_")
    return _cost(x, 1, x.numel, INT64 if integers else x.dtype)


@formula("aten::max_pool2d_with_indices", kind="reduction", values=True)
def max_pool2d(call: OpCall) -> Cost:
    """A comparison an element of each window; writes maxima and places (int64).

    (input, kernel, stride, padding, dilation, ceil mode); an empty stride is the kernel's size.
    """
    x, kernel = call.tensor(0), call.ints(1)
    require(len(x.shape) == 4 and not call.flag(5) and 1 <= len(kernel) <= 2)
    kernel = kernel * 2 if len(kernel) == 1 else kernel
    stride = kernel if call.value(2) == "[]" else call.ints(2)
    out = output_size(x, Tensor((1, 1, *kernel)), stride, call.ints(3), call.ints(4))
    results = prod(x.shape[:2]) * prod(out)
    size = None if x.dtype is None else x.dtype.num_bytes + INT64.num_bytes
    return Cost(
        kind="reduction",
        flops=results * prod(kernel),
        bytes_read=x.nbytes,
        bytes_written=None if size is None else results * size,
        dtype=dtype_name(x),
    )


@formula("aten::max_pool2d_with_indices_backward", kind="reduction")
def max_pool2d_backward(call: OpCall) -> Cost:
    """An addition a gradient; reads gradients and places, writes the gradient of the input."""
    grad, x = call.tensor(0), call.tensor(1)
    read = None if grad.nbytes is None else grad.nbytes + grad.numel * INT64.num_bytes
    return Cost(
        kind="reduction", flops=grad.numel, bytes_read=read, bytes_written=bytes_of(x.numel, x), dtype=dtype_name(x)
    )


@formula("aten::_foreach_norm", kind="optimizer")
def foreach_norm(call: OpCall) -> Cost:
    """Two FLOPs an element of the list; writes one number a tensor, in the tensors' dtype."""
    tensors = call.tensors(0)
    require(bool(tensors))
    dtype = tensors[0].dtype
    sizes = [tensor.nbytes for tensor in tensors]
    return Cost(
        kind="optimizer",
        flops=2 * sum(tensor.numel for tensor in tensors),
        bytes_read=None if None in sizes else sum(filter(None, sizes)),
        bytes_written=None if dtype is None else len(tensors) * dtype.num_bytes,
        dtype=None if dtype is None else dtype.name,
    )


@formula("_moe_C::moe_sum", kind="reduction")
def sum_of_experts(call: OpCall) -> Cost:
    """vLLM's sum of the experts' rows, t x top x k, into the second input, t x k: one FLOP an element."""
    x, out = call.tensor(0), call.tensor(1)
    require(len(x.shape) == 3 and out.shape == (x.shape[0], x.shape[2]))
    return Cost(
        kind="reduction",
        flops=x.numel,
        bytes_read=x.nbytes,
        bytes_written=bytes_of(out.numel, out),
        dtype=dtype_name(x),
    )
