"""JAX's log folder: one recording once, hosts as ranks, runs apart."""

from __future__ import annotations

import gzip
import json

import pytest

import profsuite
from profsuite.errors import TraceError


@pytest.fixture
def profile(tmp_path, planes):
    """A function that writes a host's files into a run of the log folder ``tmp_path``."""
    make_plane, make_space, _ = planes

    def write(run, host, forms=("xplane", "json", "perfetto")):
        folder = tmp_path / "plugins" / "profile" / run
        folder.mkdir(parents=True, exist_ok=True)
        data = make_space(make_plane("/host:CPU", [("python", [(host, 0, 10)])]))
        events = [
            {"ph": "M", "pid": 701, "name": "process_name", "args": {"name": "/host:CPU"}},
            {"ph": "X", "pid": 701, "tid": 1, "ts": 0, "dur": 0.01, "name": host},
            {},
        ]
        text = gzip.compress(json.dumps({"displayTimeUnit": "ns", "traceEvents": events}).encode())
        if "xplane" in forms:
            (folder / f"{host}.xplane.pb").write_bytes(data)
        if "json" in forms:
            (folder / f"{host}.trace.json.gz").write_bytes(text)
        if "perfetto" in forms:
            (folder / "perfetto_trace.json.gz").write_bytes(text)
        return folder

    return write


def names(files):
    return [(file.rank, file.path.rpartition("/")[2]) for file in files]


def test_one_host_is_one_trace(tmp_path, profile):
    profile("2026_01_02_03_04_05", "node")
    assert names(profsuite.find_ranks(tmp_path)) == [(None, "node.xplane.pb")]
    assert profsuite.load(tmp_path).info.rank is None


def test_json_counts_where_there_are_no_planes(tmp_path, profile):
    profile("2026_01_02_03_04_05", "node", ("json", "perfetto"))
    assert names(profsuite.find_ranks(tmp_path)) == [(None, "node.trace.json.gz")]
    assert profsuite.load(tmp_path).num_rows("slice") == 1


def test_perfettos_copy_alone(tmp_path, profile):
    profile("2026_01_02_03_04_05", "node", ("perfetto",))
    assert names(profsuite.find_ranks(tmp_path)) == [(None, "perfetto_trace.json.gz")]


@pytest.mark.parametrize("forms", [("xplane", "json"), ("json",)])
def test_hosts_are_ranks_by_name(tmp_path, profile, forms):
    for host in ("node-b", "node-a", "node-c"):
        profile("2026_01_02_03_04_05", host, forms)
    files = profsuite.find_ranks(tmp_path)
    assert [(rank, name.partition(".")[0]) for rank, name in names(files)] == [
        (0, "node-a"), (1, "node-b"), (2, "node-c"),
    ]  # fmt: skip
    assert [profsuite.load(file.path).info.rank for file in files] == [0, 1, 2]
    assert [file.path for file in profsuite.find_ranks(tmp_path, [1])] == [files[1].path]


def test_several_runs_are_to_be_chosen_from(tmp_path, profile):
    profile("2026_01_02_03_04_05", "node")
    newest = profile("2026_01_02_04_00_00", "node")
    with pytest.raises(TraceError, match=r"holds 2 profiles of XLA, from 2026_01_02_03_04_05 to .* newest is"):
        profsuite.load(tmp_path)
    assert profsuite.load(newest).num_rows("slice") == 1


def test_other_folders_are_as_before(tmp_path):
    for rank in (0, 1):
        text = json.dumps({"traceEvents": [{"ph": "X", "pid": 1, "tid": 1, "ts": 0, "dur": 1, "name": "f"}]})
        (tmp_path / f"rank{rank}.trace.json.gz").write_bytes(gzip.compress(text.encode()))
    assert [rank for rank, _ in names(profsuite.find_ranks(tmp_path))] == [0, 1]
