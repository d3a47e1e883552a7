"""What happens when things go wrong: each test does the thing."""

import gc
import json
import multiprocessing
import os
import resource
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
import time
import warnings
from pathlib import Path

import pytest

import profsuite
from profsuite.collector.config import ProfsuiteWarning
from profsuite.collector.output import Writer
from profsuite.collector.tensors import TensorRoles

torch = pytest.importorskip("torch", reason="torch is not installed")

DEEP = {"engine": "kineto", "channels": ()}


def train():
    net = torch.nn.Linear(8, 8)
    net(torch.ones(4, 8)).sum().backward()


def script(folder, body, *, lines=0):
    """Start a script that trains for ever, wait until it has said ``lines`` lines."""
    text = "import os, signal, sys, time, torch, profsuite\nnet = torch.nn.Linear(8, 8)\n"
    text += "def train():\n    net(torch.ones(4, 8)).sum().backward()\n" + textwrap.dedent(body)
    (folder / "job.py").write_text(text)
    job = subprocess.Popen(
        [sys.executable, "job.py"], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    for _ in range(lines):
        assert job.stdout.readline(), job.communicate()
    return job


def finish(job, timeout=60):
    try:
        out, errors = job.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        job.kill()
        raise
    return job.returncode, out, errors


def steps_of(path):
    return profsuite.load(path).steps.column("number").to_pylist()


# ---------------------------------------------------------------- exceptions
class Mine(Exception):
    pass


@pytest.mark.parametrize("error", [Mine("x"), KeyboardInterrupt(), SystemExit(3)])
def test_an_exception_passes_unchanged_and_the_trace_is_kept(tmp_path, error):
    with pytest.raises(type(error)) as caught, profsuite.profile(tmp_path / "run", **DEEP) as prof:  # noqa: PT012
        for i in range(5):
            train()
            if i == 3:
                raise error
            prof.step()
    assert caught.value is error
    assert error.__cause__ is None
    assert error.__context__ is None
    assert steps_of(tmp_path / "run") == [0, 1, 2]
    assert any(f"ended by {type(error).__name__}" in note for note in prof.notes)


def test_an_exception_inside_a_scheduled_step(tmp_path):
    with pytest.raises(Mine), profsuite.profile(tmp_path / "run", schedule="1:4", **DEEP) as prof:  # noqa: PT012
        for i in range(5):
            train()
            if i == 2:
                raise Mine
            prof.step()
    assert steps_of(tmp_path / "run") == [1, 2]
    with profsuite.profile(tmp_path / "next", **DEEP):
        train()
    assert profsuite.load(tmp_path / "next").num_rows("slice") > 5


def test_a_fault_of_ours_ends_the_recording_not_the_training(tmp_path, monkeypatch):
    from profsuite.collector.window import Window

    def broken(self):
        raise RuntimeError("no")

    done = 0
    with profsuite.profile(tmp_path / "run", schedule=profsuite.schedule(wait=1, active=1), **DEEP) as prof:
        monkeypatch.setattr(Window, "start", broken)
        for i in range(4):
            train()
            if i == 0:
                with pytest.warns(ProfsuiteWarning, match="recording ends: no; training goes on"):
                    prof.step()
            else:
                prof.step()
            done += 1
    assert done == 4
    assert any("recording ended in step 1: no" in note for note in prof.notes)


# ---------------------------------------------------------------- signals
ENDLESS = """
with profsuite.profile("run", engine="kineto", channels=()) as prof:
    for i in range(10**9):
        train()
        prof.step()
        if i == 10: print("ready", flush=True)
"""


def test_sigterm_flushes_and_ends_by_the_signal(tmp_path):
    job = script(tmp_path, ENDLESS, lines=1)
    job.terminate()
    code, _, _ = finish(job)
    assert code == -signal.SIGTERM
    assert len(steps_of(tmp_path / "run")) > 10


def test_sigint_flushes_and_is_a_keyboard_interrupt(tmp_path):
    job = script(tmp_path, ENDLESS, lines=1)
    job.send_signal(signal.SIGINT)
    code, _, errors = finish(job)
    assert code in (1, -signal.SIGINT)
    assert "KeyboardInterrupt" in errors
    assert len(steps_of(tmp_path / "run")) > 10


@pytest.mark.parametrize(("count", "written"), [(1, True), (2, True), (3, False)])
def test_a_signal_while_it_is_written_waits_until_it_is(tmp_path, monkeypatch, count, written):
    # Ctrl-C under a launcher: the terminal's signal, and then the launcher's.
    write = Writer._write

    def interrupted(writer):
        for _ in range(count):
            signal.raise_signal(signal.SIGINT)
        write(writer)

    prof = profsuite.profile(tmp_path / "run", **DEEP)
    prof.start()
    train()
    prof.step()
    # The end writes on this thread; the other must not write before.
    monkeypatch.setattr(Writer, "_due", lambda writer: False)
    monkeypatch.setattr(Writer, "_write", interrupted)
    with pytest.raises(KeyboardInterrupt):
        prof.stop()
    assert (tmp_path / "run" / "rank_0").exists() is written
    assert not prof._recording
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_signal_while_tensors_are_looked_at(tmp_path, monkeypatch):
    note_step = TensorRoles._note_step
    ended = []

    def interrupted(roles, optimizer):
        note_step(roles, optimizer)
        prof.stop()  # as a signal's handler would, on this thread

    def work():
        net = torch.nn.Linear(4, 4)
        with prof:
            net(torch.ones(4, 4)).sum().backward()
            torch.optim.SGD(net.parameters()).step()
        ended.append(prof.folder)

    monkeypatch.setattr(TensorRoles, "_note_step", interrupted)
    prof = profsuite.profile(tmp_path / "run", memory=True, **DEEP)
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(timeout=30)
    assert ended == [tmp_path / "run" / "rank_0"]


@pytest.mark.parametrize("settings", [{}, {"stacks": True}, {"engine": "recorder"}])
def test_an_end_that_can_start_no_thread(tmp_path, monkeypatch, settings):
    # In exit handlers Python 3.12 starts none.
    def refuse(*args, **kwargs):
        raise RuntimeError("can't create new thread at interpreter shutdown")

    with profsuite.profile(tmp_path / "run", **DEEP | settings) as prof:
        for _ in range(3):
            train()
            prof.step()
        monkeypatch.setattr(threading.Thread, "start", refuse)
        monkeypatch.setattr("_thread.start_new_thread", refuse)
    assert prof.notes == []
    assert steps_of(tmp_path / "run") == [0, 1, 2]


def test_handlers_of_before_are_called_and_put_back(tmp_path):
    seen = []

    def before(number, frame):
        seen.append((number, prof._recording))

    old = signal.signal(signal.SIGTERM, before)
    try:
        with profsuite.profile(tmp_path / "run", **DEEP) as prof:
            train()
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(0.01)
            assert seen == [(signal.SIGTERM, False)]
            assert steps_of(tmp_path / "run") == []
            prof.step()
        assert signal.getsignal(signal.SIGTERM) is before
        other = signal.default_int_handler
        assert signal.getsignal(signal.SIGINT) is other
        with profsuite.profile(tmp_path / "run", **DEEP):
            signal.signal(signal.SIGTERM, signal.SIG_IGN)  # the user's own, while we record: it stays
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGTERM, old)


def test_the_end_of_the_interpreter_flushes(tmp_path):
    job = script(
        tmp_path,
        """
        prof = profsuite.profile("run", engine="kineto", channels=())
        prof.start()
        for _ in range(3): train(); prof.step()
        """,
    )
    code, _, errors = finish(job)
    assert code == 0, errors
    assert steps_of(tmp_path / "run") == [0, 1, 2]


def test_kill_9_loses_only_the_open_window(tmp_path):
    job = script(
        tmp_path,
        """
        plan = profsuite.schedule(wait=1, active=2, repeat=3)
        with profsuite.profile("run", schedule=plan, engine="kineto", channels=()) as prof:
            for i in range(10**9):
                train()
                prof.step()
                if i == 7:
                    while prof._writer._written_rows < 0 or prof._writer._queue.qsize(): time.sleep(0.01)
                    time.sleep(0.5)
                    print("ready", flush=True)
                    time.sleep(60)
        """,
        lines=1,
    )
    job.kill()
    finish(job)
    assert steps_of(tmp_path / "run") == [1, 2, 4, 5]
    assert [path.name for path in (tmp_path / "run").iterdir() if not path.name.startswith(".")] in (
        ["rank_0", "run.json"],
        ["run.json", "rank_0"],
    )
    # The next run goes elsewhere and is whole.
    with profsuite.profile(tmp_path / "run", **DEEP) as prof:
        train()
    assert prof.folder.parent.name == "run-2"


# ---------------------------------------------------------------- disks
def once(record):
    """The warnings of ours that a call gives."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        record()
    return [str(w.message) for w in seen if issubclass(w.category, ProfsuiteWarning)]


def test_an_unwritable_path_warns_once(tmp_path):
    (tmp_path / "file").write_text("")
    done = []

    def record():
        plan = profsuite.schedule(active=1)
        with profsuite.profile(tmp_path / "file" / "run", schedule=plan, **DEEP) as prof:
            for _ in range(3):
                train()
                prof.step()
                time.sleep(0.05)
                done.append(1)
        # What was recorded is still at hand.
        assert prof.trace.num_rows("step") >= 3
        assert prof.folder is None

    said = once(record)
    assert len(said) == 1, said
    assert "training goes on" in said[0]
    assert len(done) == 3


def test_a_full_disk_warns_once_and_training_goes_on(tmp_path):
    """A small tmpfs where one may be mounted, else a limit on the size of files: both fail while writing."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = os.geteuid() == 0 and not subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(disk)], capture_output=True, check=False
    ).returncode  # fmt: skip
    try:
        job = script(
            tmp_path,
            f"""
            import resource, warnings
            if not {bool(mounted)}: resource.setrlimit(resource.RLIMIT_FSIZE, (8192, resource.RLIM_INFINITY))
            warnings.simplefilter("always")
            plan = profsuite.schedule(active=100)
            with profsuite.profile("disk/run", schedule=plan, engine="kineto", channels=()) as prof:
                for _ in range(500): train(); prof.step()
            print("trained", prof.trace.num_rows("step"), prof._writer.failed is not None)
            """,
        )
        code, out, errors = finish(job)
        assert code == 0, errors
        assert out.split()[0] == "trained"
        assert int(out.split()[1]) >= 500
        assert out.split()[2] == "True"
        assert errors.count("training goes on") == 1, errors
        # Nothing half-written looks like a trace.
        left = [path for path in disk.rglob("trace.json") if not any(part.startswith(".") for part in path.parts)]
        for path in left:
            profsuite.load(path.parent)
    finally:
        if mounted:
            subprocess.run(["umount", str(disk)], check=True)
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] != 8192


def test_the_folder_disappears_meanwhile(tmp_path):
    def record():
        plan = profsuite.schedule(active=1)
        with profsuite.profile(tmp_path / "run", schedule=plan, **DEEP) as prof:
            for _ in range(2):
                train()
                prof.step()
            while prof._writer._written_rows < 0:
                time.sleep(0.01)
            shutil.rmtree(tmp_path / "run", ignore_errors=True)
            train()
            prof.step()

    assert len(once(record)) <= 1


# ---------------------------------------------------------------- processes
def test_a_forked_child_does_not_hang_or_write(tmp_path):
    with profsuite.profile(tmp_path / "run", **DEEP) as prof:
        train()
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                train()
                prof.step()
                prof.stop()
                code = 0
            finally:
                os._exit(code)
        deadline = time.time() + 30
        while (done := os.waitpid(pid, os.WNOHANG))[0] == 0 and time.time() < deadline:
            time.sleep(0.01)
        if done[0] == 0:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        assert done == (pid, 0)
        prof.step()
    assert steps_of(tmp_path / "run") == [0]
    assert [p.name for p in tmp_path.iterdir()] == ["run"]


def test_a_forked_child_ends_by_its_signal(tmp_path):
    with profsuite.profile(tmp_path / "run", **DEEP):
        pid = os.fork()
        if pid == 0:
            time.sleep(30)
            os._exit(0)
        time.sleep(0.1)
        os.kill(pid, signal.SIGTERM)
        _, status = os.waitpid(pid, 0)
        assert os.WTERMSIG(status) == signal.SIGTERM
        train()
    assert profsuite.load(tmp_path / "run").num_rows("slice") > 5


def _child(queue):
    train()
    queue.put(os.getpid())


def test_a_spawned_child(tmp_path):
    context = multiprocessing.get_context("spawn")
    with profsuite.profile(tmp_path / "run", **DEEP):
        queue = context.Queue()
        child = context.Process(target=_child, args=(queue,))
        child.start()
        assert queue.get(timeout=60) == child.pid
        child.join(30)
        train()
    assert child.exitcode == 0
    assert [p.name for p in tmp_path.iterdir()] == ["run"]


class Numbers(torch.utils.data.Dataset):
    def __len__(self):
        return 32

    def __getitem__(self, i):
        return torch.full((8,), float(i)) + 1


@pytest.mark.parametrize("context", ["fork", "spawn"])
def test_dataloader_workers(tmp_path, context):
    loader = torch.utils.data.DataLoader(Numbers(), batch_size=8, num_workers=2, multiprocessing_context=context)
    with profsuite.profile(tmp_path / "run", **DEEP) as prof:
        for batch in loader:
            assert batch.shape == (8, 8)
            train()
            prof.step()
    assert steps_of(tmp_path / "run") == [0, 1, 2, 3]
    assert [p.name for p in tmp_path.iterdir()] == ["run"]


# ---------------------------------------------------------------- nothing is left behind
def census():
    gc.collect()
    return {
        "threads": sorted(t.name for t in threading.enumerate()),
        "files": len(list(Path("/proc/self/fd").iterdir())) if Path("/proc/self/fd").is_dir() else 0,
        "signals": [signal.getsignal(n) for n in (signal.SIGTERM, signal.SIGINT)],
        "gc": len(gc.callbacks),
        "recording": torch.autograd._profiler_enabled(),
    }


def rss():
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def test_kineto_cycles_leave_nothing(tmp_path):
    def cycle(i):
        with profsuite.profile(tmp_path / "run", **DEEP) as prof:
            train()
            prof.step()
        shutil.rmtree(tmp_path / "run")

    for i in range(5):
        cycle(i)
    before, held = census(), rss()
    for i in range(30):
        cycle(i)
    assert census() == before
    assert rss() - held < 30e6
    assert list(tmp_path.iterdir()) == []


def test_a_thousand_recorder_cycles_leave_nothing():
    from profsuite.collector.recorder import Recorder

    recorder = Recorder.load(wait=False)
    if recorder is None:
        pytest.skip("the recorder's extension is not built")

    def cycle():
        recorder.start(shapes=True)
        torch.ones(2) + 1
        return recorder.stop()

    for _ in range(50):
        cycle()
    before, held = census(), rss()
    for _ in range(1000):
        raw = cycle()
    assert len(raw.groups["slice"]["ts"]) >= 2
    assert census() == before
    assert rss() - held < 20e6


def test_the_recorder_under_profile(tmp_path):
    from profsuite.collector.recorder import Recorder

    if Recorder.load(wait=False) is None:
        pytest.skip("the recorder's extension is not built")
    plan = profsuite.schedule(wait=1, active=1)
    with profsuite.profile(tmp_path / "run", schedule=plan, engine="recorder", channels=()) as prof:
        for _ in range(200):
            train()
            prof.step()
    assert len(steps_of(tmp_path / "run")) == 100
    facts = json.loads((prof.folder / "recording.json").read_text())
    assert (facts["engine"], facts["windows"]) == ("recorder", 100)


def test_dynamo_reset_and_compiled_code(tmp_path):
    import torch._dynamo

    calls = []

    def backend(graph, inputs):
        calls.append(len(list(graph.graph.nodes)))
        return graph.forward

    def f(x):
        return (x + 1).relu().sum()

    def graphs(record):
        torch._dynamo.reset()
        calls.clear()
        compiled = torch.compile(f, backend=backend)
        with record as prof:
            for _ in range(3):
                compiled(torch.ones(4))
                torch._dynamo.reset()
                compiled(torch.ones(4))
                if prof is not None:
                    prof.step()
        return list(calls)

    from contextlib import nullcontext

    without = graphs(nullcontext())
    assert graphs(profsuite.profile(tmp_path / "run", **DEEP)) == without
    assert steps_of(tmp_path / "run") == [0, 1, 2]
