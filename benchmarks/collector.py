#!/usr/bin/env python3
"""What recording costs the training thread: the recorder and torch.profiler on the same loops, paired in one run.

Each round runs every mode once, in an order of its own, each beside the loop with nothing recording; a number is the
median over the rounds of the difference.  Times are of the thread's CPU clock.  The recorder's drain has a thread of
its own, which is counted apart.  Exit code 1: a number does not reach what it has to.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from rows import Row, code, say, write

import profsuite
from profsuite.collector.recorder import Recorder

SHARE_OF_KINETO, SHARE_OF_STEP_PCT = 0.45, 4.0
BUDGET_NS, BUDGET_SHAPES_NS, BUDGET_ANNOTATION_NS = 150, 350, 300


@contextmanager
def nothing() -> Iterator[None]:
    yield


@contextmanager
def recording(shapes: bool = False, collectives: bool = False) -> Iterator[None]:
    recorder = Recorder.load(wait=True, shapes=shapes, collectives=collectives)
    assert recorder is not None
    recorder.start()
    try:
        yield
    finally:
        raw = recorder.stop()
        assert not raw.remarks, raw.remarks


@contextmanager
def kineto(shapes: bool = False) -> Iterator[None]:
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=shapes):
        yield


MODES: dict[str, Callable[[], Any]] = {
    "recorder": recording,
    "recorder + shapes": lambda: recording(shapes=True),
    "recorder + process groups": lambda: recording(collectives=True),
    "Kineto": kineto,
    "Kineto + record_shapes": lambda: kineto(shapes=True),
}


def timed(loop: Callable[[int], None], count: int, warm: int) -> float:
    """Nanoseconds of this thread's CPU time for one turn of the loop."""
    loop(warm)  # rings, caches of names: what the first ops of a recording pay
    start = time.thread_time_ns()
    loop(count)
    return (time.thread_time_ns() - start) / count


def paired(loop: Callable[[int], None], count: int, warm: int, rounds: int) -> tuple[float, dict[str, list[float]]]:
    """The loop with nothing recording, and for each mode what it adds in each round."""
    bare: list[float] = []
    added: dict[str, list[float]] = {mode: [] for mode in MODES}
    order = list(MODES)
    for number in range(rounds + 1):
        random.shuffle(order)
        for mode in order:
            before = timed(loop, count, warm)
            with MODES[mode]():
                during = timed(loop, count, warm)
            after = timed(loop, count, warm)
            if number:  # the first round warms everything up
                bare.append(min(before, after))
                added[mode].append(during - (before + after) / 2)
    return statistics.median(bare), added


def quartiles(values: list[float]) -> tuple[float, float]:
    low, _, high = statistics.quantiles(values, n=4)
    return low, high


def ops(rounds: int) -> list[Row]:
    x, y = torch.ones(8, 8), torch.zeros(8, 8)

    def loop(count: int) -> None:
        add = x.add_
        for _ in range(count):
            add(y)

    bare, added = paired(loop, 20_000, 2_000, rounds)
    cost = {mode: statistics.median(values) for mode, values in added.items()}
    budget = {"recorder": BUDGET_NS, "recorder + shapes": BUDGET_SHAPES_NS}
    rows = [Row("one op, nothing recording", bare, "ns")]
    rows += [
        Row(f"{mode}, added to an op", cost[mode], "ns", budget.get(mode), quartiles(added[mode])) for mode in MODES
    ]
    rows.append(Row("recorder / Kineto", cost["recorder"] / cost["Kineto"], "x", SHARE_OF_KINETO))
    # No need for this one: that PyTorch boxes the inputs at all costs a callback that does nothing 230 ns.
    rows.append(Row("with shapes, both", cost["recorder + shapes"] / cost["Kineto + record_shapes"], "x"))
    return rows


def step(rounds: int) -> list[Row]:
    """A step whose ops do some work, and one of the same ops that do next to none: the worst case."""
    return [
        *transformer("step", rounds, width=256, count=3, need=SHARE_OF_STEP_PCT),
        *transformer("tiny step", rounds, width=64, count=10, need=None),
    ]


def transformer(name: str, rounds: int, *, width: int, count: int, need: float | None) -> list[Row]:
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(width, 4, 2 * width, batch_first=True)
    model = torch.nn.TransformerEncoder(layer, 4, enable_nested_tensor=False)
    optimizer = torch.optim.AdamW(model.parameters())
    x = torch.randn(4, 32, width)

    def loop(count: int) -> None:
        for _ in range(count):
            model(x).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()

    loop(5)
    recorder = Recorder.load(wait=True)
    assert recorder is not None
    recorder.start()
    loop(1)
    events = recorder.stop().num_events
    bare, added = paired(loop, count, 1, rounds)
    rows = [Row(f"{name} of a 4-layer transformer, bare", bare / 1e6, "ms"), Row("ops in it", events, "")]
    for mode, values in added.items():
        share = [value / bare * 100 for value in values]
        limit = need if mode == "recorder" else None
        rows.append(Row(f"{mode}, added to the {name}", statistics.median(share), "%", limit, quartiles(share)))
    return rows


def beside(rounds: int) -> list[Row]:
    """What is not the training thread's: the drain, the start, the stop; and annotations."""
    x, y = torch.ones(8, 8), torch.zeros(8, 8)
    count = 100_000
    drain, stop, start = [], [], []
    recorder = Recorder.load(wait=True)
    assert recorder is not None
    for _ in range(rounds):
        begin = time.perf_counter_ns()
        recorder.start()
        x.add_(y)
        start.append(time.perf_counter_ns() - begin)
        process, thread = time.process_time_ns(), time.thread_time_ns()
        for _ in range(count):
            x.add_(y)
        others = (time.process_time_ns() - process) - (time.thread_time_ns() - thread)
        drain.append(others / count)
        begin = time.perf_counter_ns()
        events = recorder.stop().num_events
        stop.append((time.perf_counter_ns() - begin) / events)

    def annotated(count: int) -> None:
        annotate = profsuite.annotate
        for _ in range(count):
            with annotate("span"):
                pass

    def bare(count: int) -> None:
        for _ in range(count):
            pass

    spans = [timed(annotated, 20_000, 1_000) - timed(bare, 20_000, 1_000) for _ in range(rounds)]
    return [
        Row("drain thread, for each op", statistics.median(drain), "ns"),
        Row("start and the first op of a thread", statistics.median(start) / 1e3, "µs"),
        Row("from stop to columns, for each op", statistics.median(stop), "ns"),
        Row("annotation while nothing records", statistics.median(spans), "ns", BUDGET_ANNOTATION_NS, quartiles(spans)),
    ]


CASES = {"ops": ops, "step": step, "beside": beside}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--case", choices=CASES, action="append", help="only this one (may be repeated)")
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--output", type=Path, help="write the numbers as JSON")
    options = parser.parse_args()
    torch.set_num_threads(1)
    print(f"torch {torch.__version__}, {options.rounds} rounds, medians of paired differences")
    found: dict[str, list[Row]] = {}
    for name in options.case or CASES:
        found[name] = CASES[name](options.rounds)
        say(name, found[name])
    write(found, options.output)
    return code(found)


if __name__ == "__main__":
    sys.exit(main())
