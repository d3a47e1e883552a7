"""Forward and backward: when the backward pass of each step begins, and which ops belong to it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from profsuite.analyzers.host_calls import OP, matching
from profsuite.analyzers.memory.origins import outermost

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from profsuite.trace.model import Trace

    Int64s = NDArray[np.int64]

NEVER = 2**62
"""A time after every other one."""

_BACKWARD = r"^autograd::engine::evaluate_function: |Backward\d*$"


@dataclass(frozen=True)
class Phases:
    """The passes of each of n periods: the steps, or the whole recording where there are none.

    ``edges`` are the starts of the periods; a moment belongs to the last that starts at or before it, what comes
    before the first step to period 0, which no step is.  ``forward`` and ``backward`` are when the first op of each
    pass starts, ``NEVER`` where there is none; ``is_backward`` is a bool a slice.
    """

    edges: Int64s
    forward: Int64s
    backward: Int64s
    is_backward: NDArray[np.bool_]

    def period(self, ts: Int64s) -> Int64s:
        """The period of each moment."""
        return np.searchsorted(self.edges, ts, "right")

    def next_backward(self) -> Int64s:
        """For each period the start of the next backward pass in a later one, ``NEVER`` where there is none."""
        later = np.append(self.backward[1:], NEVER)
        return np.minimum.accumulate(later[::-1])[::-1]


def phases(trace: Trace, classes: NDArray[np.int8]) -> Phases:
    """Passes by autograd's own account.

    A backward op is one that joins a forward op by its sequence number, or that the engine runs
    (``evaluate_function``, ``…Backward0``).  The forward pass begins with the first outermost op that is, or contains,
    one that a backward op of the same period joins.
    """
    count = trace.num_rows("slice")
    is_backward = np.zeros(count + 1, bool)
    if count:
        is_backward[:count] = matching(trace, _BACKWARD)[trace.array("slice", "name")] & (classes == OP)
    joined = trace.array("op", "forward_op_id")
    pairs = np.flatnonzero(joined >= 0)
    is_backward[trace.array("op", "slice_id")[pairs]] = True
    edges = np.sort(trace.array("step", "ts"))
    result = Phases(edges, np.full(len(edges) + 1, NEVER), np.full(len(edges) + 1, NEVER), is_backward)
    ts = trace.array("slice", "ts")
    rows = np.flatnonzero(is_backward[:count])
    np.minimum.at(result.backward, result.period(ts[rows]), ts[rows])
    back = trace.array("op", "slice_id")[pairs]
    when = ts[outermost(trace, classes == OP, joined[pairs].astype(np.int64))]
    same = result.period(when) == result.period(ts[back])
    np.minimum.at(result.forward, result.period(when[same]), when[same])
    return result
