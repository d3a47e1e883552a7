"""Compile events: each with its reason and the user's line, and none caused by looking."""

from __future__ import annotations

import inspect
import json
import os
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from torch import _dynamo as dynamo  # noqa: E402
from torch._dynamo.callback import callback_handler  # noqa: E402
from torch._dynamo.utils import get_compilation_metrics  # noqa: E402
from torch._logging._internal import trace_log  # noqa: E402

from profsuite.analyzers.host_calls import COMPILE, host_classes  # noqa: E402
from profsuite.collector.channels.compile import CompileChannel, _graph_break  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")


def step(x, n):
    y = x.sin() + n
    print(end="")
    return y.cos()


def skipped(x):
    for _ in range(2):
        dynamo.graph_break()
    return x.cos()


FILE = __file__
LINE = inspect.getsourcelines(step)[1]


def handlers():
    """All but torch's own, which leaves at its first record."""
    return [handler for handler in trace_log.handlers if type(handler).__name__ != "LazyTraceHandler"]


@pytest.fixture(autouse=True)
def fresh():
    dynamo.reset()
    hooks = (list(callback_handler.start_callbacks), list(callback_handler.end_callbacks), handlers())
    limit = dynamo.utils._compilation_metrics.maxlen
    yield
    assert (callback_handler.start_callbacks, callback_handler.end_callbacks, handlers()) == hooks
    assert dynamo.utils._compilation_metrics.maxlen == limit


@pytest.fixture(params=[False, True], ids=["metrics", "logs"])
def logs(request):
    return request.param


def events(trace, *kinds):
    return [row for row in trace.table("compile_event").to_pylist() if row["kind"] in kinds]


def test_spans_breaks_and_recompiles_with_the_users_lines(to_trace, logs):
    compiled = torch.compile(step, backend="eager")
    channel = CompileChannel(logs)
    channel.start()
    compiled(torch.ones(4), 1)
    compiled(torch.ones(4), 2)
    trace = to_trace(channel.stop())
    assert channel.problems == []

    spans = events(trace, "compile")
    numbers = [(row["frame_id"], row["frame_compile_id"]) for row in spans]
    assert numbers[:3] == [(0, 0), (1, 0), (0, 1)]
    assert spans[0]["name"] == "step"
    assert (spans[0]["file"], spans[0]["line"], spans[0]["reason"]) == (FILE, LINE, None)
    assert all(row["dur"] > 1e6 for row in spans)

    breaks = events(trace, "graph_break")
    assert [(row["file"], row["line"]) for row in breaks] == [(FILE, LINE + 2)] * 2
    assert [(row["frame_id"], row["frame_compile_id"]) for row in breaks] == [(0, 0), (0, 1)]
    assert breaks[0]["reason"].startswith("Failed to trace builtin operator")
    assert "print" in breaks[0]["reason"]
    assert "Developer debug context" not in breaks[0]["reason"]

    (recompile,) = events(trace, "recompile")
    assert (recompile["frame_id"], recompile["frame_compile_id"]) == (0, 1)
    assert recompile["reason"].startswith("0/0: n == 1")
    assert (recompile["file"], recompile["line"]) == (FILE, LINE + 1)

    assert trace.to_pandas("slice")["name"].tolist()[:3] == [
        "torch.compile step 0/0",
        f"torch.compile torch_dynamo_resume_in_step_at_{LINE + 2} 1/0",
        "torch.compile step 0/1",
    ]
    assert set(host_classes(trace).tolist()) == {COMPILE}
    first = trace.to_pandas("slice").iloc[0]
    assert abs(int(first["ts"]) - spans[0]["ts"]) < 50e6, "both on the same clock"
    assert 0 < channel.overhead_ns < (2e9 if logs else 20e6)


def test_a_break_that_costs_the_whole_function(to_trace, logs):
    channel = CompileChannel(logs)
    channel.start()
    torch.compile(skipped, backend="eager")(torch.ones(4))
    trace = to_trace(channel.stop())
    (found,) = events(trace, "graph_break")
    at = inspect.getsourcelines(skipped)[1] + 2
    assert (found["file"], found["line"], found["frame_id"]) == (FILE, at, 0)
    assert found["reason"].startswith("Call to `torch._dynamo.graph_break()`")
    (span,) = events(trace, "compile")
    assert span["reason"].startswith("Unsupported: ")


def test_a_guard_on_a_tensor_names_the_function(to_trace, logs):
    compiled = torch.compile(lambda x: x.sin(), backend="eager", dynamic=False)
    channel = CompileChannel(logs)
    channel.start()
    compiled(torch.ones(4))
    compiled(torch.ones(5))
    (recompile,) = events(to_trace(channel.stop()), "recompile")
    assert "size mismatch at index 0. expected 4, actual 5" in recompile["reason"]
    assert recompile["file"] == FILE
    assert recompile["line"] > LINE


def test_a_compilation_that_fails_is_a_span_with_its_reason(to_trace, logs):
    def broken(graph, inputs):
        raise RuntimeError("no such backend")

    channel = CompileChannel(logs)
    channel.start()
    with pytest.raises(Exception, match="no such backend"):
        torch.compile(lambda x: x.sin(), backend=broken)(torch.ones(4))
    (span,) = events(to_trace(channel.stop()), "compile")
    assert "no such backend" in span["reason"]


def test_reset_in_between(to_trace, logs):
    torch.compile(step, backend="eager")(torch.ones(4), 7)
    channel = CompileChannel(logs)
    channel.start()
    torch.compile(step, backend="eager")(torch.ones(4), 1)
    dynamo.reset()
    torch.compile(step, backend="eager")(torch.ones(4), 1)
    trace = to_trace(channel.stop())
    assert [row["name"] for row in events(trace, "compile")].count("step") == 2
    assert len(events(trace, "graph_break")) == 2
    assert bool(channel.problems) == (not logs)


def test_what_was_compiled_before_is_not_of_this_recording():
    torch.compile(step, backend="eager")(torch.ones(4), 1)
    channel = CompileChannel()
    channel.start()
    assert channel.stop() is None


def test_a_thousand_cycles_leave_nothing(logs):
    channel = CompileChannel(logs)
    known = len(get_compilation_metrics())
    for _ in range(1000):
        channel.start()
        channel.start()
        channel.stop()
        assert channel.stop() is None
    assert len(get_compilation_metrics()) == known


def test_an_unreadable_record_is_one_problem():
    channel = CompileChannel(logs=True)
    channel.start()
    for _ in range(2):
        trace_log.debug("", extra={"metadata": {"artifact": {}}, "payload": None})
    channel.stop()
    assert len(channel.problems) == 1


def test_a_break_without_a_place():
    event = _graph_break(1, None, 'Graph break: skipped\n  File "a.py", line 3, in f\n  File "b.py", line 7, in g\n')
    assert (event.file, event.line) == ("b.py", 7)
    event = _graph_break(1, None, "odd")
    assert (event.file, event.line, event.reason) == (None, None, "odd")


PROGRAM = """
import json, sys, warnings
warnings.simplefilter("ignore")
import torch, torch._dynamo
from torch._dynamo.utils import counters, get_compilation_metrics
mode = sys.argv[1]
if mode == "profile":
    import profsuite
    recording = profsuite.profile(sys.argv[2], channels=("compile", "gc", "dataloader"))
    recording.start()
elif mode != "off":
    from profsuite.collector.channels.compile import CompileChannel
    channel = CompileChannel(mode == "logs")
    channel.start()
graphs = []
def backend(graph, inputs):
    graphs.append(len(graph.graph.nodes))
    return graph.forward
def step(x, n):
    y = x.sin() + n
    print(end="")
    return (y * 2).cos()
compiled = torch.compile(step, backend=backend)
for n in (1, 1, 2, 3):
    for size in (4, 4, 5):
        compiled(torch.ones(size, requires_grad=True), n).sum().backward()
        if mode == "profile":
            recording.step()
metrics = get_compilation_metrics()
print(json.dumps({
    "graphs": graphs,
    "breaks": sum(counters["graph_break"].values()),
    "recompiles": [m.recompile_reason.split("#")[0].strip() for m in metrics if m.recompile_reason],
    "compilations": [m.compile_id for m in metrics],
    "guards": [m.guard_count for m in metrics],
}))
if mode == "profile":
    recording.stop()
    print(recording.trace.num_rows("compile_event"), file=sys.stderr)
elif mode != "off":
    print(len(channel.stop().groups["compile"]["ts"]), file=sys.stderr)
"""


@pytest.mark.slow
def test_compiling_is_the_same_with_and_without(tmp_path):
    script = tmp_path / "program.py"
    script.write_text(PROGRAM)
    results = {}
    for mode in ("off", "metrics", "logs", "profile"):
        command = [sys.executable, script, mode, tmp_path / "run"]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        results[mode] = json.loads(done.stdout)
        assert mode == "off" or int(done.stderr.split()[-1]) > 10
    assert results["off"]["breaks"] > 0
    assert results["off"]["recompiles"]
    assert results["metrics"] == results["off"]
    assert results["logs"] == results["off"]
    assert results["profile"] == results["off"]


CACHED = """
import sys, torch
from profsuite.collector.channels.compile import CompileChannel
from profsuite.trace.assemble import assemble
channel = CompileChannel(sys.argv[1] == "logs")
channel.start()
x = torch.ones(4, requires_grad=True)
torch.compile(lambda x: (x.sin() * 2).sum())(x).backward()
trace = assemble(channel.stop(), "run", "collector")
rows = trace.table("compile_event").to_pylist()
print(sorted({(r["kind"], r["name"]) for r in rows if r["kind"].startswith("cache")}))
print([r["name"] for r in rows if r["kind"] == "compile"])
print(trace.to_pandas("slice")["name"].tolist())
"""


@pytest.mark.slow
def test_answers_of_the_caches_and_the_backwards_compilation(tmp_path):
    script = tmp_path / "program.py"
    script.write_text(CACHED)
    environment = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "cache")}

    def run(mode):
        command = [sys.executable, script, mode]
        done = subprocess.run(command, capture_output=True, text=True, env=environment)
        if "InvalidCxxCompiler" in done.stderr:
            pytest.skip("inductor finds no C++ compiler")
        assert not done.returncode, done.stderr
        return done.stdout.splitlines()

    answers, compiled, slices = run("metrics")
    assert answers == "[('cache_miss', 'aotautograd'), ('cache_miss', 'fx_graph')]"
    assert compiled == "['<lambda>', '<lambda> (backward)']"
    assert slices == "['torch.compile <lambda> 0/0', 'torch.compile <lambda> 0/0 backward']"
    for mode in ("metrics", "logs"):
        assert run(mode)[0] == "[('cache_hit', 'aotautograd'), ('cache_hit', 'fx_graph')]"
