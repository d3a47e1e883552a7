"""Real pairs: the parts of the time and the rows of every list sum to the difference exactly."""

from __future__ import annotations

from fractions import Fraction

import pytest

from profsuite.analyzers.breakdown import breakdown, step_windows
from profsuite.analyzers.device_work import device_work
from profsuite.analyzers.diff.report import diff

PAIRS = [
    ("diff_a100_control.json.gz", "diff_v100_test.json.gz"),
    ("h100_bert_small.json.gz", "mi300_bert_small.json.gz"),
    ("h100_qwen_0_5b.json.gz", "mi300_qwen_0_5b.json.gz"),
    ("v100_resnet50_workers0.json.gz", "v100_resnet50_workers4.json.gz"),
    ("a100_alexnet.json.gz", "mi250_rocm62.json.gz"),  # without steps
]


def per_step(report, time):
    """The change per step, ns, exact."""
    return Fraction(time.after_ns, report.after.num_steps) - Fraction(time.before_ns, report.before.num_steps)


@pytest.mark.parametrize(("before", "after"), PAIRS)
def test_everything_adds_up(real_trace, before, after):
    traces = real_trace(before), real_trace(after)
    report = diff(*traces)
    (device,) = report.devices
    for side in ("before_ns", "after_ns"):
        assert sum(getattr(part.time, side) for part in device.parts) == getattr(device.time, side)
        assert sum(getattr(part.time, side) for part in report.host.parts) == getattr(report.host.time, side)
        work = getattr(device.work, side)
        for rows in (report.ops.rows, report.ops.calls):
            assert sum(getattr(row.device, side) for row in rows) + getattr(report.ops.unattributed, side) == work
        assert sum(getattr(row.device, side) for row in report.kernels.rows) == work
        busy = work - getattr(device.overlap, side)
        assert busy + getattr(device.idle, side) == getattr(device.time, side)
        comm = sum(getattr(r.device, side) for r in report.kernels.rows if r.kind == "comm")
        assert sum(getattr(row.device, side) for row in report.collectives.rows) == comm
    assert sum(per_step(report, part.time) for part in device.parts) == per_step(report, device.time)
    assert device.time.change_ms_per_step == pytest.approx(float(per_step(report, device.time)) / 1e6, rel=1e-12)

    # The same windows by the analyzers that a single trace goes through.
    for trace, side in zip(traces, ("before_ns", "after_ns"), strict=True):
        (work,) = device_work(trace)
        if report.per == "step":
            windows = step_windows(trace, work)
            assert getattr(device.time, side) == (windows.end - windows.start).sum()
        else:
            assert getattr(device.time, side) == breakdown(trace)[0].shares.window_ns


@pytest.mark.parametrize("name", sorted({name for pair in PAIRS for name in pair}))
def test_a_trace_does_not_differ_from_itself(real_trace, name):
    trace = real_trace(name)
    report = diff(trace, trace)
    changes = [report.time, report.host.time, report.ops.unattributed]
    for device in report.devices:
        changes += [device.time, device.idle, device.work, device.overlap, *(part.time for part in device.parts)]
    changes += [part.time for part in report.host.parts]
    changes += [time for row in (*report.ops.rows, *report.ops.calls) for time in (row.device, row.host)]
    changes += [row.device for row in (*report.kernels.rows, *report.collectives.rows)]
    assert {(time.judgement, time.change_ms_per_step) for time in changes} == {("same", 0.0)}
    assert {row.status for row in (*report.ops.rows, *report.ops.calls, *report.kernels.rows)} == {"both"}
    assert {row.matched_by for row in report.ops.calls} == {"shapes"}
    assert {row.allocated_change_bytes for row in report.memory} <= {0}
    assert report.summary.endswith("before and after: nothing changed.")


def test_nvidia_against_amd_goes_by_op(real_trace):
    report = diff(real_trace("h100_bert_small.json.gz"), real_trace("mi300_bert_small.json.gz"))
    row = next(row for row in report.kernels.rows if row.op == "aten::_flash_attention_forward")
    # Four layers; the kernels' durations in the files, added by hand.
    assert (row.matched_by, row.name_after, row.runs_before, row.runs_after) == ("op", "attn_fwd", 4, 4)
    assert (row.device.before_ns, row.device.after_ns) == (37_408, 113_656)
    assert sum(row.status == "both" for row in report.ops.rows) > 0.9 * len(report.ops.rows)


def test_workers_end_the_wait_for_input(real_trace):
    report = diff(real_trace("v100_resnet50_workers0.json.gz"), real_trace("v100_resnet50_workers4.json.gz"))
    parts = {part.part: part.time for part in report.devices[0].parts}
    assert (parts["idle.input"].after_ns, parts["idle.input"].judgement) == (0, "less")
    assert parts["idle.input"].before_ns > 200_000_000
    assert report.time.judgement == "noise"  # steps of the second run vary by 40 %
    assert "waiting for input data" in report.summary
