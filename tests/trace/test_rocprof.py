"""rocprof's JSON: what its processes are, and times to the nanosecond."""

from __future__ import annotations

import pytest

import profsuite


def event(name, pid, tid, begin, end, start=0, **args):
    """An event as rocprof's writer gives it: strings, whole microseconds, nanoseconds in args."""
    ts, dur = (begin - start) // 1000, (end - begin) // 1000
    told = {"BeginNs": begin, "EndNs": end, "pid": 4711, "tid": 4711, "Name": name, **args, "DurationNs": end - begin}
    told = {key: str(value) for key, value in told.items()}
    return {"ph": "X", "name": name, "pid": pid, "tid": tid, "ts": str(ts), "dur": str(dur), "args": told}


NAMES = [
    {"args": {"name": name}, "ph": "M", "pid": pid, "name": "process_name"}
    for name, pid in (("CPU HIP API", 2), ("COPY", 1), ("GPU1", 7), ("GPU Barriers1", 519), ("Markers and Ranges", 0))
]


def recording(start=0):
    return [
        {},
        *NAMES,
        event("hipLaunchKernel", 2, 4711, 5_000_100, 5_010_900, start, args="( kernel(k1(int*)) stream(3))", Data=""),
        event("k1(int*)", 7, 3, 5_020_400, 5_163_517, start, **{"dev-id": 1, "queue-id": 0, "stream-id": 3}),
        event("ncclDevKernel_AllReduce_Sum_f32", 7, 4, 5_100_000, 5_200_001, start, **{"dev-id": 1, "stream-id": 4}),
        event("CopyHostToDevice", 1, 3, 5_015_000, 5_020_000, start, **{"dev-id": 1, "stream-id": 3}),
        event("FillBuffer", 1, 3, 5_300_000, 5_300_010, start, **{"dev-id": 1, "stream-id": 3}),
        event("forward", 0, 4711, 5_000_000, 5_400_000, start),
        event("<barrier packet>", 519, 0, 5_210_000, 5_220_000, start, **{"dev-id": 1}),
    ]


@pytest.mark.parametrize("start", [0, 4_999_123])
def test_what_a_recording_becomes(make_trace, rows, start):
    trace = make_trace(recording(start))
    names = trace.table("slice").column("name").to_pylist()
    found = dict(rows(trace, "slice", "name", "category"))
    assert found == {
        "hipLaunchKernel": "hip_runtime", "k1(int*)": "kernel", "ncclDevKernel_AllReduce_Sum_f32": "kernel",
        "CopyHostToDevice": "gpu_memcpy", "FillBuffer": "gpu_memset", "forward": "user_annotation",
        "<barrier packet>": "gpu_user_annotation",
    }  # fmt: skip
    work = [(names[row], *rest) for row, *rest in rows(trace, "kernel", "slice_id", "kind", "device", "stream")]
    assert work == [("k1(int*)", "compute", 1, 3), ("ncclDevKernel_AllReduce_Sum_f32", "comm", 1, 4)]
    assert rows(trace, "memcpy", "device", "stream") == [(1, 3), (1, 3)]
    # Times of slices to each other are those of the args.
    durations = dict(rows(trace, "slice", "name", "dur"))
    assert durations["k1(int*)"] == 143_117
    assert durations["FillBuffer"] == 10
    starts = dict(rows(trace, "slice", "name", "ts"))
    assert starts["k1(int*)"] - starts["hipLaunchKernel"] == 20_300
    if not start:
        assert starts["k1(int*)"] == 5_020_400


def test_exposed_communication(make_trace):
    (device,) = profsuite.analyze(make_trace(recording())).breakdown
    shares = device.shares
    assert (shares.compute_ns, shares.comm_ns) == (143_117, 100_001)
    assert shares.exposed_comm_ns == 5_200_001 - 5_163_517
    assert shares.window_ns == shares.compute_ns + shares.exposed_comm_ns + shares.exposed_memcpy_ns + shares.idle_ns


def test_args_of_another_clock_change_nothing(make_trace, rows):
    events = recording()
    events[-1]["args"]["BeginNs"] = "77"
    trace = make_trace(events)
    assert dict(rows(trace, "slice", "name", "ts"))["k1(int*)"] == 5_020_000


def test_exports_come_back(make_trace, tmp_path):
    trace = make_trace(recording())
    profsuite.export(trace, tmp_path / "out.json")
    again = profsuite.load(tmp_path / "out.json")
    for name in ("track", "kernel", "memcpy"):
        assert again.table(name).to_pylist() == trace.table(name).to_pylist()


def test_streamed_exports_come_back(tmp_path):
    import json

    path = tmp_path / "results.json"
    path.write_text(json.dumps({"traceEvents": recording(), "otherData": {}}))
    profsuite.export(str(path), tmp_path / "out.json")
    one, two = profsuite.load(path), profsuite.load(tmp_path / "out.json")
    assert one.num_rows("kernel") == 2
    for name in ("kernel", "memcpy"):
        assert one.table(name).to_pylist() == two.table(name).to_pylist()
