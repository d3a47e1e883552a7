"""Convolutions in one to three dimensions, grouped, dilated, transposed, forward and backward."""

from __future__ import annotations

from math import prod

from profsuite.analyzers.costs.call import OpCall, Tensor, UnknownInputError
from profsuite.analyzers.costs.registry import Cost, bytes_of, dtype_name, formula, require, total_bytes


def output_size(
    x: Tensor,
    weight: Tensor,
    stride: tuple[int, ...],
    padding: tuple[int, ...],
    dilation: tuple[int, ...],
    transposed: bool = False,
    output_padding: tuple[int, ...] = (0,),
) -> tuple[int, ...]:
    """Spatial sizes of the result, by the formulas of torch.nn.Conv2d and ConvTranspose2d."""
    rank = len(x.shape) - 2
    require(rank in (1, 2, 3) and len(weight.shape) == rank + 2)
    axes = zip(
        x.shape[2:],
        weight.shape[2:],
        _each(stride, rank),
        _each(padding, rank),
        _each(dilation, rank),
        _each(output_padding, rank),
        strict=True,
    )
    sizes = []
    for size, kernel, step, pad, spread, extra in axes:
        require(step > 0 and size > 0 and kernel > 0)
        reach = spread * (kernel - 1)
        result = (
            (size - 1) * step - 2 * pad + reach + extra + 1 if transposed else (size + 2 * pad - reach - 1) // step + 1
        )
        require(0 < result < 2**48)
        sizes.append(result)
    return tuple(sizes)


def _each(values: tuple[int, ...], rank: int) -> tuple[int, ...]:
    require(len(values) in (1, rank))
    return values * rank if len(values) == 1 else values


def _forward(
    x: Tensor, weight: Tensor, out: tuple[int, ...], transposed: bool, groups: int, *more: Tensor | None
) -> Cost:
    # weight is (out, in / groups, ...), of a transposed convolution (in, out / groups, ...).
    channels = weight.shape[1] * groups if transposed else weight.shape[0]
    require((weight.shape[0] if transposed else weight.shape[1] * groups) == x.shape[1])
    positions = prod(x.shape[2:]) if transposed else prod(out)
    return Cost(
        kind="convolution",
        flops=2 * x.shape[0] * positions * prod(weight.shape),
        bytes_read=total_bytes((x, weight, *more)),
        bytes_written=bytes_of(x.shape[0] * channels * prod(out), x),
        dtype=dtype_name(x),
    )


@formula("aten::convolution", "aten::_convolution", "aten::convolution_overrideable", kind="convolution", values=True)
def convolution(call: OpCall) -> Cost:
    """2 x batch x output positions x elements of the weight (flop_counter.conv_flop_count).

    Of a transposed one the input positions count.  The weight has in/groups channels, which is what groups save.
    """
    x, weight = call.tensor(0), call.tensor(1)
    transposed = call.flag(6)
    out = output_size(x, weight, call.ints(3), call.ints(4), call.ints(5), transposed, call.ints(7))
    return _forward(x, weight, out, transposed, call.ints(8)[0], call.optional(2))


def _plain(call: OpCall, stride: int, padding: int, dilation: int, groups: int, bias: int | None) -> Cost:
    x, weight = call.tensor(0), call.tensor(1)
    out = output_size(x, weight, call.ints(stride), call.ints(padding), call.ints(dilation))
    return _forward(x, weight, out, False, call.ints(groups)[0], None if bias is None else call.optional(bias))


@formula("aten::conv1d", "aten::conv2d", "aten::conv3d", kind="convolution", values=True, composite=True)
def conv(call: OpCall) -> Cost:
    """As ``convolution``; (input, weight, bias, stride, padding, dilation, groups)."""
    return _plain(call, 3, 4, 5, 6, 2)


@formula(
    "aten::mkldnn_convolution",
    "aten::miopen_convolution",
    "aten::miopen_depthwise_convolution",
    kind="convolution",
    values=True,
)
def library_convolution(call: OpCall) -> Cost:
    """As ``convolution``; (input, weight, bias, padding, stride, dilation, groups)."""
    return _plain(call, 4, 3, 5, 6, 2)


@formula("aten::cudnn_convolution", kind="convolution", values=True)
def cudnn_convolution(call: OpCall) -> Cost:
    """As ``convolution``; (input, weight, padding, stride, dilation, groups)."""
    return _plain(call, 3, 2, 4, 5, None)


@formula("aten::cudnn_convolution_relu", "aten::miopen_convolution_relu", kind="convolution", values=True)
def convolution_relu(call: OpCall) -> Cost:
    """As ``convolution``; (input, weight, bias, stride, padding, dilation, groups)."""
    return _plain(call, 3, 4, 5, 6, 2)


@formula("aten::_slow_conv2d_forward", "aten::thnn_conv2d", kind="convolution", values=True)
def slow_conv2d(call: OpCall) -> Cost:
    """As ``convolution``; (input, weight, kernel size, bias, stride, padding)."""
    x, weight = call.tensor(0), call.tensor(1)
    out = output_size(x, weight, call.ints(4), call.ints(5), (1,))
    return _forward(x, weight, out, False, 1, call.optional(3))


@formula(
    "aten::conv_transpose1d",
    "aten::conv_transpose2d",
    "aten::conv_transpose3d",
    kind="convolution",
    values=True,
    composite=True,
)
def conv_transpose(call: OpCall) -> Cost:
    """As ``convolution``, transposed; (input, weight, bias, stride, padding, output padding, groups, dilation)."""
    x, weight = call.tensor(0), call.tensor(1)
    out = output_size(x, weight, call.ints(3), call.ints(4), call.ints(7), True, call.ints(5))
    return _forward(x, weight, out, True, call.ints(6)[0], call.optional(2))


@formula("aten::convolution_backward", "aten::convolution_backward_overrideable", kind="convolution", values=True)
def convolution_backward(call: OpCall) -> Cost:
    """The forward's FLOPs for the gradient of the input, and again for that of the weight, of which the mask asks.

    Both correlate the same pairs of elements as the forward (flop_counter.conv_backward_flop, which for grouped
    convolutions counts the weight's gradient ``groups`` times).  Positions are those of the gradient given, of a
    transposed convolution those of the input.
    """
    grad, x, weight = call.tensor(0), call.tensor(1), call.tensor(2)
    transposed, groups = call.flag(7), call.ints(9)[0]
    want = call.flags(10)
    require(len(want) == 3 and len(grad.shape) == len(x.shape) == len(weight.shape) and grad.shape[0] == x.shape[0])
    require((weight.shape[0] if transposed else weight.shape[1] * groups) == x.shape[1])
    positions = prod(x.shape[2:]) if transposed else prod(grad.shape[2:])
    one = 2 * x.shape[0] * positions * prod(weight.shape)
    written = [bytes_of(x.numel, x) if want[0] else 0, bytes_of(weight.numel, weight) if want[1] else 0]
    written.append(bytes_of(grad.shape[1], grad) if want[2] else 0)
    read = (grad, x if want[1] else None, weight if want[0] else None)
    return Cost(
        kind="convolution",
        flops=one * (want[0] + want[1]),
        bytes_read=total_bytes(read),
        bytes_written=sum(filter(None, written)) if None not in written else None,
        dtype=dtype_name(grad),
    )


@formula("aten::cudnn_convolution_backward_input", "aten::cudnn_convolution_backward_weight", kind="convolution")
def cudnn_backward_part(call: OpCall) -> Cost:
    """One half of an old torch's (before 1.11) backward; its shapes do not say enough without its scalars."""
    raise UnknownInputError(call.name)
