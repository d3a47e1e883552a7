"""Findings on a job: for each kind one where it fires and one where it must not."""

from __future__ import annotations

import pytest

from profsuite.analyzers.job.findings import job_findings
from profsuite.analyzers.job.report import analyze_summaries


def found(job, kind):
    return next((f for f in job_findings(job.job()) if f.id == kind), None)


def value(finding, label):
    return next(e.value for e in finding.evidence if e.label == label)


def uneven(ranks, late):
    """Three ranks, ten collectives of 20 us; rank r arrives ``late[r]`` us late at each; windows of about 1 ms."""
    job = ranks(3)
    for seq in range(10):
        last = max(late(rank, seq) for rank in range(3))
        for rank in range(3):
            at = 100 * seq + late(rank, seq)
            job.add(rank, at, 100 * seq + last + 20 - at, seq=seq + 1)
            job[rank].kernel(100 * seq - 60 + late(rank, seq), 60, name="gemm", device=rank)
    return job


def test_straggler(ranks):
    finding = found(uneven(ranks, lambda rank, _: 30 if rank == 1 else 0), "straggler")
    assert finding.severity == "critical"
    assert finding.where.rank == 1
    assert finding.cost_ns == 10 * 30_000
    assert value(finding, "the others waited for it, together") == 20 * 30_000
    assert value(finding, "collectives at which it was last") == 10
    assert value(finding, "share of all waiting") == 100


def test_straggler_not_where_ranks_take_turns(ranks):
    assert found(uneven(ranks, lambda rank, seq: 30 if seq % 3 == rank else 0), "straggler") is None


def test_straggler_not_for_a_single_pause(ranks):
    assert found(uneven(ranks, lambda rank, seq: 900 if (rank, seq) == (1, 4) else 0), "straggler") is None


def test_straggler_not_where_nobody_waits_long(ranks):
    assert found(uneven(ranks, lambda rank, _: 2 if rank == 1 else 0), "straggler") is None


def test_missing_collective(ranks):
    job = ranks(2)
    for seq in (1, 2, 3):
        job.add(0, 100 * seq, 10, seq=seq)
        if seq != 2:
            job.add(1, 100 * seq, 10, seq=seq)
    finding = found(job, "missing_collective")
    assert finding.where.rank == 1
    assert value(finding, "rank 1") == "lacks 1, the first all_reduce 2 of group default_pg; rank 0 has it"
    assert found(job, "collective_mismatch") is None


def test_collective_mismatch(ranks):
    job = ranks(2).add(0, 100, 10, seq=1).add(1, 100, 10, "_allgather_base", seq=1)
    finding = found(job, "collective_mismatch")
    assert (finding.severity, finding.where.rank) == ("critical", 1)
    assert found(job, "missing_collective") is None


def transfers(ranks, size, bandwidth=10, latency=30):
    """Collectives of ``size`` bytes and one of a million; ``bandwidth`` in kB a us."""
    job = ranks(2)
    for seq in range(1, 9):
        num_bytes = size if seq < 8 else 1_000_000
        for rank in (0, 1):
            job.add(rank, 1000 * seq, latency + num_bytes / (1000 * bandwidth), seq=seq, nelems=num_bytes // 4)
    return job


def test_latency_bound_collectives(ranks):
    finding = found(transfers(ranks, 4_000), "latency_bound_collectives")
    assert value(finding, "latency, fitted") == pytest.approx(30_000, rel=1e-3)
    assert value(finding, "bandwidth, fitted") == pytest.approx(10, rel=1e-3)
    assert value(finding, "size that reaches 90 % of it") == pytest.approx(9 * 300_000, rel=1e-3)
    assert "2.7 MB" in finding.remedy


def test_latency_bound_not_with_large_messages(ranks):
    assert found(transfers(ranks, 10_000_000), "latency_bound_collectives") is None


def test_verdict_names_the_rank_and_the_reason(ranks):
    job = uneven(ranks, lambda rank, _: 30 if rank == 1 else 0)
    for seq in range(10):
        job[1].kernel(100 * seq - 30, 30, name="gemm", stream=9, device=1)
    report = analyze_summaries(job.summaries())
    assert "most of it for rank 1" in report.verdict
    assert report.straggler == 1
    assert report.num_matched == report.num_complete == 10


def test_verdict_without_collectives(ranks):
    job = ranks(2)
    for rank in (0, 1):
        job[rank].kernel(0, 10, device=rank)
    report = analyze_summaries(job.summaries())
    assert report.verdict.startswith("No collective was recorded")
    assert report.straggler is None
    assert [row.clock_offset_ns for row in report.ranks] == [0, None]
    assert "ProfilerActivity" in report.notes[0]


def test_a_job_needs_two_ranks_each_once(ranks):
    summaries = ranks(2).summaries()
    for wrong in (summaries[:1], [summaries[0], summaries[0]]):
        with pytest.raises(ValueError, match="two ranks or more"):
            analyze_summaries(wrong)
    with pytest.raises(ValueError, match="no fabric 'rope'"):
        analyze_summaries(summaries, "rope")
