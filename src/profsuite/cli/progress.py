"""A progress bar on stderr for anything that takes longer than a second."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

PATIENCE_SECONDS = 1.0
INTERVAL_SECONDS = 0.1


class ProgressBar:
    """Called with the bytes read and, where known, all bytes; shows itself on a terminal after a second.

    With a ``noun`` (``ranks``) it counts these instead of bytes.

    Used as ``with ProgressBar(name) as progress: load(path, progress=progress)``; the bar is gone afterwards.
    """

    def __init__(self, label: str, noun: str | None = None) -> None:
        self._noun = noun
        self._label = "".join(c if c.isprintable() else "?" for c in label)
        self._begin = self._last = time.monotonic()
        self._terminal = sys.stderr.isatty()
        self._bar: Progress | None = None
        self._task: TaskID | None = None

    def __enter__(self) -> ProgressBar:
        return self

    def __call__(self, done: int, total: int | None = None) -> None:
        """Say that ``done`` bytes of ``total`` have been read."""
        if not self._terminal:
            return
        now = time.monotonic()
        if now - self._begin < PATIENCE_SECONDS or now - self._last < INTERVAL_SECONDS:
            return
        self._last = now
        rate = done / (now - self._begin)
        speed = f"{rate / 1e6:,.0f} MB/s" if self._noun is None else f"{rate:,.1f} {self._noun}/s"
        if self._bar is None:
            self._show(done, total, speed)
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, completed=done, total=total, speed=speed)

    def _show(self, done: int, total: int | None, speed: str) -> None:
        from rich.console import Console
        from rich.markup import escape
        from rich.progress import (
            BarColumn,
            DownloadColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeRemainingColumn,
        )

        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            DownloadColumn() if self._noun is None else MofNCompleteColumn(),
            TextColumn("{task.fields[speed]}"),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            transient=True,
        )
        self._task = self._bar.add_task(escape(self._label), completed=done, total=total, speed=speed)
        self._bar.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()
