"""Which number formats a GPU computes fast in, and which its kernels use already: for advice, never for numbers."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from profsuite.analyzers.analysis import Analysis

EIGHT_BITS = re.compile(
    r"mx_?fp|fp8|fp4|e2m1|e4m3|e5m2|float8|float4|int8|i8816|imma|^nvjet_(?:sm\d+_)?q", re.IGNORECASE
)
"""In the names of kernels that compute in eight bits or fewer: ``_matmul_ogs_NNT_bf16xbf16xmxfp4_16x128x256x1``."""

SIXTEEN_BITS = re.compile(
    r"bf16|bfloat16|fp16|f16|half|s16816gemm|s161616gemm|h884|h1688|hgemm|^nvjet_(?:sm\d+_)?[ht]"
    r"|^Cijk_[A-Za-z]+_[A-Za-z]+_[BH](?:_|BS_|HS_|SS_)",
    re.IGNORECASE,
)
"""In the names of kernels in bf16 or fp16: ``cutlass_80_tensorop_bf16_s16816gemm``, ``Cijk_Alik_Bljk_BBS_BH_...``."""

TF32 = re.compile(r"tf32|s1688gemm", re.IGNORECASE)
"""In the names of kernels in TF32: ``cutlass_80_tensorop_s1688gemm_128x128_32x3_nn_align4``."""


@dataclass(frozen=True, slots=True)
class Precision:
    """What most of the kernels' time runs in (``bits``), and what lower format may be worth trying.

    ``lower`` is a noun (``bf16 or fp16``, ``FP8``), null where the device computes nothing lower faster or nothing
    lower is left; ``tf32`` is a noun too, null where the device has none or uses it already.
    """

    bits: int
    lower: str | None
    tf32: str | None

    @property
    def sixteen(self) -> str | None:
        """``lower`` where that means 16 bits, which any kernel can use; FP8 is for matrix multiplications."""
        return self.lower if self.bits == 32 else None


def precision(analysis: Analysis, kernels: Mapping[str, int]) -> Precision:
    """What lower precision is left for ``kernels`` (time by name, ns) on the main device."""
    half = sum(kernels.values()) / 2
    eight = sum(ns for name, ns in kernels.items() if EIGHT_BITS.search(name))
    sixteen = sum(ns for name, ns in kernels.items() if SIXTEEN_BITS.search(name) and not EIGHT_BITS.search(name))
    bits = 8 if eight >= half else 16 if eight + sixteen >= half else 32
    device = main_device(analysis)
    in_tf32 = sum(ns for name, ns in kernels.items() if TF32.search(name)) >= half
    return Precision(bits, _lower(bits, device), _tf32(device) if bits == 32 and not in_tf32 else None)


def main_device(analysis: Analysis) -> Mapping[str, Any]:
    """What the file's header says of the main device; of the first where ordinals don't tell; may be empty."""
    devices = analysis.trace.info.devices
    ordinal = analysis.device.device if analysis.device else None
    return next((row for row in devices if row.get("id") == ordinal), devices[0] if devices else {})


def capability(analysis: Analysis) -> tuple[int, int] | None:
    """The main device's compute capability, null for AMD's devices and where the file does not say."""
    device = main_device(analysis)
    return None if _is_amd(device) else _version(device)


def _version(device: Mapping[str, Any]) -> tuple[int, int] | None:
    major, minor = device.get("computeMajor"), device.get("computeMinor")
    return (major, minor) if isinstance(major, int) and isinstance(minor, int) else None


def _is_amd(device: Mapping[str, Any]) -> bool:
    return device.get("warpSize") == 64


def _lower(bits: int, device: Mapping[str, Any]) -> str | None:
    """NVIDIA: fp16 is fast on 6.0 and from 7.0, bf16 and TF32 from 8.0, FP8 from 8.9 (CUDA C++ Programming Guide)."""
    version = _version(device)
    if version is None:
        return {
            32: "fp16, or bf16 where the GPU has it (compute capability 8.0)",
            16: "FP8 where the GPU has it (compute capability 8.9)",
        }.get(bits)
    if _is_amd(device):  # the version of gfx: 9.0 is MI200 and before, 9.4 MI300
        return {32: "bf16 or fp16", 16: "FP8" if version >= (9, 4) else None}.get(bits)
    if bits == 32:
        return "bf16 or fp16" if version >= (8, 0) else "fp16" if version >= (7, 0) or version == (6, 0) else None
    return "FP8" if bits == 16 and version >= (8, 9) else None


def _tf32(device: Mapping[str, Any]) -> str | None:
    version = _version(device)
    if version is None:
        return "TF32 where the GPU has it"
    return "TF32" if version >= (8, 0) and not _is_amd(device) else None
