"""Softmax, forward and backward.

FLOPs an element: five forward (maximum, subtraction, exp, sum, division; for the logarithm a second subtraction instead
of the division), four backward (softmax: product, sum, subtraction, product; its logarithm: sum, exp, product,
subtraction).
"""

from __future__ import annotations

from profsuite.analyzers.costs.call import OpCall
from profsuite.analyzers.costs.dtypes import FP32
from profsuite.analyzers.costs.registry import Cost, bytes_of, dtype_name, formula, require, total_bytes

FORWARD, BACKWARD = 5, 4


@formula("aten::_softmax", "aten::_log_softmax", kind="softmax", values=True)
def softmax(call: OpCall) -> Cost:
    """Five FLOPs an element; (input, dimension, half to float): the last makes fp32 of 16 bits."""
    x = call.tensor(0)
    widened = call.value(2) == "True"
    return Cost(
        kind="softmax",
        flops=FORWARD * x.numel,
        bytes_read=x.nbytes,
        bytes_written=x.numel * FP32.num_bytes if widened else bytes_of(x.numel, x),
        dtype=dtype_name(x),
    )


@formula("aten::_softmax_backward_data", "aten::_log_softmax_backward_data", kind="softmax", values=True)
def softmax_backward(call: OpCall) -> Cost:
    """Four FLOPs an element; reads gradient and result, writes the gradient in the input's dtype."""
    grad, out = call.tensor(0), call.tensor(1)
    require(grad.shape == out.shape)
    dtype = call.dtype(3) or grad.dtype
    return Cost(
        kind="softmax",
        flops=BACKWARD * grad.numel,
        bytes_read=total_bytes((grad, out)),
        bytes_written=None if dtype is None else grad.numel * dtype.num_bytes,
        dtype=dtype_name(grad),
    )


@formula("_moe_C::topk_softmax", kind="softmax")
def routing(call: OpCall) -> Cost:
    """vLLM's choice of experts: the softmax of the fourth input; writes weights, ids and rows' places."""
    logits = call.tensor(3)
    return Cost(
        kind="softmax",
        flops=FORWARD * logits.numel,
        bytes_read=logits.nbytes,
        bytes_written=total_bytes(call.tensor(i) for i in range(3)),
        dtype=dtype_name(logits),
    )
