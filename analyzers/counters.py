"""Series of counters: samples of one number over time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from profsuite.analyzers.recorded import overlaps

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from profsuite.trace.intervals import IntervalSet
    from profsuite.trace.model import Trace


def counter_names(trace: Trace) -> list[str]:
    """The counters that have samples."""
    words = trace.words("counter", "name")
    return [words[code] for code in np.unique(trace.array("counter", "name")).tolist()]


def samples(
    trace: Trace, name: str, series: str, within: IntervalSet | None = None
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Times (ns on the file's clock) and values of a counter's series, by time; empty where it has none.

    Values that are no number, or infinite, are left out; with ``within`` all that lie outside of this set, too.
    """
    codes = [
        words.index(word) if word in words else -2
        for word, words in ((name, trace.words("counter", "name")), (series, trace.words("counter", "series")))
    ]
    value = trace.array("counter", "value")
    of = (trace.array("counter", "name") == codes[0]) & (trace.array("counter", "series") == codes[1])
    rows = np.flatnonzero(of & np.isfinite(value))
    rows = rows[np.argsort(trace.array("counter", "ts")[rows], kind="stable")]
    times = trace.array("counter", "ts")[rows]
    if within is not None:
        inside = overlaps(times, times, within)
        rows, times = rows[inside], times[inside]
    return times, value[rows]
