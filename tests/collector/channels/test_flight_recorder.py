"""The flight recorder: two ranks on gloo, and entries as NCCL leaves them."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from profsuite.collector.channels.flight_recorder import FILE, VARIABLE, FlightChannel, _rows  # noqa: E402

PROGRAM = """
import os, sys
from pathlib import Path
import torch, torch.distributed as dist, torch.multiprocessing as mp
from profsuite.collector.channels.flight_recorder import FlightChannel
from profsuite.trace.assemble import assemble

def work(rank, folder):
    folder = Path(folder)
    mine = folder / f"rank_{rank}"
    mine.mkdir()
    channel = FlightChannel(lambda: mine)
    channel.start()
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=2)
    pair = dist.new_group([0, 1], group_desc="pair")
    dist.all_reduce(torch.ones(8))
    dist.all_gather([torch.ones(3, 2), torch.ones(3, 2)], torch.ones(3, 2))
    dist.all_reduce(torch.ones(5, dtype=torch.float64), group=pair)
    raw = channel.stop()
    dist.destroy_process_group()
    assert channel.problems == [], channel.problems
    assert channel.overhead_ns > 0
    assemble(raw, "rank", "collector", rank=rank).save(mine / "run")

if __name__ == "__main__":
    mp.spawn(work, (sys.argv[1],), nprocs=2)
"""


@pytest.mark.skipif(not torch.distributed.is_available(), reason="torch without distributed")
def test_two_ranks_on_gloo(tmp_path):
    from profsuite.trace.model import Trace

    script = tmp_path / "program.py"
    script.write_text(PROGRAM)
    environment = {key: value for key, value in os.environ.items() if key != VARIABLE}
    subprocess.run([sys.executable, script, tmp_path], check=True, timeout=120, env=environment)
    seen = []
    for rank in range(2):
        entries = json.loads((tmp_path / f"rank_{rank}" / FILE).read_text())["entries"]
        assert entries[0]["profiling_name"] == "gloo:all_reduce"
        assert any(frame["filename"].endswith("program.py") for frame in entries[0]["frames"])
        trace = Trace.open(tmp_path / f"rank_{rank}" / "run")
        rows = trace.table("collective").to_pylist()
        columns = ("collective_name", "dtype", "in_nelems", "out_nelems", "sequence", "group_description")
        seen.append([tuple(row[column] for column in columns) for row in rows])
        assert [row["slice_id"] for row in rows] == list(range(len(rows)))
        assert rows[0]["group_ranks"] == "[0, 1]"
        assert rows[0]["group_size"] == 2
        health = {row["kind"]: row["count"] for row in trace.table("health").to_pylist()}
        assert health["missing_duration"] == len(rows), "gloo measures none"
        assert set(trace.to_pandas("slice")["category"]) == {"flight_recorder"}
        assert trace.to_pandas("track")["thread_name"].tolist() == ["flight recorder"]
    assert seen[0] == seen[1] == [
        ("all_reduce", "Float", 8, 8, 1, "default_pg"),
        ("all_gather", "Float", 6, 12, 2, "default_pg"),
        ("all_reduce", "Double", 5, 5, 1, "pair"),
    ]  # fmt: skip


def test_entries_of_nccl(to_trace):
    entries = [
        {"profiling_name": "nccl:_all_gather_base", "time_created_ns": 1_000, "time_discovered_started_ns": 2_000,
         "time_discovered_completed_ns": 90_000, "duration_ms": 0.05, "process_group": ("3", "dp"), "is_p2p": False,
         "collective_seq_id": 7, "p2p_seq_id": 1, "input_sizes": [[4, 2]], "input_dtypes": ["BFloat16"],
         "output_sizes": [[8, 2]], "output_dtypes": ["BFloat16"]},
        {"profiling_name": "nccl:send 0->2", "time_created_ns": 5_000, "time_discovered_started_ns": 6_000,
         "time_discovered_completed_ns": 6_500, "process_group": ("4", ""), "is_p2p": True,
         "collective_seq_id": 7, "p2p_seq_id": 2, "input_sizes": [[3]], "input_dtypes": ["Int"], "output_sizes": []},
        {"profiling_name": "nccl:recv 0<-2", "time_created_ns": 7_000, "process_group": ("4", ""), "is_p2p": True,
         "p2p_seq_id": 3, "input_sizes": []},
    ]  # fmt: skip
    trace = to_trace(_rows(entries, {"3": [0, 4]}, 0))
    frame = trace.to_pandas("slice")
    assert frame[["ts", "dur"]].values.tolist() == [[2_000, 50_000], [6_000, 500], [7_000, 0]]
    columns = ("collective_name", "dtype", "in_nelems", "out_nelems", "group_size", "group_ranks", "sequence",
               "source_rank", "destination_rank")  # fmt: skip
    assert [tuple(row[c] for c in columns) for row in trace.table("collective").to_pylist()] == [
        ("_all_gather_base", "BFloat16", 8, 16, 2, "[0, 4]", 7, None, None),
        ("send", "Int", 3, None, None, None, 2, 0, 2),
        ("recv", None, None, None, None, None, 3, 2, 0),
    ]


def test_without_a_process_group_nothing_is_missing(tmp_path, monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)
    channel = FlightChannel(lambda: tmp_path)
    for _ in range(1000):
        channel.start()
        channel.start()
        assert channel.stop() is None
        assert channel.stop() is None
    assert channel.problems == []
    assert VARIABLE not in os.environ
    assert not list(tmp_path.iterdir())


def test_the_users_size_stays(tmp_path, monkeypatch):
    monkeypatch.setenv(VARIABLE, "77")
    channel = FlightChannel(lambda: tmp_path)
    channel.start()
    channel.stop()
    assert os.environ[VARIABLE] == "77"
