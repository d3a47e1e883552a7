"""Who waits for whom in the collectives of a job, and how much of it nothing hides."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from profsuite.analyzers.collectives import NONE
from profsuite.analyzers.job.clocks import starts
from profsuite.analyzers.ranking import sum_by_group
from profsuite.trace.intervals import covered

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from profsuite.analyzers.job.clocks import Clocks
    from profsuite.analyzers.job.matching import Matches
    from profsuite.analyzers.job.summary import RankSummary

    Int64s = NDArray[np.int64]

BLOCK_CELLS = 1 << 22
"""Cells (collectives x ranks) that are looked at together: bounds the memory."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """Of M matched collectives and N ranks.

    ``transfer`` is the shortest duration over the ranks, ``skew`` the longest wait, ``last`` the index of the rank
    that arrived last (-1 where fewer than two ranks with aligned clocks took part), all int64[M]; ``NONE`` where no
    two ranks took part.  ``wait[n]`` is the wait of rank n in each of its collectives, ``exposed_wait[n]`` and
    ``exposed[n]`` what of the wait and of the whole nothing hid.  ``matrix[i, j]`` is how long rank j waited for rank
    i, ``exposed_matrix`` what of it nothing hid.
    """

    transfer: Int64s
    skew: Int64s
    last: Int64s
    num_bytes: Int64s
    wait: tuple[Int64s, ...]
    exposed: tuple[Int64s, ...]
    exposed_wait: tuple[Int64s, ...]
    matrix: Int64s
    exposed_matrix: Int64s


def waiting(summaries: Sequence[RankSummary], matches: Matches, clocks: Clocks) -> Waiting:
    """Transfer, wait and skew of each collective; wait(rank) = last arrival - own arrival, at most its own duration."""
    count, total = len(summaries), len(matches)
    transfer, skew = np.full(total, NONE, np.int64), np.full(total, NONE, np.int64)
    last, size = np.full(total, -1, np.int64), np.full(total, NONE, np.int64)
    arrived = [starts(s) - offset for s, offset in zip(summaries, clocks.offset.tolist(), strict=True)]
    wait = tuple(np.zeros(len(s.collectives), np.int64) for s in summaries)
    matrix = np.zeros((count, count), np.int64)
    block = max(1, BLOCK_CELLS // max(count, 1))
    for begin in range(0, total, block):
        part = slice(begin, min(begin + block, total))
        rows = matches.row[part]
        present = rows >= 0
        arrival = np.full(rows.shape, NONE, np.int64)
        dur = np.full(rows.shape, np.iinfo(np.int64).max, np.int64)
        for n, summary in enumerate(summaries):
            here = present[:, n]
            mine = rows[here, n]
            dur[here, n] = summary.collectives.dur[mine]
            size[part][here] = np.maximum(size[part][here], summary.collectives.num_bytes[mine])
            if clocks.known[n]:
                arrival[here, n] = arrived[n][mine]
        several = present.sum(axis=1) > 1
        transfer[part] = np.where(several, dur.min(axis=1), NONE)
        comparable = (arrival != NONE).sum(axis=1) > 1
        latest = arrival.max(axis=1)
        last[part] = np.where(comparable, arrival.argmax(axis=1), -1)
        longest = np.zeros(len(rows), np.int64)
        for n in range(count):
            here = comparable & (arrival[:, n] != NONE)
            waited = np.minimum(latest[here] - arrival[here, n], dur[here, n])
            wait[n][rows[here, n]] = waited
            longest[here] = np.maximum(longest[here], waited)
            matrix[:, n] += sum_by_group(last[part][here], waited, count)
        skew[part] = np.where(comparable, longest, NONE)
    exposed, exposed_wait = [], []
    exposed_matrix = np.zeros((count, count), np.int64)
    for n, summary in enumerate(summaries):
        c = summary.collectives
        exposed.append(c.exposed_ns)
        exposed_wait.append(covered(c.own_start, np.minimum(c.end, c.start + wait[n]), c.exposed))
        here = (matches.row[:, n] >= 0) & (last >= 0)
        exposed_matrix[:, n] = sum_by_group(last[here], exposed_wait[n][matches.row[here, n]], count)
    return Waiting(transfer, skew, last, size, wait, tuple(exposed), tuple(exposed_wait), matrix, exposed_matrix)
