"""The recipe for Accelerate, alone and on two processes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("accelerate", reason="accelerate is not installed")

from profsuite.trace.model import Trace

SCRIPT = Path(__file__).parents[3] / "examples" / "accelerate_loop.py"


def run(*command):
    done = subprocess.run([sys.executable, *command], capture_output=True, text=True, timeout=300)
    assert not done.returncode, done.stderr
    return done.stdout.strip().splitlines()[-1]


def test_in_one_process(tmp_path):
    folder = Path(run(SCRIPT, tmp_path / "run"))
    trace = Trace.open(folder)
    assert trace.array("step", "number").tolist() == [2, 3, 4, 5]
    assert trace.to_pandas("slice")["name"].str.startswith("Optimizer.step#AdamW").any()


@pytest.mark.slow
def test_on_two_processes(tmp_path):
    run("-m", "torch.distributed.run", "--nproc-per-node", "2", SCRIPT, tmp_path / "run")
    for rank in range(2):
        trace = Trace.open(tmp_path / "run" / f"rank_{rank}")
        assert trace.info.rank == rank
        # Each rank sees half of the 8 batches.
        assert trace.array("step", "number").tolist()[:2] == [2, 3]
