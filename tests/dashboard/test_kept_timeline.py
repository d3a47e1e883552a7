"""What is kept of a timeline is the timeline; what is damaged is not used."""

from __future__ import annotations

import json
import struct

import numpy as np
import pytest

pytest.importorskip("dash", reason="the dashboard is not installed")

from profsuite.dashboard.kept_timeline import NAME, keep, kept
from profsuite.dashboard.tiles import build


@pytest.fixture
def trace(make_trace, slice_):
    kernels = [slice_("k", n / 5, 0.25, "kernel", 0, 7, device=0, stream=7) for n in range(4000)]
    return make_trace([*kernels, *(slice_(f"op{n}", n * 10, 8) for n in range(50))])


def test_it_is_the_same(trace, tmp_path):
    made = build(trace)
    assert len(made.levels) > 2
    keep(made, tmp_path)
    found = kept(trace, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [NAME]
    assert (found.start_ns, found.end_ns) == (made.start_ns, made.end_ns)
    assert found.lanes.num_hidden == made.lanes.num_hidden
    assert np.array_equal(found.lanes.missing, made.lanes.missing)
    wanted = np.arange(len(made.lanes.track))
    for width in (1, 50, 2000, 10**6):
        ours, theirs = (each.view(wanted, made.start_ns + 500, made.end_ns - 500, width) for each in (found, made))
        assert ours.resolution_ns == theirs.resolution_ns
        for name in ("start", "end", "slice_id", "count", "lane_first"):
            assert np.array_equal(getattr(ours, name), getattr(theirs, name))


def test_of_another_trace_it_is_not_used(trace, make_trace, slice_, tmp_path):
    keep(build(trace), tmp_path)
    assert kept(make_trace([slice_("a", 0, 1)]), tmp_path) is None


def test_nothing_there(trace, tmp_path):
    assert kept(trace, tmp_path) is None
    keep(build(trace), tmp_path / "missing")
    assert not (tmp_path / "missing").exists()


@pytest.mark.parametrize("share", [0, 0.001, 0.3, 0.999])
def test_cut_off(trace, tmp_path, share):
    keep(build(trace), tmp_path)
    data = (tmp_path / NAME).read_bytes()
    (tmp_path / NAME).write_bytes(data[: int(share * len(data))])
    assert kept(trace, tmp_path) is None


@pytest.mark.parametrize(
    "change",
    [
        {"lengths": [-1]},
        {"lengths": [2**62] * 4},
        {"lengths": "many"},
        {"resolutions_ns": [0]},
        {"resolutions_ns": [True]},
        {"resolutions_ns": None},
        {"num_hidden": "a"},
        {"lengths": []},
    ],
)
def test_a_damaged_head(trace, tmp_path, change):
    keep(build(trace), tmp_path)
    data = (tmp_path / NAME).read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    head = json.dumps({**json.loads(data[8 : 8 + size]), **change}).encode().ljust(size)
    (tmp_path / NAME).write_bytes(struct.pack("<Q", len(head)) + head + data[8 + size :])
    assert kept(trace, tmp_path) is None


def test_any_byte_may_be_wrong(trace, tmp_path):
    made = build(trace)
    keep(made, tmp_path)
    data, rng = (tmp_path / NAME).read_bytes(), np.random.default_rng(0)
    wanted = np.arange(len(made.lanes.track))
    for at in rng.integers(0, len(data), 200).tolist():
        (tmp_path / NAME).write_bytes(data[:at] + bytes([data[at] ^ 0x80]) + data[at + 1 :])
        found = kept(trace, tmp_path)
        if found is not None:  # a time may be wrong, but nothing is looked up where nothing is
            found.view(wanted[: len(found.lanes.track)], made.start_ns, made.end_ns, 100)
