"""Time that belongs to marked stretches of the host, such as ``Optimizer.step``: on the device, or without one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from profsuite.analyzers.enclosing import enclosing_of, outermost
from profsuite.analyzers.findings.device_time import LAUNCHING, alone_ns
from profsuite.analyzers.host_calls import UNRECORDED, matching
from profsuite.analyzers.idle import CAUSES
from profsuite.trace.intervals import union_length

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from profsuite.analyzers.analysis import Analysis


@dataclass(frozen=True)
class MarkedTime:
    """Time of the main device that only work launched in the marks fills, and idle time that such work ends, ns.

    Of the idle time what lies after the mark's start, and only for launches that come late or one after another.
    Without device work ``alone_ns`` is the time of the marks on their threads.
    """

    alone_ns: int
    idle_ns: int

    @property
    def cost_ns(self) -> int:
        """Both together, ns."""
        return self.alone_ns + self.idle_ns


def host_marks(analysis: Analysis, pattern: str) -> NDArray[np.bool_]:
    """Which slices of host threads have a name that matches an RE2 pattern; one element a row of ``slice``."""
    names = analysis.trace.array("slice", "name")
    if not len(names):
        return np.zeros(0, bool)
    marks: NDArray[np.bool_] = matching(analysis.trace, pattern)[names] & (analysis.timelines.classes != UNRECORDED)
    return marks


def marked_time(analysis: Analysis, marks: NDArray[np.bool_]) -> MarkedTime:
    """What the marks' work takes; see ``MarkedTime``."""
    trace = analysis.trace
    start, rows = trace.array("slice", "ts"), outermost(trace, marks)
    gaps = analysis.gaps
    if analysis.main is None or gaps is None:
        return MarkedTime(union_length(start[rows], trace.end[rows]), 0)
    roots = np.zeros(len(marks), bool)
    roots[rows] = True
    launch = analysis.work[analysis.main].launch_ids
    around = enclosing_of(trace, roots, launch)
    mark = np.where(gaps.follows >= 0, around[np.maximum(gaps.follows, 0)], -1)
    # A gap may begin before the mark does: what the host did until then is another's.
    late = (mark >= 0) & np.isin(gaps.cause, [CAUSES.index(cause) for cause in LAUNCHING])
    begin = np.maximum(gaps.start[late], np.minimum(start[mark[late]], gaps.end[late]))
    return MarkedTime(alone_ns(analysis, around >= 0), int((gaps.end[late] - begin).sum()))
