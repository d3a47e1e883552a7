"""Memory of snapshots: literal tables, and real ones against a replay in plain Python."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from profsuite.analyzers.memory.snapshot import snapshot_memory
from profsuite.trace.readers.snapshot import read_snapshot

SHARED = Path(__file__).parents[4] / "shared" / "traces"


def only(snapshot, **options):
    (device,) = snapshot_memory(snapshot, **options).devices
    return device


def shares(rows):
    return {share.name: share.bytes for share in rows}


@pytest.fixture
def job(allocator):
    """400 bytes from before; a peak of 1,900; 700 are left, in two segments with holes."""
    allocator.take(0x1000, 2048).alloc(0x1000, 1000).alloc(0x2000, 500, allocator.LOSS)
    allocator.free(0x2000, 500).free(0x1000, 1000).alloc(0x3000, 300)
    allocator.segment(0x3000, (512, 300), (1024, None), (512, 400), frames=allocator.TRAIN)
    return allocator.segment(0x9000, (4096, None), (0, None))


def test_curves_end_where_the_segments_stand(job, tmp_path):
    device = only(job.snapshot(tmp_path))
    assert [point.allocated_bytes for point in device.timeline] == [400, 1400, 1900, 1400, 1400, 400, 400, 700]
    assert {point.reserved_bytes for point in device.timeline} == {6144}
    assert (device.before_bytes, device.end_bytes) == (400, 700)
    assert (device.num_allocations, device.num_frees, device.num_unfreed) == (3, 2, 1)
    assert [point.ts_ns for point in device.timeline] == [1000 * i for i in range(8)]


def test_peak(job, tmp_path):
    peak = only(job.snapshot(tmp_path)).peak
    assert (peak.entry, peak.ts_ns, peak.allocated_bytes, peak.reserved_bytes, peak.unseen_bytes) == (
        2,
        2000,
        1900,
        6144,
        0,
    )
    assert shares(peak.by_frame) == {"model.py(7): forward": 1400, "loss.py(3): loss": 500}
    assert [(one.bytes, one.start_ns, one.end_ns) for one in peak.largest] == [
        (1000, 1000, 5000),
        (500, 2000, 3000),
        (400, None, None),
    ]
    assert peak.largest[1].removing_saves_bytes == 500


def test_fragmentation(job, tmp_path):
    state = only(job.snapshot(tmp_path)).fragmentation
    assert (state.reserved_bytes, state.allocated_bytes, state.free_bytes) == (6144, 1024, 5120)
    assert (state.largest_free_bytes, state.num_free_blocks, state.rounding_bytes) == (4096, 3, 324)
    assert (state.releasable_bytes, state.split_bytes) == (4096, 1024)
    assert state.fragmentation_pct == pytest.approx(20.0)  # 1 - 4096 / 5120
    assert [s.fragmentation_pct for s in state.segments] == [0.0, 0.0]


def test_nothing_free_is_not_fragmented(allocator, tmp_path):
    state = only(allocator.segment(0x1000, (512, 512)).snapshot(tmp_path)).fragmentation
    assert (state.fragmentation_pct, state.segments[0].fragmentation_pct) == (None, None)


def test_a_retry_is_given_back_and_taken_by_one_call(allocator, tmp_path):
    allocator.give(0x1000, 100).give(0x2000, 200).take(0x3000, 250).alloc(0x3000, 250)
    (retry,) = only(allocator.snapshot(tmp_path)).retries
    assert (retry.entry, retry.num_segments, retry.freed_bytes, retry.wanted_bytes) == (0, 2, 300, 250)
    assert retry.frame == "model.py(7): forward"


def test_what_empty_cache_gives_back_is_no_retry(allocator, tmp_path):
    allocator.give(0x1000, 100, allocator.EMPTY).take(0x3000, 250, allocator.EMPTY).give(0x3000, 250)
    device = only(allocator.snapshot(tmp_path))
    assert (device.num_retries, device.retries) == (0, ())


def test_without_stacks_nobody_knows_of_retries(allocator, tmp_path):
    report = snapshot_memory(allocator.give(0x1000, 100, None).take(0x3000, 250, None).snapshot(tmp_path))
    assert report.devices[0].retries is report.devices[0].num_retries is None
    assert "no stacks" in report.notes[0]


def test_out_of_memory(allocator, tmp_path):
    allocator.take(0x1000, 4096).alloc(0x1000, 1000).give(0x9000, 77).fail(5000, free=123, frames=allocator.LOSS)
    device = only(allocator.segment(0x1000, (1024, 1000), (3072, None)).snapshot(tmp_path))
    (failure,) = device.out_of_memory
    assert (failure.bytes, failure.device_free_bytes, failure.entry) == (5000, 123, 3)
    assert (failure.allocated_bytes, failure.reserved_bytes, failure.cached_bytes) == (1000, 4096, 3096)
    assert failure.stack == ("loss.py(3): loss", "train.py(90): main")
    assert device.retries == ()  # given back by another call


def test_a_history_alone_and_segments_alone(allocator, tmp_path):
    device = only(allocator.alloc(0x1, 10).free(0x1, 10).snapshot(tmp_path))
    assert (device.peak.allocated_bytes, device.end_bytes, device.fragmentation) == (10, 0, None)
    report = snapshot_memory(type(allocator)().segment(0x1, (512, 10)).snapshot(tmp_path))
    assert (report.devices[0].peak.allocated_bytes, report.devices[0].peak.reserved_bytes) == (10, 512)
    assert "no history" in report.notes[0]
    assert snapshot_memory(type(allocator)().snapshot(tmp_path)).devices == ()


@pytest.mark.parametrize("name", ["empty_cache", "expandable", "multi_device"])
def test_real_snapshots_add_up(name):
    path = SHARED / f"snapshot_npu_{name}.pkl"
    if not path.exists():
        pytest.skip(f"the real snapshots are not here: {path}")
    value = pickle.loads(path.read_bytes())
    report = snapshot_memory(read_snapshot(path), top=1000)
    assert [device.device for device in report.devices] == ([0, 1] if name == "multi_device" else [0])
    for device in report.devices:
        trace = value["device_traces"][device.device]
        segments = [s for s in value["segments"] if s["device"] == device.device]
        blocks = [b for s in segments for b in s["blocks"] if b["state"] == "active_allocated"]
        # From what is left at the end, and from what was there before: two ways to the same peak.
        made = {e["addr"] for e in trace if e["action"] == "alloc"}
        level = peak = sum(b["requested_size"] for b in blocks if b["address"] not in made)
        assert level == device.before_bytes
        for e in trace:
            level += {"alloc": e["size"], "free_requested": -e["size"]}.get(e["action"], 0)
            peak = max(peak, level)
        assert (level, peak) == (device.end_bytes, device.peak.allocated_bytes)
        assert device.peak.unseen_bytes == 0
        assert sum(share.bytes for share in device.peak.by_frame) == peak
        assert device.fragmentation.reserved_bytes == sum(s["total_size"] for s in segments)
        assert device.fragmentation.allocated_bytes == sum(b["size"] for b in blocks)
        ours = sorted(device.fragmentation.segments, key=lambda s: s.address)
        for mine, s in zip(ours, sorted(segments, key=lambda s: s["address"]), strict=True):
            free = [b["size"] for b in s["blocks"] if b["state"] == "inactive"]
            assert mine.free_bytes == sum(free)
            if free:
                assert mine.fragmentation_pct == pytest.approx(100 * (1 - max(free) / sum(free)))
