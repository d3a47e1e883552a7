"""Generated kernels: what their names say of the ops in them, against kernels whose source ops are known."""

from __future__ import annotations

import pytest

from profsuite.analyzers.costs.source_ops import source_ops

X, W = ("bf16", 8, 64, 32), ("bf16", 32)
ROWS, N = 8 * 64, 8 * 64 * 32


def test_bytes_are_those_of_every_tensor_once(cost):
    found = cost("triton_red_fused_add_mean_mul_pow_rsqrt_0", X, W, X, "512", "32")
    assert (found.kind, found.flops, found.num_bytes, found.bytes_read) == ("fused", None, 2 * (2 * N + 32), None)
    assert cost("triton_poi_fused_embedding_0", ("int64", 8), ("bf16", 50000, 32), X, "10").num_bytes is None
    assert cost("triton_poi_fused_add_0", "10") is None


@pytest.mark.parametrize(
    ("name", "inputs", "least"),
    [
        # silu(x) * y: two FLOPs an element.
        ("triton_poi_fused__unsafe_view_mul_silu_2", (X, X, str(N)), 2 * N),
        ("triton_poi_fused_add_cos_sin_0", (X, X, X, str(N)), 3 * N),
        # Scalars of symbolic sizes come before the number of elements.
        ("triton_poi_fused_add_ge_mul_0", (("int", 888), ("int64", 888), "0", "25136", "888"), 3 * 888),
        # Tiled: the last two are factors of it.
        ("triton_poi_fused_clone_mul_1", (X, X, str(ROWS), "32"), N),
        ("triton_poi_fused_clone_3", (X, X, str(N)), 0),
        # RMS norm: one operation an element and four ops, which may be on the rows alone.
        ("triton_red_fused_add_mean_mul_pow_rsqrt_0", (X, W, X, str(ROWS), "32"), N + 4 * ROWS),
        ("triton_per_fused__softmax_add_0", (X, X, str(ROWS), "32"), N + ROWS),
        # Only a part of the elements may be computed with; what a name that is not known does is open.
        ("triton_poi_fused_add_cat_0", (X, X, str(N)), None),
        ("triton_poi_fused_add_slice_0", (X, X, str(N)), None),
        ("triton_poi_fused_add_somebodys_op_0", (X, X, str(N)), None),
        ("triton_for_fused_add_0", (X, X, str(N)), None),
        ("triton_poi_fused_add_0", (X, X, "17"), None),
        ("triton_red_fused_sum_0", (X, X, "17", "32"), None),
        ("triton_poi_fused_add_0", (X, X), None),
    ],
)
def test_flops_at_least(name, inputs, least, cost):
    found = cost(name, *inputs)
    assert (found.flops, found.needed_flops) == (None, least)


def test_names_are_told_apart():
    assert source_ops("add_bitwise_and_bitwise_not_lt_mul") == ["add", "bitwise_and", "bitwise_not", "lt", "mul"]
    assert source_ops("_to_copy_add") == ["_to_copy", "add"]
    assert source_ops("native_layer_norm_backward_sum") == ["native_layer_norm_backward", "sum"]
    assert source_ops("constant_pad_nd_moe_forward") is None
    assert source_ops("add_" * 1000 + "add") == ["add"] * 1001
