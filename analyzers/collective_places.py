"""Where collectives were asked for: the line of the user's code, and whether a DTensor's redistribution did it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from profsuite.analyzers.places import is_user_frame

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from profsuite.trace.model import Trace

_DTENSOR = re.compile(r"(?:^|/)torch/distributed/(?:_?tensor)/.*\.py\(\d+\): |^DTensor::|redistribute_local_tensor")


@dataclass(frozen=True, slots=True)
class Places:
    """For each of n slices: ``source`` an index of ``sources`` (user's frames, -1: none), and ``redistribution``."""

    source: NDArray[np.int32]
    sources: tuple[str, ...]
    redistribution: NDArray[np.bool_]


def places(trace: Trace, rows: NDArray[np.int64]) -> Places:
    """The innermost user's frame around each slice (-1: no slice), and whether DTensor's code lies in between."""
    source = np.full(len(rows), -1, np.int32)
    redistribution = np.zeros(len(rows), bool)
    if not len(rows) or not trace.num_rows("slice"):
        return Places(source, (), redistribution)
    parent, name = trace.array("slice", "parent_id"), trace.array("slice", "name")
    words = trace.words("slice", "name")
    user = np.array([is_user_frame(word) for word in words])
    dtensor = np.array([bool(_DTENSOR.search(word)) for word in words])
    current = rows.astype(np.int64)
    left = np.flatnonzero(current >= 0)
    while len(left):  # one turn a level of nesting, for all at once
        code = name[current[left]]
        redistribution[left] |= dtensor[code]
        source[left] = np.where(user[code], code, -1)
        left = left[~user[code]]
        current[left] = parent[current[left]]
        left = left[current[left] >= 0]
    used, index = np.unique(source, return_inverse=True)
    first = int(len(used) > 0 and used[0] < 0)
    return Places(index.astype(np.int32) - first, tuple(str(words[c]) for c in used[first:].tolist()), redistribution)
