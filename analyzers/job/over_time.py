"""The ranks of a job over time: when each is in collectives, and when it waits there for others."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from profsuite.analyzers.base import Ns
from profsuite.analyzers.job.clocks import starts
from profsuite.trace.intervals import covered, merge

if TYPE_CHECKING:
    from collections.abc import Sequence

    from profsuite.analyzers.job.clocks import Clocks
    from profsuite.analyzers.job.summary import RankSummary
    from profsuite.analyzers.job.waiting import Waiting

CELLS = 4096
"""Ranks times stretches, about: a picture has no room for more."""
FEWEST, MOST = 16, 128
"""Stretches."""


class RanksOverTime(Struct, frozen=True, kw_only=True):
    """Each rank's time in collectives, in stretches of equal length (to a nanosecond).

    ``edges_ns``, one more than the stretches, count from the first collective's start on any rank, on the reference
    rank's clock.  Row n is of ``ranks[n]``: ``comm_ns`` is the time in which some collective of the rank ran,
    ``wait_ns`` that in which one of them waited for a later rank.  A rank whose clock is not aligned has no row.
    """

    ranks: tuple[int, ...]
    edges_ns: tuple[Ns, ...]
    comm_ns: tuple[tuple[Ns, ...], ...]
    wait_ns: tuple[tuple[Ns, ...], ...]


def ranks_over_time(summaries: Sequence[RankSummary], waits: Waiting, clocks: Clocks) -> RanksOverTime | None:
    """The ranks over time; null without collectives on ranks whose clocks are aligned."""
    shown = [n for n, s in enumerate(summaries) if clocks.known[n] and len(s.collectives)]
    begin = {n: starts(summaries[n]) - int(clocks.offset[n]) for n in shown}
    end = {n: begin[n] + summaries[n].collectives.dur for n in shown}
    if not shown:
        return None
    first = min(int(begin[n].min()) for n in shown)
    length = max(int(end[n].max()) for n in shown) - first
    if length <= 0:
        return None
    count = min(max(FEWEST, min(MOST, CELLS // len(shown))), length)
    edges = [n * length // count for n in range(count + 1)]
    low, high = np.array(edges[:-1], np.int64) + first, np.array(edges[1:], np.int64) + first
    comm = [covered(low, high, merge(begin[n], end[n])) for n in shown]
    wait = [covered(low, high, merge(begin[n], np.minimum(end[n], begin[n] + waits.wait[n]))) for n in shown]
    return RanksOverTime(
        ranks=tuple(summaries[n].rank for n in shown),
        edges_ns=tuple(edges),
        comm_ns=tuple(tuple(row.tolist()) for row in comm),
        wait_ns=tuple(tuple(row.tolist()) for row in wait),
    )
