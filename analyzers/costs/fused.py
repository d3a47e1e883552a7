"""Kernels that Inductor and Triton generate: named after the ops that they fuse, given all their tensors.

A generated kernel reads or writes each of its tensors at least once; which, its arguments do not say.  FLOPs are known
for templates (products, attention); of other kernels the name bounds them from below (``source_ops``).
"""

from __future__ import annotations

import re
from math import prod

from profsuite.analyzers.costs.attention import attention_cost
from profsuite.analyzers.costs.call import OpCall, Tensor
from profsuite.analyzers.costs.registry import Cost, dtype_name, formula, require, total_bytes
from profsuite.analyzers.costs.source_ops import least_flops

PARTIAL = re.compile(
    r"_(?:slice|split|select|index|embedding|gather|scatter|narrow|unbind|as_strided|diagonal|nll_loss|max_pool\w*"
    r"|slice_backward|select_backward|topk|sort)(?:_|$)"
)
"""Source ops that may touch only a part of a tensor: the bytes are unknown then."""


@formula(r"^triton_(?:poi|red|per|for|mix)_fused", r"^cpp_fused", kind="fused", pattern=True, values=True)
def generated(call: OpCall) -> Cost:
    """Every tensor argument once (torch._inductor.codegen.triton: in_ptr, out_ptr, in_out_ptr).

    FLOPs are unknown; those of the ops in the name, each once, are the least.
    """
    tensors = call.every_tensor
    require(bool(tensors))
    known = None if PARTIAL.search(call.name) else total_bytes(tensors)
    return Cost(kind="fused", bytes_moved=known, least_flops=least_flops(call), dtype=dtype_name(*tensors))


@formula(r"^triton_tem_fused", kind="fused", pattern=True)
def template(call: OpCall) -> Cost:
    """A template: attention on four-dimensional q, k, v, or a product of its first two matrices into the last one.

    FlexAttention's mask is data (flop_counter counts all pairs): its time is bounded by its bytes alone.
    """
    tensors = call.every_tensor
    require(len(tensors) >= 3)
    if "flex_attention" in call.name or "flex_decoding" in call.name:
        backward = "backward" in call.name
        q, k, v = tensors[:3]
        extra = tuple(tensor for tensor in tensors[3:] if len(tensor.shape) == 4 and tensor.shape == q.shape)[1:]
        return attention_cost(q, k, v, causal=False, backward=backward, more=extra, data_dependent=True)
    a, b, out = _factors(tensors)
    rows, depth = prod(a.shape[:-1]), a.shape[-1]
    require(out.numel == rows * b.shape[-1])
    return Cost(
        kind="gemm" if len(a.shape) == 2 else "batched gemm",
        flops=2 * rows * depth * b.shape[-1],
        bytes_moved=total_bytes(tensors),
        dtype=dtype_name(a),
    )


def _factors(tensors: tuple[Tensor, ...]) -> tuple[Tensor, Tensor, Tensor]:
    a, b, out = tensors[0], tensors[1], tensors[-1]
    require(len(a.shape) == len(b.shape) and len(a.shape) in (2, 3) and a.shape[:-2] == b.shape[:-2])
    require(a.shape[-1] == b.shape[-2] and out.shape[-2:] == (a.shape[-2], b.shape[-1]))
    return a, b, out
