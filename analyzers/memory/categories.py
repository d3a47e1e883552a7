"""What an allocation holds: decided by what is known of it, else unknown.  Definitions: docs/analyses.md, "Memory"."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from profsuite.analyzers.host_calls import OP, matching
from profsuite.analyzers.memory.model import ACTIVATION, INPUT, TEMPORARY, UNKNOWN
from profsuite.analyzers.memory.origins import outermost
from profsuite.analyzers.memory.phases import NEVER

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from profsuite.analyzers.memory.names import Named
    from profsuite.analyzers.memory.origins import Origins
    from profsuite.analyzers.memory.phases import Phases
    from profsuite.trace.model import Trace

    Int64s = NDArray[np.int64]


def categories(
    trace: Trace,
    classes: NDArray[np.int8],
    start_ns: Int64s,
    end_ns: Int64s,
    origins: Origins,
    phases: Phases,
    label: Int64s,
    tensors: Named | None,
) -> NDArray[np.int8]:
    """The category of each of n allocations, as a code of ``CATEGORIES``.

    ``start_ns`` and ``end_ns`` are -1 and ``phases.NEVER`` where not recorded; ``label`` is the row of ``tensors``
    that names each, -1 for none.  Later rules give way to earlier ones: a name, temporary, input, activation.
    """
    result = np.full(len(start_ns), UNKNOWN, np.int8)
    seen = start_ns >= 0
    activation = _activations(start_ns, end_ns, origins, phases)
    result[activation & seen] = ACTIVATION
    result[_inputs(trace, classes, start_ns, origins, phases) & seen] = INPUT
    result[_temporary(trace, end_ns, origins) & seen] = TEMPORARY
    if tensors is not None:
        known = label >= 0
        result[known] = tensors.role[label[known]]
    return result


def _temporary(trace: Trace, end_ns: Int64s, origins: Origins) -> NDArray[np.bool_]:
    """Freed before the outermost op, or the module call, that it was made in has ended."""
    ends = np.append(trace.end, np.int64(-1))  # where there is none: nothing is freed before that
    return end_ns < np.maximum(ends[origins.root], ends[origins.module_call])


def _inputs(
    trace: Trace, classes: NDArray[np.int8], start_ns: Int64s, origins: Origins, phases: Phases
) -> NDArray[np.bool_]:
    """Made inside the data loader, or by an op that copies from the host before the step's first forward op."""
    copies = np.zeros(trace.num_rows("slice") + 1, bool)
    if trace.num_rows("memcpy"):
        from_host = matching(trace, r"(?i)HtoD|HOST_TO_DEVICE")
        op = trace.array("memcpy", "op_id")
        names = trace.array("slice", "name")[trace.array("memcpy", "slice_id")]
        rows = op[(op >= 0) & from_host[names]].astype(np.int64)
        copies[outermost(trace, classes == OP, rows)] = True
        copies[-1] = False
    first = phases.forward[phases.period(start_ns)]
    return (origins.loader >= 0) | (copies[origins.root] & (start_ns < first) & (first < NEVER))


def _activations(start_ns: Int64s, end_ns: Int64s, origins: Origins, phases: Phases) -> NDArray[np.bool_]:
    """Made by an op of the forward pass, alive when the step's backward begins, freed before the next one begins."""
    period = phases.period(start_ns)
    backward, following = phases.backward[period], phases.next_backward()[period]
    forward_op = (origins.op >= 0) & ~phases.is_backward[origins.op] & ~phases.is_backward[origins.root]
    in_forward = forward_op & (start_ns >= phases.forward[period]) & (start_ns < backward)
    return in_forward & (end_ns >= backward) & (end_ns < following)
