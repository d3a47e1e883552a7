"""Matrix units (Tensor Cores, MFMA): which ops could use them on a device, and which kernels do, by their names."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from profsuite.analyzers.precision import TF32

USES = re.compile(
    r"tensorop|s\d*16816|s161616|i16816|s\d*884|h884|s1688|h1688|tf32|hmma|imma|qmma|wgmma|gmma|nvjet|xmma_\w*(?:f16|bf16|tf32|i8)"
    r"|flash|fmha|^attn_(?:fwd|bwd)|mha_fwd|mha_bwd|_MI\d+x\d+|mfma|fp16_s|bf16_s|f16f16|bf16bf16|cudnn_generated_fort_native_sdpa",
    re.IGNORECASE,
)
"""In the names of kernels on matrix units: ``cutlass_80_tensorop_s1688gemm``, ``nvjet_tst``, ``Cijk_..._MI16x16x1``."""

USES_NOT = re.compile(
    r"simt|sgemm|dgemm|gemv|gemm_?SN|gemmk1|ffma|dot_kernel|scudnn|implicit_convolve|magma", re.IGNORECASE
)
"""In the names of products on vector units: ``volta_sgemm_128x64``, ``cutlass_80_simt_sgemm``, ``gemvNSP_kernel``."""

_SINCE = {"fp16": (7, 0), "int8": (7, 5), "bf16": (8, 0), "tf32": (8, 0), "fp64": (8, 0), "fp8": (8, 9)}
"""NVIDIA's compute capability from which Tensor Cores take a format (CUDA C++ Programming Guide); 8.6 has no fp64."""

_NO_FP64 = {(8, 6), (8, 7), (8, 9), (12, 0)}


def uses_matrix_units(kernel: str) -> bool | None:
    """Whether a kernel of a product runs on matrix units, by its name; null where the name does not tell."""
    if USES.search(kernel):
        return True
    return False if USES_NOT.search(kernel) else None


def takes(device: Mapping[str, Any], dtype: str | None) -> str | None:
    """The format in which the device's matrix units would take operands of ``dtype``; null where they don't.

    fp32 is taken as TF32 where there is that (the caller must allow it).  AMD's accelerators of the Instinct line take
    all formats (fp32 as it is).
    """
    name, major, minor = device.get("name"), device.get("computeMajor"), device.get("computeMinor")
    if dtype is None or not isinstance(name, str):
        return None
    if device.get("warpSize") == 64:
        return dtype if "Instinct MI" in name and dtype in (*_SINCE, "fp32") else None
    if type(major) is not int or type(minor) is not int:
        return None
    wanted = "tf32" if dtype == "fp32" else dtype
    since = _SINCE.get(wanted)
    if since is None or (major, minor) < since or (wanted == "fp64" and (major, minor) in _NO_FP64):
        return None
    return wanted


def format_used(device: Mapping[str, Any], dtype: str | None, kernels: list[str]) -> str | None:
    """The format whose peak bounds a product of ``dtype`` operands by these kernels.

    fp32 runs as TF32 where a kernel's name says so, and where no name tells and the device has it: the higher peak, so
    that no share of it is overstated.
    """
    if dtype != "fp32" or takes(device, dtype) != "tf32":
        return dtype
    if any(TF32.search(kernel) for kernel in kernels):
        return "tf32"
    return "fp32" if kernels and all(uses_matrix_units(kernel) is False for kernel in kernels) else "tf32"
