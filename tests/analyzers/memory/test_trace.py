"""Memory of tiny traces: literal tables."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from profsuite.analyzers.analysis import Analysis
from profsuite.analyzers.memory.trace import trace_memory
from profsuite.trace.model import Trace
from profsuite.trace.schema import BY_NAME

TRAINING = 7


def training(job, start=0, seq=TRAINING):
    """One step: x is loaded, a forward op saves an activation and has a temporary, its backward frees it."""
    job.step(start // 1000, start, 1000)
    job.mark("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", start, 50)
    job.op("aten::stack", start + 10, 30).memory(start + 20, 64, 0x100)
    job.op("aten::linear", start + 100, 100)
    job.op("aten::addmm", start + 110, 80, **{"Sequence number": seq})
    job.memory(start + 120, 1000, 0x200).memory(start + 130, 500, 0x300).memory(start + 140, -500, 0x300)
    back = {"Sequence number": seq, "Fwd thread id": 1}
    job.op("autograd::engine::evaluate_function: AddmmBackward0", start + 500, 100, **back)
    job.op("AddmmBackward0", start + 510, 80, **back)
    job.memory(start + 520, 2000, 0x400).memory(start + 530, -1000, 0x200)
    job.op("aten::sub", start + 700, 50).memory(start + 710, -2000, 0x400)
    return job.memory(start + 900, -64, 0x100)


def shares(rows):
    return {share.name: share.bytes for share in rows}


def only(trace):
    (device,) = trace_memory(trace).devices
    return device


def with_tensors(trace, rows):
    """The trace with these rows of (ts us, address, bytes, role, name, module)."""
    spec = BY_NAME["tensor"]
    columns = {
        "ts": [1000 * ts for ts, *_ in rows],
        "device_type": [0 for _ in rows],
        "device": [None for _ in rows],
        "address": [row[1] for row in rows],
        "bytes": [row[2] for row in rows],
        "role": [row[3] for row in rows],
        "name": [row[4] for row in rows],
        "module": [row[5] for row in rows],
    }
    arrays = [pa.array(columns[c.name], c.arrow_type()) for c in spec.columns]
    return Trace({**trace.tables, "tensor": pa.Table.from_arrays(arrays, schema=spec.arrow_schema())}, trace.info)


def test_no_memory_events(job):
    assert trace_memory(job.op("aten::mm", 0, 10).trace()) is None
    assert Analysis(job.trace()).memory is None


def test_peak_and_what_is_alive(job):
    device = only(training(job).trace())
    assert (device.device_type, device.device) == ("CPU", None)
    assert (device.num_allocations, device.num_frees, device.num_frees_without_allocation) == (4, 4, 0)
    peak = device.peak
    assert (peak.allocated_bytes, peak.ts_ns, peak.step, peak.unseen_bytes) == (3064, 520_000, 0, 0)
    assert shares(peak.by_category) == {"unknown": 2000, "activation": 1000, "input": 64}
    assert shares(peak.by_op) == {"AddmmBackward0": 2000, "aten::addmm": 1000, "aten::stack": 64}
    assert peak.by_frame is None
    assert peak.by_module is None
    assert [one.bytes for one in peak.largest] == [2000, 1000, 64]
    assert [one.removing_saves_bytes for one in peak.largest] == [1500, 1000, 64]  # 1564 before the backward pass
    assert peak.reserved_bytes is None  # the CPU has no allocator that reserves


def test_lifetimes(job):
    rows = {row.category: row for row in only(training(job).trace()).lifetimes}
    assert (rows["temporary"].count, rows["temporary"].bytes, rows["temporary"].median_ns) == (1, 500, 10_000)
    assert (rows["activation"].count, rows["activation"].max_ns) == (1, 410_000)
    assert rows["input"].num_ended == 1


def test_a_name_goes_before_everything(job):
    named = [(600, 0x400, 2000, "gradient", "w", "Linear"), (5, 0x900, 2000, "parameter", "w", "Linear")]
    peak = only(with_tensors(training(job).trace(), named)).peak
    # The parameter was there before the recording: nothing allocated it, and it counts.
    assert peak.allocated_bytes == 5064
    assert shares(peak.by_category) == {"gradient": 2000, "parameter": 2000, "activation": 1000, "input": 64}
    assert shares(peak.by_module) == {"Linear": 4000, None: 1064}
    assert {one.name for one in peak.largest} == {"w", None}
    assert peak.unseen_bytes == 0


def test_a_name_counts_only_while_that_memory_lives(job):
    """What is named at 0x400 at 100 us is not what is allocated there at 520 us, and must have been freed by then."""
    device = only(with_tensors(training(job).trace(), [(100, 0x400, 2000, "gradient", "w", None)]))
    assert (device.before_bytes, device.peak.ts_ns, device.peak.allocated_bytes) == (2000, 130_000, 3564)
    assert shares(device.peak.by_category) == {"gradient": 2000, "activation": 1000, "temporary": 500, "input": 64}
    assert [point.allocated_bytes for point in device.timeline] == [2064, 3064, 3564, 3064, 3064, 2064, 64, 0]


def test_freed_in_the_next_steps_forward_is_an_activation_still(job):
    training(training(job), 1000, 8)
    job.op("aten::linear", 350, 40).op("aten::addmm", 355, 10, **{"Sequence number": 6})
    job.op("AddmmBackward0", 495, 4, **{"Sequence number": 6, "Fwd thread id": 1})
    job.memory(360, 10_000, 0x800).memory(1150, -10_000, 0x800)
    assert shares(only(job.trace()).peak.by_category)["activation"] == 10_000 + 1000


def test_freed_after_the_next_backward_is_unknown(job):
    training(training(job), 1000, 8)
    job.op("aten::linear", 350, 40).op("aten::addmm", 355, 10, **{"Sequence number": 6})
    job.op("AddmmBackward0", 495, 4, **{"Sequence number": 6, "Fwd thread id": 1})
    job.memory(360, 10_000, 0x800).memory(1750, -10_000, 0x800)
    assert shares(only(job.trace()).peak.by_category)["unknown"] >= 10_000


def test_a_copy_from_the_host_before_the_forward_pass_is_input(job):
    training(job)
    job.op("aten::to", 60, 30).op("aten::empty_strided", 62, 3).memory(
        63, 640, 0x10, device=0, total=5640, reserved=8000
    )
    job.call("cudaMemcpyAsync", 70, 5, 1).memcpy(80, 9, 1)
    job.op("aten::to", 300, 30).op("aten::empty_strided", 302, 3).memory(
        303, 320, 0x20, device=0, total=5960, reserved=9000
    )
    job.call("cudaMemcpyAsync", 310, 5, 2).memcpy(320, 9, 2)
    device = trace_memory(job.trace()).devices[0]
    assert (device.device_type, device.device) == ("CUDA", 0)
    # What was there before the recording, by the recorder's own total, is known to nobody.
    assert (device.before_bytes, device.peak.allocated_bytes, device.peak.unseen_bytes) == (5000, 5960, 5000)
    assert shares(device.peak.by_category) == {"unknown": 5320, "input": 640}
    assert (device.peak.reserved_bytes, device.peak_reserved_bytes, device.num_breaks) == (9000, 9000, 0)


def test_alive_before_the_recording_is_counted_not_invented(job):
    job.op("aten::mm", 0, 10).memory(5, 100, 0x1).memory(20, -700, 0x2).memory(30, -100, 0x1)
    device = only(job.trace())
    assert (device.before_bytes, device.num_frees_without_allocation, device.freed_without_allocation_bytes) == (
        700,
        1,
        700,
    )
    assert (device.peak.allocated_bytes, device.end_bytes, device.num_allocations) == (800, 0, 1)
    assert shares(device.peak.by_op) == {None: 700, "aten::mm": 100}


def test_totals_that_do_not_add_up_are_told(job):
    job.memory(1, 100, 0x1, total=100).memory(2, 100, 0x2, total=300).memory(3, -100, 0x1, total=200)
    report = trace_memory(job.trace())
    assert report.devices[0].num_breaks == 1
    assert report.devices[0].peak.allocated_bytes == 300
    assert report.devices[0].peak.unseen_bytes == 100
    assert any("own total differs" in note for note in report.notes)


def test_without_addresses_the_curve_is_still_there(job):
    for event in job.memory(1, 100, 0).memory(2, 50, 0).memory(3, -100, 0).events:
        del event["args"]["Addr"]
    device = only(job.trace())
    assert (device.peak.allocated_bytes, device.end_bytes, device.peak.unseen_bytes) == (150, 50, 150)
    assert device.deltas_only
    assert (device.num_allocations, device.num_frees) == (2, 1)
    # What was there before, and which free ends which allocation, is not known: null, not 0.
    assert device.before_bytes is None
    assert device.num_frees_without_allocation is device.freed_without_allocation_bytes is device.num_unfreed is None
    assert [(share.name, share.bytes, share.count) for share in device.peak.by_category] == [("unknown", 150, None)]
    assert any("changes alone" in note for note in trace_memory(job.trace()).notes)


def test_without_addresses_what_is_freed_was_there(job):
    for event in job.memory(1, -100, 0).memory(2, 30, 0).memory(3, -20, 0).memory(4, 110, 0).events:
        del event["args"]["Addr"]
    device = only(job.trace())
    assert [point.allocated_bytes for point in device.timeline] == [0, 30, 10, 120]
    assert (device.peak.allocated_bytes, device.end_bytes, device.before_bytes) == (120, 120, None)


def test_addresses_or_totals_are_more_than_deltas(job):
    assert not only(job.memory(1, 100, 0x1).memory(2, -100, 0x1).trace()).deltas_only
    assert not any("changes alone" in note for note in trace_memory(job.trace()).notes)


def test_totals_without_addresses_tell_what_was_before(job):
    for event in job.memory(1, 100, 0, total=400).memory(2, -100, 0, total=300).events:
        del event["args"]["Addr"]
    device = only(job.trace())
    assert not device.deltas_only
    assert (device.peak.allocated_bytes, device.before_bytes, device.num_unfreed) == (400, 300, None)


def test_frames_and_modules_of_python_calls(job):
    job.python("train.py(7): main", 0, 100).python("nn.Module: Linear_3", 10, 80)
    job.python("torch/nn/functional.py(9): linear", 20, 50).op("aten::linear", 30, 30).memory(40, 8, 0x1)
    peak = only(job.trace()).peak
    assert shares(peak.by_frame) == {"train.py(7): main": 8}
    assert shares(peak.by_module) == {"Linear_3": 8}


def test_freed_in_its_module_call_is_temporary(job):
    job.python("nn.Module: Block_0", 0, 100).op("aten::mul", 10, 5).memory(12, 8, 0x1).memory(90, -8, 0x1)
    assert shares(only(job.trace()).peak.by_category) == {"temporary": 8}


def test_frames_and_modules_that_ops_carry(job):
    args = {"Call stack": "torch/x.py(1): f;model.py(5): forward", "Module Hierarchy": "TOP(Net).fc(Linear)"}
    peak = only(job.op("aten::mm", 0, 10, **args).memory(5, 8, 0x1).trace()).peak
    assert shares(peak.by_frame) == {"model.py(5): forward": 8}
    assert shares(peak.by_module) == {"TOP(Net).fc(Linear)": 8}


def test_dropped_names_are_summed(job):
    for i in range(5):
        job.op(f"op{i}", 10 * i, 9).memory(10 * i + 1, 2**i, i + 1)
    (device,) = trace_memory(job.trace(), top=2).devices
    assert shares(device.peak.by_op) == {"op4": 16, "op3": 8, "(3 others)": 7}


def steps(job, ends, per_step=1):
    """Steps of 1 ms; at the end of step i ``ends[i]`` bytes are alive."""
    alive = 0
    for number, end in enumerate(ends):
        job.step(number, 1000 * number, 1000).op("aten::add", 1000 * number + 100, 100)
        job.memory(1000 * number + 110, 5000, 0x50).memory(1000 * number + 120, -5000, 0x50)
        if end > alive:
            job.memory(1000 * number + 150, end - alive, 0x1000 + number)
            alive = end
    return job


def test_growth(job):
    device = only(steps(job, [1000, 1010, 1020, 1040, 1050]).trace())
    growth = device.growth
    assert (growth.first_step, growth.last_step, growth.num_steps) == (1, 4, 4)
    assert (growth.bytes_per_step, growth.total_bytes, growth.monotone) == (10, 40, True)
    assert shares(growth.by_op) == {"aten::add": 30}  # of steps 2 and 3: what step 4 made has not outlived a step
    assert [(s.number, s.peak_bytes, s.end_bytes) for s in device.steps][:2] == [(0, 5000, 1000), (1, 6000, 1010)]


def test_no_growth(job):
    assert not only(steps(job, [1000, 1000, 1010, 1010, 1010]).trace()).growth.monotone


def test_too_few_steps_tell_nothing_of_growth(job):
    assert only(steps(job, [10, 20, 30]).trace()).growth is None


def test_the_innermost_slice_of_a_deep_stack():
    from profsuite.analyzers.memory.origins import _still_running

    depth = 300
    parent = np.arange(-1, depth - 1).astype(np.int32)
    end = np.arange(10_000, 10_000 - depth, -1).astype(np.int64)
    row = np.full(4, depth - 1)
    ts = np.array([0, 9800, 9999, 10_000], np.int64)
    assert _still_running(parent, end, row, ts).tolist() == [299, 199, 0, -1]


def test_points_keep_the_peak(job):
    for i in range(3000):
        job.memory(i, 10**6 if i == 1777 else 1, i + 1)
        if i == 1777:
            job.memory(i + 0.5, -(10**6), i + 1)
    device = only(job.trace())
    assert max(point.allocated_bytes for point in device.timeline) == device.peak.allocated_bytes == 10**6 + 1777
    assert device.timeline[-1].allocated_bytes == device.end_bytes == 2999
    assert len(device.timeline) <= 400


def test_categories_over_time_sum_to_the_level(job):
    device = only(training(job).trace())
    levels = [point.allocated_bytes for point in device.timeline]
    assert levels == [64, 1064, 1564, 1064, 3064, 2064, 64, 0]
    assert {curve.category: curve.bytes for curve in device.over_time} == {
        "input": (64, 64, 64, 64, 64, 64, 64, 0),
        "activation": (0, 1000, 1000, 1000, 1000, 0, 0, 0),
        "temporary": (0, 0, 500, 0, 0, 0, 0, 0),
        "unknown": (0, 0, 0, 0, 2000, 2000, 0, 0),
    }


def test_what_no_allocation_explains_is_unknown_over_time(job):
    job.op("aten::empty", 0, 100)
    job.memory(10, 100, 0x1, total=700, device=0).memory(20, -100, 0x1, total=600, device=0)
    (device,) = trace_memory(job.trace()).devices
    assert {curve.category: curve.bytes for curve in device.over_time} == {"temporary": (100, 0), "unknown": (600, 600)}


def test_real_categories_sum_to_the_level(real_trace):
    for name in ("h100_qwen_0_5b.json.gz", "v100_resnet50_workers0.json.gz"):
        for device in trace_memory(real_trace(name)).devices:
            sums = np.sum([curve.bytes for curve in device.over_time], axis=0)
            assert (sums >= [point.allocated_bytes for point in device.timeline]).all()
            at = [point.ts_ns for point in device.timeline].index(device.peak.ts_ns)
            peak = {share.name: share.bytes for share in device.peak.by_category}
            assert {c.category: c.bytes[at] for c in device.over_time if c.bytes[at]} == peak
