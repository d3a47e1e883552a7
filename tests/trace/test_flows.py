"""Flow ends in pairs, bound to slices."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from profsuite.trace import flows
from profsuite.trace.flows import FINISHES, STARTS

ENDS = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 1), st.integers(0, 2), st.integers(0, 5)), max_size=10)


def literal(ends):
    """Pairs by the definition: the last s or t before it, else the first s."""
    pairs = []
    for i, (phase, category, flow_id, ts) in enumerate(ends):
        if phase == STARTS:
            continue
        same = [j for j, e in enumerate(ends) if e[1:3] == (category, flow_id) and j != i]
        before = [j for j in same if ends[j][0] != FINISHES and (ends[j][3], ends[j][0], j) < (ts, phase, i)]
        starts = [j for j in same if ends[j][0] == STARTS]
        if before:
            pairs.append((max(before, key=lambda j: (ends[j][3], ends[j][0], j)), i))
        elif starts:
            pairs.append((min(starts, key=lambda j: (ends[j][3], j)), i))
    return pairs


@given(ENDS, st.sampled_from([1, 2**61]))
def test_pairs_as_defined(ends, scale):
    columns = [np.array(c) for c in zip(*ends, strict=True)] or [np.zeros(0, np.int64)] * 4
    phase, category, ids, ts = columns
    start, finish = flows.pair_ends(phase.astype(np.int32), category.astype(np.int32), ids * scale, ts)
    # Where an id has one start and no steps, the time of the start does not matter.
    assert list(zip(start.tolist(), finish.tolist(), strict=True)) == literal(ends)


def end(ph, ts, flow_id, tid, cat="ac2g", pid=100):
    return {"ph": ph, "id": flow_id, "pid": pid, "tid": tid, "ts": ts, "cat": cat, "name": cat}


def x(name, ts, dur, tid, cat, pid=100):
    return {"ph": "X", "name": name, "cat": cat, "pid": pid, "tid": tid, "ts": ts, "dur": dur}


def arrows(trace):
    found = trace.flows()
    words = trace.words("flow", "category")
    codes = found.category.tolist()
    return [
        (words[c], s, f) for c, s, f in zip(codes, found.start_slice.tolist(), found.finish_slice.tolist(), strict=True)
    ]


def test_bound_to_slices(make_trace):
    trace = make_trace(
        [
            x("aten::mm", 10, 10, 1, "cpu_op"),  # 0
            x("cudaLaunchKernel", 10, 2, 1, "cuda_runtime"),  # 1: starts with its op
            x("annotation", 30, 9, 7, "gpu_user_annotation", 0),  # 2: starts with its kernel
            x("k", 30, 4, 7, "kernel", 0),  # 3
            x("k", 36, 4, 7, "kernel", 0),  # 4
            x("MmBackward0", 50, 5, 2, "cpu_op"),  # 5
            x("aten::t", 51, 1, 2, "cpu_op"),  # 6
            end("s", 10, 1, 1),
            end("f", 30, 1, 7, pid=0),
            end("f", 36, 1, 7, pid=0),  # two kernels of one launch
            end("s", 10, 1, 1, "fwdbwd"),  # the same id, another category
            end("f", 50, 1, 2, "fwdbwd"),
            end("s", 15, 2, 1, "other"),  # inside the op
            end("f", 51.5, 2, 2, "other"),  # inside both: the innermost
            end("s", 15, "a", 1, "other"),
            end("f", 53, "a", 2, "other"),  # inside the outer one, after the inner
            end("s", 90, 3, 1, "other"),
            end("f", 90, 3, 9, "other"),  # nothing there
            end("f", 20, 4, 1, "other"),  # no start
        ]
    )
    assert arrows(trace) == [
        ("ac2g", 1, 3),
        ("ac2g", 1, 4),
        ("fwdbwd", 0, 5),
        ("other", 0, 6),
        ("other", 0, 5),
        ("other", -1, -1),
    ]
    assert trace.flows() is trace.flows()


def test_steps_of_a_flow(make_trace):
    events = [x(str(i), 10 * i, 5, i, "cpu_op") for i in range(3)]
    trace = make_trace([*events, end("s", 0, 1, 0), end("t", 10, 1, 1), end("f", 20, 1, 2)])
    assert arrows(trace) == [("ac2g", 0, 1), ("ac2g", 1, 2)]


def test_a_finish_before_its_start_by_another_clock(make_trace):
    events = [x("cudaLaunchKernel", 10, 2, 1, "cuda_runtime"), x("k", 9, 4, 7, "kernel", 0)]
    trace = make_trace([*events, end("s", 10, 1, 1), end("f", 9, 1, 7, pid=0)])
    assert arrows(trace) == [("ac2g", 0, 1)]


def test_none(make_trace):
    assert arrows(make_trace([])) == []
    assert arrows(make_trace([end("s", 0, 1, 0), end("f", 1, 1, 0)])) == [("ac2g", -1, -1)]


@pytest.mark.parametrize(
    ("name", "category", "count"),
    [("v100_ns_resolution.json.gz", "ac2g", 4350), ("torch18_autograd_api.json.gz", "async", 9329)],
)
def test_real_flows_say_what_correlation_ids_say(real_trace, name, category, count):
    trace = real_trace(name)
    found = trace.flows()
    start_of = dict(zip(found.finish_slice.tolist(), found.start_slice.tolist(), strict=True))
    kernels, launches = trace.array("kernel", "slice_id"), trace.array("kernel", "launch_id")
    assert sum(start_of[k] == n for k, n in zip(kernels.tolist(), launches.tolist(), strict=True)) == count
    assert category in trace.words("flow", "category")


@pytest.mark.parametrize(
    ("name", "count"),
    [("v100_ns_resolution.json.gz", 905), ("a100_nccl_metadata.json.gz", 543), ("ascend_rank0.json.gz", 27)],
)
def test_real_flows_say_what_sequence_numbers_say(real_trace, name, count):
    trace = real_trace(name)
    found = trace.flows()
    forward_of = dict(
        zip(trace.array("op", "slice_id").tolist(), trace.array("op", "forward_op_id").tolist(), strict=True)
    )
    code = trace.words("flow", "category").index("fwdbwd")
    pairs = [
        (s, f)
        for c, s, f in zip(
            found.category.tolist(), found.start_slice.tolist(), found.finish_slice.tolist(), strict=True
        )
        if c == code
    ]
    assert len(pairs) == count
    assert all(forward_of[f] == s for s, f in pairs)
