"""Communication that the host itself carries out (gloo, MPI), and the ops that run beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from profsuite.analyzers.host_calls import OP, UNRECORDED, communicates
from profsuite.trace.classes import Role, slice_roles
from profsuite.trace.intervals import length, merge, subtract_length

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from profsuite.analyzers.analysis import Analysis


def communication_rows(analysis: Analysis) -> NDArray[np.int64]:
    """Annotations and ops on host threads that are communication, as rows of ``slice``."""
    trace = analysis.trace
    names = trace.array("slice", "name")
    if not len(names):
        return np.zeros(0, np.int64)
    marks = np.isin(slice_roles(trace), (Role.ANNOTATION, Role.OP)) & (analysis.timelines.classes != UNRECORDED)
    return np.flatnonzero(marks & communicates(trace)[names])


def communication_ns(analysis: Analysis, rows: NDArray[np.int64]) -> tuple[int, int]:
    """Union of the communication ``rows`` over all threads, and what of it no other op covers, ns."""
    start, end = analysis.trace.array("slice", "ts"), analysis.trace.end
    others = other_ops(analysis, rows)
    communication = merge(start[rows], end[rows])
    return length(communication), subtract_length(communication, merge(start[others], end[others]))


def other_ops(analysis: Analysis, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which slices are ops that neither are one of the communication ``rows`` nor wait for one."""
    trace = analysis.trace
    others: NDArray[np.bool_] = analysis.timelines.classes == OP
    others[rows] = False
    # An op that communication runs in, on its own thread, waits for it.
    parent = trace.array("slice", "parent_id")
    around = parent[rows]
    while (around >= 0).any():
        around = around[around >= 0]
        others[around] = False
        around = parent[around]
    return others
