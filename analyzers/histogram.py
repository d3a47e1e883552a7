"""Histograms of durations: how the times of one thing spread, in few numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from profsuite.analyzers.base import Ns

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

BINS = 16


class Histogram(Struct, frozen=True, kw_only=True):
    """How many durations lie in each of 16 bins between the shortest and the longest; the counts sum to all of them.

    The bins' edges have equal ratios, rounded to a nanosecond, from ``min_ns`` (1 where that is 0) to ``max_ns``; a
    bin has its lower edge and not its upper one, but for the last, which has both.  Where all durations are equal there
    is one bin.
    """

    min_ns: Ns
    max_ns: Ns
    counts: tuple[int, ...]


def histogram(dur: NDArray[np.int64]) -> Histogram | None:
    """The histogram of durations (ns, none negative), null without any."""
    if not len(dur):
        return None
    low, high = int(dur.min()), int(dur.max())
    bins = BINS if high > low and high > 1 else 1
    edges = np.rint(np.geomspace(max(low, 1), max(high, 1), bins + 1))
    place = np.searchsorted(edges[1:-1], dur, "right")
    return Histogram(min_ns=low, max_ns=high, counts=tuple(np.bincount(place, minlength=bins).tolist()))


def histograms(group: NDArray[np.int64], dur: NDArray[np.int64], wanted: NDArray[np.int64]) -> Iterator[Histogram]:
    """The histograms of the groups ``wanted``, each of which has a duration; ``group`` numbers those of ``dur``."""
    order = np.argsort(group, kind="stable")
    first = np.searchsorted(group[order], wanted, "left")
    last = np.searchsorted(group[order], wanted, "right")
    for start, end in zip(first.tolist(), last.tolist(), strict=True):
        found = histogram(dur[order[start:end]])
        assert found is not None
        yield found
