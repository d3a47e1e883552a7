"""Snapshots and memory timelines as files of their own."""

from __future__ import annotations

import gzip
import json
import os
import pickle
from pathlib import Path

import pytest

pytest.importorskip("dash", reason="the dashboard is not installed")

from profsuite.dashboard.alive import alive_in
from profsuite.dashboard.app import create
from profsuite.dashboard.catalog import Catalog
from profsuite.dashboard.memory_files import MemoryFiles
from profsuite.dashboard.pages.memory import moment_in_point
from profsuite.errors import TraceError
from profsuite.trace.readers.snapshot import read_snapshot

TRACES = Path(__file__).parents[3] / "shared" / "traces"
real = pytest.mark.skipif(not TRACES.is_dir(), reason="the real traces are not here: ../shared/traces")


def entry(action, address, size):
    return {"action": action, "addr": address, "size": size, "stream": 0, "frames": []}


@pytest.fixture
def snapshot(tmp_path):
    """A history of a device: 100, then 300 bytes; the first are freed."""
    history = [
        entry("segment_alloc", 0, 2**21),
        entry("alloc", 0, 100),
        entry("alloc", 512, 300),
        entry("free_requested", 0, 100),
        entry("free_completed", 0, 100),
    ]
    blocks = [
        {"address": 0, "size": 512, "requested_size": 0, "state": "inactive", "frames": []},
        {"address": 512, "size": 512, "requested_size": 300, "state": "active_allocated", "frames": []},
        {"address": 1024, "size": 2**21 - 1024, "requested_size": 0, "state": "inactive", "frames": []},
    ]
    segment = {"device": 0, "address": 0, "total_size": 2**21, "stream": 0, "segment_type": "small",
               "segment_pool_id": (0, 0), "is_expandable": False, "frames": [], "blocks": blocks}  # fmt: skip
    path = tmp_path / "files" / "memory_0.pickle"
    path.parent.mkdir()
    path.write_bytes(pickle.dumps({"segments": [segment], "device_traces": [history]}))
    return path


def kinds(*roots):
    return {entry.name: entry.kind for entry in Catalog(list(roots)).entries.values()}


def test_what_is_found(folder, snapshot, tmp_path):
    with gzip.open(snapshot.parent / "mem.raw.json.gz", "wt") as out:
        json.dump([[0, 0, 5, 0]], out)
    (snapshot.parent / "other.pickle").write_bytes(b"no pickle")
    (snapshot.parent / "link.pickle").symlink_to(snapshot)
    assert kinds(snapshot.parent) == {"memory_0.pickle": "snapshot", "mem.raw.json.gz": "timeline"}
    assert kinds(snapshot) == {"memory_0.pickle": "snapshot"}
    assert kinds(folder, snapshot)["job.json"] == "trace"
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(TraceError):
        Catalog([empty])


def test_what_is_alive_after_each_entry(snapshot):
    found = read_snapshot(snapshot)
    alive = [(m.num_allocations, m.num_bytes) for m in (alive_in(found, 0, n) for n in range(5))]
    assert alive == [(0, 0), (1, 100), (2, 400), (1, 300), (1, 300)]
    assert alive_in(found, 0, 2).by_category is None
    assert [one.bytes for one in alive_in(found, 0, 2).largest] == [300, 100]


def text(component):
    """All texts of a component."""
    return json.dumps(component.to_plotly_json(), default=lambda each: each.to_plotly_json())


def test_a_point_of_the_curve_is_asked(snapshot):
    (one,) = Catalog([snapshot]).entries.values()
    file = MemoryFiles().start(one).wait(30)
    assert "2 allocations of 400 B" in text(moment_in_point(file, 0, 2))
    assert "after entry 2" in text(moment_in_point(file, 0, 2))
    assert "1 allocations of 100 B" in text(moment_in_point(file, 0, 1))
    assert "no such" in text(moment_in_point(file, 7, 0))
    assert "no such" in text(moment_in_point(file, 0, 99))


def test_a_file_is_read_once_and_again_when_it_changed(snapshot):
    (one,) = Catalog([snapshot]).entries.values()
    files = MemoryFiles()
    first = files.start(one)
    first.wait(30)
    assert files.start(one) is first
    data = pickle.loads(snapshot.read_bytes())
    data["device_traces"][0].append(entry("alloc", 2048, 1))
    snapshot.write_bytes(pickle.dumps(data))
    os.utime(snapshot, ns=(1, 1))
    assert files.start(one).wait(30).report.devices[0].num_allocations == 3


def test_a_damaged_file_is_a_line(snapshot):
    (one,) = Catalog([snapshot]).entries.values()
    snapshot.write_bytes(snapshot.read_bytes()[:100])
    found = MemoryFiles().start(one)
    found.finished.wait(30)
    assert found.state == "failed"
    assert "\n" not in found.error


def test_pickles_run_nothing(tmp_path):
    class Evil:
        def __reduce__(self):
            return (Path.touch, (tmp_path / "ran",))

    path = tmp_path / "evil.pickle"
    path.write_bytes(pickle.dumps({"segments": Evil(), "device_traces": []}))
    (one,) = Catalog([path]).entries.values()
    found = MemoryFiles().start(one)
    found.finished.wait(30)
    assert not (tmp_path / "ran").exists()


def test_the_interface_of_traces_has_no_snapshots(snapshot):
    client = create([snapshot]).server.test_client()
    (key,) = Catalog([snapshot]).entries
    assert client.get(f"/api/{key}/tracks").status_code in (404, 422)
    assert client.get("/figures/table.js").mimetype == "text/javascript"


@real
@pytest.mark.parametrize("name", ["snapshot_npu_expandable.pkl", "snapshot_npu_empty_cache.pkl"])
def test_a_real_history_played_by_hand(name):
    found = read_snapshot(TRACES / name)
    rows = found.table("entry").to_pylist()
    end = len(rows) - 1
    # What is in use at the end stands in the segments; back from there each entry is undone.
    live = {
        b["address"]: b["requested_bytes"] for b in found.table("block").to_pylist() if b["state"] == "active_allocated"
    }
    sums = {}
    for n in range(end, -1, -1):
        sums[n] = len(live), sum(live.values())
        row = rows[n]
        if row["action"] == "alloc":
            live.pop(row["address"], None)
        elif row["action"] == "free_requested":
            live[row["address"]] = row["bytes"]
    for n in (0, 1, 777, 2500, 7430, end):
        moment = alive_in(found, 0, n)
        assert (moment.num_allocations, moment.num_bytes) == sums[n]
