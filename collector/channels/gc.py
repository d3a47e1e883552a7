"""Pauses of Python's garbage collector as slices, through ``gc.callbacks``."""

from __future__ import annotations

import gc
import os
import threading
import time
from typing import TYPE_CHECKING, Any

from profsuite.collector.recording import RawBuilder

if TYPE_CHECKING:
    from profsuite.trace.readers.raw import RawTrace

CATEGORY = "python_function"

MAX_PAUSES = 200_000
"""Pauses kept at most: when they are full the shorter half goes, and no more of that length are kept."""


class GcChannel:
    """Each collection is a slice ``Python GC (generation N)`` on the thread that it stopped.

    Two calls of about 0.3 µs a collection; nothing while none runs.
    """

    name = "gc"

    def __init__(self) -> None:
        self.problems: list[str] = []
        self.overhead_ns = 0
        self._pauses: list[tuple[int, int, int, int]] = []
        self._began = self._shortest = self._num_dropped = 0
        self._pid: int | None = None

    def start(self) -> None:
        """Hook into the collector."""
        if self._pid is not None:
            return
        self.problems, self.overhead_ns = [], 0
        self._pauses, self._began, self._shortest, self._num_dropped = [], 0, 0, 0
        self._pid = os.getpid()
        gc.callbacks.append(self._collected)

    def stop(self) -> RawTrace | None:
        """Unhook; one slice a collection."""
        if self._pid is None:
            return None
        gc.callbacks.remove(self._collected)
        pid, self._pid = self._pid, None
        pauses, self._pauses = self._pauses, []
        if not pauses or pid != os.getpid():
            return None
        builder = RawBuilder()
        for began, ended, generation, thread in pauses:
            builder.add(
                "slice",
                ts=began,
                dur=max(ended - began, 0),
                track=builder.track(pid, thread),
                name=f"Python GC (generation {generation})",
                category=CATEGORY,
            )
        if self._num_dropped:
            self.problems.append(f"{self._num_dropped:,} pauses of up to {self._shortest / 1e3:,.0f} µs were not kept")
        # Two calls a collection; timing each would cost more than it does.
        self.overhead_ns = (len(pauses) + self._num_dropped) * _call_ns()
        return builder.build()

    def _collected(self, phase: str, info: dict[str, Any]) -> None:
        # Collections never nest, and the callbacks run on the thread that collects, under the GIL.
        if phase == "start":
            self._began = time.time_ns()
        elif self._began:
            began, ended, self._began = self._began, time.time_ns(), 0
            if ended - began < self._shortest:
                self._num_dropped += 1
                return
            self._pauses.append((began, ended, info["generation"], threading.get_native_id()))
            if len(self._pauses) >= MAX_PAUSES:
                self._drop_short()

    def _drop_short(self) -> None:
        durations = sorted(ended - began for began, ended, _, _ in self._pauses)
        self._shortest = durations[len(durations) // 2] + 1
        kept = [pause for pause in self._pauses if pause[1] - pause[0] >= self._shortest]
        self._num_dropped += len(self._pauses) - len(kept)
        self._pauses = kept


def _call_ns() -> int:
    """What the two calls of one collection cost on this machine, ns."""
    channel, rounds = GcChannel(), 1_000
    info = {"generation": 0}
    began = time.thread_time_ns()
    for _ in range(rounds):
        channel._collected("start", info)
        channel._collected("stop", info)
    return (time.thread_time_ns() - began) // rounds
