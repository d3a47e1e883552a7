"""Grouped products: the experts of a mixture, each with its own rows."""

from __future__ import annotations

from math import prod

from profsuite.analyzers.costs.call import OpCall, Tensor
from profsuite.analyzers.costs.dtypes import INT32, INT64
from profsuite.analyzers.costs.registry import Cost, bytes_of, dtype_name, formula, require, total_bytes


@formula("aten::_grouped_mm", kind="grouped gemm", values=True)
def grouped_mm(call: OpCall) -> Cost:
    """torch's grouped product: every row (or column, or slice of k) belongs to one group, which offsets say.

    rows m x k by g x k x n: 2 m n k; g x m x k by columns k x n: 2 m n k; m x k by k x n, k in groups, into
    g x m x n: 2 m n k; both with g: 2 g m n k.  Which rows belong to whom doesn't change the sum; rows beyond the last
    offset would count though they are not computed.
    """
    a, b, offsets = call.tensor(0), call.tensor(1), call.optional(2)
    return _grouped(a, b, offsets, (), call.optional(3))


@formula("aten::_scaled_grouped_mm", kind="grouped gemm", values=True)
def scaled_grouped_mm(call: OpCall) -> Cost:
    """As ``_grouped_mm`` with scales; the result is in bf16, two bytes an element (its only dtype)."""
    a, b, offsets = call.tensor(0), call.tensor(1), call.optional(4)
    return _grouped(a, b, offsets, (call.optional(2), call.optional(3)), call.optional(5), out_bytes=2)


def _grouped(
    a: Tensor,
    b: Tensor,
    offsets: Tensor | None,
    scales: tuple[Tensor | None, ...],
    bias: Tensor | None,
    out_bytes: int | None = None,
) -> Cost:
    ranks = len(a.shape), len(b.shape)
    require(ranks in ((2, 3), (3, 2), (2, 2), (3, 3)) and a.shape[-1] == b.shape[-2])
    if ranks == (3, 3):
        require(a.shape[0] == b.shape[0])
        groups = a.shape[0]
    else:
        require(offsets is not None and len(offsets.shape) == 1)
        groups = 1
    m, n, k = a.shape[-2], b.shape[-1], a.shape[-1]
    results = groups * m * n
    if ranks == (2, 2) and offsets is not None:
        results = offsets.shape[0] * m * n
    return Cost(
        kind="grouped gemm",
        flops=2 * groups * m * n * k,
        bytes_read=total_bytes((a, b, offsets, bias, *scales)),
        bytes_written=bytes_of(results, a) if out_bytes is None else results * out_bytes,
        dtype=dtype_name(a),
    )


@formula(
    "vllm::inplace_fused_experts",
    "vllm::outplace_fused_experts",
    "vllm::rocm_aiter_fused_moe",
    "sglang::inplace_fused_experts",
    "sglang::outplace_fused_experts",
    kind="grouped gemm",
)
def fused_experts(call: OpCall) -> Cost:
    """Both products of a mixture of experts: every row of t x k meets the experts that its row of ids names.

    (hidden t x k, first weights e x n x k, second e x k x m, ids' weights, ids t x top, ...) of vLLM (fused_moe.py,
    _aiter_ops.py) and SGLang; n is m, or 2 m where the activation is gated: 2 t top k (n + m).  Which experts' weights
    are read is data, so the bytes are unknown.  Null where integers beside the ids say which experts are here (expert
    parallelism), and for packed weights, whose k is another.
    """
    x, first, second, ids = call.tensor(0), call.tensor(1), call.tensor(2), call.tensor(4)
    require(len(x.shape) == 2 and len(first.shape) == len(second.shape) == 3 and len(ids.shape) == 2)
    require(first.shape[0] == second.shape[0] and first.shape[2] == second.shape[1] == x.shape[1])
    n, k, m = first.shape[1], first.shape[2], second.shape[2]
    require(n in (m, 2 * m) and ids.shape[0] == x.shape[0])
    others = (call.optional(i) for i in range(5, len(call.args)))
    require(not any(each is not None and each.dtype in (INT32, INT64) for each in others))
    return Cost(kind="grouped gemm", flops=2 * prod(ids.shape) * k * (n + m), dtype=dtype_name(first))
