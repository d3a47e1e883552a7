"""Formulas against numbers that were worked out by hand, for ops that need a GPU or have no reference."""

from __future__ import annotations

import json

import pytest

from profsuite.analyzers.costs import FAMILIES, Cost, cost_of, costs, find_formula, parse_call, register_cost
from profsuite.analyzers.costs.dtypes import FP32
from profsuite.analyzers.costs.registry import _BY_NAME

Q, K = ("bf16", 2, 8, 128, 64), ("bf16", 2, 8, 256, 64)


def numbers(found):
    return found.flops, found.bytes_read, found.bytes_written


def test_attention(cost):
    found = cost("aten::_scaled_dot_product_flash_attention", Q, K, K, "0.", "False", "False", None)
    q, k = 2 * 8 * 128 * 64, 2 * 8 * 256 * 64
    assert numbers(found) == (2 * 2 * 8 * 128 * 256 * 128, 2 * (q + 2 * k), 2 * q)
    assert (found.kind, found.dtype, found.needed_flops) == ("attention", "bf16", found.flops)


def test_causal_attention_needs_the_pairs_below_the_diagonal(cost):
    found = cost("aten::_scaled_dot_product_flash_attention", Q, Q, Q, "0.", "True", "False", None)
    assert found.needed_flops == 2 * 8 * (128 * 129 // 2) * 2 * 128
    assert found.flops == 2 * 8 * 128 * 128 * 2 * 128
    # More keys than queries: the mask begins at the first key, of the flash-attn package it ends at the last one.
    wide = cost("aten::_scaled_dot_product_flash_attention", Q, K, K, "0.", "True", "False", None)
    assert wide.needed_flops == found.needed_flops
    q, k = ("bf16", 2, 128, 8, 64), ("bf16", 2, 256, 8, 64)
    package = cost("flash_attn::_flash_attn_forward", q, k, k, "0.", "0.125", "True", "-1", "-1")
    assert package.needed_flops == 2 * 8 * (128 * 128 + 128 * 129 // 2) * 2 * 128


def test_attention_of_one_new_token_reads_the_whole_cache(cost):
    query, cache = ("fp16", 4, 32, 1, 128), ("fp16", 4, 8, 2048, 128)  # grouped: four heads share one of the cache
    found = cost("aten::_scaled_dot_product_flash_attention", query, cache, cache, "0.", "False", "False", None)
    assert numbers(found) == (4 * 4 * 32 * 2048 * 128, 2 * (4 * 32 * 128 + 2 * 4 * 8 * 2048 * 128), 2 * 4 * 32 * 128)


def test_attention_with_a_mask_reads_it(cost):
    mask = ("bf16", 2, 1, 128, 256)
    with_mask = cost("aten::_scaled_dot_product_efficient_attention", Q, K, K, mask, "False", "0.", "False", None)
    without = cost("aten::_scaled_dot_product_efficient_attention", Q, K, K, None, "False", "0.", "False", None)
    assert with_mask.bytes_read - without.bytes_read == 2 * 2 * 128 * 256


def test_backward_of_attention_is_five_products(cost):
    lse, scalar = ("fp32", 2, 8, 128), ("int64",)
    found = cost(
        "aten::_scaled_dot_product_flash_attention_backward", Q, Q, K, K, Q, lse, None, None, "128", "256", "0.",
        "False", scalar, scalar, None,
    )  # fmt: skip
    q, k = 2 * 8 * 128 * 64, 2 * 8 * 256 * 64
    assert found.flops == 5 * 2 * 2 * 8 * 128 * 256 * 64
    assert (found.bytes_read, found.bytes_written) == (2 * (3 * q + 2 * k) + 4 * 2 * 8 * 128, 2 * (q + 2 * k))


def test_batches_and_heads_must_fit(cost):
    assert cost("aten::_scaled_dot_product_flash_attention", Q, ("bf16", 3, 8, 256, 64), K, "0.", "False") is None
    assert cost("aten::_scaled_dot_product_flash_attention", Q, K, K) is None  # whether it is causal is not recorded


@pytest.mark.parametrize(
    ("name", "inputs", "expected"),
    [
        ("aten::_int_mm", (("signed char", 32, 64), ("signed char", 64, 16)), (2 * 32 * 16 * 64, 3072, 4 * 512)),
        (
            "aten::_scaled_mm",
            (("fp8", 32, 64), ("fp8", 64, 16), ("fp32", 1), ("fp32", 1), None, None, "15", "True"),
            (2 * 32 * 16 * 64, 3072 + 8, 2 * 512),
        ),
        ("aten::_weight_int8pack_mm", (("bf16", 4, 64), ("signed char", 16, 64), ("bf16", 16)), (8192, 1568, 128)),
        (
            "aten::_weight_int4pack_mm",
            (("bf16", 4, 64), ("int", 2, 1, 32, 4), "32", ("bf16", 2, 16, 2)),
            (2 * 4 * 16 * 64, 512 + 1024 + 128, 128),
        ),
        (
            "_C::cutlass_scaled_mm",
            (("bf16", 32, 16), ("fp8", 32, 64), ("fp8", 64, 16), ("fp32", 1), ("fp32", 1), None),
            (2 * 32 * 16 * 64, 3072 + 8, 1024),
        ),
        # 24 rows for three experts, whatever the offsets: each row meets one of them.
        (
            "aten::_grouped_mm",
            (("bf16", 24, 64), ("bf16", 3, 64, 16), ("int", 3), None, None),
            (2 * 24 * 64 * 16, 2 * (24 * 64 + 3 * 64 * 16) + 12, 2 * 24 * 16),
        ),
        # The gradient of the experts: 64 x 16 for each of three groups of the 24 rows.
        (
            "aten::_grouped_mm",
            (("bf16", 64, 24), ("bf16", 24, 16), ("int", 3), None, None),
            (2 * 24 * 64 * 16, 2 * (24 * 64 + 24 * 16) + 12, 2 * 3 * 64 * 16),
        ),
        (
            "aten::_scaled_grouped_mm",
            (("fp8", 24, 64), ("fp8", 3, 64, 16), ("fp32", 24), ("fp32", 3, 16), ("int", 3), None, None, None, "True"),
            (2 * 24 * 64 * 16, 24 * 64 + 3 * 64 * 16 + 96 + 192 + 12, 2 * 24 * 16),
        ),
        ("aten::_cslt_sparse_mm", (("fp16", 32, 36), ("fp16", 64, 16), None), (32 * 16 * 64, 2 * (1152 + 1024), 1024)),
        (
            "aten::_sparse_semi_structured_mm",
            (("fp16", 32, 32), ("short", 32, 4), ("fp16", 64, 16)),
            (32 * 16 * 64, 2 * (1024 + 128 + 1024), 1024),
        ),
        (
            "aten::_sparse_semi_structured_linear",
            (("fp16", 2, 8, 64), ("fp16", 16, 32), ("short", 16, 4), None),
            (16 * 16 * 64, 2 * (1024 + 512 + 64), 512),
        ),
        ("aten::cudnn_convolution",
         (("fp16", 2, 4, 9, 9), ("fp16", 6, 4, 3, 3), "[1, 1]", "[2, 2]", "[1, 1]", "1", "False"),
         (2 * 2 * 25 * 6 * 4 * 9, 2 * (648 + 216), 2 * 2 * 6 * 25)),
        ("aten::miopen_convolution",
         (("fp16", 2, 4, 9, 9), ("fp16", 6, 4, 3, 3), None, "[1, 1]", "[2, 2]", "[1, 1]", "1", "False"),
         (2 * 2 * 25 * 6 * 4 * 9, 2 * (648 + 216), 2 * 2 * 6 * 25)),
        ("aten::_fused_rms_norm", (("bf16", 6, 32), "[32]", ("bf16", 32), "1e-05"), (4 * 192, 448, 384 + 4 * 6)),
        ("aten::cudnn_batch_norm",
         (("fp16", 2, 4, 8, 8), *[("fp32", 4)] * 4, "False", "0.1", "1e-05"), (4 * 512, 1024 + 64, 1024)),
        ("_C::fused_add_rms_norm", (("bf16", 6, 32), ("bf16", 6, 32), ("bf16", 32), "1e-05"), (960, 832, 768)),
        ("_C::silu_and_mul", (("bf16", 6, 32), ("bf16", 6, 64)), (384, 768, 384)),
        ("_C::static_scaled_fp8_quant", (("fp8", 6, 32), ("bf16", 6, 32), ("fp32", 1)), (192, 388, 192)),
        ("aten::gather", (("fp32", 6, 32), "1", ("int64", 6, 2), "False"), (0, 12 * 4 + 12 * 8, 48)),
        ("aten::index_select", (("fp32", 6, 32), "0", ("int64", 3)), (0, 96 * 4 + 24, 96 * 4)),
        ("aten::index_add_", (("fp32", 6, 32), "0", ("int64", 3), ("fp32", 3, 32), "1"), (96, 2 * 384 + 24, 384)),
        ("aten::binary_cross_entropy", (("fp32", 8), ("fp32", 8), None, "1"), (64, 64, 4)),
        ("aten::mse_loss_backward", (("fp32",), ("fp32", 8), ("fp32", 8), "1"), (24, 68, 32)),
        ("aten::max_pool2d_with_indices_backward",
         (("fp32", 2, 4, 4, 4), ("fp32", 2, 4, 8, 8), *["[2, 2]"] * 2, "[0, 0]", "[1, 1]", "False",
          ("int64", 2, 4, 4, 4)),
         (128, 128 * 12, 2048)),
    ],
)  # fmt: skip
def test_by_hand(name, inputs, expected, cost):
    assert numbers(cost(name, *inputs)) == expected


def adam(name, decay, maxima=()):
    lists = [[[10, 4], [8]]] * 4
    steps = [[[], []]]
    return (name, *lists, list(maxima), *steps, "0.001", "0.9", "0.999", decay, "1e-08", "False", "False", None, None)


@pytest.mark.parametrize(
    ("inputs", "per_element", "read", "written"),
    [
        (adam("aten::_fused_adam_", "0."), 13, 4, 3),
        (adam("aten::_fused_adam_", "0.1"), 15, 4, 3),
        (adam("aten::_fused_adamw_", "0.1"), 14, 4, 3),
        (adam("aten::_fused_adamw_", "0.1", [[10, 4], [8]]), 15, 5, 4),
        (("aten::_foreach_add_", [[10, 4], [8]], [[10, 4], [8]], "1"), 1, 2, 1),
        (("aten::_foreach_mul_", [[10, 4], [8]], "0.9"), 1, 1, 1),
        (("aten::_foreach_addcdiv_", *[[[10, 4], [8]]] * 3, "[0.1, 0.1]"), 3, 3, 1),
        (("aten::_foreach_copy_", *[[[10, 4], [8]]] * 2, "False"), 0, 1, 1),
        (("aten::_foreach_zero_", [[10, 4], [8]]), 0, 0, 1),
        (("aten::_fused_sgd_", *[[[10, 4], [8]]] * 3, "0.1", "0.9", "0.01", "0.", "True", "False", "False"), 9, 3, 2),
        (("aten::_fused_sgd_", *[[[10, 4], [8]]] * 3, "0.", "0.9", "0.01", "0.", "False", "False", "True"), 2, 2, 2),
        (("aten::_fused_adagrad_", *[[[10, 4], [8]]] * 3, [[], []], "0.1", "0.", "0.", "1e-10", "False"), 7, 3, 2),
    ],
)
def test_optimizers(inputs, per_element, read, written, cost):
    known = cost(*inputs, list_dtype=FP32)
    assert numbers(known) == (per_element * 48, read * 48 * 4, written * 48 * 4)
    unknown = cost(*inputs)
    assert unknown.flops == per_element * 48
    assert unknown.num_bytes in (None, 0) if read else unknown.bytes_written is None


def test_sparse_by_stored_elements(cost):
    layouts = json.dumps(["sparse_csr", "strided"])
    inputs = (("fp32", 100, 50), ("fp32", 50, 20))
    found = cost("aten::mm", *inputs, layouts=layouts, stored={(100, 50): 30})
    # values, column indices and 101 row pointers of 8 bytes; the dense factor; the result
    assert numbers(found) == (2 * 30 * 20, 30 * 4 + 8 * (30 + 101) + 4000, 8000)
    assert found.kind == "sparse gemm"
    unknown = cost("aten::mm", *inputs, layouts=layouts)
    assert (unknown.flops, unknown.num_bytes) == (None, None)


def test_a_sparse_tensor_is_known_by_its_missing_strides_too(cost):
    strides = json.dumps([[], [20, 1]])
    found = cost("aten::mm", ("fp32", 100, 50), ("fp32", 50, 20), strides=strides, stored={(100, 50): 30})
    assert (found.kind, found.flops, found.bytes_read) == ("sparse gemm", 2 * 30 * 20, None)


def test_templates(cost):
    found = cost("triton_tem_fused_mm_3", ("bf16", 32, 64), ("bf16", 64, 16), ("bf16", 32, 16))
    assert (found.kind, found.flops, found.num_bytes) == ("gemm", 2 * 32 * 64 * 16, 2 * (2048 + 1024 + 512))
    flex = cost("triton_tem_fused_flex_attention_0", Q, K, K, ("fp32", 2, 8, 128), ("int", 1, 1, 1), Q)
    assert (flex.flops, flex.needed_flops) == (2 * 2 * 8 * 128 * 256 * 128, None)


@pytest.mark.parametrize(
    "name", ["aten::mm", "aten::bmm", "aten::convolution", "aten::native_layer_norm", "aten::_scaled_mm"]
)
@pytest.mark.parametrize(
    ("dims", "types"),
    [
        (None, None),
        ("[]", "[]"),
        ("[[3, 4], [4]]", '["float", "float"]'),
        ("[[3, -4], [4, 5]]", '["float", "float"]'),
        ("[[3, 4.5], [4, 5]]", '["float", "float"]'),
        ("[[3, true], [4, 5]]", '["float", "float"]'),
        ("[[3, 99999999999999999999], [4, 5]]", '["float", "float"]'),
        ("[[3, 4], [5, 6]]", '["Scalar", "float"]'),
        ("{}", "7"),
        ("[" * 100_000, '["float"]'),
        ('[["x"], [null]]', '["float", "float"]'),
        ("not json", '["float"]'),
        ("[[0, 0], [0, 0]]", '["float"]'),
    ],
)
def test_damaged_shapes_are_unknown(name, dims, types):
    try:
        found = cost_of(parse_call(name, dims, types, None, None))
    except ValueError:
        return
    assert found is None


def test_sizes_that_no_device_holds_are_unknown(cost):
    huge = 2**47
    assert cost("aten::bmm", ("bf16", huge, huge, huge), ("bf16", huge, huge, huge)) is None
    assert cost("aten::relu", ("bf16", *[huge] * 60)) is None


def test_unknown_dtype_has_flops_and_no_bytes(cost):
    found = cost("aten::mm", ("mylib::Packed", 3, 4), ("mylib::Packed", 4, 5))
    assert numbers(found) == (120, None, None)


def test_every_formula_says_where_it_comes_from():
    assert len(costs()) > 450
    assert all(len(entry.source) > 10 for entry in costs() if entry.built_in)
    assert [entry.name for entry in costs()] == sorted(entry.name for entry in costs())
    assert len(FAMILIES) == 16


@pytest.fixture
def registered():
    before = dict(_BY_NAME)
    yield register_cost
    _BY_NAME.clear()
    _BY_NAME.update(before)


def test_formulas_of_ones_own(registered, cost):
    import profsuite

    def scan(call):
        return Cost(flops=2 * call.tensor(0).numel, bytes_read=call.tensor(0).nbytes, bytes_written=0)

    profsuite.register_cost("mylib::scan", scan)
    assert cost("mylib::scan", ("bf16", 3, 4)) == Cost(flops=24, bytes_read=24, bytes_written=0)
    entry = next(entry for entry in profsuite.costs() if entry.name == "mylib::scan")
    assert (entry.built_in, entry.function) == (False, scan)
    assert cost("mylib::scan", "3") is None


def test_a_formula_of_ones_own_that_fails_is_warned_of_once(registered, cost):
    registered("mylib::broken", lambda call: 1 / 0)
    with pytest.warns(UserWarning, match="cost formula of mylib::broken fails: ZeroDivisionError"):
        assert cost("mylib::broken", ("bf16", 3)) is None
    assert cost("mylib::broken", ("bf16", 3)) is None


def test_what_cannot_be_registered():
    with pytest.raises(ValueError, match="needs the op's name"):
        register_cost(" ", lambda call: None)
    with pytest.raises(TypeError, match="needs a function"):
        register_cost("mylib::op", 3)


def test_names_are_found_exactly_or_by_pattern():
    assert find_formula("aten::mm").name == "aten::mm"
    assert find_formula("triton_poi_fused_add_0").is_pattern
    assert find_formula("aten::view") is None
    assert find_formula("x" * 1_000_000) is None
