"""The collectives of one rank, against sums over its kernels and the breakdown, which is computed another way."""

from __future__ import annotations

from pathlib import Path

import pytest

import profsuite
from profsuite.analyzers.analysis import Analysis
from profsuite.analyzers.own_collectives import own_collectives

ROOT = Path(__file__).parents[2]
SHARED = ROOT.parent / "shared" / "traces"
DDP = ROOT / "sample_traces" / "gpu_ddp_one_rank" / "rank_0.json.gz"


def test_by_kind_and_size():
    trace = profsuite.load(DDP)
    analysis = Analysis(trace)
    rows = own_collectives(analysis.collectives)
    # 124 M parameters in bf16, four blocks in buckets of two sizes, once a step of five.
    kernels = trace.to_pandas("slice")
    kernels = kernels[kernels["name"].str.startswith("ncclDevKernel")]
    assert sum(row.count for row in rows) == len(kernels) == 15
    assert sum(row.total_ns for row in rows) == kernels["dur"].sum()
    assert {(row.kind, row.dtype, row.group) for row in rows} == {("all_reduce", "BFloat16", "0")}
    assert [row.num_bytes for row in rows] == [25_165_824, 103_022_592]
    for row in rows:
        assert row.min_ns <= row.total_ns / row.count <= row.max_ns
        longest = trace.slices.slice(row.longest_slice_id, 1).to_pylist()[0]
        assert (longest["dur"], longest["category"]) == (row.max_ns, "kernel")
    assert sum(row.exposed_ns for row in rows) == analysis.breakdown[0].shares.exposed_comm_ns


@pytest.mark.skipif(not SHARED.is_dir(), reason="the public traces are not here")
def test_exposed_time_of_a_real_rank_sums_to_its_breakdown():
    analysis = Analysis(profsuite.load(SHARED / "dlrm_8ranks" / "worker0.pt.trace.json.gz"))
    rows = own_collectives(analysis.collectives)
    assert {row.kind for row in rows} == {"send_recv", "all_reduce"}
    assert {row.num_bytes for row in rows} == {None}  # this torch did not write sizes
    assert sum(row.exposed_ns for row in rows) == analysis.breakdown[0].shares.exposed_comm_ns == 5_537_000


def test_none():
    assert own_collectives(Analysis(profsuite.load(ROOT / "sample_traces" / "cpu_compiled.json.gz")).collectives) == ()
