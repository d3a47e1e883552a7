"""Ranks over time, by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from profsuite.analyzers.job.over_time import FEWEST, MOST, ranks_over_time
from profsuite.analyzers.job.report import analyze_summaries
from profsuite.analyzers.job.run import analyze_job


def test_ranks_in_collectives_and_waiting(ranks):
    # Clocks differ by 500 us. Rank 1 arrives 28 us late at the first, rank 0 is not late at the second.
    job = ranks(2)
    job.add(0, 1000, 64, seq=1).add(0, 1096, 32, seq=2)
    job.add(1, 1528, 36, seq=1).add(1, 1596, 32, seq=2)
    found = analyze_summaries(job.summaries()).over_time
    assert found.ranks == (0, 1)
    # 128 us in 128 stretches, from rank 0's first start on
    assert found.edges_ns == tuple(range(0, 128_001, 1000))
    assert found.comm_ns[0] == tuple([1000] * 64 + [0] * 32 + [1000] * 32)
    assert found.comm_ns[1] == tuple([0] * 28 + [1000] * 36 + [0] * 32 + [1000] * 32)
    assert found.wait_ns[0] == tuple([1000] * 28 + [0] * 100)
    assert sum(found.wait_ns[1]) == 0


def test_collectives_at_once_count_once(ranks):
    job = ranks(2)
    for rank in (0, 1):
        job.add(rank, 100, 100, seq=1).add(rank, 150, 100, seq=1, group="1", stream=21)
    found = analyze_summaries(job.summaries()).over_time
    assert [sum(row) for row in found.comm_ns] == [150_000, 150_000]


def test_a_rank_whose_clock_is_not_aligned_has_no_row(ranks):
    job = ranks(3)
    job.add(0, 100, 10, seq=1, members=[0, 1]).add(1, 100, 10, seq=1, members=[0, 1])
    job.add(2, 900, 10, seq=1, members=[2], group="c")
    assert analyze_summaries(job.summaries()).over_time.ranks == (0, 1)


def test_no_collectives(ranks):
    job = ranks(2)
    for rank in (0, 1):
        job[rank].kernel(0, 10)
    assert analyze_summaries(job.summaries()).over_time is None


def test_the_picture_has_its_bounds(ranks):
    job = ranks(2)
    job.add(0, 0, 10, seq=1).add(1, 0, 10, seq=1)
    found = job.job()
    row = ranks_over_time(found.summaries, found.waits, found.clocks)
    assert FEWEST <= len(row.comm_ns[0]) <= MOST


def test_each_rank_has_its_breakdown(ranks):
    job = ranks(2)
    job.add(0, 0, 30, seq=1).add(1, 10, 20, seq=1)
    job[1].kernel(40, 10, device=1)
    first, second = analyze_summaries(job.summaries()).ranks
    assert (first.shares.window_ns, first.shares.exposed_comm_ns, first.shares.compute_ns) == (30_000, 30_000, 0)
    assert (second.shares.compute_ns, second.shares.idle_ns) == (10_000, 10_000)


REAL = Path(__file__).parents[3].parent / "shared" / "traces" / "dlrm_8ranks"


@pytest.mark.skipif(not REAL.is_dir(), reason="the real traces are not here: ../shared/traces")
def test_a_real_job_adds_up():
    report = analyze_job(REAL)
    found = report.over_time
    assert found.ranks == tuple(range(8))
    for row, comm, wait in zip(report.ranks, found.comm_ns, found.wait_ns, strict=True):
        assert sum(comm) == row.comm_ns
        # Waits that overlap (on two streams) count once over time, and each in the matrix.
        assert sum(wait) <= row.waited_ns
        shares = row.shares
        parts = (shares.compute_ns, shares.exposed_comm_ns, shares.exposed_memcpy_ns, shares.idle_ns)
        assert sum(parts) == shares.window_ns == row.window_ns
