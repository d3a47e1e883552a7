"""Roofline: tiny jobs whose bounds are worked out by hand, and the real ones."""

from __future__ import annotations

import json

import pytest

from profsuite.analyzers.analysis import Analysis
from profsuite.analyzers.costs.peaks import parse_peaks
from profsuite.analyzers.report import analyze

H100 = {
    "id": 0, "name": "NVIDIA H100 80GB HBM3", "numSms": 132, "totalGlobalMem": 85_000_000_000, "computeMajor": 9,
    "computeMinor": 0, "warpSize": 32, "maxThreadsPerMultiprocessor": 2048, "regsPerMultiprocessor": 65536,
    "sharedMemPerMultiprocessor": 233472,
}  # fmt: skip
HALF = "c10::BFloat16"
PEAK = {"bf16": 1e12, "fp32": 1e11, "bandwidth": 1e9}


def one(job, name, args, kernel="gemm", dur=10, peak=PEAK, **more):
    """A job of one op that launches one kernel."""
    job.op(name, 0, 5, **args).launch(1, 1, 1).kernel(10, dur, 1, name=kernel, **more)
    return Analysis(job.trace(), peak=peak)


def test_bound_by_compute(job):
    analysis = one(job, "aten::mm", job.mm(100, 1000, 100), dur=40)
    (op,) = analysis.roofline.ops
    got = op.attained
    # 2e7 FLOPs at 1e12 are 20 us; 420,000 bytes at 1e9 are 420 us
    assert (got.flops, got.num_bytes) == (20_000_000, 2 * (100_000 + 100_000 + 10_000))
    assert (got.bound, got.bound_ns, got.pct_of_roofline, got.beyond) == ("memory", 420_000, None, True)
    fast = Analysis(job.trace(), peak=PEAK | {"bandwidth": 1e12}).roofline.ops[0].attained
    assert (fast.bound, fast.bound_ns, fast.pct_of_roofline, fast.beyond) == ("compute", 20_000, 50, False)
    assert (fast.flops_per_s, fast.bytes_per_s) == (pytest.approx(5e11), pytest.approx(420_000 / 40e-6))
    assert fast.intensity == pytest.approx(20_000_000 / 420_000)


def test_bound_by_memory(job):
    analysis = one(job, "aten::add", job.shapes((HALF, 1000, 10), (HALF, 1000, 10), "1"), dur=100)
    got = analysis.roofline.ops[0].attained
    assert (got.bound, got.bound_ns, got.pct_of_roofline) == ("memory", 60_000, 60)


def test_a_causal_mask_halves_the_bound_and_not_the_flops(job):
    q = (HALF, 1, 1, 1000, 64)
    args = job.shapes(q, q, q, "0.", "True", "False", "0.125")
    peak = PEAK | {"bandwidth": 1e15}
    got = one(job, "aten::_scaled_dot_product_flash_attention", args, "flash_fwd", 1000, peak).roofline.ops[0].attained
    assert got.flops == 4 * 1000 * 1000 * 64
    assert got.needed_flops == 4 * 64 * (1000 * 1001 // 2)
    assert got.bound_ns == pytest.approx(got.needed_flops / 1e12 * 1e9)


def test_a_generated_kernel_computes_at_least_what_its_name_says(job):
    x = (HALF, 1000, 10)
    analysis = one(job, "triton_poi_fused_mul_silu_0", job.shapes(x, x, "10000"), "triton_poi_fused_mul_silu_0")
    got = analysis.roofline.ops[0].attained
    assert (got.flops, got.needed_flops, got.num_bytes) == (None, 20_000, 40_000)
    assert (got.intensity, got.flops_per_s, got.bound, got.bound_ns) == (None, None, "memory", 40_000)
    assert analysis.roofline.flops is None


def test_what_is_no_product_is_rated_at_vector_units(job):
    job.header = {"deviceProperties": [{"name": "AMD Instinct MI210", "numSms": 104, "totalGlobalMem": 68_000_000_000}]}
    x, fast = ("double", 1000, 1000), {"bandwidth": 1e17}
    got = one(job, "aten::add", job.shapes(x, x, "1"), peak=fast).roofline.ops[0].attained
    assert (got.dtype, got.bound, got.bound_ns) == ("fp64", "compute", pytest.approx(1e6 / 22.6e12 * 1e9))
    job.events.clear()
    product = one(job, "aten::mm", job.mm(64, 64, 64, "double"), peak=fast).roofline.ops[0].attained
    assert (product.bound, product.bound_ns) == ("compute", pytest.approx(2 * 64**3 / 45.3e12 * 1e9))


def test_an_unknown_device_prints_no_percentage(job):
    roofline = one(job, "aten::mm", job.mm(100, 1000, 100), peak=None).roofline
    got = roofline.ops[0].attained
    assert (roofline.peaks, got.bound, got.pct_of_roofline, roofline.mfu_pct) == (None, None, None, None)
    assert got.flops_per_s == pytest.approx(2e7 / 10e-6)
    assert "--peak" in roofline.note


def test_a_known_device_has_its_data_sheet(job):
    job.header = {"deviceProperties": [H100]}
    roofline = one(job, "aten::mm", job.mm(4096, 4096, 4096), "nvjet_tst_128x256", 200, None).roofline
    assert (roofline.peaks.name, roofline.peaks.compute("bf16")) == ("H100 SXM", 989.4e12)
    assert roofline.ops[0].attained.pct_of_roofline == pytest.approx(100 * 2 * 4096**3 / 989.4e12 / 200e-6)
    assert roofline.mfu_pct == pytest.approx(roofline.ops[0].attained.pct_of_roofline)


def test_each_kernel_is_answered_for_once(job):
    job.op("aten::linear", 0, 50, **job.shapes((HALF, 8, 64), (HALF, 32, 64)))
    job.op("aten::addmm", 5, 40, **job.shapes((HALF, 32), (HALF, 8, 64), (HALF, 64, 32), "1", "1"))
    job.launch(10, 1, 1).launch(20, 1, 2).kernel(60, 10, 1).kernel(70, 10, 2, name="splitKreduce")
    roofline = Analysis(job.trace()).roofline
    assert [(op.name, op.count, op.num_kernels, op.device_ns) for op in roofline.ops] == [("aten::addmm", 1, 2, 20_000)]
    assert roofline.flops == 2 * 8 * 64 * 32
    # FLOPs can't be given to one of two kernels
    assert [kernel.attained for kernel in roofline.kernels] == [None, None]


def test_an_op_without_a_formula_leaves_coverage_open(job):
    job.op("aten::mm", 0, 5, **job.mm(8, 8, 8)).launch(1, 1, 1).kernel(10, 30, 1)
    job.op("mylib::secret", 10, 5).launch(11, 1, 2).kernel(50, 10, 2).memcpy(70, 1000, 3)
    roofline = Analysis(job.trace(), peak=PEAK).roofline
    assert (roofline.coverage_pct, roofline.priced_pct, roofline.device_ns) == (75, 75, 40_000)


def test_products_without_a_known_cost_leave_no_utilisation(job):
    job.op("aten::mm", 0, 5, **job.mm(8, 8, 8)).launch(1, 1, 1).kernel(10, 30, 1)
    job.op("mylib::secret", 10, 5).launch(11, 1, 2).kernel(50, 10, 2, name="cutlass_80_tensorop_s1688gemm")
    roofline = Analysis(job.trace(), peak=PEAK).roofline
    assert (roofline.unpriced_products_pct, roofline.mfu_pct) == (25, None)
    assert roofline.flops == 1024


def test_flops_without_bytes_are_priced_and_not_covered(job):
    roofline = one(job, "aten::mm", job.mm(8, 8, 8, "mylib::Packed")).roofline
    assert (roofline.coverage_pct, roofline.priced_pct) == (0, 100)


def test_backward_is_told_apart(job):
    job.op("aten::mm", 0, 5, **job.mm(8, 16, 4)).launch(1, 1, 1).kernel(20, 10, 1)
    job.op("autograd::engine::evaluate_function: MmBackward0", 6, 10, tid=2)
    job.op("aten::mm", 7, 5, tid=2, **job.mm(16, 8, 4)).launch(8, 1, 2, tid=2).kernel(30, 10, 2)
    roofline = Analysis(job.trace()).roofline
    assert (roofline.forward_flops, roofline.backward_flops) == (2 * 8 * 16 * 4, 2 * 8 * 16 * 4)
    assert {op.direction for op in roofline.ops} == {"forward", "backward"}


def test_flops_of_a_step(job):
    for step in range(3):
        job.step(step, 100 * step, 100).op("aten::mm", 100 * step + 5, 5, **job.mm(8, 16, 4))
        job.launch(100 * step + 6, 1, step + 1).kernel(100 * step + 20, 10, step + 1)
    roofline = Analysis(job.trace()).roofline
    assert (roofline.flops, roofline.flops_per_step) == (3 * 1024, 1024)


def test_calls_that_launched_nothing_on_the_device_do_not_count(job):
    job.op("aten::mm", 0, 5, **job.mm(8, 16, 4)).op("aten::mm", 10, 5, **job.mm(8, 16, 4)).launch(11, 1, 1).kernel(
        20, 10, 1
    )
    roofline = Analysis(job.trace()).roofline
    assert (roofline.ops[0].count, roofline.flops) == (1, 1024)


@pytest.mark.parametrize(
    ("kernel", "dtype", "rated", "used"),
    [
        ("cutlass_80_tensorop_s1688gemm_128x128", "float", "tf32", True),
        ("cutlass_80_simt_sgemm_128x128", "float", "fp32", False),
        ("something_new", "float", "tf32", None),
        ("nvjet_tst_64x64", HALF, "bf16", True),
        ("gemvNSP_kernel", HALF, "bf16", False),
        ("cutlass_80_tensorop_d884gemm", "double", "fp64", True),
    ],
)
def test_matrix_units_by_the_kernels_name(job, kernel, dtype, rated, used):
    job.header = {"deviceProperties": [H100]}
    op = one(job, "aten::mm", job.mm(512, 512, 512, dtype), kernel, 100, None).roofline.ops[0]
    assert (op.attained.dtype, op.matrix_units) == (rated, used)
    assert op.could_use == ("tf32" if dtype == "float" else rated)


def test_waves_and_the_last_one(job):
    job.header = {"deviceProperties": [H100]}
    launch = {"grid": [200, 1, 1], "block": [256, 1, 1], "registers per thread": 128, "shared memory": 0}
    roofline = one(job, "aten::mm", job.mm(8, 8, 8), dur=100, peak=None, **launch).roofline
    # 256 threads x 128 registers: two blocks a multiprocessor, 264 at once
    (kernel,) = roofline.kernels
    assert kernel.waves == pytest.approx(200 / 264)
    assert kernel.tail_loss_pct == pytest.approx(100 * (1 - 200 / 264))
    assert roofline.tail_loss_ns == int(100_000 * (1 - 200 / 264))


def test_no_shapes(job):
    roofline = one(job, "aten::mm", {}).roofline
    assert (roofline.ops, roofline.flops, roofline.coverage_pct) == ((), None, 0)
    assert "record_shapes=True" in roofline.note


def test_an_empty_trace(job):
    roofline = Analysis(job.trace()).roofline
    assert (roofline.device_ns, roofline.ops, roofline.kernels, roofline.coverage_pct) == (0, (), (), None)


def test_two_devices(job):
    for device in (0, 1):
        job.op("aten::mm", 10 * device, 5, **job.mm(8, 16, 4)).launch(10 * device + 1, 1, device + 1)
        job.kernel(20, 10, device + 1, device=device)
    roofline = Analysis(job.trace(), peak={"bf16": 1e12, "bandwidth": 1e12}).roofline
    assert (roofline.device_ns, roofline.ops[0].device_ns) == (20_000, 20_000)
    assert roofline.mfu_pct == pytest.approx(100 * 2048 / 1e12 / 20e-6)


REAL = {
    "h100_bert_small.json.gz": ("H100 SXM", 8_192_059_392),
    "h100_qwen_0_5b.json.gz": ("H100 SXM", 6_006_026_832_832),
    "mi300_bert_small.json.gz": ("MI300X", 8_192_059_392),
    "mi300_qwen_0_5b.json.gz": ("MI300X", 6_006_026_832_832),
    "mi300_torch_compile.json.gz": ("MI300X", 5_497_558_138_880),
}


@pytest.mark.parametrize("name", REAL)
def test_real_traces(real_trace, name):
    roofline = Analysis(real_trace(name), top=1000).roofline
    assert (roofline.peaks.name, roofline.flops) == REAL[name]
    assert 60 < roofline.coverage_pct <= 100
    for op in roofline.ops:
        assert not op.attained.beyond
        assert op.attained.pct_of_roofline is None or 0 <= op.attained.pct_of_roofline <= 100


def test_flops_of_a_real_compiled_block(real_trace):
    # Batch 8, 4,096 tokens, width 2,048, hidden 8,192: q, k, v and out, then gate, up and down; attention of 16 heads.
    tokens, width, hidden = 8 * 4096, 2048, 8192
    products = 4 * 2 * tokens * width * width + 3 * 2 * tokens * width * hidden
    attention = 4 * 8 * 16 * 4096 * 4096 * 128
    assert Analysis(real_trace("mi300_torch_compile.json.gz")).roofline.flops == products + attention


@pytest.mark.parametrize("name", ["v100_resnet50_workers0.json.gz", "ascend_rank0.json.gz", "mtia_rank0.json.gz"])
def test_traces_that_say_little_have_nothing_wrong(real_trace, name):
    report = analyze(real_trace(name), only=["roofline", "attention", "sparse"])
    for op in report.roofline.ops:
        assert op.attained.pct_of_roofline is None or 0 <= op.attained.pct_of_roofline <= 100


def test_peaks_given_by_hand():
    assert parse_peaks("bf16=989e12, bandwidth=3.35e12") == {"bf16": 989e12, "bandwidth": 3.35e12}


def test_input_dims_stay_as_recorded(job):
    assert json.loads(one(job, "aten::mm", job.mm(8, 16, 4)).roofline.ops[0].input_dims) == [[8, 16], [16, 4]]


CAT = (
    "void at::native::(anonymous namespace)::CatArrayBatchedCopy<at::native::(anonymous namespace)::OpaqueType<2u>, 4>"
)
ADD = (
    "void at::native::multi_tensor_apply_kernel<TensorListMetadata<2>, BinaryOpListAlphaFunctor<float, 2, 2, 0>, float>"
)


@pytest.mark.parametrize(
    ("op", "kernel", "num_bytes"),
    [("aten::cat", CAT, 2 * 2 * 200), ("aten::_foreach_neg_", ADD, 2 * 4 * 200), ("aten::_foreach_neg_", "new", None)],
)
def test_the_dtype_of_lists_by_the_kernels_name(job, op, kernel, num_bytes):
    args = {"Input Dims": [[[10, 10], [10, 10]], []], "Input type": ["TensorList", "Scalar"]}
    assert one(job, op, args, kernel).roofline.ops[0].attained.num_bytes == num_bytes


def test_absurd_sizes_leave_the_report_whole(job):
    size = 2**20
    for number in range(3):
        job.op("aten::mm", 10 * number, 5, **job.mm(size, size, size // 2)).launch(10 * number + 1, 1, number + 1)
        job.kernel(1000 + 10 * number, 10, number + 1)
    job.op("aten::mm", 500, 5, **job.mm(2**47, 2**47, 2**47)).launch(501, 1, 99).kernel(5000, 10, 99)
    assert Analysis(job.trace(), peak=PEAK).roofline.flops == 3 * size**3
    for number in range(3, 8):  # together more than 64 bits hold
        job.op("aten::mm", 10 * number, 5, **job.mm(size, size, size // 2)).launch(10 * number + 1, 1, number + 1)
        job.kernel(1000 + 10 * number, 10, number + 1)
    assert Analysis(job.trace(), peak=PEAK).roofline.flops is None
