"""Generated jobs, whose simulation kept the truth, and the eight real ranks."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from profsuite.analyzers.job.report import analyze_summaries
from profsuite.analyzers.job.run import analyze_job, examine_all, summaries_of
from profsuite.trace.load import find_ranks

ROOT = Path(__file__).parents[3]
DLRM = ROOT.parent / "shared" / "traces" / "dlrm_8ranks"


def generate(folder, *options):
    command = [sys.executable, str(ROOT / "benchmarks" / "gen_trace.py"), "--size-mb", "0.4", "--out", str(folder)]
    subprocess.run([*command, *options], check=True, stdout=subprocess.DEVNULL)
    return json.loads((folder / "truth.json").read_text())["ranks"]


@pytest.fixture(scope="module", params=["current", "classic"])
def slow(tmp_path_factory, request):
    """Eight ranks, the third one slow, clocks up to 500 us apart: the report and the truth."""
    folder = tmp_path_factory.mktemp("slow")
    options = ("--ranks", "8", "--slow-rank", "3", "--slow-factor", "1.3", "--clock-skew-us", "500")
    truth = generate(folder, *options, "--seed", "5", "--layout", request.param)
    return analyze_job(folder, jobs=1), truth


def test_the_slow_rank_is_the_straggler(slow):
    report, _ = slow
    assert report.straggler == 3
    assert report.findings[0].id == "straggler"
    assert report.findings[0].where.rank == 3
    assert "rank 3" in report.verdict
    assert "computation" in report.verdict


def test_clock_offsets(slow):
    report, truth = slow
    base = truth[report.reference_rank]["clock_offset_ns"]
    for row, true in zip(report.ranks, truth, strict=True):
        assert abs(row.clock_offset_ns - (true["clock_offset_ns"] - base)) <= 2_000
    assert max(row.clock_offset_ns for row in report.ranks) > 100_000, "there was nothing to recover"


def test_waited_and_caused(slow):
    report, truth = slow
    for row, true in zip(report.ranks, truth, strict=True):
        assert row.waited_ns == pytest.approx(true["waited_ns"], rel=0.05)
        assert row.caused_ns == pytest.approx(true["caused_wait_ns"], rel=0.05)
        assert row.num_collectives == true["collectives"]
        assert row.exposed_comm_ns == true["comm_ns"] - true["comm_compute_overlap_ns"]
    assert np.array(report.wait_matrix_ns).sum() == sum(true["waited_ns"] for true in truth)


def test_every_collective_is_matched(slow):
    report, truth = slow
    assert report.num_collectives == report.num_complete == truth[0]["collectives"]
    assert report.mismatches == ()


def test_latency_and_bandwidth_that_were_simulated(slow):
    report, _ = slow
    model = report.collectives[0].transfers
    assert model.latency_ns == pytest.approx(20_000, rel=1e-3)
    assert model.bandwidth_gb_per_s == pytest.approx(60, rel=1e-3)


def test_even_ranks_have_no_straggler(tmp_path):
    truth = generate(tmp_path, "--ranks", "4", "--seed", "3", "--min-steps", "8")
    report = analyze_job(tmp_path, jobs=1)
    assert [f.id for f in report.findings] == []
    assert [row.caused_ns for row in report.ranks] == [true["caused_wait_ns"] for true in truth]


@pytest.fixture(scope="module")
def real():
    if not DLRM.is_dir():
        pytest.skip(f"the real traces are not here: {DLRM}")
    outcomes = examine_all(find_ranks(DLRM), only=("health", "breakdown"), cache=False)
    return summaries_of(outcomes), json.loads((DLRM.parent / "expected.json").read_text())


def test_real_ranks_equal_the_independent_values(real):
    summaries, expected = real
    report = analyze_summaries(summaries)
    assert [row.rank for row in report.ranks] == list(range(8))
    for row, summary in zip(report.ranks, summaries, strict=True):
        (device,) = expected[f"worker{row.rank}.pt.trace.json.gz"]["devices"].values()
        assert row.exposed_comm_ns == device["exposed_comm_ns"]
        assert row.comm_ns == device["comm_ns"]
        assert row.compute_ns == device["compute_ns"]
        assert row.window_ns == device["window_ns"]
        shares = summary.report.breakdown[0].shares
        assert shares.overlapped_comm_ns == device["overlapped_comm_ns"]


def test_every_real_collective_is_matched(real):
    report = analyze_summaries(real[0])
    assert (report.num_collectives, report.num_matched, report.num_complete) == (8, 8, 8)
    assert {(row.kind, row.count, row.num_ranks) for row in report.collectives} == {
        ("send_recv", 5, 8),
        ("all_reduce", 3, 8),
    }
    assert report.mismatches == ()
    # all on one machine: its clock is one, the files count microseconds
    assert all(abs(row.clock_offset_ns) <= 5_000 for row in report.ranks)
    assert all((row.clock_residual_ns or 0) <= 5_000 for row in report.ranks)


def test_orphans_are_named_in_the_health_of_their_rank(real):
    orphans = {s.rank: h.count for s in real[0] for h in s.report.health if h.kind == "no_launch"}
    found = {}
    for summary in real[0]:
        from profsuite.trace.load import load

        trace = load(summary.source, cache=False)
        without = sum((trace.array(t, "launch_id") < 0).sum() for t in ("kernel", "memcpy"))
        if without:
            found[summary.rank] = without
    assert orphans == found
    assert found, "there should be some"
