"""How busy a recording's host and devices are over time: the strips above the timeline."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np

from profsuite.trace.classes import DEVICE_WORK, Role, role_mask
from profsuite.trace.intervals import covered_before, merge, merge_by_group

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from profsuite.trace.model import Trace

    Floats = NDArray[np.float64]

HOST_WORK: Final = (Role.OP, Role.LAUNCH)
"""What a host thread is busy with: marks and Python frames are around all that a thread does, its rests included."""


def device_busy(trace: Trace, start_ns: int, end_ns: int, num_bins: int) -> Floats | None:
    """The share of each of ``num_bins`` equal parts from ``start_ns`` on in which devices work: 0 to 1 each, exact.

    There are no more parts than ns.
    A device works while a kernel, a copy or a fill runs on any of its streams; of several devices it is the mean.
    Null without such work.
    """
    rows = np.flatnonzero(role_mask(trace.roles, DEVICE_WORK))
    if not len(rows):
        return None
    # Tracks of the same device are one group; those of which it is not known are each their own.
    device = trace.array("track", "device").astype(np.int64)  # -1 for null
    group = np.where(device >= 0, device, int(device.max()) + 1 + np.arange(len(device)))
    numbers, group = np.unique(group[trace.array("slice", "track_id")[rows]], return_inverse=True)
    start = trace.array("slice", "ts")[rows]
    group, start, end = merge_by_group(group, start, start + trace.array("slice", "dur")[rows])
    first = np.searchsorted(group, np.arange(len(numbers) + 1))
    shares = [
        _shares(start[low:high], end[low:high], start_ns, end_ns, num_bins) for low, high in pairwise(first.tolist())
    ]
    return np.asarray(np.mean(shares, axis=0))


def host_busy(trace: Trace, start_ns: int, end_ns: int, num_bins: int) -> Floats | None:
    """The share of each part in which any host thread is in an op or a runtime call; null where there is none."""
    work = np.append(role_mask(trace.roles, HOST_WORK), False)  # the last is for those without a parent, -1
    rows = np.flatnonzero(work)
    if not len(rows):
        return None
    # What lies within another op or call adds nothing.
    rows = rows[~work[trace.array("slice", "parent_id")[rows]]]
    start = trace.array("slice", "ts")[rows]
    return _shares(*merge(start, start + trace.array("slice", "dur")[rows]), start_ns, end_ns, num_bins)


def _shares(start: NDArray[np.int64], end: NDArray[np.int64], start_ns: int, end_ns: int, num_bins: int) -> Floats:
    """How much of each part a set of intervals covers."""
    edges = start_ns + np.arange(num_bins + 1) * (end_ns - start_ns) // num_bins
    return np.diff(covered_before(edges, (start, end))) / np.diff(edges)
