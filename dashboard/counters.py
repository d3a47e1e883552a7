"""The counters of a trace: each series by time, and what a drawing of it needs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from profsuite.trace.model import Trace

    Int64s = NDArray[np.int64]
    Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Series:
    """One series of one counter: ``ts`` (ns on the file's clock, ascending) and finite values."""

    counter: str
    name: str
    ts: Int64s
    value: Floats

    def view(self, start_ns: int, end_ns: int, width: int) -> tuple[Int64s, Floats, Floats]:
        """Times, lowest and highest values of each of ``width`` pixels from ``start_ns`` to ``end_ns``.

        The last sample before the stretch and the first after it are among them: a counter holds its value.
        """
        low = max(0, int(np.searchsorted(self.ts, start_ns, "right")) - 1)
        high = min(len(self.ts), int(np.searchsorted(self.ts, end_ns)) + 1)
        ts, value = self.ts[low:high], self.value[low:high]
        if not len(ts):
            return ts, value, value
        inside = np.clip(ts, start_ns, end_ns - 1) - start_ns
        pixel = np.floor(inside / (end_ns - start_ns) * width)
        pixel = np.where(ts < start_ns, -1, np.where(ts >= end_ns, width, pixel))
        begins = np.flatnonzero(np.concatenate([[True], pixel[1:] != pixel[:-1]]))
        return ts[begins], np.minimum.reduceat(value, begins), np.maximum.reduceat(value, begins)


def all_series(trace: Trace) -> Iterator[Series]:
    """The series of a trace that have a value, by counter and name."""
    name, series = trace.array("counter", "name"), trace.array("counter", "series")
    value, ts = trace.array("counter", "value"), trace.array("counter", "ts")
    key = name.astype(np.int64) << 32 | series.astype(np.int64)
    rows = np.flatnonzero(np.isfinite(value))
    rows = rows[np.lexsort((ts[rows], key[rows]))]
    pairs, first = np.unique(key[rows], return_index=True)
    names, words = trace.words("counter", "name"), trace.words("counter", "series")
    for pair, part in zip(pairs.tolist(), np.split(rows, first)[1:], strict=True):
        yield Series(names[pair >> 32], words[pair & 0xFFFFFFFF], ts[part], value[part])
