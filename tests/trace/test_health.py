"""Each remark where it fires, and where it must not."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from profsuite.trace import health

DOCS = Path(__file__).parents[2] / "docs" / "health.md"


def x(name, ts, dur, tid=1, cat="cpu_op", pid=100, **args):
    return {"ph": "X", "name": name, "cat": cat, "pid": pid, "tid": tid, "ts": ts, "dur": dur, "args": args}


def kernel(ts, dur, tid=7, **args):
    return x("k", ts, dur, tid, "kernel", 0, **args)


COMPLETE = [
    x("ProfilerStep#1", 0, 100, cat="user_annotation"),
    x("aten::mm", 1, 10, **{"Input Dims": [[2, 2]], "Call stack": "a.py(1): f"}),
    x("cudaLaunchKernel", 2, 1, cat="cuda_runtime", correlation=1),
    kernel(20, 5, correlation=1),
]
HEADER = {"distributedInfo": {"rank": 0}, "deviceProperties": [{"id": 0, "name": "NVIDIA A100"}]}


@pytest.fixture
def remarks(make_trace, rows):
    """A function from events to {kind: count}."""

    def take(events, **header):
        found = rows(make_trace(events, **{**HEADER, **header}), "health", "kind", "count")
        assert len(dict(found)) == len(found)
        return dict(found)

    return take


def test_a_complete_trace_has_none(remarks):
    assert remarks(COMPLETE) == {}


def test_overlapping(remarks, make_trace):
    events = [
        kernel(30, 10, correlation=1),
        kernel(50, 1, correlation=1),
        kernel(35, 2, correlation=1),  # while the first runs
        kernel(39, 20, correlation=1),  # while the first runs
        kernel(40, 1, tid=8, correlation=1),  # on another stream
    ]
    # The kernel at 50 starts while the one at 39 runs.
    assert remarks(COMPLETE + events) == {"overlapping": 3}
    table = make_trace(COMPLETE + events, **HEADER)
    assert table.health.column("byte_offset")[0].as_py() == table.slices.column("byte_offset")[5].as_py()
    assert remarks([*COMPLETE, kernel(25, 5, correlation=1)]) == {}  # touches


def test_out_of_order(remarks):
    assert remarks([*COMPLETE, x("aten::a", 5, 7)]) == {"out_of_order": 1}
    assert remarks([*COMPLETE, x("aten::a", 11, 7)]) == {}  # touches
    roots = [x("aten::a", 0, 5, tid=2), x("aten::b", 3, 5, tid=2), x("aten::c", 6, 1, tid=2)]
    assert remarks(COMPLETE + roots) == {"out_of_order": 1}


def test_no_launch(remarks):
    assert remarks([*COMPLETE, kernel(30, 1, correlation=99), kernel(32, 1)]) == {"no_launch": 2}


def test_no_kernels(remarks, make_trace, rows):
    calls_only = COMPLETE[:-1]
    assert remarks(calls_only) == {"no_kernels": 1}
    events = [*calls_only, x("dma_request", 5, 1, 801, "mtia_ccp_events", 9)]
    (remark,) = rows(make_trace(events, **HEADER), "health", "kind", "count", "message")
    assert remark[:2] == ("no_kernels", 1)
    assert "device tracks" in remark[2]
    assert remarks(COMPLETE[:2]) == {}  # a run on the CPU


def test_a_kernel_before_its_launch(remarks, make_trace):
    events = [
        *COMPLETE,
        x("cudaLaunchKernel", 40, 1, cat="cuda_runtime", correlation=2),
        kernel(37.5, 1, correlation=2),
    ]
    assert remarks(events) == {"clock_outlier": 1}
    assert "2,500 ns" in make_trace(events, **HEADER).health.column("message")[0].as_py()


def test_slices_of_another_clock(remarks):
    minute = 60_000_000
    assert remarks([*COMPLETE, x("aten::a", minute + 200, 1), x("aten::a", -minute - 200, 1)]) == {"clock_outlier": 2}
    assert remarks([*COMPLETE, x("aten::a", minute - 200, 1)]) == {}


def test_what_the_file_does_not_say(remarks):
    events = COMPLETE[1:]
    assert remarks(events) == {"no_steps": 3}
    assert remarks(COMPLETE, distributedInfo={}) == {"no_rank": 4}
    assert remarks(COMPLETE, deviceProperties=[]) == {"no_device_properties": 4}
    assert remarks([COMPLETE[0], x("aten::mm", 1, 10), *COMPLETE[2:]]) == {"no_shapes": 1, "no_stacks": 1}
    stacks = [COMPLETE[0], x("aten::mm", 1, 10), *COMPLETE[2:], x("a.py(1): f", 0, 90, cat="python_function")]
    assert remarks(stacks) == {"no_shapes": 1}


def test_an_empty_file_is_not_blamed_for_what_it_cannot_have(remarks):
    assert set(remarks([])) <= {"empty"}


def test_every_kind_is_documented():
    documented = set(re.findall(r"^\| `(\w+)` \|", DOCS.read_text(), re.MULTILINE))
    assert {check.__name__ for check in health.CHECKS} <= documented
    reader = {"repaired", "dropped", "truncated", "empty", "negative_duration", "missing_duration", "unclosed",
              "unsupported", "trailing_data"}  # fmt: skip
    collector = {"overrun", "over_limit", "no_shape", "clock_step", "cupti"}
    assert documented == {check.__name__ for check in health.CHECKS} | reader | collector | {"no_times"}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("dlrm_8ranks/worker0.pt.trace.json.gz", {"no_stacks": 1633}),
        ("dlrm_8ranks/worker1.pt.trace.json.gz", {"no_launch": 64, "no_stacks": 1633}),
        ("dlrm_8ranks/worker3.pt.trace.json.gz", {"no_launch": 64, "no_stacks": 1633}),
        ("b200_eager_stacks.json.gz", {"overlapping": 74, "out_of_order": 7, "no_steps": 24656}),
        ("a100_no_kernels.json", {"no_kernels": 7, "no_rank": 73, "no_steps": 73}),
        ("ascend_rank0.json.gz", {"out_of_order": 10, "no_kernels": 535}),
        ("mi300_vllm_decode_graph.json.gz", {"no_steps": 1993}),
    ],
)
def test_real(real_trace, rows, name, expected):
    assert dict(rows(real_trace(name), "health", "kind", "count")) == expected
