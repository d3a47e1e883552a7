"""Losses: predictions and targets read once; one result, or one a sample where nothing is reduced."""

from __future__ import annotations

from profsuite.analyzers.costs.call import OpCall, Tensor
from profsuite.analyzers.costs.registry import Cost, bytes_of, dtype_name, formula, require, total_bytes

NONE = 0
"""``at::Reduction::None``; mean is 1, sum is 2."""


@formula("aten::nll_loss_forward", "aten::nll_loss2d_forward", kind="loss", values=True)
def nll_loss(call: OpCall) -> Cost:
    """Of each sample the log probability of its target is read and added; (input, target, weight, reduction, ...).

    Writes the result, one a sample if unreduced, and the sum of the weights.
    """
    x, target = call.tensor(0), call.tensor(1)
    samples = target.numel
    read = total_bytes((target, call.optional(2)))
    gathered, one = bytes_of(samples, x), bytes_of(1, x)
    results = (samples if call.ints(3)[0] == NONE else 1) + 1
    return Cost(
        kind="loss",
        flops=samples,
        bytes_read=None if read is None or gathered is None else read + gathered,
        bytes_written=None if one is None else results * one,
        dtype=dtype_name(x),
    )


@formula("aten::nll_loss_backward", "aten::nll_loss2d_backward", kind="loss")
def nll_loss_backward(call: OpCall) -> Cost:
    """One FLOP a sample; reads targets, writes a gradient the size of the input, zeros but at the targets."""
    grad, x, target = call.tensor(0), call.tensor(1), call.tensor(2)
    return Cost(
        kind="loss",
        flops=target.numel,
        bytes_read=total_bytes((grad, target, call.optional(3))),
        bytes_written=bytes_of(x.numel, x),
        dtype=dtype_name(x),
    )


_PAIRED = {"mse_loss": 2, "smooth_l1_loss": 4, "huber_loss": 4}


@formula(*(f"aten::{name}" for name in _PAIRED), kind="loss", values=True)
def paired(call: OpCall) -> Cost:
    """Difference and square (mse: 2), or with a branch (4), an element, and 1 to sum; (input, target, reduction)."""
    x, target = call.tensor(0), call.tensor(1)
    require(x.shape == target.shape)
    per_element, reduced = _PAIRED[call.name.removeprefix("aten::")], call.ints(2)[0] != NONE
    return Cost(
        kind="loss",
        flops=x.numel * (per_element + reduced),
        bytes_read=total_bytes((x, target)),
        bytes_written=bytes_of(1 if reduced else x.numel, x),
        dtype=dtype_name(x),
    )


@formula(*(f"aten::{name}_backward" for name in _PAIRED), kind="loss")
def paired_backward(call: OpCall) -> Cost:
    """Difference, scale, product with the gradient: three FLOPs an element; (grad, input, target, ...)."""
    return _elementwise(call.tensor(1), 3, call.tensor(0), call.tensor(1), call.tensor(2))


@formula("aten::binary_cross_entropy", kind="loss", values=True)
def binary_cross_entropy(call: OpCall) -> Cost:
    """Two logarithms, three products and sums, a negation: 7 FLOPs an element; (input, target, weight, reduction)."""
    x, target = call.tensor(0), call.tensor(1)
    require(x.shape == target.shape)
    reduced = call.ints(3)[0] != NONE
    return Cost(
        kind="loss",
        flops=x.numel * (7 + reduced),
        bytes_read=total_bytes((x, target, call.optional(2))),
        bytes_written=bytes_of(1 if reduced else x.numel, x),
        dtype=dtype_name(x),
    )


@formula("aten::binary_cross_entropy_backward", kind="loss")
def binary_cross_entropy_backward(call: OpCall) -> Cost:
    """grad (x - t) / (x (1 - x)): five FLOPs an element; (grad, input, target, weight, ...)."""
    return _elementwise(call.tensor(1), 5, call.tensor(0), call.tensor(1), call.tensor(2), call.optional(3))


def _elementwise(x: Tensor, per_element: int, *read: Tensor | None) -> Cost:
    return Cost(
        kind="loss",
        flops=per_element * x.numel,
        bytes_read=total_bytes(read),
        bytes_written=bytes_of(x.numel, x),
        dtype=dtype_name(x),
    )
