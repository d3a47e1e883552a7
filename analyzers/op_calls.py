"""The calls of ops and how they lie in each other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from profsuite.analyzers.host_calls import OP

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from profsuite.trace.model import Trace


@dataclass(frozen=True)
class OpCalls:
    """The calls of ops: ``rows`` of ``slice``; ``up`` is the element of the op around each, -1 for none."""

    rows: NDArray[np.int64]
    up: NDArray[np.int64]
    element: NDArray[np.int64]
    dur: NDArray[np.int64]
    self_dur: NDArray[np.int64]

    @classmethod
    def of(cls, trace: Trace, classes: NDArray[np.int8]) -> OpCalls:
        """The calls in a trace; ``classes`` are those of ``host_classes``."""
        rows = np.flatnonzero(classes == OP)
        element = np.full(len(classes) + 1, -1, np.int64)
        element[rows] = np.arange(len(rows))
        parent = trace.array("slice", "parent_id")
        # Python frames and annotations stand between ops: climb until an op, all frames at once.
        above = parent[rows].astype(np.int64)
        open_ = np.flatnonzero((above >= 0) & (element[above] < 0))
        if len(open_):
            jump = _nearest_op(parent, element)
            above[open_] = jump[above[open_]]
        up = np.where(above >= 0, element[above], -1)
        return cls(rows, up, element, trace.array("slice", "dur")[rows], trace.array("slice", "self_dur")[rows])

    def outermost(self, group: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which calls lie in no call of the same group."""
        result = np.ones(len(group), bool)
        at = np.flatnonzero(self.up >= 0)
        above = self.up[at]
        while len(at):
            same = group[above] == group[at]
            result[at[same]] = False
            # A call inside one of its own group is settled; the others look one op further up.
            above = self.up[above]
            go = ~same & (above >= 0)
            at, above = at[go], above[go]
        return result

    def outermost_of(self, flagged: NDArray[np.bool_]) -> NDArray[np.int64]:
        """For each call the outermost flagged one of itself and those around it, -1 for none."""
        number = np.arange(len(self.up))
        found = np.where(flagged, number, -1)
        at, above = number[self.up >= 0], self.up[self.up >= 0]
        while len(at):
            hit = flagged[above]
            found[at[hit]] = above[hit]
            above = self.up[above]
            at, above = at[above >= 0], above[above >= 0]
        return found


def _nearest_op(parent: NDArray[np.int32], element: NDArray[np.int64]) -> NDArray[np.int64]:
    """For every slice that is no op, the nearest op above it (a row of ``slice``), -1 for none."""
    jump = parent.astype(np.int64)
    at = np.flatnonzero((element[:-1] < 0) & (jump >= 0))
    at = at[element[jump[at]] < 0]
    while len(at):
        jump[at] = jump[jump[at]]  # pointer doubling: every round halves the way that is left
        at = at[jump[at] >= 0]
        at = at[element[jump[at]] < 0]
    return jump
