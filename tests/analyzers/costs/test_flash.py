"""Attention of the flash-attn interface: windows, and sequences packed one after the other."""

from __future__ import annotations

import numpy as np
import pytest

from profsuite.analyzers.costs.attention import seen_pairs

Q, KV, BOUNDS = ("bf16", 512, 8, 64), ("bf16", 512, 2, 64), ("int", 5)


def numbers(found):
    return found.flops, found.bytes_read, found.bytes_written


@pytest.mark.parametrize("aligned_at_end", [False, True])
@pytest.mark.parametrize(("sq", "sk"), [(5, 5), (3, 7), (7, 3), (1, 9), (9, 1)])
@pytest.mark.parametrize("window", [(-1, -1), (-1, 0), (2, 0), (0, 0), (1, 2), (-1, 3), (4, -1), (20, 20)])
def test_pairs_that_a_window_leaves(sq, sk, window, aligned_at_end):
    i = np.arange(sq)[:, None] + (sk - sq if aligned_at_end else 0)
    j = np.arange(sk)[None, :]
    mask = np.ones((sq, sk), bool)
    if window[0] >= 0:
        mask &= j >= i - window[0]
    if window[1] >= 0:
        mask &= j <= i + window[1]
    assert seen_pairs(sq, sk, window, aligned_at_end) == mask.sum()


def test_a_sliding_window_needs_fewer_pairs(cost):
    q = ("bf16", 1, 1024, 8, 64)
    found = cost("flash_attn::_flash_attn_forward", q, q, q, "0.", "0.125", "True", "127", "0")
    # The first 128 queries see 1 ... 128 keys, the others 128.
    assert found.needed_flops == 8 * (128 * 129 // 2 + 896 * 128) * 4 * 64
    assert found.flops == 8 * 1024 * 1024 * 4 * 64
    assert cost("flash_attn::_flash_attn_forward", q, q, q, "0.", "0.125", "True") is not None  # none was given


def packed(cost, *lengths, causal="False"):
    name = "flash_attn::_flash_attn_varlen_forward"
    return cost(name, Q, KV, KV, BOUNDS, BOUNDS, *lengths, "0.", "0.125", causal, "-1", "-1", "0.", None, "False")


def test_sequences_that_are_all_as_long_as_the_longest(cost):
    # 512 rows for four sequences of at most 128: each has 128.
    found = packed(cost, "128", "128")
    assert found.flops == 4 * 8 * 128 * 128 * 4 * 64
    assert (found.bytes_read, found.bytes_written) == (
        2 * (512 * 8 * 64 + 2 * 512 * 2 * 64) + 2 * 4 * 5,
        2 * 512 * 8 * 64,
    )
    assert packed(cost, "128", "128", causal="True").needed_flops == 4 * 8 * (128 * 129 // 2) * 4 * 64


def test_one_sequence(cost):
    one, q, kv = ("int", 2), ("bf16", 100, 8, 64), ("bf16", 300, 2, 64)
    inputs = (q, kv, kv, one, one, "128", "512", "0.", "0.125", "True", "-1", "-1")
    found = cost("flash_attn::_flash_attn_varlen_forward", *inputs)
    assert found.flops == 8 * 100 * 300 * 4 * 64
    assert found.needed_flops == 8 * (100 * 200 + 100 * 101 // 2) * 4 * 64


def test_lengths_that_vary_are_data(cost):
    found = packed(cost, "200", "200")
    assert (found.kind, found.flops, found.needed_flops, found.data_dependent) == ("attention", None, None, True)
    assert (found.bytes_read, found.bytes_written) == numbers(packed(cost, "128", "128"))[1:]


def test_torch_counts_the_same_of_packed_sequences(cost):
    torch = pytest.importorskip("torch")
    from torch.utils.flop_counter import _flash_attention_forward_flop

    q, kv, bounds = torch.empty(512, 8, 64), torch.empty(512, 8, 64), torch.arange(5) * 128
    counted = _flash_attention_forward_flop(q, kv, kv, bounds, bounds, 128, 128)
    full = ("bf16", 512, 8, 64)
    inputs = (full, full, full, BOUNDS, BOUNDS, "128", "128", "0.", "True", "False")
    assert cost("aten::_flash_attention_forward", *inputs).flops == counted


def test_backward_of_packed_sequences(cost):
    lse = ("fp32", 8, 512)
    inputs = (Q, Q, KV, KV, Q, lse, Q, KV, KV, BOUNDS, BOUNDS, "128", "128", "0.", "0.125", "False", "-1", "-1")
    found = cost("flash_attn::_flash_attn_varlen_backward", *inputs)
    q, kv = 512 * 8 * 64, 512 * 2 * 64
    assert found.flops == 5 * 2 * 4 * 8 * 128 * 128 * 64
    assert (found.bytes_read, found.bytes_written) == (2 * (3 * q + 2 * kv) + 4 * 8 * 512 + 40, 2 * (q + 2 * kv))


def test_pages_of_a_cache_hold_lengths_that_no_trace_has(cost):
    pages, table = ("bf16", 1000, 16, 2, 64), ("int", 4, 32)
    inputs = (Q, pages, pages, BOUNDS, BOUNDS, "128", "128", "0.", "0.125", "True", "-1", "-1", "0.", None, "False")
    assert cost("flash_attn::_flash_attn_varlen_forward", *inputs, table) is None
    decode = ("bf16", 4, 8, 128)
    inputs = (decode, decode, pages, pages, "2", "0.125", table, ("int", 4), "16", "512", None, "auto")
    assert cost("_C::paged_attention_v1", *inputs) is None
    assert cost("vllm::unified_attention_with_output", Q, KV, KV, Q, None, None, None) is None


def three(q, k, *rest):
    """Inputs of flash-attn 3's forward; ``rest`` by position."""
    given = dict(rest)
    return [q, k, k, *(given.get(i) for i in range(3, 24)), given.get(24, "False"), "-1", "-1"]


def test_flash_attn_3(cost):
    dense, k = ("bf16", 2, 128, 8, 64), ("bf16", 2, 256, 2, 64)
    assert cost("flash_attn_3::fwd", *three(dense, k)).flops == 2 * 8 * 128 * 256 * 4 * 64
    causal = cost("flash_attn_3::fwd", *three(dense, k, (24, "True")))
    assert causal.needed_flops == 2 * 8 * (128 * 128 + 128 * 129 // 2) * 4 * 64
    lengths = ((7, BOUNDS), (8, BOUNDS), (12, "128"), (13, "128"))
    assert cost("flash_attn_3::fwd", *three(Q, KV, *lengths)).flops == 4 * 8 * 128 * 128 * 4 * 64
    assert cost("flash_attn_3::fwd", *three(dense, k, (14, ("int", 2, 16)))) is None


@pytest.mark.parametrize("name", ["aiter::mha_fwd", "aiter::fmha_v3_fwd", "aiter::_flash_attn_forward"])
def test_aiter(name, cost):
    q = ("bf16", 2, 128, 8, 64)
    found = cost(name, q, q, q, "0.", "0.125", "True", "-1", "-1", "True", "False")
    assert found.needed_flops == 2 * 8 * (128 * 129 // 2) * 4 * 64
