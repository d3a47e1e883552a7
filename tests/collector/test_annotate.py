"""Annotations: where they are seen, that they cost the compiler nothing, that they work without anything."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest

import profsuite
from profsuite.collector import annotate as module
from profsuite.collector import build

torch = pytest.importorskip("torch")


@pytest.fixture
def recorder() -> Iterator[Any]:
    from profsuite.collector.recorder import Recorder

    try:
        build.build_now("recorder")
    except build.BuildError as error:
        pytest.skip(str(error))
    found = Recorder.load(wait=True)
    assert found is not None
    yield found
    found.stop()


def names(raw: Any) -> list[str]:
    """Annotations in the order in which they began."""
    words, categories = raw.pools["name"].to_pylist(), raw.pools["category"].to_pylist()
    slices = raw.groups["slice"]
    return [
        words[name]
        for name, category in zip(slices["name"], slices["category"], strict=True)
        if categories[category] == "user_annotation"
    ]


def test_nothing_records() -> None:
    with profsuite.annotate("nothing") as found:
        assert found.name == "nothing"


def test_recorder_sees_them(recorder: Any) -> None:
    recorder.start()
    with profsuite.annotate("outer"):
        torch.ones(1)
        with profsuite.annotate("inner é"):
            pass
    raw = recorder.stop()
    assert names(raw) == ["outer", "inner é"]
    assert not raw.remarks
    assert raw.groups["slice"]["dur"][0] > raw.groups["slice"]["dur"][1]


def test_torch_profiler_sees_them_and_the_recorder_once(recorder: Any) -> None:
    recorder.start()
    activities = [torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(activities=activities) as profiler, profsuite.annotate("seen"):
        torch.ones(1)
    raw = recorder.stop()
    assert "seen" in {event.key for event in profiler.key_averages()}
    assert names(raw).count("seen") == 1


def test_decorator(recorder: Any) -> None:
    @profsuite.annotate("plain")
    def plain(x: int, *, y: int = 1) -> int:
        """Its own docstring."""
        return x + y

    @profsuite.annotate("generator")
    def generator() -> Iterator[int]:
        received = yield 1
        yield received

    @profsuite.annotate("coroutine")
    async def coroutine() -> str:
        await asyncio.sleep(0)
        return "done"

    recorder.start()
    assert plain(1, y=2) == 3
    steps = generator()
    assert next(steps) == 1
    assert steps.send(5) == 5
    assert list(steps) == []
    assert asyncio.run(coroutine()) == "done"
    raw = recorder.stop()
    assert names(raw) == ["plain", "generator", "coroutine"]
    assert not raw.remarks
    assert plain.__doc__ == "Its own docstring."
    assert plain.__name__ == "plain"


def test_one_object_entered_twice(recorder: Any) -> None:
    span = profsuite.annotate("again")
    recorder.start()
    with span, span:
        pass
    with span:
        pass
    raw = recorder.stop()
    assert names(raw) == ["again"] * 3
    assert not raw.remarks


def test_exceptions_pass(recorder: Any) -> None:
    recorder.start()
    with pytest.raises(KeyError, match="mine"), profsuite.annotate("broken"):
        raise KeyError("mine")
    raw = recorder.stop()
    assert names(raw) == ["broken"]
    assert not raw.remarks


def test_recording_that_starts_and_stops_inside(recorder: Any) -> None:
    with profsuite.annotate("begun before"):
        recorder.start()
    with profsuite.annotate("ended after"):
        raw = recorder.stop()
    assert names(raw) == ["ended after"]
    recorder.start()
    with profsuite.annotate("next"):
        pass
    assert names(recorder.stop()) == ["next"]


def test_left_on_another_thread(recorder: Any) -> None:
    recorder.start()
    span = profsuite.annotate("handed over")
    span.__enter__()
    thread = threading.Thread(target=span.__exit__, args=(None, None, None))
    thread.start()
    thread.join()
    raw = recorder.stop()
    assert names(raw) == ["handed over"]
    assert not raw.remarks


def test_no_graph_break_and_no_recompilation(recorder: Any) -> None:
    from torch._dynamo.utils import counters

    @profsuite.annotate("inner")
    def inner(x: Any) -> Any:
        return x * 2

    @torch.compile(backend="eager", fullgraph=True)
    def function(x: Any) -> Any:
        with profsuite.annotate("outer"):
            y = x.sin()
        return inner(y)

    torch._dynamo.reset()
    counters.clear()
    x = torch.ones(3)
    expected = x.sin() * 2
    try:
        assert torch.equal(function(x), expected)
        recorder.start()
        assert torch.equal(function(x), expected)
        recorder.stop()
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]):
            assert torch.equal(function(x), expected)
        assert torch.equal(function(x), expected)
        assert counters["stats"]["unique_graphs"] == 1
        assert not counters["graph_break"]
        torch._dynamo.reset()  # compiled anew while it records
        recorder.start()
        assert torch.equal(function(x), expected)
        recorder.stop()
        assert counters["stats"]["unique_graphs"] == 2
        assert not counters["graph_break"]
    finally:
        torch._dynamo.reset()


def test_without_torch() -> None:
    code = (
        "import sys\n"
        "class Absent:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.split('.')[0] == 'torch': raise ModuleNotFoundError(name)\n"
        "sys.meta_path.insert(0, Absent())\n"
        "import profsuite\n"
        "@profsuite.annotate('function')\n"
        "def function(): return 1\n"
        "with profsuite.annotate('span'): print(function())\n"
        "assert not {'torch', 'numpy'} & {name.split('.')[0] for name in sys.modules}\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("1\n", "")


def test_torch_imported_later() -> None:
    code = (
        "import profsuite\n"
        "with profsuite.annotate('before'): pass\n"
        "import torch\n"
        "with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:\n"
        "    with profsuite.annotate('after'): torch.ones(1)\n"
        "print('after' in {event.key for event in profiler.key_averages()})\n"
    )
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True)
    assert done.stdout.splitlines()[-1] == "True", done.stderr


def test_listening_stops_with_the_recorder(recorder: Any) -> None:
    recorder.start()
    assert module._push is not None
    recorder.stop()
    assert module._push is None
    assert module._pop is None
