"""Attention: the backend that ran, and why not another."""

from __future__ import annotations

import json

import pytest

from profsuite.analyzers.analysis import Analysis
from profsuite.analyzers.attention_backends import BACKENDS, backend_of, efficient_refusals, flash_refusals
from profsuite.analyzers.costs import parse_call
from profsuite.analyzers.torch_checks import fused_attention_allowed

H100 = {"id": 0, "name": "NVIDIA H100 80GB HBM3", "computeMajor": 9, "computeMinor": 0, "warpSize": 32}
V100 = {"id": 0, "name": "Tesla V100-SXM2-16GB", "computeMajor": 7, "computeMinor": 0, "warpSize": 32}
MI300 = {"id": 0, "name": "AMD Instinct MI300X", "computeMajor": 9, "computeMinor": 4, "warpSize": 64}
HALF, FULL = "c10::BFloat16", "float"
SDPA = "aten::scaled_dot_product_attention"
MATH = "aten::_scaled_dot_product_attention_math"


def inputs(job, dtype=HALF, d=64, mask=None, causal="False", sk=128, heads=8):
    q, k = (dtype, 2, 8, 128, d), (dtype, 2, heads, sk, d)
    return job.shapes(q, k, k, mask, "0.", causal, None, "False")


def run(job, backend, args, ts=0, corr=1, dur=50):
    """An sdpa call that dispatches to a backend, which launches one kernel."""
    job.op(SDPA, ts, 20, **args).op(backend, ts + 1, 18, **args).launch(ts + 2, 1, corr).kernel(ts + 100, dur, corr)
    return job


@pytest.mark.parametrize(("backend", "example"), [(backend, example) for backend, _, example in BACKENDS])
def test_every_backend_by_its_ops_name(backend, example):
    assert backend_of(example) == backend
    assert backend_of("x" + example.replace("::", "")) is None


def test_backends_and_shapes(job):
    run(job, "aten::_scaled_dot_product_flash_attention", inputs(job, causal="True"))
    run(job, "aten::_scaled_dot_product_flash_attention", inputs(job, causal="True"), 200, 2)
    run(job, MATH, inputs(job, mask=(HALF, 1, 1, 128, 128)), 400, 3, dur=100)
    table = Analysis(job.trace()).attention
    assert (table.num_calls, table.device_ns, table.device_pct, table.unfused_pct) == (3, 200_000, 100, 50)
    math, flash = table.rows if table.rows[0].backend == "math" else table.rows[::-1]
    assert (flash.backend, flash.fused, flash.count, flash.device_ns, flash.causal, flash.masked) == (
        "flash", True, 2, 100_000, True, False,
    )  # fmt: skip
    assert (math.fused, math.count, math.causal, math.masked) == (False, 1, False, True)
    assert json.loads(math.input_dims)[0] == [2, 8, 128, 64]
    assert flash.refused == ()
    assert [(r.backend, r.checked_by, r.allowed) for r in math.refused] == [
        ("flash", "rules", None), ("efficient", "rules", None),
    ]  # fmt: skip
    assert math.refused[0].reasons == ("a mask is given: it takes is_causal only",)
    assert math.refused[1].reasons == ()


def call(job, **options):
    args = inputs(job, **options)
    return parse_call(SDPA, *(json.dumps(args[key]) for key in ("Input Dims", "Input type")), None,
                      json.dumps(args["Concrete Inputs"]))  # fmt: skip


@pytest.mark.parametrize(
    ("options", "device", "flash", "efficient"),
    [
        ({}, H100, [], []),
        ({}, V100, ["7.0 is below 8.0"], ["bf16 below compute capability 8.0"]),
        ({}, MI300, [], []),
        ({"dtype": FULL}, H100, ["fp32: it takes fp16 and bf16 only"], []),
        ({"dtype": "double"}, H100, ["fp64: it takes"], ["fp64: it takes"]),
        ({"d": 512}, H100, ["heads of 512: it takes up to 256"], []),
        ({"d": 60}, H100, [], ["no multiple of 8"]),
        ({"causal": "True", "sk": 256}, H100, ["is_causal with different lengths"], []),
        ({"heads": 2}, H100, ["heads of query, key and value differ"], ["heads of query, key and value differ"]),
        ({"sk": 0}, H100, ["an input is empty"], ["an input is empty"]),
        ({}, {}, [], []),
    ],
)
def test_the_documented_rules(job, options, device, flash, efficient):
    sdpa = call(job, **options)
    for found, expected in ((flash_refusals(sdpa, device), flash), (efficient_refusals(sdpa, device), efficient)):
        assert len(found) == len(expected)
        assert all(part in reason for part, reason in zip(expected, found, strict=True))


def test_torch_is_not_asked_where_it_has_no_such_gpu(job):
    pytest.importorskip("torch")
    assert fused_attention_allowed(call(job), {"name": "NVIDIA No Such GPU"}) is None


def test_separate_products_around_a_softmax_are_attention(job):
    scores = ("c10::BFloat16", 2, 8, 128, 256)
    job.op("aten::bmm", 0, 5, **job.shapes((HALF, 16, 128, 64), (HALF, 16, 64, 256))).launch(1, 1, 1)
    job.op("aten::_softmax", 10, 5, **job.shapes(scores, "-1", "False")).launch(11, 1, 2)
    job.op("aten::bmm", 20, 5, **job.shapes((HALF, 16, 128, 256), (HALF, 16, 256, 64))).launch(21, 1, 3)
    for number in (1, 2, 3):
        job.kernel(100 * number, 10 * number, number)
    (row,) = Analysis(job.trace()).attention.rows
    assert (row.backend, row.fused, row.count, row.device_ns) == ("unfused", False, 1, 60_000)
    assert json.loads(row.input_dims) == [2, 8, 128, 256]


@pytest.mark.parametrize("sizes", [(16, 128, 255), (8, 128, 256)])
def test_other_products_beside_a_softmax_are_not(job, sizes):
    job.op("aten::bmm", 0, 5, **job.shapes((HALF, sizes[0], 128, 64), (HALF, sizes[0], 64, sizes[2]))).launch(1, 1, 1)
    job.op("aten::_softmax", 10, 5, **job.shapes((HALF, 2, 8, 128, 256), "-1", "False")).launch(11, 1, 2)
    job.op("aten::bmm", 20, 5, **job.shapes((HALF, 16, 128, 256), (HALF, 16, 256, 64))).launch(21, 1, 3)
    for number in (1, 2, 3):
        job.kernel(100 * number, 10, number)
    assert Analysis(job.trace()).attention.rows == ()


def test_backward_and_compiled_code(job):
    job.op("autograd::engine::evaluate_function: ScaledDotProductFlashAttentionBackward0", 0, 30)
    job.op("aten::_scaled_dot_product_flash_attention_backward", 5, 20).launch(6, 1, 1).kernel(50, 10, 1)
    q = (HALF, 2, 8, 128, 64)
    job.op("triton_tem_fused_flex_attention_0", 40, 5, **job.shapes(q, q, q, q)).launch(41, 1, 2).kernel(70, 10, 2)
    rows = {(row.backend, row.direction): row for row in Analysis(job.trace()).attention.rows}
    assert set(rows) == {("flash", "backward"), ("flex", "forward")}
    assert rows["flash", "backward"].input_dims is None


def test_none(job):
    table = Analysis(job.op("aten::mm", 0, 5).trace()).attention
    assert (table.num_calls, table.device_ns, table.rows) == (0, None, ())


def test_real_traces(real_trace):
    (row,) = Analysis(real_trace("h100_qwen_0_5b.json.gz")).attention.rows
    assert (row.backend, row.causal, row.masked, row.count) == ("flash", True, False, 24)
    (row,) = Analysis(real_trace("mi300_torch_compile.json.gz")).attention.rows
    assert (row.backend, row.causal, row.count) == ("flash", False, 1)


@pytest.mark.filterwarnings("ignore")
def test_what_torch_dispatches_to_on_the_cpu(tmp_path):
    torch = pytest.importorskip("torch")
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.profiler import ProfilerActivity, profile

    from profsuite.trace.load import load

    q = torch.randn(2, 4, 8, 16)
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True, acc_events=True) as prof:
        torch.nn.functional.scaled_dot_product_attention(q, q, q, is_causal=True)
        with sdpa_kernel(SDPBackend.MATH):
            torch.nn.functional.scaled_dot_product_attention(q, q, q)
        (q @ q.transpose(-1, -2)).softmax(-1) @ q
    prof.export_chrome_trace(str(tmp_path / "run.json"))
    rows = Analysis(load(tmp_path / "run.json", cache=False)).attention.rows
    assert {(row.backend, row.causal, row.count) for row in rows} == {
        ("flash (CPU)", True, 1), ("math", False, 1), ("unfused", None, 1),
    }  # fmt: skip
