"""The time that torch.compile's compiler took, from the marks that it sets itself around its phases."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
from msgspec import Struct

from profsuite.analyzers.base import Ns, Pct, pct
from profsuite.analyzers.enclosing import enclosing
from profsuite.analyzers.host_calls import matching
from profsuite.analyzers.ranking import sum_by_group
from profsuite.trace.intervals import covered, length, merge, merge_by_group

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from profsuite.trace.model import Trace

    Int64s = NDArray[np.int64]

MARK: Final = " (dynamo_timed)"
"""How the names of the marks end (``torch/_dynamo/utils.py``, ``dynamo_timed``)."""


class CompilePhase(Struct, frozen=True, kw_only=True):
    """All marks of one phase; ``name`` is the mark's without `` (dynamo_timed)``.

    ``total_ns`` is the time within any of them, once where they are nested in each other, summed over threads;
    ``self_ns`` that outside of other marks inside.  ``longest_ns`` is of the row ``longest_slice_id``.
    """

    name: str
    count: int
    total_ns: Ns
    self_ns: Ns
    longest_ns: Ns
    longest_slice_id: int


class CompileStep(Struct, frozen=True, kw_only=True):
    """A step during which the compiler ran: ``num_entries`` counts how often it was entered, ``total_ns`` the time.

    ``step_id`` is its row of the ``step`` table.
    """

    step_id: int
    number: int
    num_entries: int
    total_ns: Ns


class CompileTime(Struct, frozen=True, kw_only=True):
    """What compilation took of a recording.

    ``total_ns`` is the time in which any thread compiled, ``pct`` its share of the recording ``recording_ns``;
    ``threads_ns`` sums the threads' own times.  ``num_entries`` counts how often the compiler was entered: marks that
    lie in no other.  ``phases`` are the ``top`` of ``num_phases``, most self time first; ``steps`` those in which the
    compiler ran, null where the recording has no steps.
    """

    recording_ns: Ns
    total_ns: Ns
    pct: Pct | None
    threads_ns: Ns
    num_threads: int
    num_entries: int
    longest_slice_id: int
    num_phases: int
    phases: tuple[CompilePhase, ...]
    steps: tuple[CompileStep, ...] | None


def compile_time(trace: Trace, top: int = 10, recording_ns: int | None = None) -> CompileTime | None:
    """The time in the compiler; null where the recording has no mark of it.

    ``recording_ns`` is the length of what was recorded, by default from the first slice's start to the last one's end.
    Definitions: docs/analyses.md, "Compile time".
    """
    name, track = trace.array("slice", "name"), trace.array("slice", "track_id")
    kinds = trace.words("track", "kind")
    host = np.array([kind == "host" for kind in kinds] or [False])[trace.array("track", "kind")]
    marked = matching(trace, r" \(dynamo_timed\)$")[name] & host[track] if len(name) else np.zeros(0, bool)
    rows = np.flatnonzero(marked)
    if not len(rows):
        return None
    start, end, dur = trace.array("slice", "ts")[rows], trace.end[rows], trace.array("slice", "dur")[rows]
    around = _around(trace, marked, rows)
    entered = around < 0
    whole = merge(start, end)
    threads = merge_by_group(track[rows].astype(np.int64), start, end)
    recording = recording_ns or int(trace.end.max()) - int(trace.array("slice", "ts").min())
    phases = _phases(trace, rows, around)
    return CompileTime(
        recording_ns=recording,
        total_ns=length(whole),
        pct=pct(length(whole), recording),
        threads_ns=length(threads[1:]),
        num_threads=len(np.unique(track[rows])),
        num_entries=int(entered.sum()),
        longest_slice_id=int(rows[np.argmax(dur)]),
        num_phases=len(phases),
        phases=tuple(phases[:top]),
        steps=_steps(trace, rows[entered], whole),
    )


def _around(trace: Trace, marked: NDArray[np.bool_], rows: Int64s) -> Int64s:
    """For each of the marked rows the innermost marked slice that it lies in, -1 for none."""
    parent = trace.array("slice", "parent_id")[rows].astype(np.int64)
    return np.where(parent < 0, -1, enclosing(trace, marked)[parent])


def _phases(trace: Trace, rows: Int64s, around: Int64s) -> list[CompilePhase]:
    """The phases, most self time first."""
    start, end, dur = trace.array("slice", "ts")[rows], trace.end[rows], trace.array("slice", "dur")[rows]
    codes, phase = np.unique(trace.array("slice", "name")[rows], return_inverse=True)
    track = trace.array("slice", "track_id")[rows].astype(np.int64)
    size, num_tracks = len(codes), int(track.max()) + 1
    group, low, high = merge_by_group(phase * num_tracks + track, start, end)
    total = sum_by_group(group // num_tracks, high - low, size)
    # A mark less those right inside of it; these may overlap, where the file's nesting is not clean.
    nested = np.flatnonzero(around >= 0)
    group, low, high = merge_by_group(np.searchsorted(rows, around[nested]), start[nested], end[nested])
    alone = dur - sum_by_group(group, high - low, len(rows))
    own = np.minimum(sum_by_group(phase, alone, size), total)
    count = np.bincount(phase, minlength=size)
    order = np.lexsort((rows, -dur, phase))
    longest = order[np.searchsorted(phase[order], np.arange(size))]
    words = trace.words("slice", "name")
    return [
        CompilePhase(
            name=words[codes[i]].removesuffix(MARK),
            count=int(count[i]),
            total_ns=int(total[i]),
            self_ns=int(own[i]),
            longest_ns=int(dur[longest[i]]),
            longest_slice_id=int(rows[longest[i]]),
        )
        for i in np.lexsort((-total, -own)).tolist()
    ]


def _steps(trace: Trace, entries: Int64s, whole: tuple[Int64s, Int64s]) -> tuple[CompileStep, ...] | None:
    """The steps that the compiler was entered in, or that it ran in."""
    start = trace.array("step", "ts")
    if not len(start):
        return None
    time = covered(start, start + trace.array("step", "dur"), whole)
    of = trace.array("slice", "step_id")[entries]
    count = np.bincount(of[of >= 0], minlength=len(start))
    numbers = trace.array("step", "number")
    return tuple(
        CompileStep(step_id=i, number=int(numbers[i]), num_entries=int(count[i]), total_ns=int(time[i]))
        for i in np.flatnonzero((count > 0) | (time > 0)).tolist()
    )
