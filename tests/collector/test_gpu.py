"""Both engines on a real GPU: ``make gpu-test``.  Skipped where there is none."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from profsuite.collector.cupti.engine import available

WORKLOAD = Path(__file__).with_name("gpu_workload.py")
pytestmark = pytest.mark.gpu


@pytest.fixture(scope="module")
def gpu():
    torch = pytest.importorskip("torch", reason="torch is not installed")
    if not torch.cuda.is_available():
        pytest.skip("no GPU that torch sees")


def record(engine, workload, folder):
    out = folder / f"{engine}.json"
    done = subprocess.run(
        [sys.executable, WORKLOAD, engine, workload, out], capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(out.read_text())


@pytest.mark.parametrize("workload", ["bf16_loop", "cuda_graph", "triton_kernel"])
def test_both_engines_agree(gpu, tmp_path, workload):
    if reason := available():
        pytest.fail(f"there is a GPU, but the CUPTI engine cannot record: {reason}")
    if workload == "triton_kernel" and find_spec("triton") is None:
        pytest.skip("triton is not installed")
    kineto, cupti = (record(engine, workload, tmp_path) for engine in ("kineto", "cupti"))
    assert cupti["problems"] == []
    counts = [{name: len(d) for name, d in seen["durations"].items()} for seen in (kineto, cupti)]
    assert counts[0] == counts[1]
    assert sum(counts[1].values()) > 0
    assert cupti["copies"] == kineto["copies"]
    assert cupti["registers"] == kineto["registers"]
    assert cupti["launches"] == kineto["launches"]
    assert cupti["unlaunched"] == kineto["unlaunched"] == 0
    assert cupti["of_graphs"] == kineto["of_graphs"]
    assert (cupti["of_graphs"] > 0) == (workload == "cuda_graph")
    # Two runs: clocks of the GPU differ a little, single kernels more.
    for name, durations in kineto["durations"].items():
        expected, found = statistics.median(durations), statistics.median(cupti["durations"][name])
        assert abs(found - expected) <= max(1000, 0.15 * expected), (name, expected, found)


def test_a_second_client_is_refused(gpu, tmp_path):
    """torch.profiler keeps CUPTI until the process ends."""
    code = """
import torch
from profsuite.collector.cupti.engine import CuptiEngine
from profsuite.collector.cupti.library import CuptiError
x = torch.ones(8, device="cuda")
with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]):
    x + x
    try:
        CuptiEngine().start()
    except CuptiError as error:
        print("refused:", error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-4000:]
    assert "refused: the CUPTI engine cannot record while torch.profiler does" in done.stdout
