"""What ends a process early: signals and the interpreter's exit, so that the recording is written first."""

from __future__ import annotations

import atexit
import os
import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any, Final

SIGNALS: Final = ("SIGTERM", "SIGINT")
PATIENCE: Final = 2
"""Signals that wait while the recording is written; the next one does at once what it does without us."""


class Interrupts:
    """Calls ``flush`` before SIGTERM, SIGINT or the end of the interpreter does what it would have done.

    Handlers of before are called afterwards, and put back by ``remove``.  In a forked child nothing is flushed.
    Between ``hold`` and ``remove`` signals wait: a launcher sends the one that it got itself to its workers as well,
    and the second one must not end what the first one began.
    """

    def __init__(self, flush: Callable[[], None]) -> None:
        self._flush = flush
        self._pid = os.getpid()
        self._before: dict[int, Any] = {}
        self._held: list[int] | None = None

    def install(self) -> None:
        """Take over; signals only from the main thread, as Python demands."""
        atexit.register(self._at_exit)
        if threading.current_thread() is not threading.main_thread():
            return
        for name in SIGNALS:
            number = getattr(signal, name)
            before = signal.getsignal(number)
            # None: installed by C code, which Python could not put back; ignored signals stay ignored.
            if before is None or before is signal.SIG_IGN:
                continue
            signal.signal(number, self._handle)
            self._before[number] = before

    def hold(self) -> None:
        """From now until ``remove`` signals wait; more than ``PATIENCE`` of them do not."""
        self._held = []

    def remove(self) -> None:
        """Put back what was there, unless someone else has taken over since; signals that waited come now."""
        atexit.unregister(self._at_exit)
        self._put_back()
        held, self._held = self._held, None
        for number in held or ():
            os.kill(os.getpid(), number)

    def _put_back(self) -> None:
        if threading.current_thread() is not threading.main_thread():
            # The handlers stay and pass on; they must not keep the recording alive.
            self._flush = _nothing
            return
        for number, before in self._before.items():
            # A bound method is a new object each time: compare, do not identify.
            if signal.getsignal(number) == self._handle:
                signal.signal(number, before)
        self._before.clear()

    def _handle(self, number: int, frame: FrameType | None) -> None:
        before = self._before.get(number, signal.SIG_DFL)
        if os.getpid() == self._pid:
            if self._held is not None and len(self._held) < PATIENCE:
                self._held.append(number)
                return
            self._flush()
        if callable(before):
            before(number, frame)
        elif before is signal.SIG_DFL:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)

    def _at_exit(self) -> None:
        if os.getpid() == self._pid:
            self._flush()


def _nothing() -> None:
    """Nothing is left to be kept."""
