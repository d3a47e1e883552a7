"""Two ranks on gloo, recorded and held against each other."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

PROGRAM = """
import sys
import torch, torch.distributed as dist, torch.multiprocessing as mp
import profsuite

def work(rank, folder):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=2)
    pair = dist.new_group([0, 1], group_desc="pair")
    with profsuite.profile(f"{folder}/run/rank_{rank}") as prof:
        for _ in range(3):
            dist.all_reduce(torch.ones(1000))
            dist.all_gather([torch.ones(8), torch.ones(8)], torch.ones(8), group=pair)
            prof.step()
    dist.destroy_process_group()

if __name__ == "__main__":
    mp.spawn(work, (sys.argv[1],), nprocs=2)
"""


@pytest.mark.skipif(not torch.distributed.is_available(), reason="torch without distributed")
def test_collectives_of_two_ranks_are_matched_one_to_one(tmp_path: Path) -> None:
    from profsuite.analyzers.job.run import analyze_job

    script = tmp_path / "program.py"
    script.write_text(PROGRAM)
    subprocess.run([sys.executable, script, tmp_path], check=True, timeout=300)
    report = analyze_job(tmp_path / "run", jobs=1)
    assert [row.rank for row in report.ranks] == [0, 1]
    assert [row.num_collectives for row in report.ranks] == [6, 6]
    assert (report.num_collectives, report.num_matched, report.num_complete) == (6, 6, 6)
    assert {(row.kind, row.count, row.num_ranks) for row in report.collectives} == {
        ("all_reduce", 3, 2),
        ("all_gather", 3, 2),
    }
    assert report.mismatches == ()
    for row in report.ranks:
        assert row.waited_ns <= row.comm_ns
    assert sum(row.num_last for row in report.ranks) == 6
