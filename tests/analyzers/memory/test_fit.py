"""What would fit."""

from __future__ import annotations

import pytest

from profsuite.analyzers.memory.fit import largest_batch
from profsuite.analyzers.memory.trace import trace_memory


@pytest.fixture
def peak(job, tmp_path_factory):
    """A report whose peak is ``size`` bytes."""

    def make(size):
        fresh = type(job)(tmp_path_factory.mktemp("peak"))
        return trace_memory(fresh.op("aten::mm", 0, 9).memory(1, size, 1).memory(2, -size, 1).trace())

    return make


@pytest.mark.parametrize(
    ("capacity", "batch"), [(1000, 9), (1099, 9), (1100, 10), (100_100, 1000), (200, 1), (199, 0), (1, 0)]
)
def test_a_line_through_two_peaks(peak, capacity, batch):
    """100 bytes and 100 a sample."""
    made = largest_batch(peak(900), peak(1700), 8, 16, capacity)
    assert (made.batch, made.bytes_per_sample, made.fixed_bytes) == (batch, 100.0, 100)
    assert largest_batch(peak(1700), peak(900), 16, 8, capacity) == made


def test_exact_where_floats_are_not(peak):
    made = largest_batch(peak(2**60 + 1), peak(2**60 + 4), 1, 4, 2**60 + 7)
    assert made.batch == 7


def test_memory_that_does_not_grow(peak):
    assert largest_batch(peak(900), peak(900), 8, 16, 1000).batch is None


def test_the_peak_of_a_whole_step_counts(job, peak):
    job.step(0, 0, 100).step(1, 100, 100).op("aten::mm", 0, 5).op("aten::mm", 105, 5)
    job.memory(110, 300, 1).memory(120, -300, 1).memory(250, 9000, 2)
    assert largest_batch(trace_memory(job.trace()), peak(400), 1, 2, 1000).peak_small_bytes == 300


@pytest.mark.parametrize("sizes", [(0, 1, 5), (1, 0, 5), (1, 2, 0), (3, 3, 5)])
def test_sizes_that_say_nothing(peak, sizes):
    with pytest.raises(ValueError, match=r"positive|differ"):
        largest_batch(peak(1), peak(2), *sizes)
