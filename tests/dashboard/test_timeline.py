"""What the timeline asks for, against the trace itself."""

from __future__ import annotations

import json
import struct
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("dash", reason="the dashboard is not installed")

from profsuite.dashboard import timeline
from profsuite.dashboard.described import describe


@pytest.fixture
def session(open_session, job):
    return open_session(job())


def ids(session, name):
    trace = session.trace
    words = trace.words("slice", "name")
    return [row for row, code in enumerate(trace.array("slice", "name").tolist()) if words[code] == name]


def test_tracks(session):
    found = timeline.tracks(session)
    assert [(t["label"], t["group"], t["kind"], t["num_slices"]) for t in found["tracks"]] == [
        ("thread 1", "process 100", "host", 12),
        ("stream 7", "GPU 0", "device", 3),
    ]
    # A step holds the op and the wait; the op holds the launch.
    assert [len(t["lanes"]) for t in found["tracks"]] == [3, 1]
    assert found["origin_ns"] == str(session.trace.array("slice", "ts").min())
    assert found["length_ns"] == 3_000_000
    assert found["steps"] == [{"number": n, "start_ns": 1_000_000 * n, "dur_ns": 1_000_000} for n in range(3)]
    assert found["counters"] == [{"counter": 0, "label": "memory: bytes", "unit": "B"}]
    # The GPU works 1.2 of 3 ms; of each ms the host is in the op for 0.05 and in the wait for 0.4.
    assert np.mean(found["overview"]["device"]) == pytest.approx(0.4, abs=1e-3)
    assert np.mean(found["overview"]["host"]) == pytest.approx(0.45, abs=1e-3)
    assert [kind["name"] for kind in found["kinds"]] == ["compute kernel", "annotation", "op", "runtime call"]
    assert [t["num_missing"] for t in found["tracks"]] == [0, 0]


def test_the_main_thread_is_first(open_session, slice_):
    """Kineto has a thread of a process 0 beside that of the job; groups of names that sort before are no better."""
    events = [slice_("aten::mm", 0, 50), slice_("cudaLaunchKernel", 10, 5, "cuda_runtime", correlation=1)]
    events += [slice_("threading.py(1): wait", 0, 50, "python_function", 0, 0)]
    assert [t["group"] for t in timeline.tracks(open_session(events))["tracks"]] == ["process 100", "process 0"]


def test_a_track_of_the_profiler_is_named(open_session, slice_):
    session = open_session([slice_("aten::mm", 0, 50), slice_("Command Buffer Full", 5, 10, "overhead", -1, 0)])
    found = timeline.tracks(session)["tracks"]
    assert [(t["group"], t["label"]) for t in found] == [("process 100", "thread 1"), ("profiler", "overhead")]


def read(data):
    """A tile as the browser reads it."""
    (length,) = struct.unpack_from("<I", data)
    assert (4 + length) % 8 == 0
    head = json.loads(data[4 : 4 + length])
    count, at = head["lane_first"][-1], 4 + length
    columns = {}
    for name, kind in (("start", "<f8"), ("end", "<f8"), ("slice", "<i4"), ("count", "<i4"), ("name", "<i4"), ("category", "<i4"), ("kind", "<u1")):  # fmt: skip # noqa: E501
        columns[name] = np.frombuffer(data, kind, count, at)
        at += columns[name].nbytes
    assert at == len(data)
    return head, columns


def test_tile(session):
    head, columns = read(timeline.tile(session, [3, 999, -1], 900_000, 1_500_000, 1000))
    assert head["lanes"] == [3]
    assert head["lane_first"] == [0, 1]
    assert columns["start"].tolist() == [1_040_000]
    assert columns["end"].tolist() == [1_440_000]
    assert columns["slice"].tolist() == [ids(session, "gemm")[1]]
    assert head["names"] == {str(columns["name"][0]): "gemm"}
    assert columns["kind"].tolist() == [0]


def test_tile_is_bounded_by_the_drawing(open_session, slice_):
    session = open_session([slice_("k", n / 50, 0.01) for n in range(20_000)])
    assert len(timeline.tile(session, [0], 0, 400_000, 100)) < 50_000


def test_selection_sums_what_lies_inside(session):
    tracks = list(range(session.trace.num_rows("track")))
    # 1.03 to 1.24 ms: of the step all 210 us, of the op 30, of the kernel 200, of the wait 140; the launch is over.
    found = timeline.selection(session, tracks, 1_030_000, 1_240_000)
    assert found["num_slices"] == 4
    assert {row["category"]: row["total_ns"] for row in found["categories"]} == {
        "user_annotation": 210_000, "kernel": 200_000, "cuda_runtime": 140_000, "cpu_op": 30_000,
    }  # fmt: skip
    assert [row["name"] for row in found["names"]] == ["ProfilerStep#1", "gemm", "cudaDeviceSynchronize", "aten::mm"]
    # Of the step what op and wait leave: 210 - 30 - 140; the op's launch covers nothing of the stretch.
    assert [row["self_ns"] for row in found["names"]] == [40_000, 200_000, 140_000, 30_000]
    whole = timeline.selection(session, tracks, 0, 3_000_000)
    own = {row["category"]: row["self_ns"] for row in whole["categories"]}
    # 3 steps of 1000, less ops (50) and waits (400); ops less launches (10).
    assert own == {"user_annotation": 1_650_000, "kernel": 1_200_000, "cuda_runtime": 1_230_000, "cpu_op": 120_000}


PIECES = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 40), st.booleans()), min_size=1, max_size=30)


@settings(max_examples=150)
@given(PIECES, st.integers(-5, 90), st.integers(1, 60))
def test_self_time_inside_is_what_children_leave(make_trace, slice_, pieces, low, length):
    events = [
        slice_(f"s{n}", ts / 1000, dur / 1000, "kernel" if leaf else "cpu_op")
        for n, (ts, dur, leaf) in enumerate(pieces)
    ]
    trace = make_trace(events)
    start, end, parent = trace.array("slice", "ts"), trace.end, trace.array("slice", "parent_id").tolist()
    origin = int(start.min())
    session = SimpleNamespace(trace=trace, pyramid=SimpleNamespace(start_ns=origin))
    found = timeline.selection(session, [0], low, low + length)
    stretch = set(range(origin + low, origin + low + length))
    inside = [stretch & set(range(s, e)) for s, e in zip(start.tolist(), end.tolist(), strict=True)]
    names, name = trace.words("slice", "name"), trace.array("slice", "name")
    wanted = {
        names[name[row]]: (len(mine), len(mine - set().union(*(inside[n] for n, of in enumerate(parent) if of == row))))
        for row, mine in enumerate(inside)
        if mine
    }
    assert {r["name"]: (r["total_ns"], r["self_ns"]) for r in found["names"] if r["total_ns"]} == wanted


def test_selection_of_one_track(session):
    (device,) = [t["track"] for t in timeline.tracks(session)["tracks"] if t["kind"] == "device"]
    found = timeline.selection(session, [device, 77, -3], 0, 3_000_000)
    assert [(row["name"], row["count"], row["total_ns"]) for row in found["names"]] == [("gemm", 3, 1_200_000)]


def test_search(session):
    found = timeline.search(session, "GEM")
    assert found["num_found"] == 3
    assert found["total_ns"] == 1_200_000
    assert [(row["start_ns"], row["dur_ns"]) for row in found["slices"]] == [
        (1_000_000 * n + 40_000, 400_000) for n in range(3)
    ]
    assert timeline.search(session, "no such")["slices"] == []


def test_describe(session):
    kernel = ids(session, "gemm")[1]
    found = describe(session, kernel)
    assert (found["name"], found["category"], found["start_ns"], found["dur_ns"]) == (
        "gemm", "kernel", 1_040_000, 400_000,
    )  # fmt: skip
    assert found["correlation_id"] == 2
    assert found["lane"] == next(t["lanes"][0] for t in timeline.tracks(session)["tracks"] if t["kind"] == "device")
    (arrow,) = found["arrows"]
    assert arrow["kind"] == "launch"
    assert arrow["from"]["slice_id"] == ids(session, "cudaLaunchKernel")[1]
    assert arrow["to"]["slice_id"] == kernel
    assert (arrow["from"]["start_ns"], arrow["from"]["dur_ns"]) == (1_020_000, 10_000)
    lanes = {t["kind"]: t["lanes"] for t in timeline.tracks(session)["tracks"]}
    assert arrow["to"]["lane"] == lanes["device"][0]
    assert arrow["from"]["lane"] == lanes["host"][2]
    launch = describe(session, arrow["from"]["slice_id"])
    assert [parent["name"] for parent in launch["parents"]] == ["aten::mm", "ProfilerStep#1"]
    assert (launch["step"], launch["step_id"]) == (1, 1)
    assert launch["launch"] is None
    assert (arrow["from"]["name"], arrow["to"]["name"]) == ("cudaLaunchKernel", "gemm")
    # What launched the kernel, although nothing but its stream is around it.
    assert found["parents"] == []
    assert {part: each and each["name"] for part, each in found["launch"].items() if part != "around"} == {
        "call": "cudaLaunchKernel", "op": "aten::mm", "forward": None, "module": None, "source": None,
    }  # fmt: skip
    assert [each["name"] for each in found["launch"]["around"]] == ["aten::mm", "ProfilerStep#1"]
    with pytest.raises(IndexError):
        describe(session, 10_000)


def test_device_work_leads_to_the_line_of_the_user(open_session, slice_):
    """Forward: by what is around the launch; backward: by what is around the forward op, on another thread."""
    session = open_session(
        [
            slice_("train.py(88): train_step", 0, 300, "python_function"),
            slice_("torch/nn/modules/module.py(9): _call_impl", 5, 200, "python_function"),
            slice_("nn.Module: Linear_0", 10, 190, "python_function"),
            slice_("torch/nn/modules/linear.py(134): forward", 20, 100, "python_function"),
            slice_("aten::addmm", 30, 50, **{"Sequence number": 5, "Fwd thread id": 0}),
            slice_("cudaLaunchKernel", 40, 5, "cuda_runtime", correlation=1),
            slice_("MmBackward0", 400, 50, tid=2, **{"Sequence number": 5, "Fwd thread id": 1}),
            slice_("aten::mm", 410, 30, tid=2),
            slice_("cudaLaunchKernel", 420, 5, "cuda_runtime", tid=2, correlation=2),
            slice_("forward_gemm", 60, 20, "kernel", 0, 7, device=0, stream=7, correlation=1),
            slice_("backward_gemm", 440, 20, "kernel", 0, 7, device=0, stream=7, correlation=2),
            slice_("orphan", 500, 20, "kernel", 0, 7, device=0, stream=7, correlation=3),
        ]
    )

    def host_side(name):
        (row,) = ids(session, name)
        found = describe(session, row)["launch"]
        return found and {part: each and each["name"] for part, each in found.items() if part != "around"}

    user = {"module": "nn.Module: Linear_0", "source": "train.py(88): train_step", "call": "cudaLaunchKernel"}
    assert host_side("forward_gemm") == {"op": "aten::addmm", "forward": None, **user}
    assert host_side("backward_gemm") == {"op": "aten::mm", "forward": "aten::addmm", **user}
    assert host_side("orphan") is None
    (forward,), (backward,) = ids(session, "aten::addmm"), ids(session, "MmBackward0")
    (arrow,) = describe(session, backward)["arrows"]
    assert (arrow["kind"], arrow["from"]["slice_id"], arrow["from"]["name"]) == ("backward", forward, "aten::addmm")


def test_counter(session):
    found = timeline.counter(session, 0, 500_000, 1_500_000, 100)
    # The sample before holds until the next.
    assert found["ts"] == [0, 1_000_000, 2_000_000]
    assert found["max"] == [0, 10, 20]
    coarse = timeline.counter(session, 0, 0, 3_000_000, 1)
    assert (coarse["ts"], coarse["min"], coarse["max"]) == ([0], [0], [20])
    with pytest.raises(IndexError):
        timeline.counter(session, 7, 0, 1, 1)


def test_a_value_that_is_no_number_is_left_out(open_session, slice_):
    values = [1.0, float("nan"), 3.0]
    events = [{"ph": "C", "name": "c", "pid": 0, "tid": 0, "ts": n, "args": {"v": v}} for n, v in enumerate(values)]
    session = open_session([slice_("a", 0, 5), *events])
    assert timeline.counter(session, 0, 0, 5000, 5000)["max"] == [1, 3]
