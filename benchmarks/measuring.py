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


@dataclass(frozen=True, slots=True)
class Run:
    """Wall time of the whole process, its peak resident memory, and the JSON on its last line of output."""

    wall_s: float
    peak_bytes: int
    said: dict[str, Any] = field(default_factory=dict)


class ChildFailedError(Exception):
    """A measured process ended with an error; the message has the end of what it wrote."""


def measure(command: Sequence[str], *, num_cores: int, env: dict[str, str] | None = None, parse: bool = True) -> Run:
    """Run ``command`` once, pinned to the first ``num_cores`` cores."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        with pinned(num_cores):
            start = time.perf_counter()
            child = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=out, stderr=err, env={**os.environ, **(env or {})}
            )
        _, status, usage = os.wait4(child.pid, 0)
        wall = time.perf_counter() - start
        child.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        written = out.read().decode("utf-8", "replace").rstrip()
        if child.returncode:
            err.seek(0)
            end = err.read().decode("utf-8", "replace")[-4000:]
            raise ChildFailedError(f"{' '.join(command)}: exit {child.returncode}\n{end}")
    said = json.loads(written.rpartition("\n")[2]) if parse else {}
    return Run(wall, usage.ru_maxrss * _PEAK_UNIT, said)


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


def repeat(times: int, once: Callable[[], Run]) -> list[Run]:
    """The same measurement several times."""
    return [once() for _ in range(times)]
