"""Elementwise ops: each input read once, one result an element.

FLOPs: one a result, whatever the function is (a transcendental one too); three for addcmul, addcdiv and lerp; none for
what only selects or fills.  ``torch.utils.flop_counter`` counts none of them.
"""

from __future__ import annotations

from math import prod

from profsuite.analyzers.costs.call import OpCall, Tensor
from profsuite.analyzers.costs.dtypes import BOOL, Dtype, promoted
from profsuite.analyzers.costs.gemm import broadcast
from profsuite.analyzers.costs.registry import Cost, bytes_of, dtype_name, formula, require, total_bytes

_UNARY = """
abs acos acosh asin asinh atan atanh ceil celu clamp clamp_max clamp_min cos cosh deg2rad digamma elu erf erfc erfinv
exp exp2 expm1 floor frac gelu hardshrink hardsigmoid hardswish hardtanh leaky_relu lgamma log log10 log1p log2
log_sigmoid_forward logit mish nan_to_num neg pow rad2deg reciprocal relu relu6 round rsqrt selu sgn sigmoid sign silu
sin sinc sinh softplus softshrink sqrt tan tanh threshold trunc bitwise_not
"""
_BINARY = """
add sub rsub mul div true_divide floor_divide fmod remainder atan2 maximum minimum fmax fmin hypot copysign
bitwise_and bitwise_or bitwise_xor __and__ __or__ __xor__ __lshift__ __rshift__ bitwise_left_shift bitwise_right_shift
"""
_BOOLEAN = """
eq ne lt le gt ge logical_and logical_or logical_xor logical_not isnan isinf isfinite isposinf isneginf signbit
"""
_BACKWARD = """
threshold_backward gelu_backward silu_backward sigmoid_backward tanh_backward hardtanh_backward hardswish_backward
hardsigmoid_backward elu_backward leaky_relu_backward softplus_backward mish_backward log_sigmoid_backward
native_dropout_backward _masked_scale
"""
_TERNARY = "addcmul addcdiv lerp"
_SELECT = "where masked_fill tril triu"
_FILL = "fill_ zero_ normal_ uniform_ random_ bernoulli_ exponential_"

FLOPS_PER_RESULT = {
    **dict.fromkeys(f"{_UNARY} {_BINARY} {_BOOLEAN} {_BACKWARD}".split(), 1),
    **dict.fromkeys(_TERNARY.split(), 3),
    **dict.fromkeys(_SELECT.split(), 0),
}
"""FLOPs of a result by the op's name without its namespace."""


def _names(ops: str) -> list[str]:
    return [f"aten::{op}{ending}" for op in ops.split() for ending in ("", "_")]


def elementwise_cost(inputs: tuple[Tensor, ...], per_result: int, out: Dtype | None, *, in_place: bool) -> Cost:
    """``per_result`` FLOPs for each element of the broadcast inputs; ``out`` is the results' dtype.

    Tensors without dimensions are arguments of the kernel (torch makes one of every Python number): not read.
    """
    require(bool(inputs) and not any(tensor.is_sparse for tensor in inputs))
    shape = inputs[0].shape if in_place else broadcast(*(tensor.shape for tensor in inputs))
    if in_place and inputs[0].dtype is not None:
        out = inputs[0].dtype
    numel = prod(shape)
    return Cost(
        kind="elementwise",
        flops=per_result * numel,
        bytes_read=total_bytes(tensor for tensor in inputs if tensor.shape or not shape),
        bytes_written=None if out is None else numel * out.num_bytes,
        dtype=dtype_name(inputs[0]),
    )


def _result(inputs: tuple[Tensor, ...]) -> Dtype | None:
    known = [(tensor.dtype, bool(tensor.shape)) for tensor in inputs if tensor.dtype is not None]
    return promoted(known) if len(known) == len(inputs) else None


def _inputs(call: OpCall) -> tuple[Tensor, ...]:
    return tuple(arg for arg in call.args if isinstance(arg, Tensor))


def _in_place(call: OpCall) -> bool:
    return call.name.endswith("_") and not call.name.endswith("__")


@formula(*_names(_UNARY), *_names(_BINARY), *_names(_BACKWARD), kind="elementwise")
def plain(call: OpCall) -> Cost:
    """One FLOP a result; its dtype by torch's promotion, that of the first input if in place."""
    inputs = _inputs(call)
    return elementwise_cost(inputs, 1, _result(inputs), in_place=_in_place(call))


@formula(*_names(_BOOLEAN), kind="elementwise")
def boolean(call: OpCall) -> Cost:
    """One FLOP a result, which is a bool of one byte."""
    return elementwise_cost(_inputs(call), 1, BOOL, in_place=_in_place(call))


@formula(*_names(_TERNARY), kind="elementwise")
def ternary(call: OpCall) -> Cost:
    """a + value b c, a + value b / c, a + w (b - a): three FLOPs a result."""
    inputs = _inputs(call)
    return elementwise_cost(inputs, 3, _result(inputs), in_place=_in_place(call))


@formula(*_names(_SELECT), kind="elementwise")
def select(call: OpCall) -> Cost:
    """No FLOP: one of the inputs is passed on (the mask of where and masked_fill takes no part in the dtype)."""
    inputs = _inputs(call)
    carries = tuple(tensor for tensor in inputs if tensor.dtype is not BOOL) or inputs
    return elementwise_cost(inputs, 0, _result(carries), in_place=_in_place(call))


@formula(*(f"aten::{name}" for name in _FILL.split()), kind="elementwise")
def fill(call: OpCall) -> Cost:
    """No FLOP and nothing read: every element is written."""
    x = call.tensor(0)
    require(not x.is_sparse)
    return Cost(kind="elementwise", flops=0, bytes_read=0, bytes_written=x.nbytes, dtype=dtype_name(x))


@formula("aten::native_dropout", kind="elementwise")
def dropout(call: OpCall) -> Cost:
    """A comparison and a multiplication an element; writes the result and a mask of a byte each."""
    return _dropout(call)


def _dropout(call: OpCall) -> Cost:
    x = call.tensor(0)
    out = bytes_of(x.numel, x)
    return Cost(
        kind="elementwise",
        flops=2 * x.numel,
        bytes_read=x.nbytes,
        bytes_written=None if out is None else out + x.numel,
        dtype=dtype_name(x),
    )


@formula("aten::_fused_dropout", kind="elementwise")
def fused_dropout(call: OpCall) -> Cost:
    """As ``native_dropout``, of older versions."""
    return _dropout(call)


@formula("_C::silu_and_mul", "_C::gelu_and_mul", "_C::gelu_tanh_and_mul", kind="elementwise")
def gated(call: OpCall) -> Cost:
    """vLLM's gated activation of the halves of the second input, into the first: two FLOPs a result."""
    out, x = call.tensor(0), call.tensor(1)
    require(x.numel == 2 * out.numel)
    return Cost(
        kind="elementwise",
        flops=2 * out.numel,
        bytes_read=x.nbytes,
        bytes_written=bytes_of(out.numel, out),
        dtype=dtype_name(x),
    )


@formula("_C::rotary_embedding", kind="elementwise", values=True)
def rotary(call: OpCall) -> Cost:
    """vLLM's rotation of query and key in place: three FLOPs an element that is rotated, x cos - y sin.

    (positions, query, key or none, head size, cosines and sines, ...): of each head as many elements as a row of the
    fifth input has; a row of it a position, at most all that there are.
    """
    positions, table = call.tensor(0), call.tensor(4)
    size = call.ints(3)[0]
    rotated = [tensor for tensor in (call.tensor(1), call.optional(2)) if tensor is not None]
    require(len(table.shape) == 2 and 0 < table.shape[1] <= size and all(x.numel % size == 0 for x in rotated))
    counts = [x.numel // size * table.shape[1] for x in rotated]
    own = [bytes_of(count, x) for count, x in zip(counts, rotated, strict=True)]
    rows = bytes_of(min(positions.numel * table.shape[1], table.numel), table)
    written = None if None in own else sum(filter(None, own))
    read = (written, rows, positions.nbytes)
    return Cost(
        kind="elementwise",
        flops=3 * sum(counts),
        bytes_read=None if None in read else sum(filter(None, read)),
        bytes_written=written,
        dtype=dtype_name(rotated[0]),
    )
