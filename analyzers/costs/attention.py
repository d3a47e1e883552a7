"""Attention: the two products of the forward, the five of a fused backward."""

from __future__ import annotations

from collections.abc import Callable

from profsuite.analyzers.costs.call import OpCall, Tensor
from profsuite.analyzers.costs.registry import Cost, Formula, bytes_of, dtype_name, formula, require, total_bytes

Sizes = tuple[int, int, int, int]
Window = tuple[int, int]

EVERYTHING: Window = (-1, -1)
"""A window that leaves all keys: how many before a query and after it count, -1 for all."""


def attention_cost(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    causal: bool,
    backward: bool = False,
    heads_first: bool = True,
    aligned_at_end: bool = False,
    window: Window = EVERYTHING,
    more: tuple[Tensor | None, ...] = (),
    data_dependent: bool = False,
) -> Cost:
    """FLOPs of softmax(Q K^T) V: 2 b h sq sk (d + dv) forward (flop_counter.sdpa_flop_count).

    Backward (sdpa_backward_flop_count): the scores again, and the gradients of V, of the scores, of Q and of K:
    2 b h sq sk (3 d + 2 dv).  ``causal`` masks the keys after a query: flop_counter counts all pairs, a kernel
    needs those that the mask leaves, which is ``least_flops``: query i sees keys 0 ... i, or with ``aligned_at_end``
    (flash-attn from 2.1) the last query sees all.  Of those it sees the ``window`` around its own key (sliding-window
    attention).  Fewer heads of K and V than of Q are shared (grouped queries).
    ``heads_first`` tells (b, h, s, d) from flash-attn's (b, s, h, d); ``more`` is read besides.
    """
    b, h, sq, d = _sizes(query, heads_first)
    b2, hk, sk, d2 = _sizes(key, heads_first)
    b3, hv, sv, dv = _sizes(value, heads_first)
    require(b == b2 == b3 and d == d2 and sk == sv and hk == hv and hk > 0 and h % hk == 0)
    pairs = sq * sk
    before, after = window
    seen = seen_pairs(sq, sk, (before, 0) if causal else (before, after), aligned_at_end)
    per_pair = 2 * (3 * d + 2 * dv) if backward else 2 * (d + dv)
    results = (query, key, value) if backward else ()
    out = b * h * sq * dv
    written = [bytes_of(each.numel, each) for each in results] or [bytes_of(out, query)]
    return Cost(
        kind="attention",
        flops=b * h * pairs * per_pair,
        least_flops=b * h * seen * per_pair if seen != pairs else None,
        bytes_read=total_bytes((query, key, value, *more)),
        bytes_written=sum(filter(None, written)) if None not in written else None,
        dtype=dtype_name(query),
        data_dependent=data_dependent,
    )


def _sizes(tensor: Tensor, heads_first: bool) -> Sizes:
    require(len(tensor.shape) == 4)
    b, second, third, d = tensor.shape
    return (b, second, third, d) if heads_first else (b, third, second, d)


def seen_pairs(sq: int, sk: int, window: Window, aligned_at_end: bool) -> int:
    """Pairs of sq queries and sk keys that a window leaves; a causal mask is the window (-1, 0).

    Query i is at key i, or where the ends are aligned at key i + sk - sq.
    """
    before, after = window
    first = sk - sq if aligned_at_end else 0
    up_to_last = sq * sk if after < 0 else _sum_of_clamped(first + after + 1, sq, sk)
    return up_to_last - (0 if before < 0 else _sum_of_clamped(first - before, sq, sk))


def _sum_of_clamped(first: int, count: int, most: int) -> int:
    """The sum of the ``count`` integers from ``first`` on, each clamped to 0 ... ``most``."""
    last = first + count - 1
    low, high = max(first, 1), min(last, most)
    inside = (low + high) * (high - low + 1) // 2 if low <= high else 0
    return inside + most * max(last - max(first - 1, most), 0)


def window_at(call: OpCall, position: int) -> Window:
    """The window recorded as two integers, from ``position`` on; all keys where none was given."""
    before, after = (-1 if call.value(i) in ("", "None") else call.ints(i)[0] for i in (position, position + 1))
    require(max(before, after) < 2**48)
    return before, after


def _forward(causal: int, mask: int | None = None) -> Formula:
    def cost(call: OpCall) -> Cost:
        bias = None if mask is None else call.optional(mask)
        return attention_cost(
            call.tensor(0), call.tensor(1), call.tensor(2), causal=call.flag(causal), more=(bias,)
        )  # fmt: skip

    return cost


def _backward(causal: int, extra: tuple[int, ...]) -> Formula:
    def cost(call: OpCall) -> Cost:
        return attention_cost(
            call.tensor(1), call.tensor(2), call.tensor(3), causal=call.flag(causal), backward=True,
            more=(call.tensor(0), *(call.optional(i) for i in extra)),
        )  # fmt: skip

    return cost


def register(name: str, make: Callable[[], Formula], doc: str, composite: bool = False) -> None:
    """Registers the formula that ``make`` makes, with its source ``doc``."""
    function = make()
    function.__doc__ = doc
    formula(name, kind="attention", values=True, composite=composite)(function)


_SDPA = "flop_counter.sdpa_flop; {} (native_functions.yaml)."
_BACKWARD = "flop_counter.sdpa_backward_flop; {} (native_functions.yaml)."

# Positions of the causal flag, the mask, sequence lengths: the ops' signatures in native_functions.yaml.
register(
    "aten::scaled_dot_product_attention", lambda: _forward(5, 3),
    _SDPA.format("(query, key, value, attn_mask, dropout_p, is_causal, ...)"), composite=True,
)  # fmt: skip
register(
    "aten::_scaled_dot_product_flash_attention", lambda: _forward(4),
    _SDPA.format("(query, key, value, dropout_p, is_causal, ...)"),
)  # fmt: skip
register(
    "aten::_scaled_dot_product_flash_attention_for_cpu", lambda: _forward(4, 5),
    _SDPA.format("(query, key, value, dropout_p, is_causal, attn_mask, ...); flop_counter does not know this one"),
)  # fmt: skip
register(
    "aten::_scaled_dot_product_efficient_attention", lambda: _forward(6, 3),
    _SDPA.format("(query, key, value, attn_bias, compute_log_sumexp, dropout_p, is_causal, ...)"),
)  # fmt: skip
register(
    "aten::_scaled_dot_product_cudnn_attention", lambda: _forward(6, 3),
    _SDPA.format("(query, key, value, attn_bias, compute_log_sumexp, dropout_p, is_causal, ...)"),
)  # fmt: skip
register(
    "aten::_scaled_dot_product_fused_attention_overrideable", lambda: _forward(5, 3),
    _SDPA.format("(query, key, value, attn_bias, dropout_p, is_causal, ...)"),
)  # fmt: skip
register(
    "aten::_scaled_dot_product_flash_attention_backward", lambda: _backward(11, (4, 5)),
    _BACKWARD.format("(grad, query, key, value, out, logsumexp, ..., dropout_p, is_causal, ...)"),
)  # fmt: skip
register(
    "aten::_scaled_dot_product_flash_attention_for_cpu_backward", lambda: _backward(7, (4, 5)),
    _BACKWARD.format("(grad, query, key, value, out, logsumexp, dropout_p, is_causal, ...); not in flop_counter"),
)  # fmt: skip
register(
    "aten::_scaled_dot_product_efficient_attention_backward", lambda: _backward(11, (4, 5, 6)),
    _BACKWARD.format("(grad, query, key, value, attn_bias, out, logsumexp, ..., is_causal, ...)"),
)  # fmt: skip
register(
    "aten::_scaled_dot_product_cudnn_attention_backward", lambda: _backward(14, (4, 5, 8)),
    _BACKWARD.format("(grad, query, key, value, out, logsumexp, seed, offset, attn_bias, ..., is_causal, ...)"),
)  # fmt: skip
