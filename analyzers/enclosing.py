"""What lies inside what: the nearest marked slice around each slice of its track."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from profsuite.trace.relations import enclosing as ancestor

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from profsuite.trace.model import Trace


def enclosing_of(trace: Trace, marked: NDArray[np.bool_], rows: NDArray[np.integer[Any]]) -> NDArray[np.int64]:
    """For each of some rows the innermost ``marked`` slice that it is or lies in; -1 for none, and for -1."""
    if not marked.any():
        return np.full(len(rows), -1)
    above = ancestor(trace.array("slice", "parent_id"), marked, rows.astype(np.int32))
    return np.where((rows >= 0) & marked[rows], rows, above).astype(np.int64)


def enclosing(trace: Trace, marked: NDArray[np.bool_]) -> NDArray[np.int64]:
    """For every slice the row of the innermost ``marked`` slice that it is or lies in, -1 where there is none.

    Jumps along parents with steps that double: log2 of the deepest nesting rounds over all slices.
    """
    parent = trace.array("slice", "parent_id").astype(np.int64)
    if not marked.any():
        return np.full(len(parent), -1)
    # Whoever is marked, or has nothing around it, has arrived; -1 stands at the end and points to itself.
    target = np.append(np.where(marked, np.arange(len(parent)), parent), -1)
    arrived = np.append(marked, True)
    moving = np.flatnonzero(~arrived[target])
    while len(moving):
        target[moving] = target[target[moving]]
        moving = moving[~arrived[target[moving]]]
    return target[:-1]


def inside(trace: Trace, marked: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Whether each slice lies in a ``marked`` one (it does not lie in itself)."""
    parent = trace.array("slice", "parent_id")
    return (parent >= 0) & (enclosing(trace, marked)[parent] >= 0) if len(parent) else np.zeros(0, bool)


def outermost(trace: Trace, marked: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Rows of the ``marked`` slices that lie in no other marked one."""
    return np.flatnonzero(marked & ~inside(trace, marked))
