"""Snapshots of the CUDA caching allocator, with the history of allocations: when memory runs out, and at the end.

The files are those of ``torch.cuda.memory._dump_snapshot``: pytorch.org/memory_viz opens them.
"""

from __future__ import annotations

import os
import pickle
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

MAX_ENTRIES = 100_000
"""Allocations and frees of the history; each is some KB in the file."""

MAX_FILES = 3
"""Out-of-memory snapshots a recording: code that catches the error and goes on must not fill the disk."""


class SnapshotChannel:
    """Writes ``memory_oom_N.pickle`` when CUDA's memory runs out and ``memory_end.pickle`` at ``stop``.

    ``folder`` tells where to, when the first is written.  Without CUDA it does nothing, and says so.
    About 2 µs an allocation, more with deep Python stacks; nothing between them.
    """

    name = "snapshot"

    def __init__(self, folder: Callable[[], Path], max_entries: int = MAX_ENTRIES) -> None:
        self.problems: list[str] = []
        self.overhead_ns = 0
        self.files: list[Path] = []
        self._folder = folder
        self._max_entries = max_entries
        self._pid: int | None = None

    def start(self) -> None:
        """Let the allocator record its history."""
        if self._pid is not None:
            return
        import torch

        self.problems, self.overhead_ns, self.files, self._num_oom = [], 0, [], 0
        if not torch.cuda.is_available():
            self.problems.append("no snapshots: CUDA is not available")
            return
        self._memory: Any = torch.cuda.memory
        try:
            self._memory._record_memory_history(max_entries=self._max_entries, stacks="python")
            _observe(self, getattr(torch._C, "_cuda_attach_out_of_memory_observer"))  # noqa: B009 (CUDA builds only)
        except Exception as error:
            self.problems.append(f"no snapshots: {error}")
            return
        self._pid = os.getpid()

    def stop(self) -> None:
        """Write the last snapshot and end the history; nothing for the trace."""
        global _recording
        pid, self._pid = self._pid, None
        if pid != os.getpid():
            return
        if _recording is self:
            _recording = None
        self._write("memory_end.pickle")
        try:
            self._memory._record_memory_history(enabled=None)
        except Exception as error:
            self.problems.append(f"the allocator's history could not be ended: {error}")

    def ran_out(self) -> None:
        """CUDA has no memory for an allocation: write what there is."""
        if self._pid != os.getpid():
            return
        self._num_oom += 1
        if self._num_oom <= MAX_FILES:
            self._write(f"memory_oom_{self._num_oom}.pickle")
        elif self._num_oom == MAX_FILES + 1:
            self.problems.append(f"memory ran out more than {MAX_FILES} times; only those have snapshots")

    def _write(self, name: str) -> None:
        """Never raises: an observer that does would hide the training's own error."""
        began = time.thread_time_ns()
        try:
            path = self._folder() / name
            part = path.with_name(f".{name}.part")
            with part.open("wb") as file:
                pickle.dump(self._memory._snapshot(), file)
            part.replace(path)
            self.files.append(path)
        except Exception as error:
            self.problems.append(f"{name} could not be written: {error}")
        self.overhead_ns += time.thread_time_ns() - began


_observed = False
_recording: SnapshotChannel | None = None


def _observe(channel: SnapshotChannel, attach: Callable[[Callable[..., None]], None]) -> None:
    """Tell ``channel`` when memory runs out.

    An observer cannot be detached: one is attached for good, and asks who records.
    """
    global _observed, _recording
    if not _observed:
        attach(_ran_out)
        _observed = True
    _recording = channel


def _ran_out(*_: int) -> None:  # device, bytes asked for, of the device, free
    if _recording is not None:
        _recording.ran_out()
