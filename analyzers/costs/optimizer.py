"""Optimizer updates: lists of parameters and states, each read once, what is changed written once.

Recorders give the shapes of lists and not their dtypes: bytes are known where the kernel's name tells the dtype.
"""

from __future__ import annotations

from profsuite.analyzers.costs.call import OpCall, Tensor
from profsuite.analyzers.costs.registry import Cost, formula, require, total_bytes

_UNARY = """
abs ceil cos erf exp expm1 floor lgamma log log10 log1p log2 neg reciprocal round rsqrt sigmoid sign sin sqrt tanh trunc
"""
_BINARY = "add sub mul div pow maximum minimum clamp_min clamp_max"


def _foreach(ops: str) -> list[str]:
    return [f"aten::_foreach_{op}{ending}" for op in ops.split() for ending in ("", "_")]


def _per_list(call: OpCall, per_element: int, written: int = 1) -> Cost:
    first = call.tensors(0)
    require(bool(first))
    return Cost(
        kind="optimizer",
        flops=per_element * sum(tensor.numel for tensor in first),
        bytes_read=total_bytes(call.every_tensor),
        bytes_written=None if (size := total_bytes(first)) is None else written * size,
        dtype=_dtype(first),
    )


def _dtype(tensors: tuple[Tensor, ...]) -> str | None:
    return None if not tensors or tensors[0].dtype is None else tensors[0].dtype.name


@formula(*_foreach(_UNARY), *_foreach(_BINARY), kind="optimizer")
def foreach(call: OpCall) -> Cost:
    """One FLOP an element of the list (as of one tensor); reads all lists, writes the first or one like it."""
    return _per_list(call, 1)


@formula(*_foreach("addcmul addcdiv lerp"), kind="optimizer")
def foreach_ternary(call: OpCall) -> Cost:
    """a + value b c, a + value b / c, a + w (b - a): three FLOPs an element."""
    return _per_list(call, 3)


@formula("aten::_foreach_zero_", kind="optimizer")
def foreach_zero(call: OpCall) -> Cost:
    """No FLOP, nothing read; writes the list."""
    first = call.tensors(0)
    return Cost(kind="optimizer", flops=0, bytes_read=0, bytes_written=total_bytes(first), dtype=_dtype(first))


@formula("aten::_foreach_copy_", kind="optimizer")
def foreach_copy(call: OpCall) -> Cost:
    """No FLOP; reads the second list, writes the first."""
    target, source = call.tensors(0), call.tensors(1)
    return Cost(
        kind="optimizer",
        flops=0,
        bytes_read=total_bytes(source),
        bytes_written=total_bytes(target),
        dtype=_dtype(target),
    )


@formula("aten::_fused_adam_", "aten::_fused_adamw_", kind="optimizer", values=True)
def fused_adam(call: OpCall) -> Cost:
    """13 FLOPs an element, and 2 (Adam) or 1 (AdamW) for weight decay, 1 for amsgrad's maximum.

    Kingma and Ba 2015, algorithm 1: first moment 3 (two products, a sum), second moment 4, its root, division by the
    bias correction and epsilon 3, update 3.  Weight decay: grad + w p, or p times a factor (Loshchilov and Hutter).
    Reads parameters, gradients and states, writes all but the gradients.
    (params, grads, exp_avgs, exp_avg_sqs, max_exp_avg_sqs, steps, lr, beta1, beta2, weight_decay, eps, amsgrad, ...)
    """
    params, grads = call.tensors(0), call.tensors(1)
    averages, squares, maxima = call.tensors(2), call.tensors(3), call.tensors(4)
    require(bool(params) and len(params) == len(grads) == len(averages) == len(squares))
    decay = (1 if call.name.endswith("adamw_") else 2) if call.number(9) else 0
    per_element = 13 + decay + bool(maxima)
    return Cost(
        kind="optimizer",
        flops=per_element * sum(tensor.numel for tensor in params),
        bytes_read=total_bytes((*params, *grads, *averages, *squares, *maxima)),
        bytes_written=total_bytes((*params, *averages, *squares, *maxima)),
        dtype=_dtype(params),
    )


@formula("aten::_fused_sgd_", kind="optimizer", values=True)
def fused_sgd(call: OpCall) -> Cost:
    """p - lr g: 2 FLOPs an element; 3 more with momentum (m b + (1 - d) g), 2 more with weight decay, 2 for Nesterov.

    (params, grads, momenta, weight_decay, momentum, lr, dampening, nesterov, maximize, is_first_step, ...); the
    first step sets the momentum to the gradient and computes nothing for it.
    """
    params, grads, momenta = call.tensors(0), call.tensors(1), call.tensors(2)
    require(bool(params) and len(params) == len(grads))
    moves, first = bool(momenta) and call.number(4) != 0, call.flag(9)
    per_element = 2 + (2 if call.number(3) else 0) + (3 if moves and not first else 0) + (2 if call.flag(7) else 0)
    return Cost(
        kind="optimizer",
        flops=per_element * sum(tensor.numel for tensor in params),
        bytes_read=total_bytes((*params, *grads, *(() if first else momenta))),
        bytes_written=total_bytes((*params, *momenta)),
        dtype=_dtype(params),
    )


@formula("aten::_fused_adagrad_", kind="optimizer", values=True)
def fused_adagrad(call: OpCall) -> Cost:
    """Sum of squares 2, root and epsilon 2, update 3: 7 FLOPs an element, 2 more with weight decay.

    (params, grads, sums, steps, lr, lr_decay, weight_decay, eps, ...)
    """
    params, grads, sums = call.tensors(0), call.tensors(1), call.tensors(2)
    require(bool(params) and len(params) == len(grads) == len(sums))
    return Cost(
        kind="optimizer",
        flops=(7 + (2 if call.number(6) else 0)) * sum(tensor.numel for tensor in params),
        bytes_read=total_bytes((*params, *grads, *sums)),
        bytes_written=total_bytes((*params, *sums)),
        dtype=_dtype(params),
    )
