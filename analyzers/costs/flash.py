"""Attention of the flash-attn interface: (b, s, h, d) tensors, or sequences packed one after the other.

Packed (``cu_seqlens``): the rows of all sequences, their bounds in a tensor of integers whose values no trace has.  The
FLOPs are known where there is one sequence, and where there are as many rows as sequences of the longest one's length
have: then all are as long.  Else the bytes alone are known, and the FLOPs depend on data.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from msgspec.structs import replace

from profsuite.analyzers.costs.attention import attention_cost, register, window_at
from profsuite.analyzers.costs.call import OpCall, Tensor
from profsuite.analyzers.costs.registry import Cost, require


@dataclass(frozen=True, slots=True)
class Positions:
    """Where the inputs of an op are: q, of which k and v follow, the causal flag, the window's two integers.

    ``packed`` are the bounds of the sequences of q and of k, ``longest`` the lengths of the longest.  ``read`` are
    tensors that are read besides, ``absent`` those whose presence makes another op of it (pages, new keys).
    """

    q: int
    causal: int
    window: int
    packed: tuple[int, int] | None = None
    longest: tuple[int, int] = (0, 0)
    read: tuple[int, ...] = ()
    absent: tuple[int, ...] = ()
    aligned_at_end: bool = True


def flash_cost(call: OpCall, at: Positions, *, backward: bool) -> Cost:
    """The cost of a call of the flash-attn interface; see the module's text for packed sequences."""
    require(all(call.optional(i) is None for i in at.absent))
    q, k, v = (call.tensor(at.q + i) for i in range(3))
    more = tuple(call.optional(i) for i in at.read)
    bounds = () if at.packed is None else tuple(call.optional(i) for i in at.packed)

    def cost(q: Tensor, k: Tensor, v: Tensor) -> Cost:
        return attention_cost(
            q, k, v, causal=call.flag(at.causal), backward=backward, heads_first=False, more=(*more, *bounds),
            aligned_at_end=at.aligned_at_end, window=window_at(call, at.window),
        )  # fmt: skip

    if not any(bounds):
        return cost(q, k, v)
    require(len(bounds) == 2 and all(each is not None and len(each.shape) == 1 and each.numel > 1 for each in bounds))
    require(len(q.shape) == len(k.shape) == len(v.shape) == 3)
    counts = [each.numel - 1 for each in bounds if each is not None]
    require(counts[0] == counts[1])
    lengths = [call.ints(i)[0] for i in at.longest]
    if counts[0] == 1:
        lengths = [q.shape[0], k.shape[0]]
    equal = [rows == counts[0] * length for rows, length in zip((q.shape[0], k.shape[0]), lengths, strict=True)]
    if all(equal):
        return cost(*(_unpacked(each, counts[0]) for each in (q, k, v)))
    whole = cost(*(_unpacked(each, 1) for each in (q, k, v)))
    return replace(whole, flops=None, least_flops=None, data_dependent=True)


def _unpacked(packed: Tensor, count: int) -> Tensor:
    rows, heads, depth = packed.shape
    return Tensor((count, rows // count, heads, depth), packed.dtype)


def _register(name: str, at: Positions, doc: str, *, backward: bool = False) -> None:
    def make() -> Callable[[OpCall], Cost]:
        return lambda call: flash_cost(call, at, backward=backward)

    register(name, make, doc)


_register(
    "aten::_flash_attention_forward",
    Positions(0, 8, 11, (3, 4), (5, 6), absent=(10, 13, 15), aligned_at_end=False),
    "flop_counter._flash_attention_forward_flop; (query, key, value, cum_seq_q, cum_seq_k, max_q, max_k, dropout_p, "
    "is_causal, ...) (native_functions.yaml).",
)
_register(
    "aten::_flash_attention_backward",
    Positions(1, 11, 15, (6, 7), (8, 9), read=(0, 4, 5), aligned_at_end=False),
    "flop_counter._flash_attention_backward_flop; (grad, query, key, value, out, logsumexp, cum_seq_q, ..., is_causal, "
    "...) (native_functions.yaml).",
    backward=True,
)
_register(
    "flash_attn::_flash_attn_forward",
    Positions(0, 5, 6),
    "As sdpa on (b, s, h, d) tensors; (q, k, v, dropout_p, softmax_scale, causal, window_size_left, "
    "window_size_right, ...) of flash-attn 2 (flash_attn_interface.py).",
)
_register(
    "flash_attn::_flash_attn_backward",
    Positions(1, 11, 12, read=(0, 4, 5)),
    "As sdpa's backward; (dout, q, k, v, out, lse, dq, dk, dv, dropout_p, scale, causal, window...) of flash-attn 2.",
    backward=True,
)
_register(
    "flash_attn::_flash_attn_varlen_forward",
    Positions(0, 9, 10, (3, 4), (5, 6), absent=(15, 16, 17)),
    "Packed sequences; (q, k, v, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, dropout_p, softmax_scale, "
    "causal, window..., softcap, alibi_slopes, return_softmax, block_table, leftpad_k, seqused_k) of flash-attn 2.",
)
_register(
    "flash_attn::_flash_attn_varlen_backward",
    Positions(1, 15, 16, (9, 10), (11, 12), read=(0, 4, 5)),
    "Packed sequences; (dout, q, k, v, out, lse, dq, dk, dv, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, "
    "dropout_p, scale, causal, window...) of flash-attn 2.",
    backward=True,
)
_register(
    "flash_attn_3::fwd",
    Positions(0, 24, 25, (7, 8), (12, 13), absent=(3, 4, 5, 9, 10, 11, 14, 15, 16)),
    "(q, k, v, k_new, v_new, q_v, out, cu_seqlens_q, cu_seqlens_k, ..., is_causal, window...) of flash-attn 3 "
    "(flash_api.cpp); null with pages or a cache.",
)
for _name in ("aiter::_flash_attn_forward", "aiter::mha_fwd", "aiter::fmha_v3_fwd"):
    _register(
        _name,
        Positions(0, 5, 6),
        "As sdpa on (b, s, h, d) tensors; (q, k, v, dropout_p, softmax_scale, is_causal, window...) of AMD's aiter "
        "(aiter/ops/mha.py); a bias is not counted.",
    )
_register(
    "aiter::mha_bwd",
    Positions(1, 8, 9, read=(0, 4, 5)),
    "As sdpa's backward; (dout, q, k, v, out, lse, dropout_p, softmax_scale, is_causal, window...) of AMD's aiter.",
    backward=True,
)
