"""Devices in XLA's planes and in its JSON: GPUs by their streams, TPUs by their lines, collectives cut in two."""

from __future__ import annotations

import pytest

import profsuite
from profsuite.trace.assemble import assemble
from profsuite.trace.readers.xspace import read_xspace

KERNEL = "regs:16 static_shared:256 dynamic_shared:1024 grid:4,2,1 block:128,1,1 occ_pct:37.5"
COPY = "kind_src:pinned kind_dst:device size:4096 dest:0 async:1"


@pytest.fixture(scope="module")
def read(planes):
    make_plane, make_space, _ = planes

    def build(*wanted, **options):
        return assemble(read_xspace([make_space(*(make_plane(*each) for each in wanted))]), "x.xplane.pb", "xspace")

    return build


def as_json(plane, lines):
    """The events of a plane as XLA's converter writes them: stats in args, every value a string."""
    pid = sum(plane.encode())
    events = [{"ph": "M", "pid": pid, "name": "process_name", "args": {"name": plane}}]
    for tid, (line, rows) in enumerate(lines, 1):
        events.append({"ph": "M", "pid": pid, "tid": tid, "name": "thread_name", "args": {"name": line}})
        for name, start, duration, *told in rows:
            args = {key: str(value) for key, value in (told[0] if told else {}).items()}
            events.append({"ph": "X", "pid": pid, "tid": tid, "ts": start / 1000, "dur": duration / 1000, "name": name,
                           **({"args": args} if args else {})})  # fmt: skip
    return events


@pytest.fixture(scope="module", params=["xspace", "json"])
def load(request, read, make_trace):
    """A function from planes to a trace, by way of both formats."""

    def build(*wanted):
        if request.param == "xspace":
            return read(*wanted)
        events = [event for each in wanted for event in as_json(*each)]
        return make_trace([*events, {}], displayTimeUnit="ns", metadata={"highres-ticks": True})

    return build


GPU = (
    "/device:GPU:3",
    [
        ("Stream #13(Compute)", [
            ("loop_add_fusion", 1000, 400, {"hlo_op": "add.1", "hlo_module": "jit_f", "correlation_id": 77,
                                            "kernel_details": KERNEL}),
            ("gemm", 1400, 600, {"hlo_op": "dot.2", "hlo_module": "jit_f", "correlation_id": 78}),
        ]),
        ("Stream #14(MemcpyH2D)", [("MemcpyH2D", 800, 100, {"memcpy_details": COPY, "correlation_id": 79})]),
        ("Stream #20(Compute)", [
            ("ncclDevKernel_AllReduce_Sum_f32", 1600, 700, {"hlo_op": "all-reduce-start.4", "hlo_module": "jit_f"}),
        ]),
        ("XLA Modules", [("jit_f", 1000, 1300)]),
        ("XLA Ops", [("add.1", 1000, 400, {"hlo_op": "add.1"}), ("dot.2", 1400, 600, {"hlo_op": "dot.2"})]),
    ],
)  # fmt: skip
HOST = (
    "/host:CPU",
    [("python", [
        ("train", 0, 3000, {"step_num": 5}),
        ("PjitFunction(f)", 100, 900),
        ("cuLaunchKernel", 200, 50, {"correlation_id": 77}),
        ("cuLaunchKernel", 300, 50, {"correlation_id": 78}),
        ("$train.py:12 loop", 50, 2000),
    ])],
)  # fmt: skip


def test_streams_hold_the_work_of_a_gpu(load, rows):
    trace = load(HOST, GPU)
    names = trace.table("slice").column("name").to_pylist()
    kernels = [
        (names[row], *rest) for row, *rest in
        rows(trace, "kernel", "slice_id", "kind", "device", "stream", "registers_per_thread", "shared_memory_bytes",
             "grid_x", "grid_y", "block_x", "occupancy_pct")
    ]  # fmt: skip
    assert kernels == [
        ("loop_add_fusion", "compute", 3, 13, 16, 1280, 4, 2, 128, 37.5),
        ("gemm", "compute", 3, 13, None, None, None, None, None, None),
        ("ncclDevKernel_AllReduce_Sum_f32", "comm", 3, 20, None, None, None, None, None, None),
    ]
    assert rows(trace, "memcpy", "device", "stream", "bytes") == [(3, 14, 4096)]
    assert rows(trace, "collective", "collective_name", "is_async") == [("allreduce", True)]


def test_launches_tie_kernels_to_host_ops(load, rows):
    trace = load(HOST, GPU)
    names = trace.table("slice").column("name").to_pylist()
    tied = [(names[a], names[b] if b is not None else None, names[c] if c is not None else None)
            for a, b, c in rows(trace, "kernel", "slice_id", "launch_id", "op_id")]  # fmt: skip
    assert tied[:2] == [(kernel, "cuLaunchKernel", "PjitFunction(f)") for kernel in ("loop_add_fusion", "gemm")]
    assert tied[2][1:] == (None, None)
    assert rows(trace, "step", "number", "ts", "dur") == [(5, 0, 3000)]


def test_hosts_slices_by_what_they_are(load):
    trace = load(HOST, GPU)
    table = trace.table("slice")
    found = dict(zip(table.column("name").to_pylist(), table.column("category").to_pylist(), strict=True))
    assert found["train"] == "user_annotation"
    assert found["PjitFunction(f)"] == "cpu_op"
    assert found["cuLaunchKernel"] == "cuda_runtime"
    assert found["$train.py:12 loop"] == "python_function"
    assert found["jit_f"] == found["add.1"] == "gpu_user_annotation"


def test_communication_on_a_stream_is_exposed_as_in_any_trace(load):
    # 1600 to 2300, of which the gemm hides 1600 to 2000.
    (device,) = profsuite.analyze(load(HOST, GPU)).breakdown
    assert (device.shares.comm_ns, device.shares.exposed_comm_ns) == (700, 300)


TPU_OPS = [
    ("while.9", 1000, 5000, {"hlo_op": "while.9"}),
    ("all-gather-start.2", 1000, 10, {"hlo_op": "all-gather-start.2", "hlo_module": "jit_f"}),
    ("fusion.1", 1010, 1990, {"hlo_op": "fusion.1"}),
    ("all-gather-done.2", 3000, 500, {"hlo_op": "all-gather-done.2", "hlo_module": "jit_f"}),
    ("fusion.2", 3500, 500, {"hlo_op": "fusion.2"}),
    ("all-reduce.7", 4000, 800, {"hlo_op": "all-reduce.7"}),
]


def test_a_collective_lasts_from_start_to_done(load, rows):
    trace = load(("/device:TPU:0", [("XLA Ops", TPU_OPS)]))
    slices = trace.table("slice").to_pylist()
    work = [(slices[row]["name"], slices[row]["ts"], slices[row]["dur"], kind)
            for row, kind in rows(trace, "kernel", "slice_id", "kind")]  # fmt: skip
    assert work == [
        ("fusion.1", 1010, 1990, "compute"),
        ("fusion.2", 3500, 500, "compute"),
        ("all-reduce.7", 4000, 800, "comm"),
        ("all-gather-start.2", 1000, 2500, "comm"),
    ]
    assert [slices[row]["name"] for (row,) in rows(trace, "collective", "slice_id")] == [
        "all-reduce.7", "all-gather-start.2",
    ]  # fmt: skip
    # Issue (10) and wait (500) are not hidden by fusion.1, nor is the whole all-reduce.
    (device,) = profsuite.analyze(trace).breakdown
    shares = device.shares
    assert (shares.comm_ns, shares.exposed_comm_ns, shares.overlapped_comm_ns) == (3300, 1310, 1990)
    assert shares.compute_ns == 2490
    assert shares.window_ns == shares.compute_ns + shares.exposed_comm_ns + shares.idle_ns + shares.exposed_memcpy_ns


def test_a_recorded_line_of_asynchronous_operations_counts_instead(load, rows):
    line = [
        ("all-gather-start.2", 1000, 2500, {"hlo_op": "all-gather-start.2", "hlo_module": "jit_f"}),
        ("copy-start.5", 1200, 300, {"hlo_op": "copy-start.5"}),
    ]
    trace = load(("/device:TPU:0", [("XLA Ops", TPU_OPS), ("Async XLA Ops", line)]))
    slices = trace.table("slice").to_pylist()
    assert len(slices) == 8
    comm = [(slices[row]["name"], slices[row]["dur"]) for row, kind in rows(trace, "kernel", "slice_id", "kind")
            if kind == "comm"]  # fmt: skip
    assert comm == [("all-reduce.7", 800), ("all-gather-start.2", 2500)]
    assert [slices[row]["name"] for (row,) in rows(trace, "memcpy", "slice_id")] == ["copy-start.5"]


def test_halves_without_their_other_half_stay_as_they_are(load, rows):
    ops = [("all-reduce-done.1", 0, 50), ("fusion.1", 50, 100), ("all-gather-start.2", 150, 5)]
    trace = load(("/device:TPU:0", [("XLA Ops", ops)]))
    slices = trace.table("slice").to_pylist()
    assert [(slices[row]["name"], kind) for row, kind in rows(trace, "kernel", "slice_id", "kind")] == [
        ("all-reduce-done.1", "comm"), ("fusion.1", "compute"), ("all-gather-start.2", "comm"),
    ]  # fmt: skip


def test_each_start_goes_with_the_next_done(load, rows):
    ops = []
    for i in range(3):
        at = 1000 * i
        ops += [("ar-start", at, 10, {"hlo_op": "all-reduce-start.1"}), ("f", at + 10, 90, {"hlo_op": "f"}),
                ("ar-done", at + 100 + i, 20, {"hlo_op": "all-reduce-done.1"})]  # fmt: skip
    trace = load(("/device:TPU:0", [("XLA Ops", ops)]), ("/device:TPU:1", [("XLA Ops", ops[:2])]))
    slices = trace.table("slice").to_pylist()
    spans = [(device, slices[row]["ts"], slices[row]["dur"]) for row, kind, device in
             rows(trace, "kernel", "slice_id", "kind", "device") if kind == "comm"]  # fmt: skip
    assert sorted(spans) == [(0, 0, 120), (0, 1000, 121), (0, 2000, 122), (1, 0, 10)]


def test_names_may_be_whole_instructions(load, rows):
    ops = [("%all-reduce-start.1 = f32[8]{0} all-reduce-start(%p)", 0, 5), ("%fusion.1 = f32[8] fusion(%p)", 5, 40),
           ("%all-reduce-done.1 = f32[8]{0} all-reduce-done(%all-reduce-start.1)", 45, 15)]  # fmt: skip
    trace = load(("/device:TPU:0", [("XLA Ops", ops)]))
    slices = trace.table("slice").to_pylist()
    found = [(kind, slices[row]["ts"], slices[row]["dur"]) for row, kind in rows(trace, "kernel", "slice_id", "kind")]
    assert found == [("compute", 5, 40), ("comm", 0, 60)]


def test_steps_of_a_device_without_host_marks(load, rows):
    trace = load(("/device:TPU:0", [("Steps", [("41", 0, 500), ("42", 500, 600)]), ("XLA Ops", [("f.1", 100, 50)])]),
                 ("/device:TPU:1", [("Steps", [("41", 1, 500), ("42", 501, 600)])]))  # fmt: skip
    assert rows(trace, "step", "number", "ts", "dur") == [(41, 0, 500), (42, 500, 600)]


def test_what_exports_wrote_is_not_described_twice(load, tmp_path, rows):
    trace = load(HOST, ("/device:TPU:0", [("XLA Ops", TPU_OPS)]))
    profsuite.export(trace, tmp_path / "out.json")
    again = profsuite.load(tmp_path / "out.json")
    for name in ("track", "kernel", "collective", "xla_op", "step"):
        assert again.table(name).to_pylist() == trace.table(name).to_pylist()
    columns = ("ts", "dur", "name", "category", "track_id", "parent_id")
    assert rows(again, "slice", *columns) == rows(trace, "slice", *columns)


def test_a_trace_of_torch_is_left_alone(make_trace, rows):
    trace = make_trace([
        {"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "python"}},
        {"ph": "X", "name": "all-reduce-start.1", "pid": 1, "tid": 1, "ts": 0, "dur": 5, "args": {"hlo_op": "x"}},
    ])  # fmt: skip
    assert rows(trace, "slice", "category") == [("",)]
    assert trace.num_rows("kernel") == 0
