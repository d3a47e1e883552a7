#!/usr/bin/env python3
"""A window of Kineto, from stop to columns: ours against torch's ways, on the same steps, in one run.

``extract`` is from Kineto's ended session to a trace in numpy arrays; ``prof.events()`` and export + read back are
what there is for that without it.  With shapes, profsuite packs the inputs of ops while Kineto ends, instead of the
texts that torch makes of them there: ``stop to columns`` has that and everything else, on whatever thread, and is
set beside torch's stop + export + read back.  The stall is what the training thread waits for when a window ends: with
torch, ``stop()`` alone, or with an export in the trace handler, as its tutorials have it; with profsuite
``prof.step()`` of the step that ends it.  Peak memory is that of fresh processes, less what the same training takes
with nothing recording.  Times are medians.  Exit code 1: a number does not reach what it has to.
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
from profsuite.collector.window import Window, to_raw

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


def recorded(step: Callable[[], None], steps: int, flags: dict[str, bool], extension: Any) -> Any:
    """A session that has recorded, and runs; torch's own where ``extension`` is None."""
    session = Window(Config(**flags), extension)
    session.start()
    for _ in range(steps):
        step()
    return session


def theirs(step: Callable[[], None], steps: int, flags: dict[str, bool], folder: Path) -> tuple[int, dict[str, float]]:
    """Events, and seconds of what torch takes from the end of the session to a table."""
    session = recorded(step, steps, flags, None)
    inner = session._session
    found: dict[str, float] = {}
    found["torch's stop"], taken = timed(session.stop)
    path = folder / "window.json"
    found["export"], _ = timed(lambda: taken.result.save(str(path)))
    found["read back"], _ = timed(lambda: profsuite.load(path, cache=False))
    found["prof.events()"], _ = timed(lambda: inner.function_events)
    path.unlink()
    return len(taken.result.events()), found


def ours(step: Callable[[], None], steps: int, flags: dict[str, bool], extension: Any) -> tuple[int, dict[str, float]]:
    """Events, and seconds of what profsuite takes."""
    session = recorded(step, steps, flags, extension)
    found: dict[str, float] = {}
    found["stop to columns"], raw = timed(lambda: session.stop().raw())
    num = raw.num_events
    del raw
    taken = recorded(step, steps, flags, extension).stop()
    result = taken.ending.result()
    found["extract"], _ = timed(lambda: to_raw(extension.extract(result, early=taken.early)))
    return num, found


def columns(
    step: Callable[[], None], steps: int, flags: dict[str, bool], extension: Any, folder: Path
) -> dict[str, float]:
    """ns an event from the end of the session to columns, each way."""
    num, found = theirs(step, steps, flags, folder)
    num_ours, more = ours(step, steps, flags, extension)
    assert num_ours >= num, (num_ours, num)
    return {name: value / num * 1e9 for name, value in (found | more).items()} | {"events": float(num)}


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

    def profiler(handler: Callable[[Any], None] | None) -> Any:
        return torch.profiler.profile(
            activities=[ProfilerActivity.CPU],
            schedule=torch.profiler.schedule(**plan),
            on_trace_ready=handler,
            record_shapes=flags.get("shapes", False),
            profile_memory=flags.get("memory", False),
            with_stack=flags.get("stacks", False),
        )

    run("torch, stop and export", profiler(lambda p: p.export_chrome_trace(str(folder / "stall.json"))))
    (folder / "stall.json").unlink()
    run("torch, stop", profiler(None))
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
        Row("stop to columns / stop, export, read back", cost["stop to columns"] / (cost["torch's stop"] + back), "x"),
    ]
    mine = wait.pop("profsuite")
    found.append(Row("stall at the end, 100,000 events, profsuite", mine / events * 1e5, "ms", STALL_MS))
    for way, value in wait.items():
        found.append(Row(f"stall at the end, 100,000 events, {way}", value / events * 1e5, "ms"))
        found.append(Row(f"stall, profsuite / {way}", mine / value, "x", SHARE_OF_STALL))
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
