"""Many valid events at once: msgspec decodes them, numpy and dicts fill the columns.

Whatever is not as usual (not valid JSON, a type out of the ordinary, an event that has to be
dropped) is left to the caller, who reads that event alone.  Results are the same either way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec
import numpy as np
from msgspec import Raw

from profsuite.trace.readers.bulk import UnfitError
from profsuite.trace.readers.window import Event, Learned, Window

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from profsuite.trace.readers.columns import Columns

SMALLEST: Final = 1 << 9
LARGEST: Final = 1 << 21
"""Bytes decoded at once."""
_SPACES: Final = b" \t\n\r"


class Batch:
    """Reads runs of events into ``columns``."""

    def __init__(self, columns: Columns) -> None:
        self._columns = columns
        self._decoder = msgspec.json.Decoder(list[Event])
        self._raw_decoder = msgspec.json.Decoder(list[Raw])
        self._window = SMALLEST * 32
        self._learned = Learned()

    def read(self, data: bytes, at: int, base: int) -> int:
        """Read events from the one at ``at``; where the next begins, 0 if the first has to be read alone.

        ``base`` is the file's offset of ``data[0]``.
        """
        failed = False
        while True:
            limit = at + self._window
            if len(data) < limit + self._window // 4:
                limit = len(data)
            cut = _last_event(data, at, limit)
            if cut is None:
                if failed or self._window >= LARGEST or limit == len(data):
                    return 0
                self._window *= 2
                continue
            end, after = cut
            try:
                self._read(data, at, end, base)
            except (UnfitError, msgspec.DecodeError, RecursionError, ValueError, OverflowError):
                if self._window <= SMALLEST:
                    return 0
                self._window = max(self._window // 4, SMALLEST)
                failed = True
                continue
            self._window = min(self._window * 2, LARGEST)
            return after

    def _read(self, data: bytes, at: int, end: int, base: int) -> None:
        text = b"".join((b"[", memoryview(data)[at:end], b"]"))
        events = self._decoder.decode(text)
        starts = at + _starts(np.frombuffer(data, np.uint8, end - at, at))
        if len(starts) != len(events):
            starts = at - 1 + self._exact_starts(text)
        Window(self._learned, events, starts + base).add(self._columns)

    def _exact_starts(self, text: bytes) -> NDArray[np.int64]:
        """Where events start, also when other places look like one."""
        starts = []
        end = 0
        for raw in self._raw_decoder.decode(text):
            start = text.index(b"{", end)
            starts.append(start)
            end = start + len(bytes(raw))
        return np.array(starts, np.int64)


def _last_event(data: bytes, at: int, limit: int) -> tuple[int, int] | None:
    """The last ``},{`` (spaces apart) before ``limit``: the end of the one and the start of the other."""
    while True:
        start = data.rfind(b"{", at + 1, limit)
        if start < 0:
            return None
        comma = start - 1
        while data[comma] in _SPACES:
            comma -= 1
        if data[comma] == 0x2C:
            end = comma - 1
            while data[end] in _SPACES:
                end -= 1
            if data[end] == 0x7D and end > at:
                return end + 1, start
        limit = start


def _starts(array: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Every place after ``},`` where a brace opens, and 0: the events' starts if there are as many."""
    braces = np.flatnonzero(array == 0x7B)[1:]
    braces = braces[array[braces - 2] != 0x3A]  # most others stand after a colon and a space
    before = _back(array, braces - 1)
    is_comma = array[before] == 0x2C
    braces, before = braces[is_comma], before[is_comma]
    before = _back(array, before - 1)
    return np.concatenate([np.zeros(1, np.int64), braces[array[before] == 0x7D]])


def _back(array: NDArray[np.uint8], at: NDArray[np.int64]) -> NDArray[np.int64]:
    """The last byte up to ``at`` that is not white space (a brace opens the text)."""
    spaces = np.flatnonzero(array[at] <= 0x20)
    while len(spaces):
        at[spaces] -= 1
        spaces = spaces[array[at[spaces]] <= 0x20]
    return at
