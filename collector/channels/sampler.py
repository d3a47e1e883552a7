"""A thread that reads numbers at a steady pace, for the channels that sample."""

from __future__ import annotations

import os
import threading
import time
from abc import ABC, abstractmethod
from array import array
from typing import TYPE_CHECKING

import numpy as np

from profsuite.collector.recording import RawBuilder

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from profsuite.trace.readers.raw import RawTrace

MAX_SAMPLES = 36_000
"""Samples kept at most: an hour at 100 ms.  When they are full every second one goes and the interval doubles."""

NAN = float("nan")


class Source:
    """Numbers of one counter that are read together: ``series`` names them, ``get`` reads them.

    ``scale`` multiplies them.  A ``rate`` is the increase a second since the reading before; the first
    reading, and one after a counter that went back, have none (NaN).
    """

    def __init__(
        self,
        counter: str,
        series: Sequence[str],
        get: Callable[[], Sequence[float]],
        *,
        scale: float = 1.0,
        rate: bool = False,
    ) -> None:
        self.counter = counter
        self.series = tuple(series)
        self._get = get
        self._scale = scale
        self._rate = rate
        self._before: tuple[float, Sequence[float]] | None = None

    def probe(self) -> None:
        """Raise what reading raises."""
        self._get()

    def read(self) -> list[float]:
        """One number a series; NaN for all if reading fails this once."""
        try:
            values = self._get()
        except Exception:
            self._before = None
            return [NAN] * len(self.series)
        if not self._rate:
            return [value * self._scale for value in values]
        now = time.monotonic()
        before, self._before = self._before, (now, values)
        if before is None or now <= before[0]:
            return [NAN] * len(values)
        passed = now - before[0]
        return [self._scale * (v - w) / passed if v >= w else NAN for v, w in zip(values, before[1], strict=True)]


class Sampler(ABC):
    """What the sampling channels share; a subclass says what it reads by ``open``."""

    name = ""

    def __init__(self, interval_ms: float = 100.0) -> None:
        if interval_ms <= 0:
            raise ValueError(f"interval_ms must be above 0, not {interval_ms}")
        self.interval_ms = interval_ms
        self.problems: list[str] = []
        self.overhead_ns = 0
        self._thread: threading.Thread | None = None

    @abstractmethod
    def open(self) -> Sequence[Source]:
        """Get ready to read; what there may be to read.  Raises if there is nothing at all."""

    def close(self) -> None:  # noqa: B027 - nothing to let go of is the usual case
        """Let go of what ``open`` took."""

    def start(self) -> None:
        """Begin to sample in a thread of its own."""
        if self._thread is not None:
            return
        self.problems = []
        began = time.thread_time_ns()
        try:
            self._sources = self._usable(self.open())
        except Exception as error:
            self.problems.append(f"nothing is sampled: {error or type(error).__name__}")
            self._sources = []
        self._opening_ns = self.overhead_ns = time.thread_time_ns() - began
        if not self._sources:
            self.close()
            return
        self._ts, self._values = array("q"), array("d")
        self._pid = os.getpid()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"profsuite-{self.name}", daemon=True)
        self._thread.start()

    def stop(self) -> RawTrace | None:
        """End the thread; one counter row a sample and series, None without any sample."""
        thread, self._thread = self._thread, None
        # A forked child inherits this object, but neither the thread nor the right to its samples.
        if thread is None or self._pid != os.getpid():
            return None
        self._ended.set()
        thread.join()
        self.close()
        if not self._ts:
            return None
        ts = np.frombuffer(self._ts, np.int64)
        values = np.frombuffer(self._values).reshape(len(ts), -1)
        row, column = np.nonzero(~np.isnan(values))
        builder = RawBuilder()
        builder.append(
            "counter",
            {
                "ts": ts[row],
                "track": builder.track(self._pid, ""),  # as Chrome's traces have it: counters belong to processes
                "name": builder.codes("name", [s.counter for s in self._sources for _ in s.series])[column],
                "series": builder.codes("series", [name for s in self._sources for name in s.series])[column],
                "value": values[row, column],
            },
        )
        return builder.build()

    def _usable(self, sources: Sequence[Source]) -> list[Source]:
        usable: list[Source] = []
        missing: dict[str, list[str]] = {}
        for source in sources:
            try:
                source.probe()
            except Exception as error:
                names = [f"{source.counter} {name}" for name in source.series]
                missing.setdefault(str(error) or type(error).__name__, []).extend(names)
            else:
                usable.append(source)
        for error_text, names in missing.items():
            self.problems.append(f"not to be had here: {', '.join(names)} ({error_text})")
        return usable

    def _run(self) -> None:
        interval = self.interval_ms / 1e3
        due = time.monotonic()
        while True:
            values = [value for source in self._sources for value in source.read()]
            self._ts.append(time.time_ns())
            self._values.extend(values)
            if len(self._ts) >= MAX_SAMPLES:
                self._thin()
                interval *= 2
            # The thread does nothing else: all of its time is overhead.
            self.overhead_ns = self._opening_ns + time.thread_time_ns()
            due += interval
            now = time.monotonic()
            if due < now:  # late: an interval from now, not at once
                due = now + interval
            if self._ended.wait(due - now):
                return

    def _thin(self) -> None:
        kept = np.frombuffer(self._values).reshape(len(self._ts), -1)[::2].tobytes()
        self._ts = self._ts[::2]
        self._values = array("d")
        self._values.frombytes(kept)
        self.problems.append(f"after {MAX_SAMPLES:,} samples every second one was dropped.")
