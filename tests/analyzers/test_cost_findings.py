"""Findings about what kernels achieve: for each kind a trace where it fires and one where it must not."""

from __future__ import annotations

import pytest

from profsuite.analyzers.analysis import Analysis
from profsuite.analyzers.findings import findings

HALF, FULL = "c10::BFloat16", "float"
H100 = {
    "id": 0, "name": "NVIDIA H100 80GB HBM3", "numSms": 132, "computeMajor": 9, "computeMinor": 0, "warpSize": 32,
    "maxThreadsPerMultiprocessor": 2048, "regsPerMultiprocessor": 65536, "sharedMemPerMultiprocessor": 233472,
}  # fmt: skip
V100 = H100 | {"name": "Tesla V100-SXM2-32GB", "numSms": 80, "computeMajor": 7, "sharedMemPerMultiprocessor": 98304}


def found(job, kind, device=H100, peak=None):
    job.header = {"deviceProperties": [device]}
    return next((f for f in findings(Analysis(job.trace(), peak=peak)) if f.id == kind), None)


def value(finding, label):
    return next(e.value for e in finding.evidence if e.label == label)


def run(job, name, args, kernel="gemm", dur=50, times=12, after=0, **more):
    """``times`` calls of an op, each with one kernel; the device is never idle."""
    for i in range(after, after + times):
        job.op(name, 2 * i, 2, **args).launch(2 * i, 1, 1 + i)
        job.kernel(1000 + dur * i, dur, 1 + i, name=kernel, **more)
    return job


def test_no_tensor_cores(job):
    run(job, "aten::mm", job.mm(512, 512, 512, FULL), "cutlass_80_simt_sgemm_128x64")
    finding = found(job, "no_tensor_cores")
    assert (finding.severity, finding.cost_ns, finding.where.op) == ("critical", 600_000, "aten::mm")
    assert value(finding, "its kernel") == "cutlass_80_simt_sgemm_128x64"
    assert "TF32" in finding.remedy


def test_no_tensor_cores_for_sizes_that_do_not_fit(job):
    finding = found(run(job, "aten::mm", job.mm(512, 513, 1), "gemvNSP_kernel"), "no_tensor_cores")
    assert "multiple of 8" in finding.remedy


@pytest.mark.parametrize(
    ("kernel", "dtype", "device"),
    [
        ("cutlass_80_tensorop_s1688gemm_128x128", FULL, H100),
        ("nvjet_tst_64x64", HALF, H100),
        ("a_name_that_does_not_tell", HALF, H100),
        ("volta_sgemm_128x64", FULL, V100),
    ],
)
def test_no_tensor_cores_not_where_they_run_or_do_not_exist(job, kernel, dtype, device):
    assert found(run(job, "aten::mm", job.mm(512, 512, 512, dtype), kernel), "no_tensor_cores", device) is None


def attention(job, name, dtype=HALF, mask=None):
    q = (dtype, 2, 8, 128, 64)
    return run(job, name, job.shapes(q, q, q, mask, "0.", "False", None, "False"), "kernel")


def test_unfused_attention(job):
    mask = (HALF, 2, 1, 128, 128)
    finding = found(attention(job, "aten::_scaled_dot_product_attention_math", mask=mask), "unfused_attention")
    assert (finding.severity, finding.cost_ns) == ("critical", 600_000)
    assert value(finding, "flash did not run") == "a mask is given: it takes is_causal only"
    assert "is_causal" in finding.remedy


def test_unfused_attention_in_full_precision(job):
    finding = found(attention(job, "aten::_scaled_dot_product_attention_math", FULL), "unfused_attention")
    assert "bf16 or fp16" in finding.remedy


def test_unfused_attention_written_by_hand(job):
    job.op("aten::bmm", 0, 5, **job.shapes((HALF, 16, 128, 64), (HALF, 16, 64, 256))).launch(1, 1, 1)
    job.op("aten::_softmax", 10, 5, **job.shapes((HALF, 2, 8, 128, 256), "-1", "False")).launch(11, 1, 2)
    job.op("aten::bmm", 20, 5, **job.shapes((HALF, 16, 128, 256), (HALF, 16, 256, 64))).launch(21, 1, 3)
    for number in (1, 2, 3):
        job.kernel(100 * number, 100, number)
    finding = found(run(job, "aten::relu", job.shapes((HALF, 8)), after=50), "unfused_attention")
    assert finding.cost_ns == 300_000
    assert "scaled_dot_product_attention" in finding.remedy


def test_unfused_attention_not_where_a_fused_kernel_runs(job):
    q = (HALF, 2, 8, 128, 64)
    args = job.shapes(q, q, q, "0.", "False", "False", None)
    assert found(run(job, "aten::_scaled_dot_product_flash_attention", args), "unfused_attention") is None


LAUNCH = {"block": [256, 1, 1], "registers per thread": 128, "shared memory": 0}  # two a multiprocessor: 264 at once


def test_low_occupancy_tail(job):
    finding = found(run(job, "aten::mm", {}, grid=[330, 1, 1], **LAUNCH), "low_occupancy_tail")
    assert finding.cost_ns == 12 * int(50_000 * (1 - 330 / 264 / 2))
    assert value(finding, "its mean number of waves") == 1.25
    assert "The last wave is not full" in finding.remedy


def test_low_occupancy_tail_of_launches_that_are_too_small(job):
    finding = found(run(job, "aten::mm", {}, grid=[66, 1, 1], **LAUNCH), "low_occupancy_tail")
    assert finding.cost_ns == 12 * 37_500
    assert "fewer blocks" in finding.remedy


def test_low_occupancy_tail_not_for_full_waves_nor_short_kernels(job):
    run(job, "aten::mm", {}, grid=[528, 1, 1], **LAUNCH)
    run(job, "aten::mm", {}, dur=9, after=200, grid=[1, 1, 1], **LAUNCH)
    assert found(job, "low_occupancy_tail") is None


def test_low_occupancy_tail_not_where_launches_are_not_described(job):
    assert found(run(job, "aten::mm", {}), "low_occupancy_tail") is None


def test_far_from_roofline(job):
    # 3 x 2 MB at 3.35 TB/s are 1.79 us of 50
    args = job.shapes((HALF, 1024, 1024), (HALF, 1024, 1024), "1")
    finding = found(run(job, "aten::add", args, "elementwise"), "far_from_roofline")
    assert value(finding, "its share of the roofline") == pytest.approx(100 * 3 * 2**21 / 3.35e12 / 50e-6, abs=0.01)
    assert finding.cost_ns == 600_000 - int(12 * 1e9 * 3 * 2**21 / 3.35e12)
    assert "bound by memory" in finding.remedy


def test_far_from_roofline_of_products(job):
    finding = found(run(job, "aten::mm", job.mm(1024, 1024, 1024), dur=100), "far_from_roofline")
    assert "bound by compute" in finding.remedy


def test_far_from_roofline_of_short_kernels(job):
    finding = found(run(job, "aten::mm", job.mm(64, 64, 64), dur=5), "far_from_roofline")
    assert "below 10 µs" in finding.remedy


def test_far_from_roofline_not_where_bytes_alone_bound_a_product(job):
    q, bounds = (HALF, 4096, 8, 64), ("int", 5)
    for longest, fires in (("1024", True), ("3000", False)):
        job.events.clear()
        args = job.shapes(q, q, q, bounds, bounds, longest, longest, "0.", "0.125", "False", "-1", "-1")
        run(job, "flash_attn::_flash_attn_varlen_forward", args, "flash_fwd_kernel", 500)
        assert (found(job, "far_from_roofline") is not None) is fires


@pytest.mark.parametrize("name", ["NVIDIA H100 80GB HBM3", "NVIDIA Unknown"])
def test_far_from_roofline_not_near_it_nor_without_peaks(job, name):
    dur = 4 if name == H100["name"] else 500
    run(job, "aten::add", job.shapes((HALF, 1024, 1024), (HALF, 1024, 1024), "1"), dur=dur)
    assert found(job, "far_from_roofline", H100 | {"name": name}) is None


@pytest.mark.parametrize(
    ("name", "inputs"),
    [
        ("aten::_to_copy", ((FULL, 1024, 1024), "15", None, None, None, "False", None)),
        ("aten::copy_", ((HALF, 1024, 1024), (FULL, 1024, 1024), "False")),
    ],
)
def test_dtype_conversions(job, name, inputs):
    finding = found(run(job, name, job.shapes(*inputs)), "dtype_conversions")
    assert (finding.cost_ns, value(finding, "casts"), value(finding, "mostly from")) == (600_000, 12, "fp32 to bf16")


@pytest.mark.parametrize(
    ("name", "inputs"),
    [
        ("aten::_to_copy", ((HALF, 1024, 1024), "15", None, None, None, "False", None)),
        ("aten::copy_", ((HALF, 1024, 1024), (HALF, 1024, 1024), "False")),
        ("aten::clone", ((HALF, 1024, 1024), "0")),
    ],
)
def test_dtype_conversions_not_for_copies_of_one_format(job, name, inputs):
    assert found(run(job, name, job.shapes(*inputs)), "dtype_conversions") is None


def test_layout_transposes_by_the_kernels_name(job):
    name = "void cudnn::ops::nchwToNhwcKernel<__half, __half, float, false, true>"
    finding = found(run(job, "aten::cudnn_convolution", {}, name), "layout_transposes")
    assert (finding.cost_ns, value(finding, "kernels")) == (600_000, 12)
    assert "channels_last" in finding.remedy


def strided(job, sizes, strides):
    return job.shapes((HALF, *sizes), "0") | {"Input Strides": [strides, []]}


def test_layout_transposes_by_strides(job):
    finding = found(run(job, "aten::clone", strided(job, (1024, 512), [1, 1024]), "elementwise"), "layout_transposes")
    assert finding.cost_ns == 600_000
    assert "contiguous" in finding.remedy


@pytest.mark.parametrize(
    ("sizes", "strides"),
    [((1024, 512), [512, 1]), ((1, 512), [1, 1]), ((1024, 512), [0, 1]), ((1024, 512), [1024, 1])],
)
def test_layout_transposes_not_for_copies_in_order(job, sizes, strides):
    assert found(run(job, "aten::clone", strided(job, sizes, strides), "elementwise"), "layout_transposes") is None


def product(job, dur):
    args = job.shapes((FULL, 1000, 500), (FULL, 500, 64)) | {"Input Strides": [[], [64, 1]]}
    return run(job, "aten::mm", args, "csrmm", dur)


def test_sparse_slower_than_dense(job):
    # 64 MFLOP at 1 TFLOP/s are 64 us, at half of the roofline 128 us
    finding = found(product(job, 200), "sparse_slower_than_dense", peak={"fp32": 1e12, "bandwidth": 1e12})
    assert finding.cost_ns == 12 * (200_000 - 128_000)
    assert value(finding, "layout") == "sparse"


def test_sparse_slower_than_dense_not_where_it_is_faster_or_unknown(job):
    assert found(product(job, 100), "sparse_slower_than_dense", peak={"fp32": 1e12, "bandwidth": 1e12}) is None
    assert found(product(job, 200), "sparse_slower_than_dense", H100 | {"name": "unknown"}) is None


def test_real_traces(real_trace):
    assert "layout_transposes" in {f.id for f in findings(Analysis(real_trace("mi210_gpu_only.json.gz")))}
    quiet = {f.id for f in findings(Analysis(real_trace("mi300_torch_compile.json.gz")))}
    assert not quiet & {"no_tensor_cores", "unfused_attention", "dtype_conversions", "layout_transposes"}
