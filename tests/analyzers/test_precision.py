"""Precision: what a GPU is advised to try depends on the GPU and on what its kernels run in already."""

from __future__ import annotations

import pytest

from profsuite.analyzers.analysis import Analysis
from profsuite.analyzers.findings.kernel_bound import kernel_hint, kernel_remedy, leading_kernels
from profsuite.analyzers.verdict import verdict

V100 = {"id": 0, "computeMajor": 7, "computeMinor": 0, "warpSize": 32}
P100 = {"id": 0, "computeMajor": 6, "computeMinor": 0, "warpSize": 32}
P40 = {"id": 0, "computeMajor": 6, "computeMinor": 1, "warpSize": 32}
A100 = {"id": 0, "computeMajor": 8, "computeMinor": 0, "warpSize": 32}
H100 = {"id": 0, "computeMajor": 9, "computeMinor": 0, "warpSize": 32}
MI210 = {"id": 0, "computeMajor": 9, "computeMinor": 0, "warpSize": 64}
MI300 = {"id": 0, "computeMajor": 9, "computeMinor": 4, "warpSize": 64}

HALF = "cutlass_80_tensorop_bf16_s16816gemm_bf16"
FOUR = "_matmul_ogs_NNT_bf16xbf16xmxfp4_16x128x256x1"


def advised(job, device, name):
    if device:
        job.header = {"deviceProperties": [device]}
    analysis = Analysis(job.kernel(0, 100, name=name).trace())
    leading = leading_kernels(analysis)
    return kernel_hint(analysis, leading), kernel_remedy(analysis, leading)


@pytest.mark.parametrize(
    ("device", "name", "hint"),
    [
        (V100, "volta_sgemm_64x64_nt", "Lower precision (fp16) or fewer FLOPs help"),
        (V100, "volta_fp16_s884gemm_fp16_128x128", "Fewer FLOPs help"),
        (P100, "sgemm_64x64", "Lower precision (fp16) or fewer FLOPs help"),
        (P40, "sgemm_64x64", "Fewer FLOPs help"),
        (A100, "ampere_sgemm_128x64", "Lower precision (bf16 or fp16, or TF32) or fewer FLOPs help"),
        (A100, "cutlass_80_tensorop_s1688gemm_128x128", "Lower precision (bf16 or fp16) or fewer FLOPs help"),
        (A100, HALF, "Fewer FLOPs help"),
        (H100, HALF, "Lower precision (FP8) or fewer FLOPs help"),
        (H100, FOUR, "Fewer FLOPs help"),
        (H100, "nvjet_tst_64x64_64x16_2x1", "Lower precision (FP8) or fewer FLOPs help"),
        (MI210, "Cijk_Alik_Bljk_BBS_BH_MT16", "Fewer FLOPs help"),
        (MI210, "Cijk_Ailk_Bljk_S_B_Bias_HA", "Lower precision (bf16 or fp16) or fewer FLOPs help"),
        (MI300, "Cijk_Alik_Bljk_B_BS_BH_MT16", "Lower precision (FP8) or fewer FLOPs help"),
        (V100, "cudnn::cnn::wgrad_alg0_engine<float>", "Try channels_last with fp16"),
        (A100, "igemm_fwd_nhwc_bf16", "Try channels_last"),
    ],
)
def test_what_is_advised(job, device, name, hint):
    assert advised(job, device, name)[0] == hint


@pytest.mark.parametrize("name", ["sgemm", HALF, FOUR, "flash_fwd", "wgrad_engine", "vectorized_elementwise<float>"])
def test_nothing_newer_than_a_v100_is_advised_on_it(job, name):
    remedy = advised(job, V100, name)[1]
    assert not any(word in remedy for word in ("bf16", "FP8", "TF32", "flash"))


def test_an_unknown_gpu_is_advised_with_conditions(job):
    hint, remedy = advised(job, None, "sgemm")
    assert "bf16 where the GPU has it (compute capability 8.0), or TF32 where the GPU has it" in hint
    assert "TF32 where the GPU has it" in remedy


def test_shares_are_those_of_the_table_of_kernels(job):
    for i in range(10):
        job.kernel(100 * i, 60, name="sgemm").kernel(100 * i + 60, 40, name="ncclDevKernel_AllReduce", stream=8)
        job.kernel(100 * i + 60, 40, name="flash_fwd", stream=9)
    analysis = Analysis(job.trace())
    assert [round(row.device_pct) for row in analysis.kernels.rows] == [43, 29, 29]
    assert "43 % of kernel time goes to matrix multiplications, the largest kernel is sgemm (43 % of kernel time)" in (
        verdict(analysis)
    )
