#!/usr/bin/env python3
"""A window of Kineto, from stop to columns: ours against torch's ways, on the same events, in one run.

``extract`` is native/extract.cpp with all its numpy arrays; ``prof.events()`` and export + read back are what there
is without it.  The stall is what the training thread waits for when a window ends: with torch, ``stop()``, and an
export in the trace handler, as its tutorials have it; with profsuite ``prof.step()`` of the step that ends it.  Peak
memory is that of fresh processes, less what the same training takes with nothing recording.  Times are medians.  Exit
code 1: a number does not reach what it has to.
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from rows import Row, code, say, write
from torch.profiler import ProfilerActivity
from workload import training

import profsuite
from profsuite.collector import build
from profsuite.collector.config import Config
from profsuite.collector.window import Window, extract

EXTRACT_NS, SHARE_OF_EVENTS, SHARE_OF_EXPORT = 500, 1 / 20, 1 / 4
STALL_MS, SHARE_OF_STALL = 50, 1 / 3
SHARE_OF_MEMORY = 1.0

WAYS = {"export": "torch, stop and export", "events": "torch, stop and events()", "profsuite": "profsuite"}

CASES: dict[str, dict[str, bool]] = {
    "ops": {"shapes": False},
    "shapes": {"shapes": True},
    "memory": {"shapes": True, "memory": True},
    "stacks": {"shapes": True, "memory": True, "stacks": True},
}


def timed(action: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds of the wall, and the result."""
    gc.collect()
    begin = time.perf_counter()
    result = action()
    return time.perf_counter() - begin, result


def window(step: Callable[[], None], steps: int, flags: dict[str, bool]) -> tuple[Any, Any]:
    """Torch's session object of a window that has ended, and its result."""
    session = Window(Config(**flags))
    session.start()
    inner = session._session
    for _ in range(steps):
        step()
    return inner, session.stop().result


def columns(
    step: Callable[[], None], steps: int, flags: dict[str, bool], extension: Any, folder: Path
) -> dict[str, float]:
    """ns an event from the end of the session to columns, each way."""
    inner, result = window(step, steps, flags)
    num = len(result.events())
    found = {"events": float(num)}
    found["extract"], raw = timed(lambda: extract(result, extension))
    assert raw.num_events >= num, (raw.num_events, num)
    path = folder / "window.json"
    found["export"], _ = timed(lambda: result.save(str(path)))
    found["read back"], _ = timed(lambda: profsuite.load(path, cache=False))
    found["prof.events()"], _ = timed(lambda: inner.function_events)
    path.unlink()
    return {name: value if name == "events" else value / num * 1e9 for name, value in found.items()}


def stalls(step: Callable[[], None], steps: int, flags: dict[str, bool], folder: Path) -> dict[str, float]:
    """ms that the training thread waits at the end of a window."""
    plan = {"wait": 1, "warmup": 1, "active": steps, "repeat": 1}
    waits: dict[str, float] = {}

    def run(name: str, prof: Any) -> None:
        with prof:
            for i in range(steps + 4):
                step()
                seconds, _ = timed(prof.step)
                if i == steps + 1:
                    waits[name] = seconds * 1e3

    def theirs(handler: Callable[[Any], None] | None) -> Any:
        return torch.profiler.profile(
            activities=[ProfilerActivity.CPU],
            schedule=torch.profiler.schedule(**plan),
            on_trace_ready=handler,
            record_shapes=flags.get("shapes", False),
            profile_memory=flags.get("memory", False),
            with_stack=flags.get("stacks", False),
        )

    run("torch, stop and export", theirs(lambda p: p.export_chrome_trace(str(folder / "stall.json"))))
    (folder / "stall.json").unlink()
    run("torch, stop", theirs(None))
    schedule = profsuite.schedule(**plan)
    run("profsuite", profsuite.profile(folder / "run", schedule=schedule, engine="kineto", channels=(), **flags))
    return waits


def peaks(layers: int, steps: int, flags: dict[str, bool]) -> dict[str, float]:
    """MB that a recording adds to the peak of its process."""
    found = {}
    for how in ("nothing", "export", "events", "profsuite"):
        with tempfile.TemporaryDirectory() as folder:
            words = [json.dumps(flags), str(layers), str(steps), folder]
            command = [sys.executable, "-W", "ignore", str(Path(__file__).with_name("peak.py")), how, *words]
            done = subprocess.run(command, check=True, capture_output=True, text=True)
        found[how] = json.loads(done.stdout.splitlines()[-1])["peak_bytes"] / 1e6
    return {how: found[how] - found["nothing"] for how in ("export", "events", "profsuite")}


def medians(rounds: list[dict[str, float]]) -> dict[str, float]:
    """The median of each number over the rounds."""
    return {name: statistics.median(found[name] for found in rounds) for name in rounds[0]}


def rows(case: str, options: argparse.Namespace, step: Callable[[], None], extension: Any) -> list[Row]:
    """Every number of a case."""
    flags = CASES[case]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        cost = medians([columns(step, options.steps, flags, extension, folder) for _ in range(options.rounds)])
        wait = medians([stalls(step, options.steps, flags, folder) for _ in range(options.rounds)])
    peak = peaks(options.layers, options.peak_steps, flags)
    events = cost.pop("events")
    found = [Row("events of the window", events, "")]
    for way, value in cost.items():
        found.append(Row(f"{way}, an event", value, "ns", EXTRACT_NS if way == "extract" else None))
    back = cost["export"] + cost["read back"]
    found += [
        Row("extract / prof.events()", cost["extract"] / cost["prof.events()"], "x", SHARE_OF_EVENTS),
        Row("extract / export and read back", cost["extract"] / back, "x", SHARE_OF_EXPORT),
    ]
    ours = wait.pop("profsuite")
    found.append(Row("stall at the end, 100,000 events, profsuite", ours / events * 1e5, "ms", STALL_MS))
    for way, value in wait.items():
        found.append(Row(f"stall at the end, 100,000 events, {way}", value / events * 1e5, "ms"))
        found.append(Row(f"stall, profsuite / {way}", ours / value, "x", SHARE_OF_STALL))
    for how, value in peak.items():
        found.append(Row(f"peak memory above the bare training, {WAYS[how]}", value, "MB"))
    for how in ("export", "events"):
        found.append(Row(f"peak memory, profsuite / {WAYS[how]}", peak["profsuite"] / peak[how], "x", SHARE_OF_MEMORY))
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--case", choices=CASES, action="append", help="only this one (may be repeated)")
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--steps", type=int, default=12, help="steps of a window whose times are taken")
    parser.add_argument("--peak-steps", type=int, default=40, help="steps of a window whose memory is taken")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--output", type=Path, help="write the numbers as JSON")
    options = parser.parse_args()
    extension = build.load("extract", wait=True)
    step = training(options.layers)
    print(f"torch {torch.__version__}, medians of {options.rounds} rounds")
    found: dict[str, list[Row]] = {}
    for case in options.case or CASES:
        found[case] = rows(case, options, step, extension)
        say(case, found[case])
    write(found, options.output)
    return code(found)


if __name__ == "__main__":
    sys.exit(main())
