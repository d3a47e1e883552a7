"""Histograms of durations, by hand."""

from __future__ import annotations

import numpy as np
import pytest

from profsuite.analyzers.histogram import BINS, histogram, histograms
from profsuite.analyzers.kernels import kernels
from profsuite.analyzers.ops import ops


def times(*values):
    return np.array(values, np.int64)


def test_nothing_and_one():
    assert histogram(times()) is None
    one = histogram(times(7))
    assert (one.min_ns, one.max_ns, one.counts) == (7, 7, (1,))
    assert histogram(times(0, 0)).counts == (2,)
    assert histogram(times(0, 1)).counts == (2,)  # 1 ns is where the edges begin


def test_edges_have_equal_ratios():
    # From 1 to 2**16 in 16 bins: each bin is a power of two, with its lower edge.
    powers = times(*(2**n for n in range(17)))
    found = histogram(powers)
    assert found.counts == (*[1] * 15, 2)  # the last edge belongs to the last bin
    assert histogram(times(1, 3, 2**16)).counts == (1, 1, *[0] * 13, 1)
    assert histogram(times(0, 2**16)).counts == (1, *[0] * 14, 1)


def test_groups_are_told_apart():
    group, dur = times(2, 0, 2, 2), times(5, 1, 5, 9)
    found = list(histograms(group, dur, times(2, 0)))
    assert [(h.min_ns, h.max_ns, sum(h.counts)) for h in found] == [(5, 9, 3), (1, 1, 1)]


def test_kernels_and_ops_have_theirs(job):
    for n, length in enumerate((10, 20, 40)):
        job.op("aten::mm", 100 * n, 30 + n).launch(100 * n + 5, 5, n + 1).kernel(100 * n + 50, length, n + 1)
    trace = job.trace()
    (kernel,) = kernels(trace).rows
    assert (kernel.durations.min_ns, kernel.durations.max_ns) == (10_000, 40_000)
    assert sum(kernel.durations.counts) == kernel.count == 3
    assert len(kernel.durations.counts) == BINS
    # 20 is the geometric middle of 10 and 40: the first of the upper eight bins, or by rounding the one before
    assert kernel.durations.counts[7] + kernel.durations.counts[8] == 1
    (op,) = ops(trace).rows
    assert (op.durations.min_ns, op.durations.max_ns, sum(op.durations.counts)) == (30_000, 32_000, 3)
    assert trace.array("slice", "dur")[op.longest_slice_id] == 32_000


@pytest.mark.parametrize("name", ["h100_qwen_0_5b.json.gz", "v100_resnet50_workers0.json.gz"])
def test_real_rows_count_all_their_runs(real_trace, name):
    trace = real_trace(name)
    for row in kernels(trace, 50).rows:
        assert sum(row.durations.counts) == row.count
        assert (row.durations.min_ns, row.durations.max_ns) == (row.min_ns, row.max_ns)
    for row in ops(trace, top=50).rows:
        assert sum(row.durations.counts) == row.count
        assert trace.array("slice", "dur")[row.longest_slice_id] == row.durations.max_ns
