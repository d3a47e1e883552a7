"""What each side channel costs where it acts: paired, on and off in turn, medians.

``process_time`` counts the sampling threads as well.  The flight recorder and torch's structured trace are torch's
own; what they cost is what turning them on costs.
"""

from __future__ import annotations

import argparse
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
from rows import Row, code, say, write

from profsuite.collector.channels.compile import CompileChannel
from profsuite.collector.channels.registry import make

STEPS = 40


def paired(channel: Callable[[], Any], work: Callable[[], None], rounds: int) -> tuple[float, float]:
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


def row(what: str, off: float, more: float, count: int, unit: str) -> Row:
    """The cost of one ``unit``."""
    share = f", {100 * more / off:+.1f} % of {1e6 * off / count:,.0f} µs" if off else ""
    return Row(f"{what}, a {unit}{share}", 1e6 * more / count, "µs")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--output", type=Path, help="write the numbers as JSON")
    options = parser.parse_args()
    torch.set_num_threads(1)
    found = {"channels": rows(options.rounds)}
    say("channels", found["channels"])
    write(found, options.output)
    return code(found)


def rows(rounds: int) -> list[Row]:
    """A row a channel; they can all be off, and have nothing to reach."""
    steps = training()
    found = [
        row(name, *paired(lambda name=name: make(name), steps, rounds), STEPS, "step")  # type: ignore[misc]
        for name in ("host", "gc", "dataloader", "nvml", "compile")
    ]

    def collect() -> None:
        for _ in range(2_000):
            gc.collect(0)

    gc.collect()
    found.append(row("gc", *paired(lambda: make("gc"), collect, rounds), 2_000, "collection"))

    loader = torch.utils.data.DataLoader(torch.arange(2_000.0), batch_size=None)

    def load() -> None:
        for _ in loader:
            pass

    found.append(row("dataloader", *paired(lambda: make("dataloader"), load, rounds), 2_000, "batch"))
    compiles = compilation()
    found.append(row("compile", *paired(CompileChannel, compiles, rounds), 4, "compilation"))
    logging = paired(lambda: CompileChannel(logs=True), compiles, rounds)
    found.append(row("compile with logs", *logging, 4, "compilation"))
    if torch.distributed.is_available():
        with TemporaryDirectory() as folder:
            found.append(reduce(Path(folder), max(1, rounds // 2)))
    return found


def reduce(folder: Path, rounds: int) -> Row:
    """Collectives with torch's ring and without: it looks at the variable once a process, so each has its own."""
    code = (
        "import sys, time, torch, torch.distributed as dist\n"
        "dist.init_process_group('gloo', init_method='file://' + sys.argv[1], rank=0, world_size=1)\n"
        "x = torch.ones(8)\n"
        "for _ in range(200): dist.all_reduce(x)\n"
        "began = time.process_time()\n"
        "for _ in range(2000): dist.all_reduce(x)\n"
        "print((time.process_time() - began) / 2000 * 1e6)\n"
        "dist.destroy_process_group()\n"  # or its threads may outlive the interpreter, which aborts
    )
    import subprocess

    times: dict[str, list[float]] = {"0": [], "2000": []}
    for number in range(rounds):
        for size in times:
            store = folder / f"{number}-{size}"
            environment = {**os.environ, "TORCH_FR_BUFFER_SIZE": size}
            done = subprocess.run(
                [sys.executable, "-c", code, store], env=environment, check=True, capture_output=True, text=True
            )
            times[size].append(float(done.stdout.splitlines()[-1]))
    off, on = (statistics.median(found) for found in times.values())
    return row("flight", off / 1e6, (on - off) / 1e6, 1, "collective")


if __name__ == "__main__":
    sys.exit(main())
