"""``profsuite.profile`` as users call it."""

import asyncio
import gc
import json
import os
import sys
import threading
import time
import warnings

import pytest

import profsuite
from profsuite.collector.config import ProfsuiteWarning
from profsuite.collector.output import job_name
from profsuite.collector.window import BusyError
from profsuite.errors import ProfsuiteError

torch = pytest.importorskip("torch", reason="torch is not installed")

DEEP = {"engine": "kineto", "channels": ()}


@pytest.fixture(scope="module")
def model():
    net = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
    optimizer = torch.optim.AdamW(net.parameters())

    def train():
        net(torch.ones(4, 8)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()

    train()
    return train


def names(trace):
    words = trace.words("slice", "name")
    return [words[code] for code in trace.array("slice", "name")]


def step_numbers(trace):
    return trace.steps.column("number").to_pylist()


def test_a_schedule(tmp_path, model):
    plan = profsuite.schedule(wait=1, warmup=1, active=2, repeat=2)
    with profsuite.profile(tmp_path / "run", schedule=plan, **DEEP) as prof:
        for _ in range(10):
            model()
            prof.step()
    assert step_numbers(prof.trace) == [2, 3, 6, 7]
    assert names(prof.trace).count("Optimizer.step#AdamW.step") == 4
    assert prof.folder == tmp_path / "run" / "rank_0"
    assert step_numbers(profsuite.load(prof.folder)) == [2, 3, 6, 7]
    assert profsuite.load(tmp_path / "run").num_rows("slice") == prof.trace.num_rows("slice")
    stepless = [
        name for name, step in zip(names(prof.trace), prof.trace.array("slice", "step_id"), strict=True) if step < 0
    ]
    assert not [name for name in stepless if not name.startswith("PyTorch Profiler")]
    assert prof.trace.info.rank == 0
    assert prof.trace.info.reader == "collector"


def test_steps_as_text(tmp_path, model):
    with profsuite.profile(tmp_path / "run", schedule="3:5", **DEEP) as prof:
        for _ in range(8):
            model()
            prof.step()
    assert step_numbers(prof.trace) == [3, 4]


@pytest.mark.parametrize("engine", ["auto", "kineto"])
def test_without_a_schedule_everything(tmp_path, model, engine):
    with profsuite.profile(tmp_path / "run", engine=engine, channels=()) as prof:
        for _ in range(3):
            model()
            prof.step()
    assert step_numbers(prof.trace) == [0, 1, 2]
    assert names(prof.trace).count("Optimizer.step#AdamW.step") == 3
    assert not [note for note in prof.notes if "step()" in note]


def test_without_step_it_says_what_it_does_not_know(tmp_path, model):
    with profsuite.profile(tmp_path / "run", **DEEP) as prof:
        model()
    assert prof.trace.num_rows("step") == 0
    assert "aten::addmm" in names(prof.trace)
    said = [row["message"] for row in prof.trace.health.to_pylist() if row["kind"] == "recording"]
    assert any("Step() was never called: times per step are unknown" in text for text in said)


def test_a_schedule_that_never_got_there(tmp_path, model):
    with profsuite.profile(tmp_path / "run", schedule="100:110", **DEEP) as prof:
        model()
        prof.step()
    assert prof.trace.num_rows("slice") == 0
    assert any("nothing was recorded" in note for note in prof.notes)
    with profsuite.profile(tmp_path / "run", schedule="100:110", **DEEP) as prof:
        model()
    assert any("step() was never called" in note for note in prof.notes)


def test_memory_stacks_and_shapes(tmp_path, model):
    with profsuite.profile(tmp_path / "run", memory=True, stacks=True, **DEEP) as prof:
        model()
        prof.step()
    trace = prof.trace
    assert trace.num_rows("memory_event") > 10
    assert trace.array("memory_event", "address").all()
    assert any(name.startswith("nn.Module: Linear_") for name in names(trace))
    assert "[[4, 8], [8, 8], [8]]" in trace.words("op", "input_dims")
    kinds = trace.health.column("kind").to_pylist()
    assert "no_shapes" not in kinds
    assert "no_stacks" not in kinds


def test_decorator(tmp_path, model):
    @profsuite.profile(tmp_path / "run", **DEEP)
    def job(times):
        """Doc."""
        for _ in range(times):
            model()
        return times

    assert job(2) == 2
    assert job(1) == 1
    assert job.__name__ == "job"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["run", "run-2"]


def test_decorated_coroutines_and_generators_are_recorded_while_they_run(tmp_path):
    @profsuite.profile(tmp_path / "coroutine", engine="kineto", channels=())
    async def coroutine():
        return torch.ones(2).add(1)

    @profsuite.profile(tmp_path / "generator", engine="kineto", channels=())
    def generator():
        yield torch.ones(2).add(1)
        return 3

    def outer():
        assert (yield from generator()) == 3

    assert asyncio.run(coroutine()).tolist() == [2, 2]
    assert len(list(outer())) == 1
    for name in ("coroutine", "generator"):
        trace = profsuite.load(tmp_path / name)
        assert "aten::add" in trace.words("slice", "name")


def test_a_window_ended_on_another_thread_is_told(tmp_path):
    prof = profsuite.profile(tmp_path / "run", engine="kineto", channels=())

    started, stopped = threading.Event(), threading.Event()

    def work():
        prof.start()
        session = prof._window._session
        torch.ones(2).add(1)
        started.set()
        stopped.wait(30)
        session.__exit__(None, None, None)  # what only this thread can

    thread = threading.Thread(target=work)
    thread.start()
    assert started.wait(30)
    prof.stop()
    stopped.set()
    thread.join()
    assert any("ended on another thread" in note for note in prof.notes), prof.notes
    assert prof.facts()["recorded_ns"] == []


def test_ranks_that_nobody_told_of_each_other_agree_on_a_job(monkeypatch):
    for name in ("WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)
    dist = torch.distributed
    assert job_name() != job_name()
    store = dist.HashStore()
    monkeypatch.setattr(dist, "is_initialized", lambda: True)
    monkeypatch.setattr(dist, "get_world_size", lambda: 2)
    monkeypatch.setattr(dist.distributed_c10d, "_get_default_store", lambda: store)
    assert job_name() == job_name()
    monkeypatch.setattr(dist.distributed_c10d, "_get_default_store", lambda: None)
    assert job_name() != job_name()


def test_export(tmp_path, model):
    prof = profsuite.profile(tmp_path / "run", **DEEP)
    with pytest.raises(ProfsuiteError, match=r"^export: .* once the recording has stopped$"):
        prof.export(tmp_path / "early.json")
    with prof:
        for _ in range(3):
            model()
            prof.step()
        with pytest.raises(ProfsuiteError, match="once the recording has stopped"):
            prof.export(tmp_path / "early.json")
    assert not (tmp_path / "early.json").exists()
    assert prof.export(tmp_path / "all.json.gz") == tmp_path / "all.json.gz"
    back = profsuite.load(tmp_path / "all.json.gz")
    for table in ("slice", "op", "step"):
        assert back.num_rows(table) == prof.trace.num_rows(table) > 0
    prof.export(tmp_path / "some", "chrome", steps=(1, 2))
    assert step_numbers(profsuite.load(tmp_path / "some")) == [1]
    with pytest.raises(ProfsuiteError, match=r"^there is no format 'excel'; there are parquet, .*"):
        prof.export(tmp_path / "x", "excel")
    with pytest.raises(ProfsuiteError, match=r"x\.txt: its ending names no format"):
        prof.export(tmp_path / "x.txt")
    with pytest.raises(profsuite.SelectionError):
        prof.export(tmp_path / "x.json", steps=(7, 8))
    with pytest.raises(TypeError, match="step"):
        prof.export(tmp_path / "x.json", step=(1, 2))


def test_start_and_stop(tmp_path, model):
    prof = profsuite.profile(tmp_path / "run", **DEEP)
    assert "not started" in repr(prof)
    with pytest.raises(ProfsuiteError, match="once the recording has stopped"):
        _ = prof.trace
    prof.step()
    prof.stop()
    prof.start()
    assert "recording" in repr(prof)
    model()
    prof.step()
    prof.stop()
    prof.stop()
    assert "stopped" in repr(prof)
    assert step_numbers(prof.trace) == [0]
    with pytest.raises(ProfsuiteError, match="started before"):
        prof.start()


def test_report_and_notebook(tmp_path, model):
    prof = profsuite.profile(tmp_path / "run", **DEEP)
    assert "not started" in prof._repr_html_()
    with prof:
        for _ in range(3):
            model()
            prof.step()
        assert "recording" in prof._repr_html_()
    report = prof.report(top=3)
    assert len(report.ops.rows if hasattr(report.ops, "rows") else report.ops.by_name) <= 3 or report.verdict
    assert report.verdict
    assert "<iframe" in prof._repr_html_()


def test_a_new_run_never_overwrites(tmp_path, model):
    for _ in range(3):
        with profsuite.profile(tmp_path / "run", **DEEP):
            model()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["run", "run-2", "run-3"]


def test_an_older_folder_without_a_name_is_left_alone(tmp_path, model):
    old = tmp_path / "run" / "rank_0"
    old.mkdir(parents=True)
    (old / "mine").write_text("x")
    with profsuite.profile(tmp_path / "run", **DEEP) as prof:
        model()
    assert prof.folder.parent.name == "run-2"
    assert (old / "mine").read_text() == "x"


def test_ranks_of_one_job_share_a_folder(tmp_path, model, monkeypatch):
    for key, value in {"WORLD_SIZE": "2", "MASTER_ADDR": "localhost", "MASTER_PORT": "29500"}.items():
        monkeypatch.setenv(key, value)
    for rank in (1, 0):
        monkeypatch.setenv("RANK", str(rank))
        with profsuite.profile(tmp_path / "run", **DEEP) as prof:
            model()
        assert prof.folder == tmp_path / "run" / f"rank_{rank}"
        assert prof.trace.info.rank == rank
    assert [file.rank for file in profsuite.find_ranks(tmp_path / "run")] == [0, 1]
    monkeypatch.setenv("MASTER_PORT", "29501")
    with profsuite.profile(tmp_path / "run", **DEEP) as prof:
        model()
    assert prof.folder == tmp_path / "run-2" / "rank_0"


def test_two_at_once_are_refused(tmp_path, model):
    with profsuite.profile(tmp_path / "run", **DEEP) as prof:
        with pytest.raises(BusyError, match=r"profsuite\.profile is recording already"):
            profsuite.profile(tmp_path / "other", **DEEP).start()
        model()
        prof.step()
    assert step_numbers(prof.trace) == [0]
    assert not (tmp_path / "other").exists()


def test_inside_torchs_profiler_it_is_refused(tmp_path, model):
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU]) as theirs:
        with pytest.raises(BusyError, match=r"torch\.profiler is recording already"):
            profsuite.profile(tmp_path / "run", **DEEP).start()
        model()
    assert len(theirs.events()) > 10
    with torch.autograd.profiler.emit_itt(), pytest.raises(BusyError, match="emit_itt"):
        profsuite.profile(tmp_path / "run", **DEEP).start()
    with profsuite.profile(tmp_path / "run", **DEEP) as prof:
        model()
    assert prof.trace.num_rows("slice") > 10


def test_a_profiler_of_another_thread_is_seen(tmp_path):
    from torch.profiler import ProfilerActivity, profile

    begun, end = threading.Event(), threading.Event()

    def other():
        with profile(activities=[ProfilerActivity.CPU]):
            begun.set()
            end.wait(30)

    thread = threading.Thread(target=other)
    thread.start()
    try:
        assert begun.wait(30)
        with pytest.raises(BusyError, match="on another thread"):
            profsuite.profile(tmp_path / "run", **DEEP).start()
    finally:
        end.set()
        thread.join()


def test_torchs_profiler_inside_a_window_is_told(tmp_path, model):
    from torch.profiler import ProfilerActivity, profile

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with profsuite.profile(tmp_path / "run", **DEEP) as prof:
            model()
            try:
                with profile(activities=[ProfilerActivity.CPU]):
                    model()
            except RuntimeError:
                pass
            model()
            prof.step()
    kinds = prof.trace.health.column("kind").to_pylist()
    assert "profiler_conflict" in kinds


def test_settings_that_are_ignored_warn(tmp_path):
    with pytest.warns(ProfsuiteWarning, match="memory=True is ignored"):
        prof = profsuite.profile(tmp_path / "run", memory=True, all_threads=True, **DEEP)
    assert any("memory=True" in note for note in prof.notes)
    with pytest.raises(ValueError, match="engine must be"):
        profsuite.profile(tmp_path / "run", engine="x")


def test_all_threads(tmp_path, model):
    for all_threads in (False, True):
        with profsuite.profile(tmp_path / "run", all_threads=all_threads, **DEEP) as prof:
            thread = threading.Thread(target=model)
            thread.start()
            thread.join()
        seen = "aten::addmm" in names(prof.trace)
        assert seen == all_threads


def test_what_the_folder_says_of_the_recording(tmp_path, model, monkeypatch):
    monkeypatch.setenv("NCCL_DEBUG", "WARN")
    monkeypatch.setenv("TORCH_SECRET_TOKEN", "abc")
    with profsuite.profile(tmp_path / "run", schedule="1:3", **DEEP) as prof:
        for _ in range(4):
            model()
            prof.step()
    facts = json.loads((prof.folder / "recording.json").read_text())
    assert facts["settings"]["shapes"] is True
    assert facts["windows"] == 1
    assert facts["steps"] == 4
    assert facts["engine"] == "kineto"
    assert facts["overhead"]["stop"]["total_ns"] > 0
    assert facts["overhead"]["columns"]["count"] == 1
    assert 0 <= facts["overhead"]["engine_ns_per_event"] < 100_000
    assert facts["origin"]["packages"]["torch"]
    assert facts["origin"]["environment"]["NCCL_DEBUG"] == "WARN"
    assert facts["origin"]["environment"]["TORCH_SECRET_TOKEN"] == "(left out)"
    assert "abc" not in json.dumps(facts["origin"]["environment"])
    assert profsuite.load(prof.folder).metadata("profsuite")["windows"] == 1
    assert facts["origin"]["pid"] == os.getpid()


@pytest.mark.parametrize("engine", ["kineto", "recorder"])
def test_the_folder_says_when_was_recorded(tmp_path, model, engine):
    plan = profsuite.schedule(wait=1, active=2, repeat=2)
    before = time.time_ns()
    with profsuite.profile(tmp_path / "run", schedule=plan, engine=engine, channels=()) as prof:
        for _ in range(8):
            model()
            prof.step()
    windows = json.loads((prof.folder / "recording.json").read_text())["recorded_ns"]
    start, end = prof.trace.array("step", "ts"), prof.trace.array("step", "ts") + prof.trace.array("step", "dur")
    assert step_numbers(prof.trace) == [1, 2, 4, 5]
    bounds = [before, *(edge for window in windows for edge in window), time.time_ns()]
    assert bounds == sorted(bounds)
    for (first, last), steps in zip(windows, ((0, 1), (2, 3)), strict=True):
        assert first <= start[steps[0]]
        assert end[steps[1]] <= last
    # Nothing that an op did lies outside.
    assert all(any(first <= ts <= last for first, last in windows) for ts in start)


def test_waits_between_the_windows_count_nowhere(tmp_path, model):
    loader = torch.utils.data.DataLoader(torch.zeros(9, 8))
    with profsuite.profile(tmp_path / "run", schedule="3:6", engine="kineto", channels=("dataloader", "gc")) as prof:
        for _ in loader:
            gc.collect()
            model()
            prof.step()
    waits = [name for name in names(prof.trace) if name.startswith("enumerate(DataLoader)#")]
    assert len(waits) > 3
    assert names(prof.trace).count("Python GC (generation 2)") >= 9
    (window,) = json.loads((prof.folder / "recording.json").read_text())["recorded_ns"]
    report = prof.report()
    assert 0 < report.host.window_ns <= window[1] - window[0]
    main = report.host.threads[0]
    assert main.thread == ("main thread" if sys.platform == "linux" else main.thread)
    # By the marks themselves: those of the three steps, and no others.
    trace = prof.trace
    inside = {"enumerate": 0, "Python GC": 0}
    for name, ts, dur in zip(names(trace), trace.array("slice", "ts"), trace.array("slice", "dur"), strict=True):
        for kind in inside:
            if name.startswith(kind) and window[0] <= ts and ts + dur <= window[1]:
                inside[kind] += int(dur)
    assert main.shares.gc_ns == inside["Python GC"]
    assert 0 < main.shares.input_ns <= inside["enumerate"]
    assert report.whatif.length_ns <= window[1] - window[0]


def test_a_device_that_is_not_there_is_news_to_who_asked_for_it(tmp_path, model, monkeypatch):
    from profsuite.collector.channels import nvml

    def absent(channel):
        channel.absent = True
        raise RuntimeError("no NVIDIA driver answers")

    monkeypatch.setattr(nvml.NvmlChannel, "open", absent)
    note = "nvml: nothing is sampled: no NVIDIA driver answers"
    for channels, said in ((None, False), (("nvml",), True)):
        with profsuite.profile(tmp_path / "run", engine="kineto", channels=channels) as prof:
            model()
            prof.step()
        assert (note in prof.notes) is said
        assert any("NVIDIA" in text for text in prof.trace.health.column("message").to_pylist()) is said
        assert note in json.loads((prof.folder / "recording.json").read_text())["notes"]


def test_max_events_ends_the_recording(tmp_path, model):
    plan = profsuite.schedule(active=1)
    with profsuite.profile(tmp_path / "run", schedule=plan, max_events=100, **DEEP) as prof:
        for _ in range(200):
            model()
            prof.step()
    assert any("max_events" in note for note in prof.notes)
    assert prof.trace.num_rows("step") < 200


def test_kineto_json_beside_the_tables(tmp_path, model):
    with profsuite.profile(tmp_path / "run", json=True, schedule="0:1", **DEEP) as prof:
        model()
        prof.step()
    files = sorted(prof.folder.glob("*.json.gz")) + sorted(prof.folder.glob("window_*.json"))
    assert len(files) == 1
    theirs = profsuite.load(files[0])
    assert theirs.num_rows("op") == prof.trace.num_rows("op")
