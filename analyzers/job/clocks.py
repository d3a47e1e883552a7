"""The clocks of the ranks, aligned by the ends of their common collectives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from profsuite.analyzers.collectives import KINDS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from profsuite.analyzers.job.matching import Matches
    from profsuite.analyzers.job.summary import RankSummary

    Int64s = NDArray[np.int64]

_TOGETHER = [KINDS.index(k) for k in ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "barrier")]
"""Kinds that no rank can leave before all have joined."""


@dataclass(frozen=True, slots=True)
class Clocks:
    """``offset[n]`` is how far the clock of rank n is ahead of that of rank ``reference`` (both indices), ns.

    ``known`` says which ranks share collectives with the reference, directly or through others.  ``residual[n]`` is
    the median deviation of the common ends from that offset, -1 for the reference and what is not known.
    """

    reference: int
    offset: Int64s
    known: NDArray[np.bool_]
    residual: Int64s


def align(summaries: Sequence[RankSummary], matches: Matches) -> Clocks:
    """The offset of each clock: the median difference of the ends of common collectives, rank by rank.

    A tree of pairs, those with most common collectives first, leads from the reference (the rank with most
    collectives) to the others.  Only collectives that end on all ranks together count, unless a pair has none.
    """
    count = len(matches.ranks)
    offset, residual = np.zeros(count, np.int64), np.full(count, -1, np.int64)
    known = np.zeros(count, bool)
    present = matches.present
    shared = present[:, :].astype(np.float32)
    common = np.zeros((count, count), np.int64)
    for begin in range(0, len(shared), 1 << 20):
        part = shared[begin : begin + (1 << 20)]
        common += (part.T @ part).astype(np.int64)
    own = present.sum(axis=0) if len(matches) else np.zeros(count, np.int64)
    reference = (
        int(np.argmax(np.where(present.sum(axis=1)[:, None] > 1, present, False).sum(axis=0))) if len(own) else 0
    )
    known[reference] = True
    best, parent = common[reference].copy(), np.full(count, reference)
    while True:
        best_left = np.where(known, 0, best)
        n = int(np.argmax(best_left))
        if best_left[n] == 0:
            break
        offset[n], residual[n] = _pair(summaries, matches, int(parent[n]), n)
        offset[n] += offset[parent[n]]
        known[n] = True
        closer = common[n] > best
        best[closer], parent[closer] = common[n][closer], n
    return Clocks(reference, offset, known, residual)


def ends(summary: RankSummary) -> Int64s:
    """Ends of a rank's collectives, on the epoch where the file says how."""
    return summary.collectives.end + (summary.base_time_ns or 0)


def starts(summary: RankSummary) -> Int64s:
    """Starts of a rank's collectives, on the epoch where the file says how."""
    return summary.collectives.start + (summary.base_time_ns or 0)


def _pair(summaries: Sequence[RankSummary], matches: Matches, a: int, b: int) -> tuple[int, int]:
    """How far the clock of b is ahead of that of a, and the median deviation from that, ns."""
    both = np.flatnonzero((matches.row[:, a] >= 0) & (matches.row[:, b] >= 0))
    of_a, of_b = matches.row[both, a], matches.row[both, b]
    together = np.isin(summaries[a].collectives.kind[of_a], _TOGETHER)
    if together.any():
        of_a, of_b = of_a[together], of_b[together]
    difference = ends(summaries[b])[of_b] - ends(summaries[a])[of_a]
    # around one of them: differences of clocks that count from different times exceed a double's precision
    base = int(difference[0])
    shift = base + int(np.median(difference - base))
    return shift, int(np.median(np.abs(difference - shift)))
