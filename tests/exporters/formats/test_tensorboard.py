"""TensorBoard's folder, read by TensorBoard."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

import profsuite
from profsuite.errors import MissingExtraError
from profsuite.trace.load import load
from profsuite.trace.model import Trace


def read(folder: Path) -> Any:
    module = pytest.importorskip(
        "tensorboard.backend.event_processing.event_accumulator", reason="needs the extra tensorboard"
    )
    found = module.EventAccumulator(str(folder), size_guidance={module.TENSORS: 0})
    found.Reload()
    return found


def scalars(found: Any) -> dict[str, list[tuple[int, float]]]:
    from tensorboard.util.tensor_util import make_ndarray

    return {
        tag: [(event.step, float(make_ndarray(event.tensor_proto))) for event in found.Tensors(tag)]
        for tag in found.Tags()["tensors"]
        if not tag.startswith("profsuite/")
    }


def test_scalars(trace: Trace, tmp_path: Path) -> None:
    pytest.importorskip("tensorboard", reason="needs the extra tensorboard")
    folder = profsuite.export(trace, tmp_path / "logs", "tensorboard")
    accumulator = read(folder / "rank0")
    found = scalars(accumulator)
    near = pytest.approx
    assert found["step/seconds"] == [(3, near(0.0009)), (4, near(0.0009))]
    assert found["memory/cuda:0 peak allocated bytes"] == [(3, 512 + 1024), (4, 1024 + 1024)]
    assert found["counters/GPU 0 utilization gpu_pct (ratio)"] == [(0, near(0.40)), (1, near(0.41))]
    # Each step: the kernel's 300 us, then 40 us more of communication than computation hides, of 900.
    assert found["GPU 0/compute seconds"] == [(3, near(0.0003)), (4, near(0.000300))]
    assert found["GPU 0/communication seconds"] == [(3, near(0.0001)), (4, near(0.0001))]
    assert found["GPU 0/communication overlapped pct"] == [(3, near(20)), (4, near(20))]
    plugin = accumulator.SummaryMetadata("step/seconds").plugin_data.plugin_name
    assert plugin == "scalars"
    assert accumulator.Tensors("step/seconds")[0].wall_time == near(1_700_000_000.001, abs=1e-6)


def test_findings_are_text(trace: Trace, tmp_path: Path) -> None:
    pytest.importorskip("tensorboard", reason="needs the extra tensorboard")
    accumulator = read(profsuite.export(trace, tmp_path / "logs", "tensorboard") / "rank0")
    assert accumulator.SummaryMetadata("profsuite/findings").plugin_data.plugin_name == "text"
    (event,) = accumulator.Tensors("profsuite/findings")
    text = event.tensor_proto.string_val[0].decode()
    titles = [finding.title for finding in profsuite.analyze(trace).findings or ()]
    assert len(text.splitlines()) == len(titles) > 0
    assert "<script" not in text


def test_the_trace_is_where_the_plugin_looks(trace: Trace, tmp_path: Path) -> None:
    pytest.importorskip("tensorboard", reason="needs the extra tensorboard")
    folder = profsuite.export(trace, tmp_path / "logs", "tensorboard")
    again = load(folder / "rank0" / "rank0.pt.trace.json.gz", cache=False)
    rows = [one.slices.drop_columns(["byte_offset"]).to_pylist() for one in (again, trace)]
    assert rows[0] == rows[1]


def test_ranks_are_runs(path: Path, tmp_path: Path) -> None:
    pytest.importorskip("tensorboard", reason="needs the extra tensorboard")
    other = tmp_path / "other.json"
    document = json.loads(path.read_text(encoding="utf-8"))
    document["distributedInfo"]["rank"] = 7
    other.write_text(json.dumps(document), encoding="utf-8")
    folder = profsuite.export([path, other, path], tmp_path / "logs", "tensorboard")
    assert sorted(run.name for run in folder.iterdir()) == ["rank0", "rank0_2", "rank7"]
    assert scalars(read(folder / "rank7"))["step/seconds"]


def test_without_tensorboard(trace: Trace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in [name for name in sys.modules if name.split(".")[0] == "tensorboard"] + ["tensorboard"]:
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtraError, match=r"profsuite\[tensorboard\]"):
        profsuite.export(trace, tmp_path / "logs", "tensorboard")
