"""Time of the main device that some of its work takes: alone, and while the device waits for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from profsuite.analyzers.enclosing import enclosing
from profsuite.analyzers.idle import CAUSES
from profsuite.trace.intervals import merge, subtract_length

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from profsuite.analyzers.analysis import Analysis
    from profsuite.analyzers.idle import Cause

DISPATCH_NS = 1_000_000
"""A gap that is longer is no dispatch: code is loaded in it, or memory is set up."""

LAUNCHING: tuple[Cause, ...] = ("host", "queue")
"""Causes of gaps that fewer, larger launches make shorter."""


def launched_in(analysis: Analysis, marked: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Which work of the main device was launched inside a ``marked`` slice; one element a piece of work."""
    if analysis.main is None:
        return np.zeros(0, bool)
    launch = analysis.work[analysis.main].launch_ids
    around = enclosing(analysis.trace, marked)
    return (launch >= 0) & (around[np.maximum(launch, 0)] >= 0)


def alone_ns(analysis: Analysis, own: NDArray[np.bool_]) -> int:
    """Time in which the main device does only the work ``own`` (one element a piece), ns."""
    if analysis.main is None:
        return 0
    work = analysis.work[analysis.main]
    return subtract_length(merge(work.start[own], work.end[own]), merge(work.start[~own], work.end[~own]))


def dispatch_before_ns(analysis: Analysis, own: NDArray[np.bool_]) -> int:
    """Of the gaps that work of ``own`` ended: the dispatch of ops and launching in the late ones, all of queued ones.

    Python between the ops is left out (it may be the user's own work), and so are gaps above 1 ms.  In ns.
    """
    gaps = analysis.gaps
    if gaps is None:
        return 0
    ended = (gaps.follows >= 0) & own[np.maximum(gaps.follows, 0)] & (gaps.dur <= DISPATCH_NS)
    late, queued = (ended & (gaps.cause == CAUSES.index(cause)) for cause in LAUNCHING)
    return int(gaps.split[late, 1:].sum()) + int(gaps.dur[queued].sum())


def longest_of(analysis: Analysis, own: NDArray[np.bool_], top: int = 5) -> list[int]:
    """The longest pieces of the work ``own``, as rows of ``slice``."""
    assert analysis.main is not None
    work = analysis.work[analysis.main]
    at = np.flatnonzero(own)
    longest = at[np.argsort(work.start[at] - work.end[at], kind="stable")[:top]]
    return [int(row) for row in work.ids[longest]]
