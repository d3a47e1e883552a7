"""Findings on compilation, loading of code, and the profiler, each with a trace where it must not fire."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from profsuite.trace.schema import BY_NAME


def compiled(trace, *events):
    """The trace with rows of ``compile_event``; times in microseconds after the first slice."""
    first = int(trace.array("slice", "ts").min())
    rows = [
        {
            "dur": None,
            "frame_id": None,
            "frame_compile_id": None,
            "name": None,
            "reason": None,
            "file": None,
            "line": None,
        }
        | event
        | {"ts": first + 1000 * event["ts"]}
        for event in events
    ]
    table = pa.Table.from_pylist(rows, schema=BY_NAME["compile_event"].arrow_schema())
    return replace(trace, tables={**trace.tables, "compile_event": table}, _cache={})


def a_break(line=12, ts=10):
    return {"kind": "graph_break", "ts": ts, "file": "/home/me/model.py", "line": line, "reason": "call to print"}


def compilation(number, ts, dur, **more):
    event = {"kind": "compile", "ts": ts, "dur": 1000 * dur, "frame_id": 0, "frame_compile_id": number}
    return event | {"name": "forward", "file": "/home/me/model.py", "line": 7} | more


def test_graph_breaks(job, found, value):
    trace = compiled(job.busy().trace(), a_break(), a_break(), a_break(line=20))
    finding = found(trace, "graph_breaks")
    assert (value(finding, "graph breaks"), value(finding, "different places")) == (3, 2)
    assert (finding.where.source, value(finding, "because"), finding.severity) == (
        "model.py(12)",
        "call to print",
        "info",
    )
    assert "at 2 places" in finding.title


def test_graph_breaks_from_frames(job, found, value):
    job.busy().python("model.py(7): torch_dynamo_resume_in_forward_at_12", 0, 20)
    job.python("model.py(7): torch_dynamo_resume_in_forward_at_12", 30, 20)
    finding = found(job.trace(), "graph_breaks")
    assert (finding.where.source, value(finding, "calls of them")) == ("model.py(12): forward", 2)


def test_graph_breaks_from_frames_without_a_duration(job, found, value):
    job.busy().python("model.py(7): torch_dynamo_resume_in_forward_at_12", 0, 0)
    assert value(found(job.trace(), "graph_breaks"), "calls of them") == 1


def test_graph_breaks_not_for_several_compiled_functions(job, found):
    job.busy().op("Torch-Compiled Region: 0/0", 0, 20).op("Torch-Compiled Region: 1/0", 30, 20)
    assert found(job.trace(), "graph_breaks") is None


def test_recompiles(job, found, value):
    events = [compilation(0, 0, 50), compilation(1, 100, 20), compilation(2, 110, 30)]
    events.append({"kind": "recompile", "ts": 100, "reason": "size mismatch at index 0"})
    finding = found(compiled(job.busy().trace(), *events), "recompiles")
    assert (finding.cost_ns, value(finding, "compilations after the first")) == (40_000, 2)
    assert (value(finding, "because"), finding.where.source) == ("size mismatch at index 0", "model.py(7)")


def test_recompiles_not_for_the_first_compilation(job, found):
    assert found(compiled(job.busy().trace(), compilation(0, 0, 50)), "recompiles") is None


def test_recompiles_count_what_lies_in_the_recording(job, found):
    # 300 us are recorded; the compilation ends long after.
    trace = compiled(job.busy().trace(), compilation(0, 0, 50), compilation(1, 250, 1000))
    assert found(trace, "recompiles").cost_ns == 50_000


def test_recompiles_from_the_numbers_of_regions(job, found, value):
    job.busy().op("Torch-Compiled Region: 3/2", 0, 20).op("Torch-Compiled Region: 1/0", 30, 20)
    finding = found(job.trace(), "recompiles")
    assert (finding.severity, value(finding, "highest number of a region that ran")) == ("info", "3/2")
    assert "compiled function 3 3 times" in finding.title


def test_recompiles_not_for_the_one_that_makes_sizes_dynamic(job, found):
    assert found(job.busy().op("Torch-Compiled Region: 0/1", 0, 20).trace(), "recompiles") is None


def test_module_loading(job, found, value):
    job.busy().call("cuModuleLoadData", 0, 30).slice("overhead", "Lazy Function Loading", 20, 20)
    finding = found(job.trace(), "module_loading")
    assert (finding.cost_ns, value(finding, "times")) == (40_000, 2)
    assert found(job.trace(), "profiler_overhead") is None


def test_module_loading_not_for_a_short_one(job, found):
    assert found(job.busy(10).call("cuModuleLoadData", 0, 2).trace(), "module_loading") is None


def test_profiler_overhead(job, found, value):
    job.busy().slice("overhead", "Activity Buffer Request", 100, 30)
    finding = found(job.trace(), "profiler_overhead")
    assert (finding.cost_ns, value(finding, "longest")) == (30_000, "Activity Buffer Request")


def test_profiler_overhead_not_for_a_full_command_buffer(job, found):
    assert found(job.busy().slice("overhead", "Command Buffer Full", 100, 100).trace(), "profiler_overhead") is None


def test_compilation_without_steps_counts_none(job, found, value):
    job.op("aten::mm", 0, 1000).mark("inner (dynamo_timed)", 100, 800).mark("codegen (dynamo_timed)", 150, 700)
    finding = found(job.trace(), "compile_in_steps")
    assert (finding.cost_ns, value(finding, "most time of its own")) == (800_000, "codegen")
    assert "steps with compilation" not in {evidence.label for evidence in finding.evidence}


def test_compilation_not_for_little_of_it(job, found):
    job.op("aten::mm", 0, 10_000).mark("inner (dynamo_timed)", 100, 50)
    assert found(job.trace(), "compile_in_steps") is None
