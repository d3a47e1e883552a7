"""Families of kernels by name: what a kernel computes, for advice; never for numbers that must be exact."""

from __future__ import annotations

import re

FAMILIES: tuple[tuple[str, str, str], ...] = (
    # An optimizer's kernels are elementwise by name, and attention and convolution contain "gemm".
    ("optimizer updates", r"multi_tensor|adam|sgd_", "at::native::multi_tensor_apply_kernel<FusedAdamMathFunctor>"),
    # A kernel that fills attention's cache (reshape_and_cache_flash) is none of it.
    ("attention", r"(?<!and_cache_)flash|fmha|attn|attention|mha_", "pytorch_flash::flash_fwd_kernel"),
    (
        "convolutions",
        r"conv|wgrad|dgrad|winograd|fprop|im2col|miopen.*(fwd|bwd|wrw)|igemm_",
        "cudnn::winograd_nonfused",
    ),
    (
        "matrix multiplications",
        r"gemm|gemv|cutlass|cijk|nvjet|matmul|xmma|splitk|_mm_|^bmm_|fused_moe_kernel|marlin",
        "Cijk_Alik_Bljk_BBS_BH",
    ),
    ("normalisation", r"norm|cudnn::bn_|bn_fw|bn_bw", "cudnn::bn_fw_tr_1C11_singleread"),
    ("softmax and losses", r"softmax|nll_loss|cross_entropy", "cunn_SoftMaxForward"),
    ("fused Triton kernels", r"^triton_", "triton_red_fused_add_mean_mul_pow_rsqrt_0"),
    ("embedding and indexing", r"embedding|index|gather|scatter|rotary|cache", "indexSelectLargeIndex"),
    ("reductions", r"reduce", "at::native::reduce_kernel"),
    (
        "elementwise kernels",
        r"elementwise|pointwise|vectorized|copy|fill|cat",
        "at::native::vectorized_elementwise_kernel",
    ),
)
"""Family, pattern (case-insensitive, anywhere), an example; the first that matches decides."""

OTHER = "other kernels"

_PATTERNS = tuple((family, re.compile(pattern, re.IGNORECASE)) for family, pattern, _ in FAMILIES)


def family(name: str) -> str:
    """The family of a kernel, ``OTHER`` if its name tells nothing."""
    return next((family for family, pattern in _PATTERNS if pattern.search(name)), OTHER)
