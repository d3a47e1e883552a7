"""What is allocated at a moment, by hand."""

from __future__ import annotations

import pytest

pytest.importorskip("dash", reason="the dashboard is not installed")

from profsuite.analyzers.host_calls import host_classes
from profsuite.dashboard.alive import alive_at


def event(ts, address, size, device_type=1, device=0, tid=1):
    args = {"Device Type": device_type, "Device Id": device, "Addr": address, "Bytes": size}
    return {"ph": "i", "cat": "cpu_instant_event", "name": "[memory]", "pid": 100, "tid": tid, "ts": ts, "args": args}


@pytest.fixture
def trace(make_trace, slice_):
    return make_trace(
        [
            slice_("aten::empty", 5, 10),
            event(6, 1, 100),
            event(8, 2, 300),
            event(20, 1, -100),
            event(21, 9, -50),  # it was there before the recording
            event(22, 3, 70, device_type=0, device=-1),
            event(30, 1, 40),
        ]
    )


def alive(trace, ts_us, **more):
    found = alive_at(trace, host_classes(trace), "CUDA", 0, 1000 * ts_us, **more)
    return found.num_allocations, found.num_bytes, found.largest


@pytest.mark.parametrize(("ts", "count", "size"), [(0, 1, 50), (7, 2, 150), (9, 3, 450), (20, 2, 350), (21, 1, 300), (40, 2, 340)])  # fmt: skip # noqa: E501
def test_moments(trace, ts, count, size):
    assert alive(trace, ts)[:2] == (count, size)


def said(one):
    return one.bytes, one.op, one.start_ns, one.end_ns


def test_what_is_said_of_each(trace):
    assert [said(one) for one in alive(trace, 9)[2]] == [
        (300, "aten::empty", 8000, None),
        (100, "aten::empty", 6000, 20_000),
        (50, None, None, 21_000),
    ]
    assert len(alive(trace, 9, top=1)[2]) == 1
    assert said(alive(trace, 40)[2][1]) == (40, None, 30_000, None)


def test_categories_sum_to_the_whole(trace):
    found = alive_at(trace, host_classes(trace), "CUDA", 0, 9000)
    assert sum(share.bytes for share in found.by_category) == found.num_bytes == 450
    assert sum(share.count for share in found.by_category) == 3


def test_another_device(trace):
    assert alive_at(trace, host_classes(trace), "CPU", None, 25_000).num_bytes == 70
    assert alive_at(trace, host_classes(trace), "CUDA", 3, 25_000).num_allocations == 0
