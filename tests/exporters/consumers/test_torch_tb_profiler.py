"""TensorBoard's PyTorch profiler plugin on the trace in our log folder, against our breakdown and the original."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import profsuite
from profsuite.analyzers.report import analyze

PROGRAM = """
import json, sys
from torch_tb_profiler.profiler.data import RunProfileData
from torch_tb_profiler.profiler.run_generator import RunGenerator
data = RunProfileData.parse("worker", None, sys.argv[1], sys.argv[2])
run = RunGenerator("worker", None, data).generate_run_profile()
kernels = [[row[0], row[2], row[3]] for row in run.kernel_table["data"]["rows"]]
print()
print(json.dumps({
    "views": [view.name for view in run.views],
    "steps": dict(zip(data.steps_names, [costs.costs for costs in data.steps_costs])),
    "kernels": kernels,
    "ops": [[row["name"], row["calls"], row["device_total_duration"], row["host_total_duration"]]
            for row in run.operation_table_by_name["data"]],
}))
"""
KERNEL, MEMCPY, MEMSET, TOTAL = 0, 1, 2, -1


@pytest.mark.slow
def test_totals(ask: Any, real: Callable[[str], Path], tmp_path: Path) -> None:
    pytest.importorskip("tensorboard", reason="needs the extra tensorboard")
    path = real("v100_resnet50_workers0")
    trace = profsuite.load(path, cache=False)
    folder = profsuite.export(trace, tmp_path / "logs", "tensorboard")
    (file,) = folder.rglob("*.pt.trace.json.gz")
    found = ask("torch_tb_profiler", PROGRAM, file, tmp_path)
    assert {"overall", "operator", "kernel", "trace", "memory"} <= set(found["views"])
    (device,) = analyze(trace, only=("breakdown",)).breakdown or ()
    assert len(device.steps) == len(found["steps"]) > 3
    for step in device.steps:
        costs = [round(cost * 1_000) for cost in found["steps"][str(step.number)]]
        assert costs[KERNEL] == step.shares.compute_ns
        assert costs[MEMCPY] + costs[MEMSET] == step.shares.exposed_memcpy_ns
        assert costs[TOTAL] == step.shares.window_ns
    slices = trace.slices.to_pylist()
    kernels = [slices[row["slice_id"]] for row in trace.kernels.to_pylist()]
    assert sum(calls for _, calls, _ in found["kernels"]) == len(kernels)
    # it cuts the sum of each of its rows to whole microseconds
    assert sum(row["dur"] for row in kernels) / 1e3 - sum(row[2] for row in found["kernels"]) < len(found["kernels"])
    original = ask("torch_tb_profiler", PROGRAM, path, tmp_path)
    assert found["ops"] == original["ops"]
    assert found["kernels"] == original["kernels"]
