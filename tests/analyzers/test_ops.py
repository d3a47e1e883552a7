"""Ops: counts, host and device time, attribution."""

from __future__ import annotations

import pytest

from profsuite.analyzers.ops import ops


def by_name(table):
    return {row.name: row for row in table.rows}


def test_self_and_total_of_nested_ops(job):
    job.op("aten::linear", 0, 100).op("aten::addmm", 20, 60).launch(30, 10, 1).launch(50, 10, 2)
    job.kernel(100, 40, 1).kernel(140, 60, 2).op("aten::relu", 110, 20).launch(115, 5, 3).kernel(200, 50, 3)
    rows = by_name(ops(job.trace()))
    linear, addmm, relu = rows["aten::linear"], rows["aten::addmm"], rows["aten::relu"]
    assert (linear.host_total_ns, linear.host_self_ns) == (100_000, 40_000)
    assert (addmm.host_total_ns, addmm.host_self_ns) == (60_000, 40_000)
    assert (linear.device_total_ns, linear.device_self_ns, linear.num_kernels) == (100_000, 0, 2)
    assert (addmm.device_total_ns, addmm.device_self_ns, addmm.num_kernels) == (100_000, 100_000, 2)
    assert (addmm.device_pct, relu.device_self_pct) == (pytest.approx(100 * 100 / 150), pytest.approx(100 * 50 / 150))


def test_a_call_inside_one_of_its_own_name_counts_once(job):
    job.op("aten::to", 0, 100).op("aten::_to_copy", 10, 80).op("aten::to", 20, 50).launch(30, 5, 1).kernel(50, 10, 1)
    row = by_name(ops(job.trace()))["aten::to"]
    assert (row.count, row.host_total_ns, row.host_self_ns) == (2, 100_000, 20_000 + 45_000)
    assert (row.device_total_ns, row.device_self_ns, row.num_kernels) == (10_000, 10_000, 1)


def test_overlapping_kernels_of_one_op_are_a_union(job):
    job.op("aten::foreach", 0, 100).launch(10, 5, 1).launch(20, 5, 2).launch(30, 5, 3)
    job.kernel(100, 50, 1).kernel(120, 50, 2, stream=8).kernel(200, 10, 3)
    row = by_name(ops(job.trace()))["aten::foreach"]
    assert (row.device_total_ns, row.device_self_ns) == (80_000, 80_000)


def test_python_frames_and_marks_between_ops_do_not_cut_the_way_up(job):
    job.op("MyBackward", 0, 100).python("a.py(1): f", 5, 90).mark("region", 10, 80).python("a.py(2): g", 15, 70)
    job.op("aten::mul", 20, 20).launch(25, 5, 1).kernel(60, 10, 1)
    row = by_name(ops(job.trace()))["MyBackward"]
    assert (row.device_total_ns, row.device_self_ns) == (10_000, 0)


def test_per_name_and_input_shapes(job):
    job.op("aten::mm", 0, 10, **{"Input Dims": [[2, 2]]}).op("aten::mm", 20, 30, **{"Input Dims": [[4, 4]]})
    table = ops(job.trace())
    assert table.sorted_by == "host_self_ns"
    assert [(r.name, r.count, r.host_self_ns) for r in table.rows] == [("aten::mm", 2, 40_000)]
    assert [(r.input_dims.replace(" ", ""), r.count, r.host_self_ns) for r in table.by_shape] == [
        ("[[4,4]]", 1, 30_000),
        ("[[2,2]]", 1, 10_000),
    ]


def test_device_work_without_an_op_is_counted_apart(job):
    job.op("aten::mm", 0, 10).launch(2, 2, 1).kernel(10, 10, 1).kernel(30, 7, 99)
    table = ops(job.trace())
    assert table.unattributed_device_ns == 7_000
    assert (table.num_ops, table.num_calls) == (1, 1)


def test_steps_and_loaders_of_old_traces_are_no_ops(job):
    job.slice("Operator", "ProfilerStep#1", 0, 100).slice("Operator", "aten::mm", 10, 10)
    job.slice("Operator", "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 30, 10)
    assert [row.name for row in ops(job.trace()).rows] == ["aten::mm"]


def test_a_trace_without_ops(job):
    table = ops(job.kernel(0, 10).trace())
    assert (table.rows, table.by_shape, table.num_ops, table.unattributed_device_ns) == ((), (), 0, 10_000)


@pytest.mark.parametrize(
    "name", ["diff_v100_test.json.gz", "b200_eager_stacks.json.gz", "torch18_autograd_api.json.gz"]
)
def test_no_share_of_a_real_trace_passes_100(real_trace, name):
    table = ops(real_trace(name), top=10_000)
    for row in (*table.rows, *table.by_shape):
        assert 0 <= row.device_self_pct <= row.device_pct <= 100
        assert row.device_self_ns <= row.device_total_ns
        assert row.host_self_ns <= row.host_total_ns or row.count > 1
    assert sum(row.host_self_pct for row in table.rows) == pytest.approx(100)
