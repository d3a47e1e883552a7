"""diff: small jobs by hand, with every number derived."""

from __future__ import annotations

import pytest

import profsuite
from profsuite.analyzers.diff.report import diff
from profsuite.errors import SelectionError


@pytest.fixture
def other(job, tmp_path):
    """A second empty ``Job``."""
    folder = tmp_path / "other"
    folder.mkdir()
    return type(job)(folder)


def steps_of(job, kernels, extra=0, name="gemm", op="aten::mm", **args):
    """A step of 1,000 us for each length in ``kernels``: an op launches a kernel at +100, which runs so many us."""
    for number, length in enumerate(kernels):
        start = number * 1000
        job.step(number, start, 1000)
        job.op(op, start + 10, 50, **args).launch(start + 20, 10, 2 * number)
        job.kernel(start + 100, length, 2 * number, name=name)
        if extra:
            job.op("aten::relu", start + 500, 50).launch(start + 510, 10, 2 * number + 1)
            job.kernel(start + 600, extra, 2 * number + 1, name="relu")
    return job


def by_name(report):
    return {row.name: row for row in report.ops.rows}


def test_the_parts_sum_to_the_change_of_the_step_time(job, other):
    report = diff(steps_of(job, [200, 220, 210]).trace(), steps_of(other, [260, 250, 270], extra=30).trace())
    assert (report.per, report.before.num_steps, report.after.num_steps) == ("step", 3, 3)
    (device,) = report.devices
    parts = {part.part: (part.time.before_ns, part.time.after_ns) for part in device.parts}
    # Steps follow each other without a hole, 1,000 us each.  Idle before each kernel: the launch was late.
    assert (device.time.before_ns, device.time.after_ns, device.time.judgement) == (3_000_000, 3_000_000, "same")
    assert parts == {"compute": (630_000, 870_000), "idle.host": (2_370_000, 2_130_000)}
    rows = by_name(report)
    assert rows["aten::mm"].device.change_ms_per_step == 0.05
    assert (rows["aten::mm"].device.before_ns, rows["aten::mm"].device.after_ns) == (630_000, 780_000)
    assert (rows["aten::relu"].status, rows["aten::relu"].calls_before, rows["aten::relu"].calls_after) == (
        "added",
        0,
        3,
    )
    assert rows["aten::relu"].device.change_pct is None
    # s² = 100 us² on both sides, n = 3: sqrt(100/3 + 100/3) us, df = 4, t = 2.776.
    assert rows["aten::mm"].device.noise_ms_per_step == pytest.approx(2.7764 * (200 / 3) ** 0.5 / 1e3, rel=1e-4)
    assert rows["aten::mm"].device.judgement == "more"
    assert (rows["aten::relu"].device.noise_ms_per_step, rows["aten::relu"].device.judgement) == (0, "more")
    assert device.work.change_ms_per_step == 0.08
    assert report.summary == "A step holds the GPU for 1.000 ms before and after, but made up differently."


def test_a_change_within_the_noise_is_called_noise(job, other):
    report = diff(steps_of(job, [200, 300, 100]).trace(), steps_of(other, [210, 310, 110]).trace())
    assert by_name(report)["aten::mm"].device.judgement == "noise"
    assert by_name(report)["aten::mm"].device.change_ms_per_step == 0.01


def test_totals_are_exact_where_the_numbers_of_steps_differ(job, other):
    report = diff(steps_of(job, [200, 201, 202]).trace(), steps_of(other, [200, 200]).trace())
    time = by_name(report)["aten::mm"].device
    assert (time.before_ns, time.after_ns) == (603_000, 400_000)
    assert time.change_ms_per_step == pytest.approx(-0.001)
    assert report.time.judgement == "same"  # 3,000 us in 3 steps, 2,000 us in 2


def test_one_step_says_that_the_noise_is_not_known(job, other):
    report = diff(steps_of(job, [200]).trace(), steps_of(other, [300, 310]).trace())
    time = by_name(report)["aten::mm"].device
    assert (time.noise_ms_per_step, time.judgement) == (None, "unknown")
    assert any("single step" in note for note in report.notes)


def test_without_steps_the_windows_are_compared(job, other):
    job.op("aten::mm", 0, 50).launch(10, 10, 1).kernel(100, 200, 1).kernel(400, 100, 99)
    other.op("aten::mm", 0, 50).launch(10, 10, 1).kernel(100, 300, 1)
    report = diff(job.trace(), other.trace())
    assert (report.per, report.time.before_ns, report.time.after_ns) == ("window", 400_000, 300_000)
    parts = {part.part: (part.time.before_ns, part.time.after_ns) for part in report.devices[0].parts}
    assert parts == {"compute": (300_000, 300_000), "idle.unknown": (100_000, 0)}
    assert report.ops.unattributed.before_ns == 100_000
    assert "The GPU window is 0.300 ms, before 0.400 ms: 0.100 ms shorter, 25.0 %" in report.summary
    assert any("before and after" in note for note in report.notes)


def test_work_that_overlaps_counts_once_in_time_and_whole_in_work(job, other):
    steps_of(job, [200, 200])
    steps_of(other, [200, 200]).kernel(150, 100, 50, stream=8).kernel(1150, 100, 51, stream=8)
    (device,) = diff(job.trace(), other.trace()).devices
    assert (device.work.before_ns, device.work.after_ns) == (400_000, 600_000)
    assert (device.overlap.before_ns, device.overlap.after_ns) == (0, 200_000)
    assert device.time.judgement == "same"


def test_work_is_cut_to_the_windows_of_the_steps_that_count(job):
    # The kernel of step 0 runs into step 1: step 1 holds the device from when that is done.
    job.step(0, 0, 1000).op("aten::mm", 900, 50).launch(910, 10, 1).kernel(950, 150, 1)
    job.step(1, 1000, 1000).op("aten::mm", 1400, 50).launch(1410, 10, 2).kernel(1500, 100, 2)
    trace = job.trace()
    report = diff(trace, trace, steps=(0, 1), steps_after=(1, 2))
    assert (report.before.steps, report.after.steps) == ((0,), (1,))
    assert (report.time.before_ns, report.time.after_ns) == (1_100_000, 900_000)
    row = by_name(report)["aten::mm"]
    assert (row.device.before_ns, row.device.after_ns) == (150_000, 100_000)
    assert (row.calls_before, row.calls_after) == (1, 1)


def test_calls_are_matched_by_path_module_and_shapes(job, other):
    for side, shapes in ((job, [[2, 2]]), (other, [[4, 4]])):
        side.step(0, 0, 1000).python("nn.Module: Linear_0", 5, 300)
        side.op("aten::linear", 10, 200).op("aten::mm", 20, 100, **{"Input Dims": [[8, 8]]}).launch(30, 10, 1)
        side.op("aten::mm", 500, 50, **{"Input Dims": shapes}).launch(510, 10, 2)
    job.kernel(100, 50, 1).kernel(600, 50, 2)
    other.kernel(100, 60, 1).kernel(600, 70, 2)
    report = diff(job.trace(), other.trace())
    rows = {row.path: row for row in report.ops.calls}
    inside, alone = rows["aten::linear", "aten::mm"], rows["aten::mm",]
    assert (inside.module, inside.shapes_before, inside.matched_by) == ("Linear_0", "[[8,8]]", "shapes")
    assert inside.device.change_ms_per_step == 0.01
    assert (alone.module, alone.shapes_before, alone.shapes_after) == (None, "[[2,2]]", "[[4,4]]")
    assert (alone.matched_by, alone.device.change_ms_per_step) == ("module", 0.02)


def test_backward_ops_belong_to_the_module_of_their_forward_op(job, other):
    for side in (job, other):
        side.step(0, 0, 1000).python("nn.Module: Linear_0", 5, 300)
        forward = {"Sequence number": 7, "Fwd thread id": 0}
        side.op("aten::mm", 20, 100, **forward)
        side.op("MmBackward0", 500, 100, tid=2, **{"Sequence number": 7, "Fwd thread id": 1})
        side.op("aten::mm", 520, 50, tid=2).launch(530, 10, 2, tid=2).kernel(600, 50, 2)
    rows = {row.path: row.module for row in diff(job.trace(), other.trace()).ops.calls}
    assert rows["aten::mm",] == "Linear_0"
    assert rows["MmBackward0", "aten::mm"] == "Linear_0"


def test_kernels_of_other_names_match_through_their_op(job, other):
    report = diff(steps_of(job, [200, 200]).trace(), steps_of(other, [240, 240], name="Cijk").trace())
    (row,) = report.kernels.rows
    assert (row.op, row.name_before, row.name_after, row.matched_by) == ("aten::mm", "gemm", "Cijk", "op")
    assert (row.runs_before, row.runs_after, row.device.change_ms_per_step) == (2, 2, 0.04)


def test_collectives_by_size(job, other):
    for side, factor in ((job, 1), (other, 2)):
        side.step(0, 0, 1000)
        for corr, (start, elements) in enumerate([(100, 1024), (300, 4096)], 1):
            side.launch(start - 50, 10, corr).kernel(
                start, 50 * factor, corr, name="ncclDevKernel_AllReduce", stream=20,
                **{"Collective name": "allreduce", "dtype": "Float", "In msg nelems": elements, "Group size": 8},
            )  # fmt: skip
    rows = diff(job.trace(), other.trace()).collectives.rows
    assert {(r.name, r.num_elements, r.dtype, r.group_size, r.matched_by) for r in rows} == {
        ("allreduce", 1024, "Float", 8, "size"),
        ("allreduce", 4096, "Float", 8, "size"),
    }
    assert [r.device.change_ms_per_step for r in rows] == [0.05, 0.05]


def test_peak_memory_in_the_steps(job, other):
    for side, peak in ((job, 100), (other, 160)):
        steps_of(side, [200])
        for ts, total in ((300, peak), (400, 50), (5000, 900)):  # the last one is after the step
            args = {"Device Type": 1, "Device Id": 0, "Bytes": 1, "Total Allocated": total, "Total Reserved": 1000}
            side.events.append(
                {
                    "ph": "i",
                    "cat": "cpu_instant_event",
                    "name": "[memory]",
                    "pid": 100,
                    "tid": 1,
                    "ts": ts,
                    "args": args,
                }
            )
    (row,) = diff(job.trace(), other.trace()).memory
    assert (row.allocated_before_bytes, row.allocated_after_bytes, row.allocated_change_bytes) == (100, 160, 60)
    assert row.reserved_change_bytes == 0


def test_a_cpu_job_is_compared_by_its_main_thread(job, other):
    for side, length in ((job, 300), (other, 500)):
        for number in range(2):
            side.step(number, number * 2000, 600 + length).op("aten::mm", number * 2000 + 10, length)
    report = diff(job.trace(), other.trace())
    assert (report.devices, report.time.change_ms_per_step) == ((), pytest.approx(0.2))
    assert {p.part: p.time.change_ms_per_step for p in report.host.parts} == {"op": 0.2, "python": 0.0}
    assert by_name(report)["aten::mm"].host.change_ms_per_step == 0.2
    assert "Mostly because of ops on the host (+0.200 ms), above all aten::mm (+0.200 ms)." in report.summary


def test_a_device_on_one_side_only(job, other):
    steps_of(job, [200, 200])
    other.step(0, 0, 1000).op("aten::mm", 10, 500).step(1, 1000, 1000)
    report = diff(job.trace(), other.trace())
    assert report.devices == ()
    assert report.time == report.host.time
    assert any("No device work after" in note for note in report.notes)


def test_empty_traces(job, other):
    report = diff(job.trace(), other.trace())
    assert (report.time, report.ops.rows, report.kernels.rows, report.host) == (None, (), (), None)


def test_lists_are_cut_and_the_rest_is_summed(job, other):
    whole = (steps_of(job, [200, 200], extra=10).trace(), steps_of(other, [300, 300], extra=15).trace())
    report = diff(*whole, top=1)
    assert [row.name for row in report.ops.rows] == ["aten::mm"]
    assert (report.ops.rest.num_rows, report.ops.rest.device.change_ms_per_step) == (1, 0.005)
    assert report.kernels.rest.device.after_ns == 30_000
    assert [row.name for row in diff(*whole, sort="decrease").ops.rows] == ["aten::relu", "aten::mm"]


def test_what_cannot_be_compared(job, other):
    trace = steps_of(job, [200]).trace()
    with pytest.raises(SelectionError, match="no whole step in 5:6"):
        diff(trace, trace, steps=(5, 6))
    with pytest.raises(ValueError, match="at least 1"):
        diff(trace, trace, top=0)
    with pytest.raises(ValueError, match="no order 'size'"):
        diff(trace, trace, sort="size")
    with pytest.raises(TypeError, match="takes two Traces"):
        diff(trace, "trace.json")
    assert profsuite.diff is diff


def test_the_op_that_is_named_is_of_the_kind_of_the_part(job, other):
    # The collective grows most, but beside compute: what makes the step longer is the kernel.
    for side, longer in ((job, 0), (other, 100)):
        for number in range(2):
            at = number * 2000
            side.step(number, at, 1000 + longer)
            side.op("aten::mm", at + 10, 20).launch(at + 15, 5, 10 * number + 1)
            side.kernel(at + 100, 500 + longer, 10 * number + 1)
            side.op("c10d::allreduce_", at + 40, 20).launch(at + 45, 5, 10 * number + 2)
            side.kernel(at + 100, 100 + 3 * longer, 10 * number + 2, name="ncclDevKernel_AllReduce", stream=20)
    report = diff(job.trace(), other.trace())
    assert report.ops.rows[0].name == "c10d::allreduce_"
    assert "because of compute (+0.100 ms), above all aten::mm (+0.100 ms)." in report.summary
