"""A window of Kineto, from stop to columns: ours against torch's ways, on the same events, in one run.

    python benchmarks/window.py [--layers 4] [--steps 12] [--rounds 3]

``extract`` is native/extract.cpp with all its numpy arrays; ``prof.events()`` and export + read back are what there
is without it.  The stall is what the training thread waits for when a window ends: with torch, ``stop()`` and an
export in the trace handler, as its tutorials have it; with profsuite ``prof.step()`` of the step that ends it.
"""

from __future__ import annotations

import argparse
import gc
import json
import resource
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.profiler import ProfilerActivity

import profsuite
from profsuite.collector import build
from profsuite.collector.config import Config
from profsuite.collector.window import Window, extract


def training(layers: int) -> Callable[[], None]:
    """One step of a small transformer."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(64, 4, 128, batch_first=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = torch.nn.TransformerEncoder(layer, layers)
    optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
    batch = torch.randn(2, 16, 64)

    def step() -> None:
        model(batch).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()

    step()
    return step


def timed(action: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds of the wall, and the result."""
    gc.collect()
    begin = time.perf_counter()
    result = action()
    return time.perf_counter() - begin, result


def window(step: Callable[[], None], steps: int, flags: dict[str, bool]) -> tuple[float, Any, Any]:
    """Seconds that ending Kineto takes, torch's session object and its result."""
    session = Window(Config(**flags))
    session.start()
    inner = session._session
    for _ in range(steps):
        step()
    seconds, taken = timed(session.stop)
    return seconds, inner, taken.result


def columns(
    step: Callable[[], None], steps: int, flags: dict[str, bool], extension: Any, folder: Path
) -> dict[str, float]:
    """ns an event from the end of the session to columns, each way."""
    _, inner, result = window(step, steps, flags)
    num = len(result.events())
    found = {"events": float(num)}
    found["extract"], raw = timed(lambda: extract(result, extension))
    assert raw.num_events >= num, (raw.num_events, num)
    path = folder / "window.json"
    found["export"], _ = timed(lambda: result.save(str(path)))
    found["read back"], _ = timed(lambda: profsuite.load(path, cache=False))
    found["prof.events()"], _ = timed(lambda: inner.function_events)
    return {name: value if name == "events" else value / num * 1e9 for name, value in found.items()}


def stalls(step: Callable[[], None], steps: int, flags: dict[str, bool], folder: Path) -> dict[str, float]:
    """ms that the training thread waits at the end of a window."""
    plan = {"wait": 1, "warmup": 1, "active": steps, "repeat": 1}
    waits: dict[str, float] = {}

    def run(name: str, prof: Any) -> None:
        with prof:
            worst = 0.0
            for i in range(steps + 4):
                step()
                seconds, _ = timed(prof.step)
                if i == steps + 1:
                    worst = seconds
            waits[name] = worst * 1e3

    number = len(list(folder.iterdir()))
    theirs = torch.profiler.profile(
        activities=[ProfilerActivity.CPU],
        schedule=torch.profiler.schedule(**plan),
        on_trace_ready=lambda p: p.export_chrome_trace(str(folder / f"stall_{number}.json")),
        record_shapes=flags.get("shapes", False),
        profile_memory=flags.get("memory", False),
        with_stack=flags.get("stacks", False),
    )
    run("torch", theirs)
    bare = torch.profiler.profile(
        activities=[ProfilerActivity.CPU],
        schedule=torch.profiler.schedule(**plan),
        record_shapes=flags.get("shapes", False),
        profile_memory=flags.get("memory", False),
        with_stack=flags.get("stacks", False),
    )
    run("torch, no export", bare)
    ours = profsuite.profile(
        folder / "run", schedule=profsuite.schedule(**plan), engine="kineto", channels=(), **flags
    )  # fmt: skip
    run("profsuite", ours)
    return waits


def main() -> None:
    """Print the medians, and one line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    step = training(options.layers)
    extension = build.load("extract", wait=True)
    results: dict[str, Any] = {}
    cases = {
        "ops": {"shapes": False},
        "shapes": {"shapes": True},
        "shapes, memory": {"shapes": True, "memory": True},
        "shapes, memory, stacks": {"shapes": True, "memory": True, "stacks": True},
    }
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for label, flags in cases.items():
            rounds = [columns(step, options.steps, flags, extension, folder) for _ in range(options.rounds)]
            medians = {key: statistics.median(r[key] for r in rounds) for key in rounds[0]}
            waits = [stalls(step, options.steps, flags, folder) for _ in range(options.rounds)]
            medians |= {f"stall: {key}": statistics.median(w[key] for w in waits) for key in waits[0]}
            results[label] = medians
            print(f"\n{label}: {medians['events']:,.0f} events", flush=True)
            for key, value in medians.items():
                if key.startswith("stall"):
                    print(f"  {key:<24}{value:>12,.1f} ms")
                elif key != "events":
                    print(f"  {key:<24}{value:>12,.0f} ns/event")
            back = medians["export"] + medians["read back"]
            print(
                f"  extract is 1/{medians['prof.events()'] / medians['extract']:.0f} of prof.events(), "
                f"1/{back / medians['extract']:.1f} of export and read back; the stall "
                f"{medians['stall: profsuite'] / medians['stall: torch']:.2f} of torch's with an export, "
                f"{medians['stall: profsuite'] / medians['stall: torch, no export']:.2f} without"
            )
    results["peak_rss_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps(results), file=sys.stderr)


if __name__ == "__main__":
    main()
