"""Steps, launches, ops and forward ops, by hand and on real traces."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from profsuite.trace import relations
from profsuite.trace.joins import earliest_with
from profsuite.trace.readers.fields import NULL_INT64


def host(name, ts, dur, cat="cpu_op", tid=1, **args):
    return {"ph": "X", "pid": 100, "tid": tid, "name": name, "cat": cat, "ts": ts, "dur": dur, "args": args}


def kernel(ts, dur=1, cat="kernel", **args):
    return {"ph": "X", "pid": 0, "tid": 7, "name": "k", "cat": cat, "ts": ts, "dur": dur, "args": args}


def launch(ts, cat="cuda_runtime", tid=1, **args):
    return host("cudaLaunchKernel", ts, 1, cat, tid, **args)


def test_steps(make_trace, rows):
    trace = make_trace(
        [
            host("ProfilerStep#11", 10, 10, "user_annotation"),
            host("ProfilerStep#10", 0, 10, "user_annotation"),
            host("ProfilerStep#10", 0, 10),  # the same step as an op
            host("ProfilerStep#11", 11, 9, "user_annotation", tid=2),  # and on another thread
            kernel(12, 3, "gpu_user_annotation") | {"name": "ProfilerStep#10"},
            host("ProfilerStep#x", 1, 1),
            host("Iteration#3", 2, 1, "user_annotation"),
            host("aten::a", 5, 1),
            host("aten::b", 15, 1),
            host("aten::c", 25, 1),
        ]
    )
    assert rows(trace, "step", "slice_id", "number", "ts", "dur", "truncated") == [
        (1, 10, 0, 10000, False),
        (0, 11, 10000, 10000, False),
    ]
    assert trace.slices.column("step_id").to_pylist() == [1, 0, 0, 1, 1, 0, 0, 0, 1, None]


def test_iterations_count_where_there_are_no_profiler_steps(make_trace, rows):
    trace = make_trace([host("Iteration#3", 0, 5, "Operator"), host("Iteration#4", 5, 5, "Operator")])
    assert rows(trace, "step", "number", "ts") == [(3, 0), (4, 5000)]


def test_steps_that_overlap_a_little(make_trace):
    """Of two steps the later one counts; rounding makes such marks."""
    trace = make_trace(
        [
            host("ProfilerStep#1", 0, 11, "user_annotation"),
            host("ProfilerStep#2", 10, 10, "user_annotation"),
            host("aten::a", 9, 1),
            host("aten::a", 10, 1),
        ]
    )
    assert trace.slices.column("step_id").to_pylist() == [0, 1, 0, 1]


@pytest.mark.parametrize(
    ("extra", "truncated"),
    [
        ([], [False, False, False]),
        # The recorder's own span.
        ([host("PyTorch Profiler (0)", 1, 40, "Trace")], [True, False, False]),
        ([host("PyTorch Profiler (0)", 0, 29, "Trace")], [False, False, True]),
        ([host("PyTorch Profiler (0)", 0, 30, "Trace")], [False, False, False]),
        # prof.step() began another step, then recording stopped.
        ([host("ProfilerStep#4", 30, 1, "user_annotation"), host("python", 30, 1, "python_function")],
         [False, False, False, True]),
        ([{"ph": "B", "pid": 100, "tid": 1, "name": "ProfilerStep#4", "cat": "user_annotation", "ts": 30},
          host("aten::a", 31, 1)], [False, False, False, True]),
    ],
)  # fmt: skip
def test_truncated_steps(make_trace, extra, truncated):
    events = [host(f"ProfilerStep#{i + 1}", 10 * i, 10, "user_annotation") for i in range(3)]
    events += [host("aten::a", 10 * i + 5, 1) for i in range(3)]
    assert make_trace(events + extra).table("step").column("truncated").to_pylist() == truncated


def test_the_last_step_of_a_broken_file_is_truncated(make_trace):
    text = """{"traceEvents": [
        {"ph": "X", "name": "ProfilerStep#1", "cat": "user_annotation", "ts": 0, "dur": 10},
        {"ph": "X", "name": "ProfilerStep#2", "cat": "user_annotation", "ts": 10, "dur": 10},
        {"ph": "X", "name": "x", "ca"""
    assert make_trace(text).table("step").column("truncated").to_pylist() == [False, True]


def test_launches_and_ops(make_trace, rows):
    trace = make_trace(
        [
            host("aten::linear", 0, 20),  # 0
            host("f", 1, 10, "python_function"),
            host("aten::addmm", 2, 8),  # 2
            launch(3, correlation=5),  # 3
            host("cuLaunchKernel", 3.5, 0.1, "cuda_driver", correlation=5),  # later, same id
            kernel(30, correlation=5),  # 5
            launch(12, correlation=6),  # 6: a graph
            kernel(32, correlation=6),
            kernel(33, correlation=6, cat="gpu_memcpy"),
            kernel(34, correlation=99),  # launched before the recording
            kernel(35),
            launch(15, tid=2, correlation=7),  # 11: no op on its thread
            kernel(36, correlation=7),
        ]
    )
    assert rows(trace, "kernel", "slice_id", "launch_id", "op_id") == [
        (5, 3, 2),
        (7, 6, 0),
        (9, None, None),
        (10, None, None),
        (12, 11, None),
    ]
    assert rows(trace, "memcpy", "slice_id", "launch_id", "op_id") == [(8, 6, 0)]


def test_ops_by_external_id(make_trace, rows):
    trace = make_trace(
        [
            {**host("aten::mm", 0, 5), "args": {"External id": 41}},
            {**launch(10, tid=2, correlation=1), "args": {"correlation": 1, "External id": 41}},
            kernel(20, correlation=1),  # its launch tells
            {**kernel(21), "args": {"External id": 41}},
            {**kernel(22), "args": {"External id": 0}},  # none
            {**host("aten::add", 6, 1), "args": {"External id": 9}},
            {**kernel(23), "args": {"External id": 9, "correlation": 9}},  # only repeats the correlation id
        ]
    )
    assert rows(trace, "kernel", "slice_id", "launch_id", "op_id") == [
        (2, 1, 0),
        (3, None, 0),
        (4, None, None),
        (6, None, None),
    ]


def test_device_work_belongs_to_the_step_of_its_launch(make_trace):
    trace = make_trace(
        [
            host("ProfilerStep#1", 0, 10, "user_annotation"),
            host("ProfilerStep#2", 10, 10, "user_annotation"),
            launch(9, correlation=1),
            kernel(12, correlation=1),
            kernel(13, correlation=2),
            launch(25, correlation=3),
            kernel(19, correlation=3),
        ]
    )
    assert trace.slices.column("step_id").to_pylist() == [0, 1, 0, 0, 1, None, None]


def test_launches_by_flow_without_correlation_ids(make_trace, rows):
    def end(ph, ts, flow_id, pid, tid, cat="async"):
        return {"ph": ph, "id": flow_id, "pid": pid, "tid": tid, "ts": ts, "cat": cat, "name": "launch"}

    events = [
        host("aten::mm", 0, 5),
        launch(1),
        kernel(10),
        kernel(12),
        kernel(14),
        end("s", 1, 3, 100, 1),
        end("f", 10, 3, 0, 7),
        end("f", 12, 3, 0, 7),
        end("f", 14.5, 3, 0, 7),  # no kernel starts here
    ]
    assert rows(make_trace(events), "kernel", "launch_id", "op_id") == [(1, 0), (1, 0), (None, None)]
    other = [e | {"cat": "fwdbwd"} if e["ph"] in "sf" else e for e in events]
    assert rows(make_trace(other), "kernel", "launch_id", "op_id") == [(None, None)] * 3


def test_forward_ops(make_trace, rows):
    def op(name, ts, dur, tid, sequence, thread=0):
        return host(name, ts, dur, tid=tid, **{"Sequence number": sequence, "Fwd thread id": thread})

    trace = make_trace(
        [
            op("aten::linear", 0, 9, 1, 5),
            op("aten::addmm", 2, 5, 1, 5),  # the last to start with this number: it made the node
            op("aten::relu", 10, 1, 1, 6),
            op("autograd::engine::evaluate_function: AddmmBackward0", 20, 9, 2, 5, 1),
            op("AddmmBackward0", 21, 5, 2, 5, 1),
            op("ReluBackward0", 30, 5, 2, 6),  # by its name alone
            op("aten::addmm", 40, 5, 1, 5),  # after the backward
            op("MulBackward0", 41, 1, 2, 77, 1),  # its forward op was not recorded
            op("aten::mul", 50, 1, 1, -1),
        ]
    )
    assert rows(trace, "op", "slice_id", "forward_op_id") == [
        (0, None), (1, None), (2, None), (3, 1), (4, 1), (5, 2), (6, None), (7, None), (8, None),
    ]  # fmt: skip


def test_forward_ops_of_two_threads(make_trace, rows):
    """Threads count alone; the numbers that one of them used alone say which thread is meant."""

    def op(name, ts, tid, sequence, thread=0):
        return host(name, ts, 1, tid=tid, **{"Sequence number": sequence, "Fwd thread id": thread})

    trace = make_trace(
        [
            op("aten::a", 0, 1, 5),
            op("aten::b", 2, 2, 5),  # the same number, later, on another thread
            op("aten::c", 4, 1, 6),
            op("aten::d", 6, 1, 7),
            op("ABackward0", 20, 3, 5, 1),
            op("CBackward0", 21, 3, 6, 1),
            op("DBackward0", 22, 3, 7, 1),
            op("BBackward0", 23, 4, 5, 2),
        ]
    )
    assert rows(trace, "op", "slice_id", "forward_op_id")[4:] == [(4, 0), (5, 2), (6, 3), (7, 1)]


@given(
    st.lists(st.integers(-1, 6), max_size=8),
    st.lists(st.tuples(st.integers(-1, 6), st.integers(0, 3)), max_size=8),
    st.sampled_from([1, 2**40]),
)
def test_earliest_with(wanted, rows, scale):
    """Dense and sparse ids, against a loop; -1 stands for null."""

    def ids(values):
        return np.array([NULL_INT64 if v < 0 else v * scale for v in values], np.int64)

    ts = np.array([t for _, t in rows], np.int64)
    row = np.array([i for i, (key, _) in enumerate(rows) if key >= 0], np.int32)
    keys = ids([rows[i][0] for i in row])
    expected = []
    for w in wanted:
        hits = [i for i, (key, _) in enumerate(rows) if key == w and w >= 0]
        expected.append(min(hits, key=lambda i: (rows[i][1], i), default=-1))
    assert earliest_with(ids(wanted), keys, row, ts).tolist() == expected


@pytest.mark.parametrize("depth", [3, 63, 64, 65, 66, 1000])
@pytest.mark.parametrize("wanted_at", [None, 0, 1])
def test_enclosing_at_any_depth(depth, wanted_at):
    parent = np.arange(-1, depth, dtype=np.int32)  # a chain
    wanted = np.zeros(depth + 1, bool)
    if wanted_at is not None:
        wanted[wanted_at] = True
    found = relations.enclosing(parent, wanted, np.array([depth, -1, 1], np.int32))
    at_one = 0 if wanted_at == 0 else -1
    assert found.tolist() == [-1 if wanted_at is None else wanted_at, -1, at_one]


@pytest.mark.parametrize(
    ("name", "kernels", "launched", "with_op"),
    [
        ("diff_v100_test.json.gz", 9876, 9330, 9282),
        ("mi300_vllm_decode_graph.json.gz", 425, 425, 4),
        ("torch18_autograd_api.json.gz", 9329, 9329, 9227),
        ("b200_eager_stacks.json.gz", 768, 768, 766),
        ("mi210_gpu_only.json.gz", 562, 562, 0),
        ("backward_thread.json", 1, 1, 1),
    ],
)
def test_real_launches(real_trace, name, kernels, launched, with_op):
    table = real_trace(name).kernels
    found = [len(table), *(len(table) - table.column(c).null_count for c in ("launch_id", "op_id"))]
    assert found == [kernels, launched, with_op]


def test_one_graph_launch_has_429_kernels(real_trace):
    launches = real_trace("diff_v100_test.json.gz").array("kernel", "launch_id")
    assert np.bincount(launches[launches >= 0]).max() == 429


@pytest.mark.parametrize(
    ("name", "steps"),
    [
        ("v100_resnet50_workers0.json.gz", [(n, False) for n in range(16, 22)]),
        ("h100_bert_small.json.gz", [(6, False)]),
        ("ascend_rank0.json.gz", [(50, False)]),
        ("mi250_rocm62.json.gz", [(1, False), (2, True)]),
        ("a100_triton.json.gz", [(1, True)]),
        ("gp100_gpu_user_annotation.json.gz", []),
    ],
)
def test_real_steps(real_trace, rows, name, steps):
    assert rows(real_trace(name), "step", "number", "truncated") == steps
