"""All channels at once through ``profsuite.profile``, and none."""

from __future__ import annotations

import gc
import json
import subprocess
import sys

import pytest

pytest.importorskip("torch", reason="torch is not installed")

from profsuite.analyzers.host_calls import CLASSES, host_classes
from profsuite.collector.channels.registry import CHANNELS
from profsuite.trace.model import Trace

PROGRAM = """
import gc, json, sys, threading, warnings
warnings.simplefilter("ignore")
import torch, profsuite
had = set(sys.modules)
before = (threading.active_count(), len(gc.callbacks), torch.utils.data.DataLoader._get_iterator)
next_of = torch.utils.data.dataloader._BaseDataLoaderIter.__next__
names = tuple(json.loads(sys.argv[2]))
def step(x):
    y = x.sin()
    print(end="")
    return y.cos()
if sys.argv[3] == "compile":
    step = torch.compile(step, backend="eager")
with profsuite.profile(sys.argv[1], channels=names) as prof:
    inside = (threading.active_count(), len(gc.callbacks))
    hooked = torch.utils.data.dataloader._BaseDataLoaderIter.__next__ is not next_of
    loaded = sorted(n.rpartition(".")[2] for n in sys.modules if n.startswith("profsuite.collector.channels."))
    for batch in torch.utils.data.DataLoader(torch.randn(4, 8)):
        step(batch)
        gc.collect()
        prof.step()
assert torch.utils.data.dataloader._BaseDataLoaderIter.__next__ is next_of
assert (threading.active_count(), len(gc.callbacks)) == before[:2]
facts = json.loads((prof.folder / "recording.json").read_text())
print(json.dumps({
    "folder": str(prof.folder), "threads": inside[0] - before[0], "hooks": inside[1] - before[1], "hooked": hooked,
    "loaded": loaded, "foreign": sorted({"psutil", "pynvml"} & (set(sys.modules) - had)), "overhead": facts["overhead"],
    "notes": prof.notes,
}))
"""


@pytest.fixture
def run(tmp_path):
    script = tmp_path / "program.py"
    script.write_text(PROGRAM)

    def go(*names, compiles=False):
        command = [sys.executable, script, tmp_path / "run", json.dumps(names), "compile" if compiles else "eager"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300)
        assert not done.returncode, done.stderr
        return json.loads(done.stdout.splitlines()[-1])

    return go


def test_all_channels_end_up_in_one_trace(run):
    pytest.importorskip("psutil", reason="psutil is not installed")
    result = run(*CHANNELS, compiles=True)
    trace = Trace.open(result["folder"])
    classes = {CLASSES[code] for code in host_classes(trace)}
    assert {"input", "compile", "gc", "op"} <= classes
    kinds = [row["kind"] for row in trace.table("compile_event").to_pylist()]
    assert kinds.count("graph_break") == 1
    assert "CPU" in trace.words("counter", "name")
    steps = trace.to_pandas("step")
    ts = trace.array("counter", "ts")
    end = int((steps["ts"] + steps["dur"]).max())
    assert steps["ts"].min() - 1e9 < ts.min() <= ts.max() < end + 10e9, "all on one clock"
    pause = trace.to_pandas("slice").query("name.str.startswith('Python GC')").iloc[0]
    assert pause["step_id"] >= 0, "inside a step"
    assert set(result["overhead"]["channels_cpu_ns"]) == set(CHANNELS)
    # Each is said once, after the channel's name.
    assert len(result["notes"]) == len(set(result["notes"]))
    for note in result["notes"]:
        assert note.count("nvml:") <= 1


def test_none_is_free(run):
    result = run()
    assert result["loaded"] in ([], ["registry"])
    assert result["foreign"] == []
    assert not result["hooked"]
    assert result["hooks"] == 0
    trace = Trace.open(result["folder"])
    assert trace.num_rows("counter") == trace.num_rows("compile_event") == 0
    names = trace.to_pandas("slice")["name"]
    assert not names.str.startswith(("Python GC", "torch.compile ")).any()
    on = run("host")
    assert on["threads"] == result["threads"] + 1


def test_hooks_are_gone_in_this_process(tmp_path):
    import profsuite

    hooks = list(gc.callbacks)
    for number in range(3):
        with profsuite.profile(tmp_path / f"run{number}", channels=("gc", "dataloader", "host")):
            assert len(gc.callbacks) == len(hooks) + 1
        assert gc.callbacks == hooks
