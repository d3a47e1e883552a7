"""One measurement: a fresh process on fixed cores, its wall time, its peak memory, and what it printed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

# This module and the others that run.py imports stay with the standard library: on Linux a child's
# peak includes what its parent took when it was started, and that must be next to nothing.
_PEAK_UNIT = 1 if sys.platform == "darwin" else 1024

PINNED = hasattr(os, "sched_setaffinity")
CORES = sorted(os.sched_getaffinity(0)) if PINNED else list(range(os.cpu_count() or 1))


QUIET = 0.05
"""A run is disturbed where others took more than this share of the machine's cores meanwhile."""
TRIES = 3
"""Runs of which the least disturbed counts."""


@dataclass(frozen=True, slots=True)
class Run:
    """Wall time of the whole process, its peak resident memory, and the JSON on its last line of output.

    ``others`` is the share of all cores' time that other processes took meanwhile; None where unknown.
    """

    wall_s: float
    peak_bytes: int
    others: float | None
    said: dict[str, Any] = field(default_factory=dict)


class ChildFailedError(Exception):
    """A measured process ended with an error; the message has the end of what it wrote."""


def measure(command: Sequence[str], *, num_cores: int, env: dict[str, str] | None = None, parse: bool = True) -> Run:
    """Run ``command`` once, pinned to the first ``num_cores`` cores."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        with pinned(num_cores):
            busy, start = _busy_s(), time.perf_counter()
            child = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=out, stderr=err, env={**os.environ, **(env or {})}
            )
        _, status, usage = os.wait4(child.pid, 0)
        wall = time.perf_counter() - start
        others = None
        if busy is not None and (later := _busy_s()) is not None:
            took = later - busy - usage.ru_utime - usage.ru_stime
            others = max(0.0, took / wall / (os.cpu_count() or 1))
        child.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        written = out.read().decode("utf-8", "replace").rstrip()
        if child.returncode:
            err.seek(0)
            end = err.read().decode("utf-8", "replace")[-4000:]
            raise ChildFailedError(f"{' '.join(command)}: exit {child.returncode}\n{end}")
    said = json.loads(written.rpartition("\n")[2]) if parse else {}
    return Run(wall, usage.ru_maxrss * _PEAK_UNIT, others, said)


@contextmanager
def pinned(num_cores: int) -> Iterator[None]:
    """Children started here inherit the first ``num_cores`` cores."""
    if not PINNED:
        yield
        return
    os.sched_setaffinity(0, CORES[:num_cores])
    try:
        yield
    finally:
        os.sched_setaffinity(0, CORES)


def repeat(times: int, once: Callable[[], Run], quiet: bool = True) -> list[Run]:
    """The same measurement several times; with ``quiet``, a disturbed one is tried again."""
    runs = []
    for _ in range(times):
        best = once()
        for _ in range(TRIES - 1 if quiet else 0):
            if best.others is None or best.others <= QUIET:
                break
            best = min(best, once(), key=lambda run: run.others or 0.0)
        runs.append(best)
    return runs


def _busy_s() -> float | None:
    """Seconds that all cores together have worked, for whomever; None where the system does not say."""
    if sys.platform != "linux":
        return None
    with open("/proc/stat", encoding="ascii") as file:  # noqa: PTH123
        ticks = [int(number) for number in file.readline().split()[1:]]
    idle = ticks[3] + ticks[4]
    return (sum(ticks[:8]) - idle) / os.sysconf("SC_CLK_TCK")
