"""Ops of serving engines, against numbers that were worked out by hand."""

from __future__ import annotations

import pytest

T, E, K, N = 6, 8, 64, 48
X, IDS, WEIGHTS = ("bf16", T, K), ("int", T, 2), ("fp32", T, 2)
FIRST, SECOND = ("bf16", E, 2 * N, K), ("bf16", E, K, N)


def numbers(found):
    return found.flops, found.bytes_read, found.bytes_written


@pytest.mark.parametrize(
    "name", ["vllm::outplace_fused_experts", "vllm::inplace_fused_experts", "vllm::rocm_aiter_fused_moe"]
)
def test_a_mixture_of_experts(name, cost):
    found = cost(name, X, FIRST, SECOND, WEIGHTS, IDS, "silu")
    # Each of 6 tokens meets two experts: 64 by 96, and after the gate 48 by 64.
    assert (found.kind, found.flops, found.dtype) == ("grouped gemm", 2 * T * 2 * (K * 2 * N + N * K), "bf16")
    assert found.num_bytes is None  # which experts' weights are read is data


def test_a_mixture_without_a_gate(cost):
    found = cost("vllm::outplace_fused_experts", X, ("bf16", E, N, K), SECOND, WEIGHTS, IDS)
    assert found.flops == 2 * T * 2 * 2 * K * N


def test_a_mixture_whose_work_the_shapes_do_not_tell(cost):
    name = "vllm::outplace_fused_experts"
    assert cost(name, X, FIRST, SECOND, WEIGHTS, IDS, "silu", ("int", 32)) is None  # experts of other ranks
    assert cost(name, X, ("unsigned char", E, 2 * N, K // 2), SECOND, WEIGHTS, IDS) is None  # packed int4
    assert cost("vllm::moe_forward", X, ("bf16", T, E), None) is None  # no weights were recorded


def test_a_mixture_in_fp8(cost):
    first, second = ("fp8", E, 2 * N, K), ("fp8", E, K, N)
    assert cost("vllm::outplace_fused_experts", X, first, second, WEIGHTS, IDS, ("fp32", E)).dtype == "fp8"


@pytest.mark.parametrize(
    ("name", "inputs", "expected"),
    [
        # 888 positions, 8 + 1 heads of 64, all of which are rotated by rows of 64.
        (
            "_C::rotary_embedding",
            (("int64", 888), ("bf16", 888, 512), ("bf16", 888, 64), "64", ("bf16", 131072, 64), "True"),
            (3 * 888 * 576, 2 * 888 * 576 + 2 * 888 * 64 + 8 * 888, 2 * 888 * 576),
        ),
        # Half of each head, no key; the table has fewer rows than there are positions.
        (
            "_C::rotary_embedding",
            (("int64", 10), ("bf16", 10, 4, 64), None, "64", ("bf16", 7, 32), "True"),
            (3 * 10 * 4 * 32, 2 * 10 * 4 * 32 + 2 * 7 * 32 + 80, 2 * 10 * 4 * 32),
        ),
        # 880 slots of 888 rows; bf16 becomes one byte an element.
        (
            "_C_cache_ops::reshape_and_cache_flash",
            (
                ("bf16", 888, 1, 64), ("bf16", 888, 1, 64), ("unsigned char", 99, 16, 1, 64),
                ("unsigned char", 99, 16, 1, 64), ("int64", 880), "fp8", ("fp32",), ("fp32",),
            ),
            (2 * 880 * 64, 2 * 2 * 880 * 64 + 8 * 880, 2 * 880 * 64),
        ),
        (
            "_C_cache_ops::reshape_and_cache",
            (
                ("fp16", 5, 2, 64), ("fp16", 5, 2, 64), ("fp16", 99, 2, 8, 16, 8), ("fp16", 99, 2, 64, 16),
                ("int64", 5), "auto", ("fp32",), ("fp32",),
            ),
            (0, 2 * 2 * 640 + 40, 2 * 2 * 640),
        ),
        (
            "_moe_C::topk_softmax",
            (("fp32", 6, 2), ("int", 6, 2), ("int", 6, 2), ("fp32", 6, 8)),
            (5 * 48, 4 * 48, 3 * 4 * 12),
        ),
        ("_moe_C::moe_sum", (("bf16", 6, 2, 64), ("bf16", 6, 64)), (768, 1536, 768)),
    ],
)  # fmt: skip
def test_small_ops(name, inputs, expected, cost):
    assert numbers(cost(name, *inputs)) == expected


def test_small_ops_that_do_not_fit(cost):
    rows, cache = ("bf16", 5, 2, 64), ("bf16", 99, 16, 2, 64)
    assert cost("_C_cache_ops::reshape_and_cache_flash", rows, rows, cache, cache, ("int64", 6), "auto") is None
    assert cost("_C::rotary_embedding", ("int64", 10), ("bf16", 10, 65), None, "64", ("bf16", 7, 32), "True") is None
    assert cost("_moe_C::moe_sum", ("bf16", 6, 2, 64), ("bf16", 6, 32)) is None
