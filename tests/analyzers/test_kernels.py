"""Kernels: statistics and launch shapes."""

from __future__ import annotations

import pytest

from profsuite.analyzers.kernels import kernels


def test_statistics_per_name(job):
    job.op("aten::mm", 0, 30).launch(5, 5, 1).launch(15, 5, 2)
    job.kernel(40, 5, 1).kernel(50, 15, 2).kernel(70, 80, 3, name="ncclDevKernel_AllReduce").memcpy(200, 1000)
    table = kernels(job.trace())
    assert (table.num_kernels, table.num_names, table.total_ns, table.num_short) == (3, 2, 100_000, 1)
    assert (table.short_pct, table.short_time_pct) == (pytest.approx(100 / 3), pytest.approx(5))
    nccl, gemm = table.rows
    assert (nccl.name, nccl.kind, nccl.top_op) == ("ncclDevKernel_AllReduce", "comm", None)
    assert (gemm.count, gemm.total_ns, gemm.mean_ns, gemm.min_ns, gemm.max_ns, gemm.std_ns) == (
        2, 20_000, 10_000, 5_000, 15_000, 5_000,
    )  # fmt: skip
    assert (gemm.kind, gemm.device_pct, gemm.short_pct, gemm.top_op) == ("compute", 20, 50, "aten::mm")


def test_launch_shapes_and_occupancy_weighted_by_time(job):
    shape = {"block": [128, 1, 1], "registers per thread": 32, "shared memory": 0}
    occupancy = "est. achieved occupancy %"
    job.kernel(0, 10, 1, grid=[1, 1, 1], **shape, **{occupancy: 20})
    job.kernel(20, 30, 2, grid=[2, 1, 1], **shape, **{occupancy: 40})
    job.kernel(60, 10, 3, grid=[1, 1, 1], **shape)
    (row,) = kernels(job.trace()).rows
    assert row.num_shapes == 2
    assert row.occupancy_pct == pytest.approx((10 * 20 + 30 * 40) / 40)
    assert (row.longest.grid, row.longest.block) == ((2, 1, 1), (128, 1, 1))
    assert (row.longest.registers_per_thread, row.longest.shared_memory_bytes) == (32, 0)


def test_an_occupancy_that_the_recorder_could_not_compute(job):
    occupancy, warps = "est. achieved occupancy %", "warps per SM"
    job.kernel(0, 10, 1, name="gemm", grid=[132, 1, 1], block=[384, 1, 1], **{occupancy: 0, warps: 12.0})
    job.kernel(20, 10, 2, name="add", grid=[1, 1, 1], block=[128, 1, 1], **{occupancy: 0, warps: 0.03})
    gemm, add = kernels(job.trace()).rows
    assert (gemm.name, gemm.occupancy_pct, gemm.longest.occupancy_pct) == ("gemm", None, None)
    assert (add.name, add.occupancy_pct, add.longest.occupancy_pct) == ("add", 0, 0)


def test_kernels_of_graphs_by_their_launch_or_their_graph_id(job):
    job.call("hipGraphLaunch", 0, 5, 1).kernel(10, 5, 1).kernel(20, 5, 1)
    job.launch(5, 2, 2).kernel(30, 5, 2).kernel(40, 5, 3, **{"graph id": 7, "graph node id": 1})
    assert kernels(job.trace()).from_graphs == 3


def test_what_was_not_recorded_is_null(job):
    (row,) = kernels(job.kernel(0, 10).trace()).rows
    assert (row.occupancy_pct, row.longest.grid, row.longest.registers_per_thread) == (None, None, None)


def test_only_the_top_rows(job):
    for i in range(5):
        job.kernel(100 * i, 10 + i, name=f"k{i}")
    table = kernels(job.trace(), top=2)
    assert [row.name for row in table.rows] == ["k4", "k3"]
    assert table.num_names == 5


def test_a_trace_without_kernels(job):
    table = kernels(job.op("aten::mm", 0, 10).trace())
    assert (table.num_kernels, table.short_pct, table.rows) == (0, None, ())
