"""The engine with the real recorder beside it: launches find the op that made them."""

from __future__ import annotations

import ctypes
import warnings
from types import SimpleNamespace

import pytest

from profsuite.collector import build
from profsuite.collector import cupti as package
from profsuite.collector.config import Config
from profsuite.collector.cupti.library import CuptiError
from profsuite.collector.cupti.session import Session
from profsuite.collector.recorder import Recorder, RecorderError
from profsuite.trace.assemble import assemble


@pytest.fixture(scope="module")
def extension():
    pytest.importorskip("torch", reason="torch is not installed")
    try:
        return build.build_now("recorder")
    except build.BuildError as error:
        pytest.skip(str(error))


def record(session, torch):
    x = torch.ones(4, 4)
    torch.ops.profsuite_cupti_test.launch(x)
    session.start()
    for _ in range(20):
        torch.ops.profsuite_cupti_test.launch(x)
    return session.stop()


def test_kernels_find_the_op_that_launched_them(extension, sim, make_engine):
    import torch

    sim.set(clock_offset=-1_234_567_890, clock_drift_ppm=200)

    def now():
        reading = ctypes.c_uint64()
        sim.lib.cuptiGetTimestamp(ctypes.byref(reading))
        return reading.value

    number = iter(range(1, 1000))

    def launch(x):
        begin, correlation = now(), next(number)
        y = x + 1
        sim.runtime(sim.LAUNCH_KERNEL, begin, now(), correlation)
        sim.kernel("kernel", now(), now() + 5000, correlation=correlation)
        return y

    with torch.library._scoped_library("profsuite_cupti_test", "FRAGMENT") as ops:
        ops.define("launch(Tensor x) -> Tensor")
        ops.impl("launch", launch, "CompositeExplicitAutograd")
        raw = record(Session(make_engine(), Recorder(extension, shapes=True)), torch)
    trace = assemble(raw, "session", "cupti")
    slices, kernel = trace.table("slice").to_pydict(), trace.table("kernel").to_pydict()
    assert [slices["name"][row] for row in kernel["op_id"]] == ["profsuite_cupti_test::launch"] * 20
    assert [slices["name"][row] for row in kernel["launch_id"]] == ["cudaLaunchKernel"] * 20
    host = {slices["track_id"][row] for row in (*kernel["op_id"], *kernel["launch_id"])}
    assert len(host) == 1
    assert not {"no_launch", "clock_outlier"} & set(trace.table("health").column("kind").to_pylist())


def test_both_start_or_neither(extension, sim, make_engine):
    busy = Recorder(extension)
    busy.start()
    engine = make_engine()
    session = Session(engine, Recorder(extension))
    try:
        with pytest.raises(RecorderError, match="runs already"):
            session.start()
        assert not engine.running
        assert not sim.subscribed()
    finally:
        busy.stop()
    sim.fail("cuptiSubscribe", 39)
    with pytest.raises(CuptiError, match="another CUPTI client"):
        session.start()
    assert not session.recorder.recording


def test_without_the_recorder(sim, make_engine):
    session = Session(make_engine())
    session.start()
    sim.kernel("k", 10, 20)
    sim.set(dropped=3)
    assert session.stop().num_events == 1
    assert len(session.problems) == 1


def test_what_the_profiler_loads(monkeypatch):
    made = []
    engine = SimpleNamespace(prepare=lambda: made.append("prepared"))
    monkeypatch.setattr("profsuite.collector.cupti.engine.CuptiEngine", lambda: engine)
    monkeypatch.setattr(Recorder, "load", lambda **settings: settings)
    session = package.load(Config(engine="cupti", shapes=False))
    assert made == ["prepared"]
    assert session.engine is engine
    assert session.recorder == {"shapes": False}


def test_profile_with_the_engine(extension, sim, make_engine, monkeypatch, tmp_path):
    import torch

    import profsuite

    monkeypatch.setattr(package, "load", lambda config: Session(make_engine(), Recorder(extension)))
    x = torch.ones(8, 8)
    schedule = profsuite.schedule(wait=1, warmup=1, active=2, repeat=2)
    with profsuite.profile(tmp_path / "run", engine="cupti", schedule=schedule, channels=()) as prof:
        for step in range(9):
            x @ x
            reading = ctypes.c_uint64()
            sim.lib.cuptiGetTimestamp(ctypes.byref(reading))
            sim.runtime(sim.LAUNCH_KERNEL, reading.value, reading.value + 1000, step + 1)
            sim.kernel("k", reading.value + 2000, reading.value + 9000, correlation=step + 1)
            prof.step()
    trace = prof.trace
    slices, kernel = trace.table("slice").to_pydict(), trace.table("kernel").to_pydict()
    assert sorted(slices["correlation_id"][row] for row in kernel["slice_id"]) == [3, 4, 7, 8]
    assert [slices["name"][row] for row in kernel["launch_id"]] == ["cudaLaunchKernel"] * 4
    assert slices["name"].count("aten::mm") == 4
    assert len({slices["step_id"][row] for row in kernel["slice_id"]} - {None}) == 4


def test_a_later_window_that_cupti_refuses_is_left_out(extension, sim, make_engine, monkeypatch, tmp_path):
    import torch

    import profsuite
    from profsuite.collector.config import ProfsuiteWarning

    monkeypatch.setattr(package, "load", lambda config: Session(make_engine(), Recorder(extension)))
    x = torch.ones(8, 8)
    schedule = profsuite.schedule(wait=1, active=2, repeat=4)
    said = []
    with profsuite.profile(tmp_path / "run", engine="cupti", schedule=schedule, channels=()) as prof:
        for step in range(12):
            x @ x
            reading = ctypes.c_uint64()
            sim.lib.cuptiGetTimestamp(ctypes.byref(reading))
            if sim.subscribed():
                sim.kernel("k", reading.value + 2000, reading.value + 9000, correlation=step + 1)
            # The second window and the third are refused: somebody else has CUPTI then.
            sim.fail("cuptiSubscribe", 39 if step in range(3, 9) else 0)
            with warnings.catch_warnings(record=True) as seen:
                warnings.simplefilter("always")
                prof.step()
            said += [(step, str(w.message)) for w in seen if issubclass(w.category, ProfsuiteWarning)]
    assert [step for step, _ in said] == [3]
    assert "windows are missing: " in said[0][1]
    assert "another CUPTI client" in said[0][1]
    assert said[0][1].endswith("training goes on")
    assert len([note for note in prof.notes if "windows are missing" in note]) == 1
    trace = prof.trace
    slices = trace.table("slice").to_pydict()
    rows = trace.table("kernel").column("slice_id").to_pylist()
    assert sorted(slices["correlation_id"][row] for row in rows) == [2, 3, 11, 12]
    assert trace.steps.column("number").to_pylist() == [1, 2, 10, 11]
    assert any("Windows are missing" in message for message in trace.health.column("message").to_pylist())


def test_a_first_window_that_cupti_refuses_is_an_error(extension, sim, make_engine, monkeypatch, tmp_path):
    import profsuite

    monkeypatch.setattr(package, "load", lambda config: Session(make_engine(), Recorder(extension)))
    sim.fail("cuptiSubscribe", 39)
    prof = profsuite.profile(tmp_path / "run", engine="cupti", channels=())
    with pytest.raises(CuptiError, match="another CUPTI client"):
        prof.start()
    sim.fail("cuptiSubscribe", 0)
    with profsuite.profile(tmp_path / "run", engine="cupti", channels=()):
        assert sim.subscribed()
