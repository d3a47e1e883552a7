"""Snapshots of the allocator, with CUDA's functions replaced."""

from __future__ import annotations

import pickle

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from profsuite.collector.channels import memory_snapshot  # noqa: E402
from profsuite.collector.channels.memory_snapshot import MAX_FILES, SnapshotChannel  # noqa: E402


@pytest.fixture
def cuda(monkeypatch):
    """CUDA's memory functions: what was called, and the observer that was attached."""
    calls, observers = [], []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(
        torch.cuda.memory, "_record_memory_history", lambda enabled="all", **kwargs: calls.append((enabled, kwargs))
    )
    monkeypatch.setattr(torch.cuda.memory, "_snapshot", lambda: {"segments": [], "device_traces": [[]]})
    monkeypatch.setattr(memory_snapshot, "_observed", False)
    monkeypatch.setattr(torch._C, "_cuda_attach_out_of_memory_observer", observers.append, raising=False)
    calls.append(observers)
    return calls


def test_at_the_end(cuda, tmp_path):
    channel = SnapshotChannel(lambda: tmp_path, max_entries=50)
    channel.start()
    channel.start()
    assert channel.stop() is None
    assert cuda[1:] == [("all", {"max_entries": 50, "stacks": "python"}), (None, {})]
    assert channel.files == [tmp_path / "memory_end.pickle"]
    assert pickle.loads(channel.files[0].read_bytes()) == {"segments": [], "device_traces": [[]]}
    assert [path.name for path in tmp_path.iterdir()] == ["memory_end.pickle"]
    assert channel.problems == []
    assert channel.overhead_ns > 0


def test_when_memory_runs_out(cuda, tmp_path):
    channel = SnapshotChannel(lambda: tmp_path)
    channel.start()
    (observer,) = cuda[0]
    for _ in range(MAX_FILES + 2):
        observer(0, 1 << 30, 80 << 30, 0)
    channel.stop()
    names = [f"memory_oom_{n + 1}.pickle" for n in range(MAX_FILES)]
    assert [path.name for path in channel.files] == [*names, "memory_end.pickle"]
    assert channel.problems == [f"memory ran out more than {MAX_FILES} times; only those have snapshots"]
    observer(0, 1, 1, 0)
    assert len(list(tmp_path.iterdir())) == MAX_FILES + 1, "silent after stop"


def test_attached_once_however_often_it_is_started(cuda, tmp_path):
    for _ in range(1000):
        channel = SnapshotChannel(lambda: tmp_path)
        channel.start()
        channel.stop()
    assert len(cuda[0]) == 1
    assert memory_snapshot._recording is None
    assert len(list(tmp_path.iterdir())) == 1


def test_a_disk_that_is_full_is_a_problem_not_an_error(cuda, tmp_path):
    channel = SnapshotChannel(lambda: tmp_path / "missing")
    channel.start()
    cuda[0][0](0, 1, 1, 0)
    channel.stop()
    assert [problem.split(":")[0] for problem in channel.problems] == [
        "memory_oom_1.pickle could not be written",
        "memory_end.pickle could not be written",
    ]
    assert cuda[-1] == (None, {}), "the history ends all the same"


def test_a_torch_without_the_functions_is_one_problem(cuda, tmp_path, monkeypatch):
    def fail(*args, **kwargs):
        raise RuntimeError("no history in this build")

    monkeypatch.setattr(torch.cuda.memory, "_record_memory_history", fail)
    channel = SnapshotChannel(lambda: tmp_path)
    channel.start()
    channel.stop()
    assert channel.problems == ["no snapshots: no history in this build"]


@pytest.mark.skipif(torch.cuda.is_available(), reason="CUDA is here")
def test_without_cuda_one_problem_and_nothing_else(tmp_path):
    channel = SnapshotChannel(lambda: tmp_path)
    channel.start()
    assert channel.stop() is None
    assert channel.problems == ["no snapshots: CUDA is not available"]
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_on_a_device(tmp_path):
    channel = SnapshotChannel(lambda: tmp_path)
    channel.start()
    kept = torch.ones(1 << 20, device="cuda")
    with pytest.raises(torch.cuda.OutOfMemoryError):
        torch.empty(1 << 50, dtype=torch.uint8, device="cuda")
    channel.stop()
    assert channel.problems == []
    assert [path.name for path in channel.files] == ["memory_oom_1.pickle", "memory_end.pickle"]
    history = pickle.loads(channel.files[0].read_bytes())["device_traces"]
    assert {"alloc", "oom"} <= {entry["action"] for trace in history for entry in trace}
    del kept
