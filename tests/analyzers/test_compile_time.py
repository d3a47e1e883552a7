"""Time in the compiler, by hand, and against a plain walk over the sample's events."""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from decimal import Decimal
from pathlib import Path

import pytest

from profsuite.analyzers.analysis import Analysis
from profsuite.analyzers.compile_time import MARK, compile_time
from profsuite.analyzers.report import report_of
from profsuite.exporters.sections.compilation import compilation_section
from profsuite.trace.load import load

SAMPLE = Path(__file__).parents[2] / "sample_traces" / "cpu_compiled.json.gz"


def compiled(job):
    """Steps of 1 ms from 1 ms on; the compiler runs before them, in the first, and on two threads in the last."""
    for number in range(3):
        job.step(number, 1000 * (number + 1), 1000)
    job.mark("inner (dynamo_timed)", 100, 800).op("inner", 101, 798)  # newer torch marks it twice
    job.mark("codegen (dynamo_timed)", 200, 500).mark("codegen (dynamo_timed)", 300, 100)  # one within the other
    job.mark("compile_file (dynamo_timed)", 310, 50)
    job.mark("inner (dynamo_timed)", 1100, 100)
    job.mark("inner (dynamo_timed)", 3800, 400, tid=2).mark("inner (dynamo_timed)", 3900, 200)
    return job.mark("end", 4900, 100)


def test_phases_by_hand(job):
    found = compile_time(compiled(job).trace())
    rows = {row.name: (row.count, row.total_ns, row.self_ns, row.longest_ns) for row in found.phases}
    # inner: 800 + 100 + 400 + 200 us, 500 of it codegen's; codegen: 500, 50 of it compile_file's.
    assert rows == {
        "inner": (4, 1_500_000, 1_000_000, 800_000),
        "codegen": (2, 500_000, 450_000, 500_000),
        "compile_file": (1, 50_000, 50_000, 50_000),
    }
    assert [row.name for row in found.phases] == ["inner", "codegen", "compile_file"]
    assert sum(row.self_ns for row in found.phases) == found.threads_ns == 1_500_000
    # Thread 2 compiles from 3.8 to 4.2 ms, thread 1 within that: once for the job.
    assert found.total_ns == 1_300_000
    assert (found.recording_ns, found.pct) == (4_900_000, pytest.approx(100 * 13 / 49))
    assert (found.num_threads, found.num_entries, found.num_phases) == (2, 4, 3)


def test_steps_that_compile(job):
    found = compile_time(compiled(job).trace())
    # Not the first compilation, before the steps, nor what the last one does after the last step.
    assert [(step.number, step.num_entries, step.total_ns) for step in found.steps] == [
        (0, 1, 100_000),
        (2, 2, 200_000),
    ]


def test_the_longest_slice_leads_to_it(job):
    trace = compiled(job).trace()
    found = compile_time(trace)
    for phase in found.phases:
        assert trace.array("slice", "dur")[phase.longest_slice_id] == phase.longest_ns
        name = trace.words("slice", "name")[trace.array("slice", "name")[phase.longest_slice_id]]
        assert name == phase.name + MARK
    assert found.longest_slice_id == found.phases[0].longest_slice_id


def test_the_list_is_cut_but_not_the_numbers(job):
    found = compile_time(compiled(job).trace(), top=1)
    assert ([row.name for row in found.phases], found.num_phases, found.total_ns) == (["inner"], 3, 1_300_000)


def test_marks_that_overlap_do_not_count_twice(job):
    """One that ends after the one it began in is its sibling."""
    job.mark("a (dynamo_timed)", 0, 100).mark("b (dynamo_timed)", 50, 100).mark("b (dynamo_timed)", 120, 100)
    found = compile_time(job.trace())
    rows = {row.name: (row.total_ns, row.self_ns) for row in found.phases}
    assert rows == {"a": (100_000, 100_000), "b": (170_000, 170_000)}
    assert (found.total_ns, found.threads_ns, found.pct) == (220_000, 220_000, 100)


def test_marks_of_no_duration_and_no_steps(job):
    found = compile_time(job.mark("a (dynamo_timed)", 5, 0).op("x", 0, 100).trace())
    assert (found.total_ns, found.pct, found.num_entries, found.steps) == (0, 0, 1, None)
    assert compile_time(job.__class__(job.folder).mark("a (dynamo_timed)", 5, 0).trace()).pct is None


@pytest.mark.parametrize("name", ["compile_file", "(dynamo_timed) x", "x(dynamo_timed)"])
def test_nothing_without_marks(job, name):
    trace = job.busy().mark(name, 0, 50).trace()
    assert compile_time(trace) is None
    assert report_of(Analysis(trace), {"compilation"}).compilation is None


def test_not_what_a_device_mirrors(job):
    job.slice("gpu_user_annotation", "a (dynamo_timed)", 0, 50, tid=7, pid=0).kernel(0, 50)
    assert compile_time(job.trace()) is None


def test_the_section(job):
    section = compilation_section(compile_time(compiled(job).trace(), top=2))
    phases, steps = section.blocks
    assert phases.caption == (
        "The compiler took 1.300 ms of 4.900 ms (26.5 %), entered 4 times, on 2 threads (1.500 ms together)"
    )
    assert [row[1:] for row in phases.rows] == [
        ("4", "1.000 ms", "66.7 %", "1.500 ms"),
        ("2", "450.0 µs", "30.0 %", "500.0 µs"),
    ]
    assert steps.rows == (("0", "1", "100.0 µs"), ("2", "2", "200.0 µs"))
    assert section.notes == ("The 2 of 3 phases with most time of their own.",)


def test_the_sample_against_a_walk():
    """A stack over the marks in order of time gives the same counts and times."""
    text = gzip.decompress(SAMPLE.read_bytes())
    events = [
        (Decimal(e["ts"]), Decimal(e["ts"]) + Decimal(e["dur"]), e["name"].removesuffix(MARK))
        for e in json.loads(text, parse_float=Decimal)["traceEvents"]
        if e.get("ph") == "X" and e["name"].endswith(MARK)
    ]
    count, total, own = defaultdict(int), defaultdict(Decimal), defaultdict(Decimal)
    stack = []
    for start, end, name in sorted(events, key=lambda each: (each[0], -each[1])):
        while stack and stack[-1][1] <= start:
            stack.pop()
        count[name] += 1
        own[name] += end - start
        if stack:
            assert end <= stack[-1][1]
            own[stack[-1][2]] -= end - start
        if name not in [each[2] for each in stack]:
            total[name] += end - start
        stack.append((start, end, name))
    found = compile_time(load(SAMPLE, cache=False), top=100)
    assert {row.name: row.count for row in found.phases} == count
    assert {row.name: row.total_ns for row in found.phases} == {name: int(us * 1000) for name, us in total.items()}
    assert {row.name: row.self_ns for row in found.phases} == {name: int(us * 1000) for name, us in own.items()}
    assert found.total_ns == int(1000 * sum(own.values()))
    assert found.num_entries == 1
