"""Sparse products: by layout and density, against dense ones."""

from __future__ import annotations

import pytest

from profsuite.analyzers.analysis import Analysis

BUILD = "aten::_sparse_coo_tensor_with_dims_and_tensors"
PEAK = {"fp32": 1e12, "fp16": 1e13, "bandwidth": 1e12}


def build(job, nnz, ts=0, size="[1000, 500]"):
    args = job.shapes("2", "0", size, ("long int", 2, nnz), ("float", nnz))
    args["Input type"][2] = "ScalarList"
    return job.op(BUILD, ts, 5, **args)


def multiply(job, ts=10, corr=1, dur=100):
    args = job.shapes(("float", 1000, 500), ("float", 500, 64)) | {"Input Strides": [[], [64, 1]]}
    return job.op("aten::mm", ts, 5, **args).launch(ts + 1, 1, corr).kernel(ts + 100, dur, corr, name="csrmm")


def test_rates_by_stored_elements(job):
    (row,) = Analysis(multiply(build(job, 5000)).trace(), peak=PEAK).sparse.rows
    assert (row.layout, row.density_pct, row.count, row.device_ns) == ("sparse", 1.0, 1, 100_000)
    assert row.effective_flops_per_s == pytest.approx(2 * 5000 * 64 / 100e-6)
    assert row.dense_equivalent_flops_per_s == pytest.approx(2 * 1000 * 500 * 64 / 100e-6)
    # 64 MFLOP at 1 TFLOP/s are 64 us, at half of the roofline 128 us
    assert (row.dense_ns, row.dense_basis) == (pytest.approx(128_000), "assumed")


def test_dense_products_of_the_trace_say_how_fast_they_are(job):
    args = job.shapes(("float", 1000, 500), ("float", 500, 64))
    job.op("aten::mm", 500, 5, **args).launch(501, 1, 9).kernel(600, 80, 9)
    (row,) = Analysis(multiply(build(job, 5000)).trace(), peak=PEAK).sparse.rows
    assert (row.dense_ns, row.dense_basis) == (pytest.approx(80_000), "measured")


def test_several_densities_of_one_shape_are_unknown(job):
    (row,) = Analysis(multiply(build(build(job, 5000), 7000, ts=6)).trace(), peak=PEAK).sparse.rows
    assert (row.density_pct, row.effective_flops_per_s) == (None, None)
    assert row.dense_equivalent_flops_per_s is not None


def test_no_record_of_the_values(job):
    (row,) = Analysis(multiply(job).trace()).sparse.rows
    assert (row.density_pct, row.effective_flops_per_s, row.dense_ns) == (None, None, None)


def test_two_of_four(job):
    args = job.shapes(("c10::Half", 128, 36), ("c10::Half", 64, 32), None)
    job.op("aten::_cslt_sparse_mm", 0, 5, **args).launch(1, 1, 1).kernel(50, 10, 1)
    (row,) = Analysis(job.trace(), peak=PEAK).sparse.rows
    assert (row.layout, row.density_pct) == ("2:4", 50)
    assert row.dense_equivalent_flops_per_s == pytest.approx(2 * row.effective_flops_per_s)


def test_none(job):
    table = Analysis(job.op("aten::mm", 0, 5, **job.mm(8, 8, 8)).launch(1, 1, 1).kernel(9, 5, 1).trace()).sparse
    assert (table.num_calls, table.rows) == (0, ())


@pytest.mark.filterwarnings("ignore")
def test_a_real_call(tmp_path):
    torch = pytest.importorskip("torch")
    from torch.profiler import ProfilerActivity, profile

    from profsuite.trace.load import load

    with profile(activities=[ProfilerActivity.CPU], record_shapes=True, acc_events=True) as prof:
        a = torch.sparse_coo_tensor(torch.tensor([[0, 1, 3], [1, 2, 0]]), torch.ones(3), (4, 16))
        torch.sparse.mm(a, torch.randn(16, 5))
    prof.export_chrome_trace(str(tmp_path / "run.json"))
    analysis = Analysis(load(tmp_path / "run.json", cache=False))
    (row,) = analysis.sparse.rows
    assert (row.density_pct, row.count) == (100 * 3 / 64, 1)
    assert analysis.roofline.flops == 2 * 3 * 5
