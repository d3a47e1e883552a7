"""Waits for a batch as slices, where no profiler records them: torch's loaders mark them for profilers alone."""

from __future__ import annotations

import functools
import os
import threading
import time
from typing import TYPE_CHECKING, Any

from profsuite.collector import annotate
from profsuite.collector.recording import RawBuilder

if TYPE_CHECKING:
    from collections.abc import Callable

    from profsuite.trace.readers.raw import RawTrace

CATEGORY = "user_annotation"

MAX_WAITS = 500_000
"""Batches kept at most; later ones are counted."""


class DataLoaderChannel:
    """Each ``next`` of a torch DataLoader is a slice ``enumerate(DataLoader)#…__next__``, as Kineto names it.

    ``recorded`` says whether something else records torch's own mark of this batch already; by default whether
    torch.profiler or the recorder runs.  About 1 µs a batch.
    """

    name = "dataloader"

    def __init__(self, recorded: Callable[[], bool] | None = None) -> None:
        self.problems: list[str] = []
        self.overhead_ns = 0
        self._recorded = recorded
        self._waits: list[tuple[int, int, int, str]] | None = None
        self._patched: Any = None

    def start(self) -> None:
        """Wrap ``__next__`` of the loaders' iterators."""
        if self._waits is not None:
            return
        from torch.utils.data import dataloader

        self.problems, self.overhead_ns = [], 0
        # Where annotations are heard, so are torch's marks.
        recorded = self._recorded or annotate._recording
        self._pid, self._waits, self._num_dropped = os.getpid(), [], 0
        self._class: Any = vars(dataloader)["_BaseDataLoaderIter"]
        self._original = self._class.__next__
        self._patched = self._wrap(self._original, recorded)
        self._class.__next__ = self._patched

    def stop(self) -> RawTrace | None:
        """Put ``__next__`` back; one slice a batch."""
        waits, self._waits = self._waits, None
        if waits is None:
            return None
        # Someone may have wrapped our wrapper meanwhile: then it stays, and only calls through.
        if self._class.__next__ is self._patched:
            self._class.__next__ = self._original
        else:
            self.problems.append("__next__ of the loaders was patched by someone else; left as it is")
        if not waits or self._pid != os.getpid():
            return None
        builder = RawBuilder()
        for began, ended, thread, loader in waits:
            builder.add(
                "slice",
                ts=began,
                dur=max(ended - began, 0),
                track=builder.track(self._pid, thread),
                name=f"enumerate(DataLoader)#{loader}.__next__",
                category=CATEGORY,
            )
        if self._num_dropped:
            self.problems.append(f"{self._num_dropped:,} waits after the first {MAX_WAITS:,} were not kept")
        self.overhead_ns = (len(waits) + self._num_dropped) * _call_ns()
        return builder.build()

    def _wrap(self, original: Callable[[Any], Any], recorded: Callable[[], bool]) -> Callable[[Any], Any]:
        @functools.wraps(original)
        def __next__(loader: Any) -> Any:  # noqa: N807
            waits = self._waits
            if waits is None or recorded():
                return original(loader)
            began = time.time_ns()
            try:
                return original(loader)
            finally:
                if len(waits) < MAX_WAITS:
                    waits.append((began, time.time_ns(), threading.get_native_id(), type(loader).__name__))
                else:
                    self._num_dropped += 1

        return __next__


@functools.cache
def _call_ns() -> int:
    """What the wrapper adds to one batch on this machine, ns."""
    channel, rounds = DataLoaderChannel(), 1_000
    channel._waits = []
    batch = channel._wrap(_nothing, lambda: False)
    began = time.thread_time_ns()
    for _ in range(rounds):
        batch(None)
    return (time.thread_time_ns() - began) // rounds


def _nothing(_loader: Any) -> None:
    """A loader that waits for nothing."""
