"""The recorder against torch.profiler on the same loop, on all threads, under trouble."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
import sys
import threading
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from profsuite.collector import build
from profsuite.collector.recorder import Recorder, RecorderError, available
from profsuite.trace.assemble import assemble
from profsuite.trace.load import load
from profsuite.trace.model import Trace

torch = pytest.importorskip("torch")


@pytest.fixture(scope="module", autouse=True)
def _built() -> None:
    try:
        build.build_now("recorder")
    except build.BuildError as error:
        pytest.skip(str(error))


@pytest.fixture
def recorder() -> Iterator[Recorder]:
    found = Recorder.load(wait=True)
    assert found is not None
    yield found
    found.stop()


def read(raw: Any) -> Trace:
    return assemble(raw, "test", "recorder")


def ops(trace: Trace) -> pd.DataFrame:
    slices = trace.to_pandas("slice")
    names = slices.name.astype(str)
    slices["parent"] = ["" if pd.isna(parent) else names[parent] for parent in slices.parent_id]
    slices["name"] = names
    return slices.join(trace.to_pandas("op").set_index("slice_id"))


def counts(frame: pd.DataFrame) -> Counter[tuple[str, str, str]]:
    """Name, category and name of the parent."""
    columns = (frame.name.astype(str), frame.category.astype(str), frame.parent.astype(str))
    return Counter(zip(*columns, strict=True))


class Loop:
    """A small model's training step: forward, backward, optimizer."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        self.model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.LayerNorm(8), torch.nn.Linear(8, 1))
        self.optimizer = torch.optim.AdamW(self.model.parameters())
        self.step()

    def step(self) -> None:
        with torch.profiler.record_function("step"):
            x = torch.cat([torch.ones(2, 8), torch.zeros(2, 8)]).to(torch.float64).float()
            y = self.model(x)[torch.tensor([0, 1])]
            (y * y).mean(dim=[0, 1]).backward()
            self.optimizer.step()
            self.optimizer.zero_grad()


def kineto(loop: Loop, path: Path, **flags: Any) -> Trace:
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], **flags) as profiler:
        loop.step()
        loop.step()
    profiler.export_chrome_trace(str(path))
    return load(path)


def test_same_ops_as_torch_profiler(recorder: Recorder, tmp_path: Path) -> None:
    loop = Loop()
    recorder.start(shapes=True)
    loop.step()
    loop.step()
    mine = ops(read(recorder.stop()))
    theirs = ops(kineto(loop, tmp_path / "trace.json", record_shapes=True))
    theirs = theirs[theirs.category.isin(["cpu_op", "user_annotation"])]
    # Kineto's own context may be the parent there, and none here.
    both = [frame.sort_values(["ts", "depth"]) for frame in (mine, theirs)]
    assert counts(both[0]) == counts(both[1])
    for column in ("name", "input_dims", "input_types"):
        texts = [frame[column].astype(object).fillna("").tolist() for frame in both]
        assert texts[0] == texts[1], column
    numbers = [(frame.sequence_number - frame.sequence_number.min()).fillna(-1).tolist() for frame in both]
    assert numbers[0] == numbers[1]
    forward = [frame.forward_op_id.notna().sum() for frame in both]
    assert forward[0] == forward[1] > 0


def test_layouts_of_sparse_inputs(recorder: Recorder) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # "in beta state"
        sparse = torch.eye(8).to_sparse_csr()
    dense = torch.ones(8, 8)
    recorder.start(shapes=True)
    torch.mm(sparse, dense)
    torch.mm(dense, dense)
    torch.cat([dense, dense])
    frame = ops(read(recorder.stop()))
    layouts = frame[frame.name.isin(["aten::mm", "aten::cat"])].sort_values("ts").input_layouts.astype(object)
    assert layouts.fillna("").tolist() == ['["sparse_csr", "strided"]', "", ""]


def test_times_lie_where_they_happened(recorder: Recorder) -> None:
    import time

    begin = time.time_ns()
    recorder.start()
    for _ in range(100):
        torch.ones(4) + 1
    raw = recorder.stop()
    end = time.time_ns()
    ts, dur = raw.groups["slice"]["ts"], raw.groups["slice"]["dur"]
    assert begin - 100_000 <= ts.min()
    assert (ts + dur).max() <= end + 100_000
    assert (dur >= 0).all()
    assert recorder.clock in ("counter", "monotonic")
    assert not raw.remarks


def test_without_shapes_there_are_none(recorder: Recorder) -> None:
    recorder.start()
    torch.ones(4) + 1
    frame = ops(read(recorder.stop()))
    assert frame.input_dims.isna().all()


def test_long_inputs_are_left_out_and_counted(recorder: Recorder) -> None:
    many = [torch.ones(1) for _ in range(600)]
    recorder.start(shapes=True)
    torch.cat(many)
    raw = recorder.stop()
    frame = ops(read(raw))
    assert frame[frame.name == "aten::cat"].input_dims.isna().all()
    assert [(remark.kind, remark.count) for remark in raw.remarks] == [("no_shape", 1)]


def test_all_threads_are_seen_and_named(recorder: Recorder) -> None:
    loop = Loop()
    recorder.start()
    tids = []

    def work() -> None:
        tids.append(threading.get_native_id())
        loop.step()

    for _ in range(3):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    loop.step()
    trace = read(recorder.stop())
    tracks = trace.to_pandas("track")
    assert tracks.tid.tolist()[-3:] == [str(tid) for tid in tids] or set(map(str, tids)) <= set(tracks.tid)
    assert str(threading.get_native_id()) in set(tracks.tid)
    assert (tracks.pid == str(os.getpid())).all()
    assert tracks.thread_name.str.startswith("thread ").all()
    steps = trace.to_pandas("slice").query("name == 'step'")
    assert len(steps) == 4
    assert steps.track_id.nunique() == len({*tids, threading.get_native_id()})


def test_backward_on_another_thread_finds_its_forward_op(recorder: Recorder) -> None:
    weight = torch.ones(4, 4, requires_grad=True)
    recorder.start()
    loss = (torch.ones(4, 4) @ weight).sum()
    thread = threading.Thread(target=loss.backward)
    thread.start()
    thread.join()
    frame = ops(read(recorder.stop()))
    backward = frame[frame.name == "MmBackward0"].iloc[0]
    forward = frame.loc[backward.forward_op_id]
    assert forward["name"] in ("aten::mm", "aten::matmul")
    assert forward.track_id != backward.track_id


def test_spans_that_end_on_another_thread(recorder: Recorder) -> None:
    recorder.start()
    span = torch.profiler.record_function("handed over")
    span.__enter__()
    torch.ones(1)

    def leave() -> None:
        torch.zeros(1)
        span.__exit__(None, None, None)

    thread = threading.Thread(target=leave)
    thread.start()
    thread.join()
    torch.full((1,), 2.0)
    raw = recorder.stop()
    assert not raw.remarks
    frame = ops(read(raw)).set_index("name")
    assert frame.loc["aten::ones", "parent"] == "handed over"
    assert frame.loc["aten::full", "parent"] == ""
    handed, zeros = frame.loc["handed over"], frame.loc["aten::zeros"]
    assert handed.ts + handed.dur >= zeros.ts + zeros.dur


def test_spans_that_interleave(recorder: Recorder) -> None:
    async def task(name: str, first: float) -> None:
        with torch.profiler.record_function(name):
            await asyncio.sleep(first)

    async def both() -> None:
        await asyncio.gather(task("a", 0.01), task("b", 0.03))

    recorder.start()
    asyncio.run(both())
    raw = recorder.stop()
    assert not raw.remarks
    frame = ops(read(raw)).set_index("name")
    assert frame.loc["a"].dur < frame.loc["b"].dur


def test_open_spans_end_with_the_recording(recorder: Recorder) -> None:
    recorder.start()
    with torch.profiler.record_function("outer"):
        torch.ones(1)
        raw = recorder.stop()
    assert [(remark.kind, remark.count) for remark in raw.remarks] == [("unclosed", 1)]
    frame = ops(read(raw)).set_index("name")
    assert frame.loc["aten::ones", "parent"] == "outer"


def test_spans_that_began_before_are_not_there(recorder: Recorder) -> None:
    with torch.profiler.record_function("before"):
        recorder.start()
        torch.ones(1)
    raw = recorder.stop()
    assert not raw.remarks
    assert "before" not in set(ops(read(raw)).name)


def test_exceptions_pass_and_close_their_spans(recorder: Recorder) -> None:
    recorder.start()
    with pytest.raises(RuntimeError), torch.profiler.record_function("outer"):
        torch.ones(2, 3) @ torch.ones(2, 3)
    torch.ones(1)
    raw = recorder.stop()
    assert not raw.remarks
    frame = ops(read(raw))
    assert frame[frame.name == "aten::ones"].iloc[-1].parent == ""


def test_taking_while_it_runs(recorder: Recorder) -> None:
    recorder.start(shapes=True)
    with torch.profiler.record_function("outer"):
        torch.ones(1)
        first = recorder.take()
        torch.zeros(1)
    second = recorder.take()
    last = recorder.stop()
    names = [[str(name) for name in ops(read(raw)).name] for raw in (first, second, last)]
    assert names[0] == ["aten::ones", "aten::empty", "aten::fill_"]
    assert names[1] == ["outer", "aten::zeros", "aten::empty", "aten::zero_"]
    assert names[2] == []
    outer = second.groups["slice"]
    assert outer["ts"][0] < first.groups["slice"]["ts"][0]


def test_open_spans_that_fill_a_ring_lose_ops_and_say_so(recorder: Recorder) -> None:
    recorder.ring_bytes = 4096
    recorder.start()
    x = torch.ones(1)
    # Of 512 words a start takes four, those of a collective two, and the end of every open span two that are kept
    # free: the 254th span finds no room, nor does any op in the 253.
    with contextlib.ExitStack() as spans:
        for _ in range(300):
            spans.enter_context(torch.profiler.record_function("outer"))
        for _ in range(1000):
            x.add_(x)
    raw = recorder.stop()
    trace = read(raw)
    assert ops(trace).name.astype(str).tolist() == ["aten::ones", "aten::empty", "aten::fill_"] + 253 * ["outer"]
    assert {remark.kind: remark.count for remark in raw.remarks} == {"overrun": 300 - 253 + 1000}
    assert "overrun" in trace.to_pandas("health").kind.tolist()


def test_a_flood_of_ops_loses_none(recorder: Recorder) -> None:
    """A thread whose ring is full drains it itself, however late the drain is."""
    recorder.ring_bytes = 4096
    recorder.start()
    x = torch.ones(1)
    with torch.profiler.record_function("outer"):
        for _ in range(50_000):
            x.add_(x)
    raw = recorder.stop()
    frame = ops(read(raw))
    assert not raw.remarks
    assert (frame.name == "aten::add_").sum() == 50_000
    assert (frame[frame.name == "aten::add_"].parent == "outer").all()


def test_floods_of_many_threads_lose_none_while_they_are_taken(recorder: Recorder) -> None:
    def flood() -> None:
        x = torch.ones(1)
        for _ in range(5_000):
            x.add_(x)

    recorder.ring_bytes = 4096
    recorder.start()
    threads = [threading.Thread(target=flood) for _ in range(6)]
    for thread in threads:
        thread.start()
    taken = []
    while any(thread.is_alive() for thread in threads):
        taken.append(recorder.take())
    taken.append(recorder.stop())
    assert not [remark for raw in taken for remark in raw.remarks]
    assert sum(int((ops(read(raw)).name == "aten::add_").sum()) for raw in taken if raw.num_events) == 30_000


def test_held_ops_are_bounded(recorder: Recorder) -> None:
    recorder.max_rows = 100
    recorder.start()
    x = torch.ones(1)
    for _ in range(1000):
        x.add_(x)
    raw = recorder.stop()
    assert raw.num_events == 100
    assert {remark.kind for remark in raw.remarks} == {"over_limit"}


def test_names_made_anew_at_every_step(recorder: Recorder) -> None:
    recorder.start()
    for i in range(3000):
        with torch.profiler.record_function(f"step {i}"):
            pass
    frame = ops(read(recorder.stop()))
    assert frame.name.astype(str).tolist() == [f"step {i}" for i in range(3000)]


def test_one_recording_at_a_time(recorder: Recorder) -> None:
    recorder.start()
    other = Recorder.load(wait=True)
    assert other is not None
    with pytest.raises(RecorderError, match="runs already"):
        other.start()
    assert not other.stop().num_events or other.recording
    recorder.stop()
    other.start()
    torch.ones(1)
    assert other.stop().num_events > 0


def test_nothing_recorded_is_an_empty_trace(recorder: Recorder) -> None:
    assert recorder.stop().num_events == 0
    assert recorder.take().num_events == 0
    assert not recorder.recording
    assert available()


def test_beside_torch_profiler(recorder: Recorder, tmp_path: Path) -> None:
    loop = Loop()
    recorder.start()
    theirs = ops(kineto(loop, tmp_path / "trace.json"))
    mine = ops(read(recorder.stop()))
    theirs = theirs[theirs.category == "cpu_op"]
    assert len(theirs) <= len(mine)


def test_a_thousand_recordings_leave_nothing(recorder: Recorder) -> None:
    def cycle() -> None:
        recorder.start()
        torch.ones(1)
        assert recorder.stop().num_events > 0

    def state() -> tuple[int, int, set[str]]:
        tasks = len(list(Path("/proc/self/task").iterdir()))
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        files = {str(file.readlink()) for file in Path("/proc/self/fd").iterdir() if file.is_symlink()}
        return tasks, pages * os.sysconf("SC_PAGE_SIZE"), files

    for _ in range(100):
        cycle()
    tasks, memory, files = state()
    for _ in range(1000):
        cycle()
    assert not torch.autograd._profiler_enabled()
    after = state()
    assert after[0] <= tasks
    assert after[1] - memory < 8_000_000
    assert {file for file in after[2] - files if not file.startswith("/proc/")} == set()


def test_threads_that_end_leave_nothing(recorder: Recorder) -> None:
    recorder.start()
    for _ in range(300):
        thread = threading.Thread(target=torch.ones, args=(1,))
        thread.start()
        thread.join()
    trace = read(recorder.stop())
    assert (trace.to_pandas("slice").name == "aten::ones").sum() == 300


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_fork() -> None:
    code = """
import json, os, sys, threading, torch
from profsuite.collector.recorder import Recorder
recorder = Recorder.load(wait=True)
recorder.start()
x = torch.ones(1)
stop = threading.Event()
def busy():
    while not stop.is_set(): x + 1
thread = threading.Thread(target=busy); thread.start()
for _ in range(20):
    pid = os.fork()
    if pid == 0:
        quiet = not recorder.recording and recorder.stop().num_events == 0
        torch.zeros(1)
        recorder.start()
        torch.zeros(1)
        raw = recorder.stop()
        names = raw.pools["name"].to_pylist()
        os._exit(0 if quiet and "aten::zeros" in names and "aten::add" not in names else 1)
    assert os.waitpid(pid, 0)[1] == 0
stop.set(); thread.join()
torch.full((1,), 2.0)
raw = recorder.stop()
print(json.dumps([recorder.recording, raw.pools["name"].to_pylist()]))
"""
    recording, names = json.loads(run(code))
    assert not recording
    assert "aten::full" in names


def test_exit_while_it_records() -> None:
    code = """
import torch
from profsuite.collector.recorder import Recorder
recorder = Recorder.load(wait=True)
recorder.start()
torch.ones(1)
print("over")
"""
    assert run(code) == "over\n"


GLOO = """
import json, sys, torch, torch.distributed as dist
from profsuite.collector.recorder import Recorder
from profsuite.trace.assemble import assemble
rank, path = int(sys.argv[1]), sys.argv[2]
recorder = Recorder.load(wait=True)
recorder.start()
dist.init_process_group("gloo", init_method="file://" + path, rank=rank, world_size=2)
recorder.refresh()
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 8))
for _ in range(2):
    model(torch.randn(2, 8)).sum().backward()
t = torch.ones(4)
dist.all_reduce(t)
dist.broadcast(t, 0)
dist.all_gather([torch.zeros(4), torch.zeros(4)], t)
dist.all_reduce(t, async_op=True).wait()
dist.send(t, 1) if rank == 0 else dist.recv(t, 0)
dist.barrier()
raw = recorder.stop()
trace = assemble(raw, "test", "recorder")
found = trace.to_pandas("collective")
found["name"] = trace.to_pandas("slice").name.astype(str).iloc[found.slice_id].to_numpy()
print(json.dumps({"rows": json.loads(found.to_json(orient="records")), "rank": trace.info.rank,
                  "size": trace.info.world_size, "remarks": [r.kind for r in raw.remarks]}))
dist.barrier()
dist.destroy_process_group()
"""


@pytest.mark.skipif(not torch.distributed.is_available(), reason="torch without distributed")
def test_collectives_on_gloo(tmp_path: Path) -> None:
    command = [sys.executable, "-W", "ignore", "-c", GLOO]
    ranks = [
        subprocess.Popen([*command, str(rank), str(tmp_path / "store")], stdout=subprocess.PIPE, text=True)
        for rank in range(2)
    ]
    told = [json.loads(process.communicate(timeout=300)[0].splitlines()[-1]) for process in ranks]
    assert [(one["rank"], one["size"], one["remarks"]) for one in told] == [(0, 2, []), (1, 2, [])]
    matched = []
    for one in told:
        for row in one["rows"]:
            assert (row["group_size"], row["group_ranks"], row["rank"]) == (2, "[0, 1]", one["rank"])
            assert row["group_name"] == "0"
        matched.append(
            [(r["sequence"], r["collective_name"], r["in_nelems"], r["out_nelems"], r["dtype"]) for r in one["rows"]]
        )
    collective = [[row for row in rows if row[1] not in ("send", "recv")] for rows in matched]
    assert collective[0] == collective[1]
    kinds = [row[1] for row in collective[0]]
    assert kinds[-5:] == ["allreduce", "broadcast", "all_gather", "allreduce", "barrier"]
    assert collective[0][-5][2:] == (4, 4, "Float")
    assert collective[0][-3][2:] == (4, 8, "Float")
    send = next(row for row in told[0]["rows"] if row["collective_name"] == "send")
    receive = next(row for row in told[1]["rows"] if row["collective_name"] == "recv")
    assert (send["destination_rank"], receive["source_rank"]) == (1, 0)
    waited = [row["is_async"] for row in told[0]["rows"] if row["collective_name"] == "allreduce"]
    assert waited[-2:] == [False, True]


SHARDED = """
import json, sys, torch, torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from profsuite.collector.recorder import Recorder
from profsuite.trace.assemble import assemble
rank, path = int(sys.argv[1]), sys.argv[2]
dist.init_process_group("gloo", init_method="file://" + path, rank=rank, world_size=2)
mesh = init_device_mesh("cpu", (2,), mesh_dim_names=("shard",))
net = torch.nn.Sequential(torch.nn.Linear(64, 32, bias=False), torch.nn.ReLU(), torch.nn.Linear(32, 10, bias=False))
for part in (net[0], net[2], net):
    fully_shard(part, mesh=mesh)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
recorder = Recorder.load(wait=True)
recorder.start()
for _ in range(2):
    net(torch.ones(4, 64)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
trace = assemble(recorder.stop(), "test", "recorder")
found = trace.to_pandas("collective")
found["ts"] = trace.to_pandas("slice").ts.iloc[found.slice_id].to_numpy()
print(json.dumps([mesh.get_group().group_name, json.loads(found.to_json(orient="records"))]))
dist.barrier()
dist.destroy_process_group()
"""


@pytest.mark.skipif(not torch.distributed.is_available(), reason="torch without distributed")
def test_sharded_training_on_gloo(tmp_path: Path) -> None:
    """FSDP2: each rank records the same collectives, matched one to one by group and sequence."""
    command = [sys.executable, "-W", "ignore", "-c", SHARDED]
    ranks = [
        subprocess.Popen([*command, str(rank), str(tmp_path / "store")], stdout=subprocess.PIPE, text=True)
        for rank in range(2)
    ]
    told = [json.loads(process.communicate(timeout=300)[0].splitlines()[-1]) for process in ranks]
    for rank, (group, rows) in enumerate(told):
        for row in rows:
            assert (row["group_name"], row["group_size"], row["group_ranks"]) == (group, 2, "[0, 1]")
            assert (row["rank"], row["dtype"], row["is_async"]) == (rank, "Float", False)
    first, second = (
        {(r["group_name"], r["sequence"]): (r["collective_name"], r["in_nelems"], r["out_nelems"]) for r in rows}
        for _, rows in told
    )
    assert first == second
    assert len(first) == len(told[0][1]) == len(told[1][1])
    # Weights of 64 x 32 and 32 x 10, halved: gathered for the forward pass and again for the backward pass, where
    # gradients are scattered.
    gather, scatter = "_allgather_base", "_reduce_scatter_base"
    step = [
        (gather, 1024, 2048), (gather, 160, 320),
        (gather, 160, 320), (gather, 1024, 2048), (scatter, 320, 160), (scatter, 2048, 1024),
    ]  # fmt: skip
    in_order = [first[key] for key in sorted(first)]
    assert in_order[:2] == step[:2]
    assert in_order[6:8] == step[:2]
    assert sorted(in_order[:6]) == sorted(in_order[6:]) == sorted(step)
    numbers = sorted(sequence for _, sequence in first)
    assert numbers == list(range(numbers[0], numbers[0] + 12))
    for _, rows in told:
        assert [row["sequence"] for row in sorted(rows, key=lambda row: row["ts"])] == numbers
