#!/usr/bin/env python3
"""Whether replays come true: programs are recorded, a change is predicted, and then it is made and timed.

Each change (whatif_cases.py) has fresh processes, pinned, one thread; a job of several ranks has one for each.  A round
does all of it once, in this order: the changed part alone, before and after in turn, for the factor; a recording of the
program before; its steps and those of the program after, without a profiler.  What is compared are medians over the
rounds of all processes.  A whole run (no --case, no --quick) also writes whatif.json, whatif.txt, and whatif.md: the
table of docs/whatif.md.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter_ns
from typing import Any

HERE = Path(__file__).parent
SETTLE = 3
"""Steps at the start of each block that do not count: caches, and batches that a worker has ready."""
DISTURBED = 0.02
"""A step whose thread waited for a core for more than this share of it does not count."""
TRIES = 3
"""Blocks of which the least disturbed counts."""
PART_STEPS = 3
"""Calls of a part alone, for each step of a block: parts are short."""
KEPT_MEMORY = {"MALLOC_TRIM_THRESHOLD_": str(1 << 34), "MALLOC_MMAP_THRESHOLD_": str(32 << 20)}
"""Has the GNU C library keep what a program frees, as the allocators do that torch's tuning guide recommends.  As it is
set up otherwise, whether a large tensor is thousands of page faults depends on what lies at the end of the heap, so on
what else was ever allocated: a program of two convolutions takes 20 ms a step or 27."""


# ---------------------------------------------------------------- in the measured process
@dataclass(frozen=True, slots=True)
class Block:
    """Times of steps, ms, and the share of the block that the thread waited for a core."""

    times: list[float]
    waited: float

    @property
    def median(self) -> float:
        return statistics.median(self.times)


def _waited_ns() -> int:
    """How long this thread has been ready to run without a core, by the kernel's count; 0 where it has none."""
    try:
        with open("/proc/thread-self/schedstat", encoding="ascii") as file:  # noqa: PTH123
            return int(file.read().split()[1])
    except (OSError, IndexError):
        return 0


def cores() -> list[int]:
    """Where this thread may run."""
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []


def pin(to: Sequence[int]) -> None:
    """This thread, and those that it starts, run there."""
    if to:
        os.sched_setaffinity(0, to)


ALL_CORES = cores()


def block(step: Callable[[], object], count: int, crowded: bool = False) -> Block:
    """Steps one by one, those that were disturbed left out; the least disturbed of some tries."""
    found: list[Block] = []
    for _ in range(1 if crowded else TRIES):
        for _ in range(SETTLE):
            step()
        times, quiet, since = [], [], _waited_ns()
        waited = since
        begun = perf_counter_ns()
        for _ in range(count):
            start = perf_counter_ns()
            step()
            took = perf_counter_ns() - start
            now = _waited_ns()
            times.append(took / 1e6)
            quiet.append(now - waited <= DISTURBED * took)
            waited = now
        share = (waited - since) / (perf_counter_ns() - begun)
        kept = [time for time, good in zip(times, quiet, strict=True) if good or crowded]
        enough = len(kept) >= max(1, count // 2)
        found.append(Block(kept if enough else times, share))
        if enough:
            break
    return min(found, key=lambda one: one.waited)


def factor(part: Any, count: int, crowded: bool) -> float:
    """A part's time after over before, medians; the two in turn, so that both meet the same machine and cold caches."""
    sides = ((None, part.before), (part.meanwhile, part.after))
    times: tuple[list[float], list[float]] = ([], [])
    quiet: tuple[list[float], list[float]] = ([], [])
    for number in range(SETTLE + count * PART_STEPS):
        for side, (meanwhile, step) in enumerate(sides):
            if meanwhile is not None:
                meanwhile()
            waited, start = _waited_ns(), perf_counter_ns()
            said = step()
            took = said if isinstance(said, int) else perf_counter_ns() - start
            if number >= SETTLE:
                times[side].append(took)
                if crowded or _waited_ns() - waited <= DISTURBED * took:
                    quiet[side].append(took)
    old, new = (
        statistics.median(good if 2 * len(good) >= len(every) else every)
        for good, every in zip(quiet, times, strict=True)
    )
    return new / old


def record(step: Callable[[], object], count: int, folder: Path, crowded: bool) -> Any:
    """An ``Analysis`` of ``count`` recorded steps, the least disturbed of some tries."""
    import profsuite
    from profsuite.analyzers.analysis import Analysis

    found = []
    mine = cores()
    for number in range(1 if crowded else TRIES):
        pin(ALL_CORES)  # the recorder's own thread, which begins here, gets a core of its own
        plan = profsuite.schedule(wait=SETTLE - 1, warmup=1, active=count, repeat=1)
        with profsuite.profile(folder / str(number), schedule=plan, engine="recorder") as prof:
            for _ in range(SETTLE):
                step()
                prof.step()
            pin(mine)
            since, begun = _waited_ns(), perf_counter_ns()
            for _ in range(count):
                step()
                prof.step()
            share = (_waited_ns() - since) / (perf_counter_ns() - begun)
        found.append((share, prof.trace))
        if share <= DISTURBED:
            break
    return Analysis(min(found, key=lambda one: one[0])[1])


def one_round(change: Any, count: int, folder: Path, swap: bool) -> dict[str, Any]:
    """Factors, prediction, and the steps' times; ``swap`` begins with the program after."""
    import msgspec

    from profsuite.analyzers.whatif.edits import Edit
    from profsuite.analyzers.whatif.replay import replay

    factors = {pattern: factor(part, count, change.crowded) for pattern, part in change.parts.items()}
    analysis = record(change.before, count, folder, change.crowded)
    scales = (*((pattern, 0.0) for pattern in change.removed), *factors.items())
    plain = Edit(scales=scales, **change.flags)
    edited = replay(analysis, analysis.graph, plain)
    again = replay(analysis, analysis.graph)
    sides = [change.after, change.before] if swap else [change.before, change.after]
    blocks = [block(step, count, change.crowded) for step in sides]
    before, after = reversed(blocks) if swap else blocks
    steps = analysis.steps
    try:
        bare = replay(analysis, analysis.graph, msgspec.structs.replace(plain, bare_step_ns=round(before.median * 1e6)))
    except ValueError:  # slower than recording explains
        bare = edited
    return {
        "edit": edit_of(change),
        "factors": factors,
        "recorded_ms": edited.measured_ms_per_step,
        "marked_ms": None if steps.mean_ns is None else steps.mean_ns / 1e6,
        "replayed_ms": again.predicted_ms_per_step,
        "as_recorded_ms": edited.saving_ms_per_step,
        "predicted_ms": bare.saving_ms_per_step,
        "before_ms": before.median,
        "after_ms": after.median,
        "saving_ms": before.median - after.median,
        "waited": max(before.waited, after.waited),
    }


def edit_of(change: Any) -> str:
    """The edit as the command line has it, k for factors."""
    flags = [f"--{name.replace('_', '-')}" for name in change.flags]
    scales = [*(f"{pattern}=0" for pattern in change.removed), *(f"{pattern}=k" for pattern in change.parts)]
    return " ".join([*flags, *scales])


def task(name: str, rounds: int, count: int, folder: Path, rank: int, ranks: int) -> None:
    """Measure one change, and print the rounds as JSON."""
    import torch
    from whatif_cases import CHANGES

    import profsuite.analyzers.analysis  # noqa: F401  what it allocates is there before the program begins

    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    if ranks > 1:
        torch.distributed.init_process_group(
            "gloo", init_method=(folder / "store").as_uri(), rank=rank, world_size=ranks
        )
    change = CHANGES[name]()
    for step in (change.before, change.after):
        block(step, max(3, count // 2), crowded=True)
    with tempfile.TemporaryDirectory() as place:
        found = [one_round(change, count, Path(place) / str(number), bool(number % 2)) for number in range(rounds)]
    if ranks > 1:
        torch.distributed.destroy_process_group()
    print(json.dumps(found))


# ---------------------------------------------------------------- in the measuring process
def measure(name: str, rounds: int, count: int, keep_memory: bool) -> list[dict[str, Any]]:
    """The rounds of one change, from fresh processes."""
    from whatif_cases import RANKS

    env = {**(KEPT_MEMORY if keep_memory else {}), **os.environ}

    ranks = RANKS.get(name, 1)
    with tempfile.TemporaryDirectory() as folder:
        children = []
        for rank in range(ranks):
            core = rank % max(1, len(ALL_CORES))
            command = [
                sys.executable, str(HERE / "whatif.py"), "--task", name, "--rounds", str(rounds), "--steps", str(count),
                "--folder", folder, "--rank", str(rank), "--ranks", str(ranks), "--core", str(core),
            ]  # fmt: skip
            pipe = subprocess.PIPE
            children.append(subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=env))
        written = [child.communicate() for child in children]
    for child, (_, errors) in zip(children, written, strict=True):
        if child.returncode:
            raise RuntimeError(f"{name}: exit {child.returncode}\n{errors[-4000:]}")
    found: list[dict[str, Any]] = json.loads(written[0][0].rstrip().rpartition("\n")[2])
    return found


def summary(rounds: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Medians over the rounds, and how the prediction compares."""

    def middle(key: str) -> float:
        return statistics.median(one[key] for one in rounds)

    saving = middle("saving_ms")
    savings = [one["saving_ms"] for one in rounds]
    low, _, high = statistics.quantiles(savings, n=4) if len(savings) > 1 else (saving, saving, saving)
    return {
        "edit": rounds[0]["edit"],
        "below_noise": low <= 0 <= high,
        "before_ms": middle("before_ms"),
        "after_ms": middle("after_ms"),
        "recorded_ms": middle("recorded_ms"),
        "replay_error_pct": max(abs(one["replayed_ms"] / one["marked_ms"] - 1) * 100 for one in rounds),
        "as_recorded_ms": middle("as_recorded_ms"),
        "predicted_ms": middle("predicted_ms"),
        "saving_ms": saving,
        "saving_quartiles_ms": [low, high],
        "error_pct": (middle("predicted_ms") - saving) / abs(saving) * 100 if saving else None,
        "as_recorded_error_pct": (middle("as_recorded_ms") - saving) / abs(saving) * 100 if saving else None,
        "waited_pct": middle("waited") * 100,
        "factors": {key: statistics.median(one["factors"][key] for one in rounds) for key in rounds[0]["factors"]},
    }


HEADER = (
    f"{'change':<24}{'before':>8}{'after':>8}{'recorded':>10}{'replay':>9}{'measured':>10}{'(quartiles)':>16}"
    f"{'predicted':>11}{'error':>9}{'as recorded':>13}{'error':>9}"
)
UNITS = (
    f"{'':<24}{'ms':>8}{'ms':>8}{'ms':>10}{'off by':>9}{'saving ms':>10}{'ms':>16}"
    f"{'saving ms':>11}{'%':>9}{'saving ms':>13}{'%':>9}"
)


def line(name: str, row: dict[str, Any]) -> str:
    """A change as a line of the table."""
    low, high = row["saving_quartiles_ms"]
    errors = ["none" if row[key] is None else f"{row[key]:+.1f}" for key in ("error_pct", "as_recorded_error_pct")]
    return (
        f"{name:<24}{row['before_ms']:>8.2f}{row['after_ms']:>8.2f}{row['recorded_ms']:>10.2f}"
        f"{row['replay_error_pct']:>7.2f} %{row['saving_ms']:>10.2f}{f'{low:.2f} to {high:.2f}':>16}"
        f"{row['predicted_ms']:>11.2f}{errors[0]:>9}{row['as_recorded_ms']:>13.2f}{errors[1]:>9}"
    )


def markdown(rows: dict[str, dict[str, Any]]) -> list[str]:
    """The table of docs/whatif.md."""

    def signed(value: float | None) -> str:
        return "" if value is None else f"{value:+.0f} %".replace("-", "\u2212")

    def number(value: float) -> str:
        return f"{value:.2f}".replace("-", "\u2212")

    lines = [
        "| change | edit | k | before, ms | after | saving (quartiles) | predicted | error | as recorded | error |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for name, row in rows.items():
        low, high = (number(value) for value in row["saving_quartiles_ms"])
        factors = ", ".join(f"{value:.2f}" for value in row["factors"].values())
        cells = [
            name, f"`{row['edit']}`", factors, number(row["before_ms"]), number(row["after_ms"]),
            f"{number(row['saving_ms'])} ({low} to {high})", number(row["predicted_ms"]), signed(row["error_pct"]),
            number(row["as_recorded_ms"]), signed(row["as_recorded_error_pct"]),
        ]  # fmt: skip
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def totals(rows: dict[str, dict[str, Any]]) -> list[str]:
    """Median and largest error of both predictions, and how far replays are from what they replay.

    A saving whose quartiles include 0 is below the noise: it is named, and the medians are given without it too.
    """
    lines = []
    noise = [name for name, row in rows.items() if row["below_noise"]]
    for key, words in (("error_pct", "predicted"), ("as_recorded_error_pct", "as recorded")):
        errors = {name: abs(row[key]) for name, row in rows.items() if row[key] is not None}
        clear = [error for name, error in errors.items() if name not in noise]
        if errors:
            apart = f" ({statistics.median(clear):.1f} % without those below the noise)" if noise and clear else ""
            middle, most = statistics.median(errors.values()), max(errors.values())
            lines.append(f"{words}: median error {middle:.1f} %{apart}, largest {most:.1f} %")
    if noise:
        lines.append(f"below the noise: {', '.join(noise)}")
    lines.append(f"unedited replays: off by at most {max(row['replay_error_pct'] for row in rows.values()):.2f} %")
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--case", action="append", help="only this change (may be repeated)")
    parser.add_argument("--rounds", type=int, default=7, help="of each process")
    parser.add_argument("--processes", type=int, default=3, help="fresh ones, one after the other")
    parser.add_argument("--system-allocator", action="store_true", help="leave the C library as it is set up")
    parser.add_argument("--steps", type=int, default=8, help="steps of each block")
    parser.add_argument("--quick", action="store_true", help="one round of few steps: whether it works at all")
    parser.add_argument("--output", type=Path, help="write the numbers as JSON, and the table beside it")
    parser.add_argument("--task", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--rank", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--ranks", type=int, default=1, help=argparse.SUPPRESS)
    parser.add_argument("--core", type=int, default=0, help=argparse.SUPPRESS)
    options = parser.parse_args()
    rounds, processes, count = (1, 1, 3) if options.quick else (options.rounds, options.processes, options.steps)
    keep = not options.system_allocator
    if options.task:
        pin(ALL_CORES[options.core : options.core + 1])
        task(options.task, options.rounds, options.steps, options.folder, options.rank, options.ranks)
        return 0

    import torch
    from whatif_cases import CHANGES

    unknown = set(options.case or ()) - set(CHANGES)
    if unknown:
        parser.error(f"no such change: {', '.join(sorted(unknown))}; there are {', '.join(CHANGES)}")
    load = round(os.getloadavg()[0], 1) if hasattr(os, "getloadavg") else None
    title = (
        f"torch {torch.__version__}, {os.cpu_count()} cores, load {load}, {processes} processes of {rounds} rounds of "
        f"{count} steps, {'freed memory kept' if keep else 'the allocator as the system sets it up'}"
    )
    lines = [title, HEADER, UNITS]
    print(*lines, sep="\n", flush=True)
    rows = {}
    for name in options.case or CHANGES:
        found = [one for _ in range(processes) for one in measure(name, rounds, count, keep)]
        rows[name] = {**summary(found), "rounds": found}
        lines.append(line(name, rows[name]))
        print(lines[-1], flush=True)
    last = totals(rows)
    print(*last, sep="\n")
    lines += last
    output = options.output or (None if options.quick or options.case else HERE / "whatif.json")
    if output is not None:
        told = {
            "torch": torch.__version__, "python": platform.python_version(), "cores": os.cpu_count(), "load": load,
            "processes": processes, "rounds": rounds, "steps": count, "keep_memory": keep, "changes": rows,
        }  # fmt: skip
        output.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
        output.with_suffix(".txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
        output.with_suffix(".md").write_text("\n".join(markdown(rows)) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
