"""Which backend an attention op is, and what the documented rules say of the fused ones that did not run."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal

from profsuite.analyzers.costs.call import OpCall, Tensor, UnknownInputError

Backend = Literal[
    "flash",
    "efficient",
    "cudnn",
    "overrideable",
    "math",
    "flash (CPU)",
    "flash-attn",
    "aiter",
    "xformers",
    "flex",
    "vllm",
    "unfused",
]

BACKENDS: tuple[tuple[Backend, str, str], ...] = (
    ("flash (CPU)", r"^aten::_scaled_dot_product_flash_attention_for_cpu",
     "aten::_scaled_dot_product_flash_attention_for_cpu"),
    ("flash", r"^aten::_scaled_dot_product_flash_attention", "aten::_scaled_dot_product_flash_attention_backward"),
    ("efficient", r"^aten::_scaled_dot_product_efficient_attention", "aten::_scaled_dot_product_efficient_attention"),
    ("cudnn", r"^aten::_scaled_dot_product_cudnn_attention", "aten::_scaled_dot_product_cudnn_attention"),
    ("overrideable", r"^aten::_scaled_dot_product_fused_attention_overrideable",
     "aten::_scaled_dot_product_fused_attention_overrideable"),
    ("math", r"^aten::_scaled_dot_product_attention_math", "aten::_scaled_dot_product_attention_math"),
    ("flex", r"^triton_tem_fused_\w*flex_(?:attention|decoding)", "triton_tem_fused_flex_attention_0"),
    ("flash-attn", r"^flash_attn(?:_\w+)?::|^FlashAttn\w*Func(?:Backward)?$", "flash_attn::_flash_attn_forward"),
    ("flash", r"^aten::_flash_attention_(?:forward|backward)", "aten::_flash_attention_forward"),
    ("efficient", r"^aten::_efficient_attention_(?:forward|backward)", "aten::_efficient_attention_forward"),
    ("aiter", r"^aiter::(?:_flash_attn|mha_|fmha_v3_|wrapper_fmha)", "aiter::mha_fwd"),
    ("xformers", r"^xformers\w*::.*attention", "xformers_flash3::flash_fwd_attention"),
    ("vllm", r"^vllm::unified_attention", "vllm::unified_attention_with_output"),
)  # fmt: skip
"""Backend, pattern of its ops' names, an example; the first that matches decides."""

_PATTERNS = tuple((backend, re.compile(pattern)) for backend, pattern, _ in BACKENDS)

FUSED: tuple[Backend, ...] = (
    "flash",
    "efficient",
    "cudnn",
    "overrideable",
    "flash-attn",
    "aiter",
    "xformers",
    "flex",
    "vllm",
)
"""Backends that never write the scores to memory."""

FLASH_MAX_HEAD = 256
"""Largest head that torch's flash kernels take (sdp_utils.cpp, check_head_dim_size_flash)."""


def backend_of(name: str) -> Backend | None:
    """The backend that an op of this name is; null for other ops."""
    if len(name) > 4096:
        return None
    return next((backend for backend, pattern in _PATTERNS if pattern.search(name)), None)


def flash_refusals(call: OpCall, device: Mapping[str, Any]) -> tuple[str, ...]:
    """Why torch's flash kernels do not take an sdpa call, of what was recorded; empty if nothing speaks against it.

    Rules: aten/src/ATen/native/transformers/cuda/sdp_utils.cpp, can_use_flash_attention, and the documentation of
    torch.nn.functional.scaled_dot_product_attention.  ``call`` has (query, key, value, mask, dropout, is_causal, ...).
    """
    found = list(_of_both(call))
    query, key, value = call.tensor(0), call.tensor(1), call.tensor(2)
    if not _is_amd(device) and (version := _capability(device)) is not None and version < (8, 0):
        found.append(f"compute capability {version[0]}.{version[1]} is below 8.0")
    if query.dtype is not None and query.dtype.name not in ("fp16", "bf16"):
        found.append(f"{query.dtype.name}: it takes fp16 and bf16 only")
    if call.optional(3) is not None:
        found.append("a mask is given: it takes is_causal only")
    if len(query.shape) == len(key.shape) == len(value.shape) == 4:
        heads = {tensor.shape[-1] for tensor in (query, key, value)}
        if len(heads) > 1:
            found.append("query, key and value have heads of different sizes")
        elif max(heads) > FLASH_MAX_HEAD:
            found.append(f"heads of {max(heads)}: it takes up to {FLASH_MAX_HEAD}")
        if _flag(call, 5) and query.shape[-2] != key.shape[-2]:
            found.append("is_causal with different lengths of query and key")
    return tuple(found)


def efficient_refusals(call: OpCall, device: Mapping[str, Any]) -> tuple[str, ...]:
    """Why torch's memory-efficient kernels do not take an sdpa call; as ``flash_refusals``.

    Rules: can_use_mem_efficient_attention in the same file.
    """
    found = list(_of_both(call))
    query, value = call.tensor(0), call.tensor(2)
    version = None if _is_amd(device) else _capability(device)
    if query.dtype is not None:
        if query.dtype.name not in ("fp16", "bf16", "fp32"):
            found.append(f"{query.dtype.name}: it takes fp16, bf16 and fp32 only")
        if query.dtype.name == "bf16" and version is not None and version < (8, 0):
            found.append("bf16 below compute capability 8.0")
        unit = _alignment(query.dtype.name, version)
        if unit > 1 and any(tensor.shape and tensor.shape[-1] % unit for tensor in (query, value)):
            found.append(f"the size of the heads is no multiple of {unit}")
    if _flag(call, 7):
        found.append("enable_gqa: it does not share heads")
    return tuple(found)


def _of_both(call: OpCall) -> tuple[str, ...]:
    query, key, value = call.tensor(0), call.tensor(1), call.tensor(2)
    found = []
    if not all(len(tensor.shape) == 4 for tensor in (query, key, value)):
        found.append("the inputs do not have four dimensions")
    elif not _flag(call, 7) and len({tensor.shape[:2] for tensor in (query, key, value)}) > 1:
        found.append("batches or heads of query, key and value differ (without enable_gqa)")
    if any(0 in tensor.shape for tensor in (query, key, value)):
        found.append("an input is empty")
    if len({tensor.dtype for tensor in (query, key, value)}) > 1:
        found.append("query, key and value differ in dtype")
    if any(_last_stride(tensor) not in (None, 1) for tensor in (query, key, value)):
        found.append("the last dimension of an input is not contiguous")
    return tuple(found)


def _last_stride(tensor: Tensor) -> int | None:
    return tensor.strides[-1] if tensor.strides else None


def _alignment(dtype: str, version: tuple[int, int] | None) -> int:
    """Elements that heads must be a multiple of (minimum_gemm_alignment in sdp_utils.cpp); 1 where not known."""
    if version is None:
        return 1
    if dtype in ("fp16", "bf16"):
        return 8 if version >= (8, 0) else 4
    return 4 if version >= (8, 0) else 1


def _flag(call: OpCall, at: int) -> bool:
    try:
        return call.flag(at)
    except UnknownInputError:
        return False


def _is_amd(device: Mapping[str, Any]) -> bool:
    return device.get("warpSize") == 64


def _capability(device: Mapping[str, Any]) -> tuple[int, int] | None:
    major, minor = device.get("computeMajor"), device.get("computeMinor")
    return (major, minor) if type(major) is int and type(minor) is int else None
