"""GPU time breakdown: hand-computed windows."""

from __future__ import annotations

import json
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from profsuite.analyzers.breakdown import breakdown
from profsuite.analyzers.device_work import device_work
from profsuite.trace.intervals import union_length
from profsuite.trace.load import load

PARTS = ("compute_ns", "exposed_comm_ns", "exposed_memcpy_ns", "idle_ns", "window_ns")


def parts(shares):
    return tuple(getattr(shares, name) for name in PARTS)


def test_overlapping_work_counts_once_and_idle_is_the_rest(job):
    job.kernel(0, 100).kernel(50, 100, name="add", stream=8)  # compute 0..150
    job.kernel(140, 60, name="ncclDevKernel_AllReduce", stream=20)  # comm 140..200, 50 exposed
    job.memcpy(190, 30, stream=9)  # 200..220 exposed
    job.kernel(240, 10)
    (row,) = breakdown(job.trace())
    assert parts(row.shares) == (160_000, 50_000, 20_000, 20_000, 250_000)
    assert (row.shares.busy_ns, row.shares.comm_ns, row.shares.overlapped_comm_ns) == (230_000, 60_000, 10_000)
    assert row.shares.overlap_pct == pytest.approx(100 / 6)
    assert (row.num_compute, row.num_comm, row.num_memcpy, row.num_streams) == (3, 1, 1, 4)


def test_annotations_and_syncs_on_a_device_are_no_work(job):
    job.kernel(0, 10).kernel(30, 10)
    job.slice("gpu_user_annotation", "forward", 0, 100, tid=7, pid=0, device=0, stream=7)
    job.slice("cuda_sync", "Stream Sync", 0, 100, tid=7, pid=0, device=0, stream=7)
    (row,) = breakdown(job.trace())
    assert parts(row.shares) == (20_000, 0, 0, 20_000, 40_000)


def test_each_device_has_its_own_window_and_no_communication_has_no_overlap(job):
    job.kernel(0, 10, device=0).kernel(5, 20, device=1).kernel(45, 5, device=1)
    rows = breakdown(job.trace())
    assert [(r.device, r.start_ns, parts(r.shares)) for r in rows] == [
        (0, 0, (10_000, 0, 0, 0, 10_000)),
        (1, 5_000, (25_000, 0, 0, 20_000, 45_000)),
    ]
    assert rows[0].shares.overlap_pct is None


def test_a_trace_without_device_work_has_no_breakdown(job):
    assert breakdown(job.op("aten::mm", 0, 10).trace()) == ()


def test_steps_share_the_device_without_overlap_and_without_holes(job):
    job.step(1, 0, 100).launch(10, 5, 1).launch(20, 5, 2)
    job.step(2, 100, 100).launch(110, 5, 3)
    job.kernel(20, 30, 1).kernel(80, 60, 2)  # step 1's work runs until 140, into step 2
    job.kernel(150, 100, 3)  # step 2's until 250
    (row,) = breakdown(job.trace())
    assert [(s.number, s.start_ns, parts(s.shares)) for s in row.steps] == [
        (1, 0, (90_000, 0, 0, 50_000, 140_000)),
        (2, 140_000, (100_000, 0, 0, 10_000, 110_000)),
    ]


def test_time_between_steps_belongs_to_none(job):
    job.step(1, 0, 50).launch(0, 5, 1).step(2, 200, 50).launch(200, 5, 2)
    job.kernel(10, 20, 1).kernel(210, 20, 2)
    (row,) = breakdown(job.trace())
    assert [(s.start_ns, s.shares.window_ns, s.shares.idle_ns) for s in row.steps] == [
        (0, 50_000, 30_000),
        (200_000, 50_000, 30_000),
    ]


@pytest.mark.parametrize("layout", ["current", "classic", "compact"])
def test_a_generated_job_is_what_its_simulation_says(tmp_path, layout):
    script = Path(__file__).parents[2] / "benchmarks" / "gen_trace.py"
    command = [sys.executable, script, "--size-mb", "1", "--ranks", "2", "--layout", layout, "--out", tmp_path]
    subprocess.run(command, check=True, capture_output=True)
    for rank, truth in enumerate(json.loads((tmp_path / "truth.json").read_text())["ranks"]):
        trace = load(tmp_path / f"rank_{rank}.json", cache=False)
        (row,), (work,) = breakdown(trace), device_work(trace)
        assert row.shares.comm_ns == truth["comm_ns"]
        assert row.shares.overlapped_comm_ns == truth["comm_compute_overlap_ns"]
        busy = {
            str(stream): union_length(work.start[work.streams == stream], work.end[work.streams == stream])
            for stream in set(work.streams.tolist())
        }
        assert busy == truth["busy_ns_by_stream"]


def test_stretches_of_the_window_sum_to_it(job):
    job.kernel(0, 100).kernel(140, 60, name="ncclDevKernel_AllReduce", stream=20).memcpy(190, 30, stream=9)
    job.kernel(233, 7)
    (row,) = breakdown(job.trace())
    found = row.over_time
    assert found.edges_ns == tuple(range(0, 240_001, 2000))  # 240 us in 120 stretches
    assert found.compute_ns[:51] == (*[2000] * 50, 0)
    assert found.compute_ns[116:] == (1000, 2000, 2000, 2000)
    assert found.exposed_memcpy_ns[99:112] == (0, *[2000] * 10, 0, 0)
    for part in ("compute_ns", "exposed_comm_ns", "exposed_memcpy_ns"):
        assert sum(getattr(found, part)) == getattr(row.shares, part)


def test_a_window_shorter_than_its_stretches_has_fewer(job):
    job.slice("kernel", "gemm", 0.001, 0.003, 7, 0, device=0, stream=7)
    (row,) = breakdown(job.trace())
    assert row.over_time.compute_ns == (1, 1, 1)


@pytest.mark.parametrize("name", ["v100_resnet50_workers0.json.gz", "mi300_vllm_decode_graph.json.gz"])
def test_stretches_of_real_files_sum_to_the_window(real_trace, name):
    for row in breakdown(real_trace(name)):
        found, edges = row.over_time, row.over_time.edges_ns
        lengths = [b - a for a, b in pairwise(edges)]
        assert max(lengths) - min(lengths) <= 1
        assert edges[-1] - edges[0] == row.shares.window_ns
        for part in ("compute_ns", "exposed_comm_ns", "exposed_memcpy_ns"):
            assert sum(getattr(found, part)) == getattr(row.shares, part)
