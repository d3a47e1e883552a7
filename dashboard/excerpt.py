"""A stretch of a trace in another format, as it is written: nothing is put on the disk, or waits until it is whole."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import Empty, Full, Queue
from threading import Event, Thread
from typing import TYPE_CHECKING, Any, Final, cast

from profsuite.exporters.formats import format_called
from profsuite.exporters.rows import Rendering
from profsuite.exporters.source import source_of
from profsuite.exporters.target import Sink, Target
from profsuite.trace.select import cut

if TYPE_CHECKING:
    from profsuite.dashboard.store import Session
    from profsuite.trace.model import Trace

TYPES: Final = {"chrome": "application/json", "perfetto": "application/octet-stream"}
"""The formats that are offered, and what a browser calls them."""
AHEAD: Final = 8
"""Blocks that are made before the last was taken."""


class Stream(Target):
    """A target that another thread reads as it is written."""

    def __init__(self) -> None:
        super().__init__(Path(), compresses=False)
        self._blocks: Queue[bytes | None] = Queue(AHEAD)
        self._given_up = Event()

    @contextmanager
    def open(self) -> Iterator[Sink]:
        """Something to write to; it raises ``BrokenPipeError`` where nobody reads any more."""
        yield cast("Sink", self)

    def write(self, data: Any) -> None:
        """Hand bytes, or rows as bytes, over; waits while the reader is behind."""
        for piece in data.pieces() if isinstance(data, Rendering) else (data,):
            self._put(bytes(piece))

    def _put(self, block: bytes | None) -> None:
        while not self._given_up.is_set():
            try:
                self._blocks.put(block, timeout=0.1)
            except Full:
                continue
            return
        raise BrokenPipeError

    def blocks(self, trace: Trace, form: str) -> Iterator[bytes]:
        """The trace in a format.  What goes wrong while it is written is raised here."""
        wrong: list[BaseException] = []

        def work() -> None:
            try:
                format_called(form).write(source_of(trace), self)
                self._put(None)
            except BaseException as error:
                wrong.append(error)

        thread = Thread(target=work, name="profsuite-excerpt", daemon=True)
        thread.start()
        try:
            while True:
                try:
                    block = self._blocks.get(timeout=0.1)
                except Empty:
                    if wrong:
                        raise wrong[0] from None
                    continue
                if block is None:
                    return
                if block:
                    yield block
        finally:
            self._given_up.set()
            thread.join()


def excerpt(session: Session, start_ns: int, end_ns: int, form: str) -> Iterator[bytes]:
    """What overlaps a stretch of time (ns since the origin), in a format of ``TYPES``.

    ``SelectionError`` where nothing lies there.
    """
    origin = session.pyramid.start_ns
    note = f"{start_ns / 1e6:,.3f} to {end_ns / 1e6:,.3f} ms"
    return Stream().blocks(cut(session.trace, start_ns + origin, end_ns + origin, note), form)


def file_name(session: Session, start_ns: int, end_ns: int, form: str) -> str:
    """What to call the file: the trace and the stretch, without anything that a header or a shell would mind."""
    name = re.sub(r"[^A-Za-z0-9._-]+", "_", session.entry.path.name.split(".")[0])[:80] or "trace"
    return f"{name}_{start_ns / 1e6:.3f}-{end_ns / 1e6:.3f}ms{format_called(form).suffix}"
