"""What each side channel costs where it acts: paired, on and off in turn, medians.

    python benchmarks/channels.py

``process_time`` counts the sampling threads as well.  The flight recorder and torch's structured trace are torch's
own; what they cost is what turning them on costs.
"""

from __future__ import annotations

import gc
import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from profsuite.collector.channels.compile import CompileChannel
from profsuite.collector.channels.registry import make

ROUNDS, STEPS = 9, 40


def paired(channel: Callable[[], Any], work: Callable[[], None], rounds: int = ROUNDS) -> tuple[float, float]:
    """Median processor seconds of ``work`` off, and what the channel adds."""
    off, more = [], []
    for number in range(rounds):
        times = {}
        # In turn, so that neither profits from a warm cache.
        for on in (False, True) if number % 2 else (True, False):
            running = channel() if on else None
            if running is not None:
                running.start()
            began = time.process_time()
            work()
            times[on] = time.process_time() - began
            if running is not None:
                running.stop()
        off.append(times[False])
        more.append(times[True] - times[False])
    return statistics.median(off), statistics.median(more)


def training() -> Callable[[], None]:
    """Steps of a 4-layer transformer."""
    layer = torch.nn.TransformerEncoderLayer(64, 4, 128, batch_first=True)
    model = torch.nn.TransformerEncoder(layer, 4, enable_nested_tensor=False)
    optimizer, inputs = torch.optim.AdamW(model.parameters()), torch.randn(8, 16, 64)

    def work() -> None:
        for _ in range(STEPS):
            optimizer.zero_grad()
            model(inputs).square().mean().backward()
            optimizer.step()

    work()
    return work


def compilation() -> Callable[[], None]:
    """Five compilations, one of them with a graph break."""

    def function(x: torch.Tensor) -> torch.Tensor:
        y = x.sin() * 2
        torch._dynamo.graph_break()
        return y.cos() + y

    def work() -> None:
        torch._dynamo.reset_code_caches()
        for size in (2, 3):
            torch.compile(function, backend="eager", dynamic=False)(torch.ones(size))

    work()
    return work


def report(what: str, off: float, more: float, count: int, unit: str) -> None:
    """One line: the cost of one ``unit``, and its share."""
    share = f"{100 * more / off:+.1f} % of {1e6 * off / count:,.1f} µs" if off else ""
    sys.stdout.write(f"{what:22} {1e6 * more / count:+12.2f} µs a {unit:14} {share}\n")


def main() -> None:
    """Print a line a channel."""
    torch.set_num_threads(1)
    steps = training()
    for name in ("host", "gc", "dataloader", "nvml", "compile"):
        report(name, *paired(lambda name=name: make(name), steps), STEPS, "step")  # type: ignore[misc]

    def collect() -> None:
        for _ in range(2_000):
            gc.collect(0)

    gc.collect()
    report("gc", *paired(lambda: make("gc"), collect), 2_000, "collection")

    loader = torch.utils.data.DataLoader(torch.arange(2_000.0), batch_size=None)

    def load() -> None:
        for _ in loader:
            pass

    report("dataloader", *paired(lambda: make("dataloader"), load), 2_000, "batch")
    compiles = compilation()
    report("compile", *paired(CompileChannel, compiles), 4, "compilation")
    report("compile, logs=True", *paired(lambda: CompileChannel(logs=True), compiles), 4, "compilation")

    if torch.distributed.is_available():
        with TemporaryDirectory() as folder:
            reduce(Path(folder))


def reduce(folder: Path) -> None:
    """Collectives with torch's ring and without: it looks at the variable once a process, so each has its own."""
    code = (
        "import sys, time, torch, torch.distributed as dist\n"
        "dist.init_process_group('gloo', init_method='file://' + sys.argv[1], rank=0, world_size=1)\n"
        "x = torch.ones(8)\n"
        "for _ in range(200): dist.all_reduce(x)\n"
        "began = time.process_time()\n"
        "for _ in range(2000): dist.all_reduce(x)\n"
        "print((time.process_time() - began) / 2000 * 1e6)\n"
    )
    import subprocess

    times: dict[str, list[float]] = {"0": [], "2000": []}
    for number in range(5):
        for size in times:
            store = folder / f"{number}-{size}"
            environment = {**os.environ, "TORCH_FR_BUFFER_SIZE": size}
            done = subprocess.run(
                [sys.executable, "-c", code, store], env=environment, check=True, capture_output=True, text=True
            )
            times[size].append(float(done.stdout.splitlines()[-1]))
    off, on = (statistics.median(found) for found in times.values())
    report("flight", off / 1e6, (on - off) / 1e6, 1, "collective")


if __name__ == "__main__":
    main()
