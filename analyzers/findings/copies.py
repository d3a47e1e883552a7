"""Copies and fills that nothing hides, split by what is to be done about them; the parts don't overlap."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from profsuite.analyzers.waits import copies_pageable, copies_to_device
from profsuite.trace.classes import WORK_KINDS
from profsuite.trace.intervals import merge, subtract_length

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from profsuite.analyzers.analysis import Analysis


@dataclass(frozen=True)
class Copies:
    """Copies of one kind: which of the main device's work, and the time they alone fill, ns."""

    own: NDArray[np.bool_]
    exposed_ns: int


def pageable_copies(analysis: Analysis) -> Copies:
    """Copies from pageable memory to the device."""
    return _exposed(analysis, _to_device(analysis, pageable=True), before=None)


def blocking_copies(analysis: Analysis) -> Copies:
    """Other copies from the host that lie on the stream that computes most; what pageable ones cover isn't theirs."""
    own = _to_device(analysis, pageable=False) & (_streams(analysis) == _compute_stream(analysis))
    return _exposed(analysis, own, before=_to_device(analysis, pageable=True))


def on_compute_stream(analysis: Analysis, own: NDArray[np.bool_]) -> bool:
    """Whether half the time of copies to the device, of those ``own``, lies on the stream that computes most."""
    if analysis.main is None:
        return False
    work = analysis.work[analysis.main]
    own = own & (_to_device(analysis, pageable=False) | _to_device(analysis, pageable=True))
    dur = work.end - work.start
    return 2 * int(dur[own & (work.streams == _compute_stream(analysis))].sum()) >= int(dur[own].sum())


def _exposed(analysis: Analysis, own: NDArray[np.bool_], before: NDArray[np.bool_] | None) -> Copies:
    if analysis.main is None:
        return Copies(own, 0)
    work = analysis.work[analysis.main]
    others = work.kind != WORK_KINDS.index("memory")
    if before is not None:
        others = others | before
    covered = merge(work.start[others], work.end[others])
    return Copies(own, subtract_length(merge(work.start[own], work.end[own]), covered))


def _to_device(analysis: Analysis, *, pageable: bool) -> NDArray[np.bool_]:
    if analysis.main is None:
        return np.zeros(0, bool)
    trace, work = analysis.trace, analysis.work[analysis.main]
    names = trace.array("slice", "name")[work.ids]
    memory = work.kind == WORK_KINDS.index("memory")
    own: NDArray[np.bool_] = memory & copies_to_device(trace)[names] & (copies_pageable(trace)[names] == pageable)
    return own


def _streams(analysis: Analysis) -> NDArray[np.int64]:
    return np.zeros(0, np.int64) if analysis.main is None else analysis.work[analysis.main].streams


def _compute_stream(analysis: Analysis) -> int | None:
    """The stream of the main device with most time in compute kernels; null without any."""
    if analysis.main is None:
        return None
    work = analysis.work[analysis.main]
    computes = work.kind == WORK_KINDS.index("compute")
    if not computes.any():
        return None
    streams, number = np.unique(work.streams[computes], return_inverse=True)
    return int(streams[np.bincount(number, weights=(work.end - work.start)[computes]).argmax()])
