"""Normalisation: one pass over the data, statistics and parameters beside it.

FLOPs are counted by hand, a call of rsqrt as one, per element of the input:
    layer, batch and group norm   7: mean 1, centring 1, square and sum 2, scaling 1, weight and bias 2
    RMS norm                      4: square and sum 2, scaling 1, weight 1
    inference of batch norm       4: centring 1, scaling 1, weight and bias 2
    backward of the first         13: the normalised input 2, the weight's and bias's gradients 3, times the weight 1,
                                  two sums 3, their combination 4
    backward of RMS norm          9: the normalised input 1, the weight's gradient 2, times the weight 1, one sum 2,
                                  combination 3
"""

from __future__ import annotations

from math import prod

from profsuite.analyzers.costs.call import OpCall, Tensor
from profsuite.analyzers.costs.registry import Cost, bytes_of, dtype_name, formula, require, total_bytes

FORWARD, INFERENCE, BACKWARD, RMS_FORWARD, RMS_BACKWARD = 7, 4, 13, 4, 9


def _cost(x: Tensor, per_element: int | None, read: tuple[Tensor | None, ...], written: tuple[int | None, ...]) -> Cost:
    out = 0
    for size in written:
        if size is None:
            return _cost_without_bytes(x, per_element)
        out += size
    return Cost(
        kind="normalisation",
        flops=None if per_element is None else per_element * x.numel,
        bytes_read=total_bytes(read),
        bytes_written=out,
        dtype=dtype_name(x),
    )


def _cost_without_bytes(x: Tensor, per_element: int | None) -> Cost:
    flops = None if per_element is None else per_element * x.numel
    return Cost(kind="normalisation", flops=flops, dtype=dtype_name(x))


def _statistics(x: Tensor, count: int) -> int | None:
    """Bytes of ``count`` statistics, kept in fp32 (in fp64 for such data)."""
    if x.dtype is None:
        return None
    return count * max(4, x.dtype.num_bytes)


def _rows(x: Tensor, shape: tuple[int, ...]) -> int:
    require(0 < len(shape) <= len(x.shape) and x.shape[-len(shape) :] == shape)
    return prod(x.shape[: -len(shape)])


@formula("aten::native_layer_norm", kind="normalisation", values=True)
def layer_norm(call: OpCall) -> Cost:
    """7 FLOPs an element; reads input, weight, bias; writes the result, mean and rstd."""
    x = call.tensor(0)
    rows = _rows(x, call.ints(1))
    read = (x, call.optional(2), call.optional(3))
    return _cost(x, FORWARD, read, (bytes_of(x.numel, x), _statistics(x, 2 * rows)))


@formula("aten::native_layer_norm_backward", kind="normalisation")
def layer_norm_backward(call: OpCall) -> Cost:
    """13 FLOPs an element; reads gradient, input, statistics, weight; writes the gradients of input and parameters."""
    grad, x, weight = call.tensor(0), call.tensor(1), call.optional(5)
    parameters = 0 if weight is None else bytes_of(2 * weight.numel, weight)
    read = (grad, x, call.optional(3), call.optional(4), weight)
    return _cost(x, BACKWARD, read, (bytes_of(x.numel, x), parameters))


@formula("aten::_fused_rms_norm", kind="normalisation", values=True)
def rms_norm(call: OpCall) -> Cost:
    """4 FLOPs an element; reads input and weight; writes the result and rstd."""
    x = call.tensor(0)
    rows = _rows(x, call.ints(1))
    return _cost(x, RMS_FORWARD, (x, call.optional(2)), (bytes_of(x.numel, x), _statistics(x, rows)))


@formula("aten::_fused_rms_norm_backward", kind="normalisation")
def rms_norm_backward(call: OpCall) -> Cost:
    """9 FLOPs an element; reads gradient, input, rstd, weight; writes the gradients of input and weight."""
    grad, x, weight = call.tensor(0), call.tensor(1), call.optional(4)
    parameters = 0 if weight is None else bytes_of(weight.numel, weight)
    return _cost(x, RMS_BACKWARD, (grad, x, call.optional(3), weight), (bytes_of(x.numel, x), parameters))


@formula(
    "aten::native_batch_norm",
    "aten::cudnn_batch_norm",
    "aten::miopen_batch_norm",
    "aten::_native_batch_norm_legit",
    kind="normalisation",
    values=True,
)
def batch_norm(call: OpCall) -> Cost:
    """7 FLOPs an element in training, 4 in inference; the running statistics are read, in training written too.

    (input, weight, bias, running mean, running var, training, momentum, eps); a cache that holds the input reads it
    once.
    """
    x = call.tensor(0)
    require(len(x.shape) >= 2)
    training = call.flag(5)
    statistics = _statistics(x, x.shape[1])
    saved = None if statistics is None else (4 if call.optional(3) is not None else 2) * statistics
    read = (x, *(call.optional(i) for i in range(1, 5)))
    out = (bytes_of(x.numel, x), saved if training else 0)
    return _cost(x, FORWARD if training else INFERENCE, read, out)


def _batch_norm_backward(grad: Tensor, x: Tensor, weight: Tensor | None, *saved: Tensor | None) -> Cost:
    parameters = 0 if weight is None else bytes_of(2 * weight.numel, weight)
    return _cost(x, BACKWARD, (grad, x, weight, *saved), (bytes_of(x.numel, x), parameters))


@formula("aten::native_batch_norm_backward", "aten::batch_norm_backward", kind="normalisation")
def batch_norm_backward(call: OpCall) -> Cost:
    """13 FLOPs an element; (grad, input, weight, running mean and var, saved mean and invstd, ...)."""
    saved = (call.optional(5), call.optional(6))
    return _batch_norm_backward(call.tensor(0), call.tensor(1), call.optional(2), *saved)


@formula("aten::cudnn_batch_norm_backward", "aten::miopen_batch_norm_backward", kind="normalisation")
def library_batch_norm_backward(call: OpCall) -> Cost:
    """As ``native_batch_norm_backward``, input before gradient."""
    saved = (call.optional(5), call.optional(6))
    return _batch_norm_backward(call.tensor(1), call.tensor(0), call.optional(2), *saved)


@formula("aten::native_group_norm", kind="normalisation", values=True)
def group_norm(call: OpCall) -> Cost:
    """7 FLOPs an element; (input, weight, bias, N, C, HxW, groups, eps); writes a mean and rstd a group."""
    x = call.tensor(0)
    groups = call.ints(3)[0] * call.ints(6)[0]
    read = (x, call.optional(1), call.optional(2))
    return _cost(x, FORWARD, read, (bytes_of(x.numel, x), _statistics(x, 2 * groups)))


@formula("aten::native_group_norm_backward", kind="normalisation")
def group_norm_backward(call: OpCall) -> Cost:
    """13 FLOPs an element; (grad, input, mean, rstd, weight, ...)."""
    return _batch_norm_backward(call.tensor(0), call.tensor(1), call.optional(4), call.optional(2), call.optional(3))


@formula("_C::rms_norm", kind="normalisation")
def vllm_rms_norm(call: OpCall) -> Cost:
    """vLLM's RMS norm from the second input into the first: 4 FLOPs an element."""
    out, x, weight = call.tensor(0), call.tensor(1), call.tensor(2)
    return _cost(x, RMS_FORWARD, (x, weight), (bytes_of(out.numel, out),))


@formula("_C::fused_add_rms_norm", kind="normalisation")
def vllm_fused_add_rms_norm(call: OpCall) -> Cost:
    """vLLM's RMS norm of input + residual, both overwritten: 5 FLOPs an element."""
    x, residual, weight = call.tensor(0), call.tensor(1), call.tensor(2)
    out = (bytes_of(x.numel, x), bytes_of(residual.numel, residual))
    return _cost(x, RMS_FORWARD + 1, (x, residual, weight), out)
