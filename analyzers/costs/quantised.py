"""Matrix products of quantised operands: the FLOPs (for integers: operations) of mm, at the operands' format."""

from __future__ import annotations

from profsuite.analyzers.costs.call import OpCall, Tensor
from profsuite.analyzers.costs.dtypes import INT32
from profsuite.analyzers.costs.registry import Cost, bytes_of, dtype_name, formula, require, total_bytes


def _product(a: Tensor, b: Tensor, n: int, k: int, out_bytes: int | None, *more: Tensor | None) -> Cost:
    m = a.numel // k if k else 0
    return Cost(
        kind="quantised gemm",
        flops=2 * m * n * k,
        bytes_read=total_bytes((a, b, *more)),
        bytes_written=None if out_bytes is None else m * n * out_bytes,
        dtype=dtype_name(a),
    )


@formula("aten::_int_mm", kind="quantised gemm")
def int_mm(call: OpCall) -> Cost:
    """int8 m x k by int8 k x n, summed in int32: 2 m n k operations, four bytes a result."""
    a, b = call.tensor(0), call.tensor(1)
    require(len(a.shape) == len(b.shape) == 2 and a.shape[1] == b.shape[0])
    return _product(a, b, b.shape[1], a.shape[1], INT32.num_bytes)


@formula("aten::_scaled_mm", kind="quantised gemm", values=True)
def scaled_mm(call: OpCall) -> Cost:
    """FP8 m x k by k x n with scales (flop_counter._scaled_mm_flop); the result has the dtype given, else a's."""
    a, b = call.tensor(0), call.tensor(1)
    require(len(a.shape) == len(b.shape) == 2 and a.shape[1] == b.shape[0])
    out = call.dtype(6) or a.dtype
    more = (call.optional(2), call.optional(3), call.optional(4))
    return _product(a, b, b.shape[1], a.shape[1], None if out is None else out.num_bytes, *more)


@formula("aten::_weight_int8pack_mm", kind="quantised gemm")
def weight_int8pack_mm(call: OpCall) -> Cost:
    """m x k by an int8 weight n x k, multiplied in the activation's format: 2 m n k."""
    x, weight = call.tensor(0), call.tensor(1)
    require(len(x.shape) == len(weight.shape) == 2 and x.shape[1] == weight.shape[1])
    size = None if x.dtype is None else x.dtype.num_bytes
    return _product(x, weight, weight.shape[0], x.shape[1], size, call.optional(2))


@formula("aten::_weight_int4pack_mm", kind="quantised gemm")
def weight_int4pack_mm(call: OpCall) -> Cost:
    """m x k by a packed int4 weight, multiplied in the activation's format: 2 m n k.

    n is the middle size of the scales and zero points (k / group, n, 2), as torch packs them.
    """
    x, weight, scales = call.tensor(0), call.tensor(1), call.tensor(3)
    require(len(x.shape) == 2 and len(scales.shape) == 3 and scales.shape[2] == 2)
    size = None if x.dtype is None else x.dtype.num_bytes
    return _product(x, weight, scales.shape[1], x.shape[1], size, scales)


@formula("_C::cutlass_scaled_mm", kind="quantised gemm")
def cutlass_scaled_mm(call: OpCall) -> Cost:
    """vLLM's product of quantised a (m x k) and b (k x n) into the first input: 2 m n k."""
    out, a, b = call.tensor(0), call.tensor(1), call.tensor(2)
    require(len(a.shape) == len(b.shape) == 2 and a.shape[1] == b.shape[0])
    more = (call.optional(3), call.optional(4), call.optional(5))
    cost = _product(a, b, b.shape[1], a.shape[1], None if out.dtype is None else out.dtype.num_bytes, *more)
    require(out.numel == a.shape[0] * b.shape[1])
    return cost


@formula("_C::static_scaled_fp8_quant", "_C::dynamic_scaled_fp8_quant", kind="elementwise")
def fp8_quant(call: OpCall) -> Cost:
    """vLLM's quantisation: a division (here one operation) an element, from the second input into the first."""
    out, x = call.tensor(0), call.tensor(1)
    return Cost(
        kind="elementwise",
        flops=x.numel,
        bytes_read=total_bytes((x, call.optional(2))),
        bytes_written=bytes_of(out.numel, out),
        dtype=dtype_name(x),
    )
