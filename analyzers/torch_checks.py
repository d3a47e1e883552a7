"""Torch's own word on which fused attention takes a call; only in a process that runs torch on the same device.

This package never imports torch: a training process that reports on itself has it loaded, and a reader of files on
another machine would ask another build and another GPU.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from profsuite.analyzers.costs.call import OpCall, Tensor, UnknownInputError


def fused_attention_allowed(call: OpCall, device: Mapping[str, Any]) -> dict[str, bool] | None:
    """What ``torch.backends.cuda.can_use_*_attention`` say of an sdpa call: by backend (flash, efficient, cudnn).

    Null where torch is not loaded, has no CUDA device of that name, or cannot describe the call.  The tensors are
    fake ones: nothing is allocated or computed.
    """
    torch = sys.modules.get("torch")
    if torch is None:
        return None
    try:
        if not torch.cuda.is_available() or torch.cuda.get_device_name() != device.get("name"):
            return None
        from_name = {"fp16": torch.float16, "bf16": torch.bfloat16, "fp32": torch.float32, "fp64": torch.float64}
        fake_tensor = sys.modules.get("torch._subclasses.fake_tensor")
        if fake_tensor is None:
            return None

        def build(tensor: Tensor) -> Any:
            assert tensor.dtype is not None
            strides = tensor.strides if tensor.strides is not None else _contiguous(tensor.shape)
            return torch.empty_strided(tensor.shape, strides, dtype=from_name[tensor.dtype.name], device="cuda")

        mask = call.optional(3)
        with fake_tensor.FakeTensorMode():
            query, key, value = (build(call.tensor(i)) for i in range(3))
            params = torch.backends.cuda.SDPAParams(
                query, key, value, None if mask is None else build(mask), call.number(4), call.flag(5), _last_flag(call)
            )
            return {
                "flash": bool(torch.backends.cuda.can_use_flash_attention(params)),
                "efficient": bool(torch.backends.cuda.can_use_efficient_attention(params)),
                "cudnn": bool(torch.backends.cuda.can_use_cudnn_attention(params)),
            }
    except (AttributeError, AssertionError, KeyError, RuntimeError, TypeError, UnknownInputError):
        return None  # a build of torch with other checks: the rules stand alone


def _last_flag(call: OpCall) -> bool:
    return call.value(7) == "True"


def _contiguous(shape: tuple[int, ...]) -> tuple[int, ...]:
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))
