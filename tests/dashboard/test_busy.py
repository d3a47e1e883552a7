"""How busy host and devices are in each part of a recording, against numbers worked out by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("dash", reason="the dashboard is not installed")

from profsuite.dashboard.busy import device_busy, host_busy
from profsuite.dashboard.kinds import KINDS, slice_kinds
from profsuite.trace.classes import Role
from profsuite.trace.intervals import union_length
from profsuite.trace.load import load


def kernel(slice_, ts, dur, stream=7, device=0, cat="kernel", name="k"):
    return slice_(name, ts, dur, cat, device, stream, device=device, stream=stream)


def shares(found):
    return None if found is None else found.tolist()


def test_only_work_keeps_a_device_busy(make_trace, slice_):
    trace = make_trace(
        [
            kernel(slice_, 0, 40, cat="gpu_user_annotation", name="step"),
            kernel(slice_, 0, 4),
            kernel(slice_, 2, 4, stream=8, cat="gpu_memcpy"),  # reaches over the kernel: 0 to 6
            kernel(slice_, 20, 5, cat="gpu_memset"),
            kernel(slice_, 30, 10, cat="cuda_sync", name="Stream Sync"),
        ]
    )
    start = int(trace.array("slice", "ts").min())
    assert shares(device_busy(trace, start, start + 40_000, 4)) == [0.6, 0, 0.5, 0]


def test_of_several_devices_it_is_the_mean(make_trace, slice_):
    trace = make_trace([kernel(slice_, 0, 10), kernel(slice_, 0, 5, device=1), kernel(slice_, 15, 5, device=1)])
    start = int(trace.array("slice", "ts").min())
    assert shares(device_busy(trace, start, start + 20_000, 2)) == [0.75, 0.25]


def test_ops_and_calls_keep_the_host_busy(make_trace, slice_):
    trace = make_trace(
        [
            slice_("ProfilerStep#1", 0, 40, "user_annotation"),
            slice_("train.py(1): main", 0, 40, "python_function"),
            slice_("aten::mm", 5, 10),
            slice_("cudaLaunchKernel", 6, 20, "cuda_runtime", tid=2),  # 6 to 26, beside the op on another thread
            slice_("aten::add", 32, 4),
            slice_("module.py(2): inner", 32, 3, "python_function"),
            slice_("aten::empty", 33, 1),
        ]
    )
    start = int(trace.array("slice", "ts").min())
    assert shares(host_busy(trace, start, start + 40_000, 4)) == [0.5, 1, 0.6, 0.4]
    assert device_busy(trace, start, start + 40_000, 4) is None


@pytest.mark.parametrize("name", ["b200_eager_stacks.json.gz", "h100_qwen_0_5b.json.gz", "rtx2080ti_linear.json.gz"])
def test_recorded_devices_are_as_busy_as_analyses_say(name):
    """Within GPU annotations that span nearly all of it a device may be idle."""
    path = Path(__file__).parents[3] / "shared" / "traces" / name
    if not path.is_file():
        pytest.skip(f"no recorded trace here: {name}")
    trace = load(path, cache=False)
    start, end = int(trace.array("slice", "ts").min()), int(trace.end.max())
    work = np.isin(trace.roles, [Role.KERNEL, Role.MEMCPY, Role.MEMSET])
    wanted = union_length(trace.array("slice", "ts")[work], trace.end[work])
    assert device_busy(trace, start, end, 800).sum() * (end - start) / 800 == pytest.approx(wanted, rel=1e-3)


def test_parts_of_unequal_size(make_trace, slice_):
    trace = make_trace([kernel(slice_, 0, 0.004), kernel(slice_, 0.006, 0.001)])
    start = int(trace.array("slice", "ts").min())
    # 7 ns in three parts: 2, 2 and 3 of them.
    assert shares(device_busy(trace, start, start + 7, 3)) == [1, 1, pytest.approx(1 / 3)]
    assert host_busy(trace, start, start + 7, 3) is None


def test_parts_add_up(make_trace, slice_):
    rng = np.random.default_rng(1)
    starts, durs = rng.integers(0, 90_000, 300), rng.integers(0, 900, 300)
    trace = make_trace(
        [kernel(slice_, s / 1000, d / 1000) for s, d in zip(starts.tolist(), durs.tolist(), strict=True)]
    )
    covered = np.zeros(100_000, bool)
    for s, d in zip(starts.tolist(), durs.tolist(), strict=True):
        covered[s : s + d] = True
    origin = int(trace.array("slice", "ts").min()) - int(starts.min())
    found = device_busy(trace, origin, origin + 100_000, 50)
    assert found == pytest.approx(covered.reshape(50, -1).mean(axis=1))


def test_kinds(make_trace, slice_):
    wanted = [
        (kernel(slice_, 0, 1, name="gemm"), "compute kernel"),
        (kernel(slice_, 2, 1, name="ncclDevKernel_AllReduce_Sum_f32"), "communication"),
        (kernel(slice_, 4, 1, name="__amd_rocclr_copyBuffer.kd"), "copy, fill"),
        (kernel(slice_, 6, 1, cat="gpu_memcpy"), "copy, fill"),
        (kernel(slice_, 8, 1, cat="cuda_sync"), "wait"),
        (kernel(slice_, 10, 1, cat="gpu_user_annotation"), "annotation"),
        (slice_("a", 0, 1), "op"),
        (slice_("b", 2, 1, "cuda_driver"), "runtime call"),
        (slice_("c", 4, 1, "python_function"), "Python"),
        (slice_("d", 6, 1, "user_annotation"), "annotation"),
        (slice_("e", 8, 1, "overhead"), "profiler's overhead"),
        (slice_("f", 10, 1, "new_kind"), "other"),
    ]
    trace = make_trace([event for event, _ in wanted])
    names, name = trace.words("slice", "name"), trace.array("slice", "name")
    found = sorted((names[name[row]], KINDS[code]) for row, code in enumerate(slice_kinds(trace).tolist()))
    assert found == sorted((event["name"], kind) for event, kind in wanted)
