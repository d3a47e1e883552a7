"""The data loader starts its workers again, epoch after epoch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from profsuite.analyzers.base import Finding
from profsuite.analyzers.enclosing import enclosing_of, outermost
from profsuite.analyzers.findings.marked_time import host_marks
from profsuite.analyzers.findings.wording import count, grade, ms, percent, share, somewhere, time, whole
from profsuite.analyzers.host_calls import INPUT
from profsuite.analyzers.places import source_frame
from profsuite.trace.intervals import union_length

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from profsuite.analyzers.analysis import Analysis

FIRES_FROM = 0.02

_MAKE = r"torch/utils/data/dataloader\.py\(\d+\): _get_iterator$"
_START = r"multiprocessing/(?:process|context)\.py\(\d+\): (?:start|_Popen)$"

_STOP = r"torch/utils/data/dataloader\.py\(\d+\): _shutdown_workers$"


def worker_startup(analysis: Analysis) -> tuple[Finding, ...]:
    """Fires when workers start twice or more, and that (stops and first waits included) takes 2 % of the recording.

    Needs Python stacks (``with_stack=True``): only frames tell that workers are started.

    Remedy: persistent_workers=True.
    """
    rows = startups(analysis)
    if len(rows) < 2 or not analysis.host.window_ns:
        return ()
    trace = analysis.trace
    start, end = trace.array("slice", "ts"), trace.end
    waits = _first_waits(analysis, rows)
    stops = outermost(trace, host_marks(analysis, _STOP))
    stops = stops[start[stops] < start[rows[-1]]]  # the last time they have to stop anyway
    everything = np.concatenate([rows, waits, stops])
    cost = union_length(start[everything], end[everything])
    fraction = cost / analysis.host.window_ns
    if fraction < FIRES_FROM:
        return ()
    longest = int(rows[np.argmax(end[rows] - start[rows])])
    return (
        Finding(
            id="worker_startup",
            title=(
                f"The DataLoader starts its workers {len(rows)} times, for {ms(cost)} ({percent(fraction)} of the "
                f"{whole(analysis)})"
            ),
            severity=grade(fraction),
            evidence=(
                count("times that workers were started", len(rows), rows[:5].tolist()),
                time("starting them", union_length(start[rows], end[rows])),
                time("stopping them", union_length(start[stops], end[stops]), stops[:5].tolist()),
                time("first waits after it", union_length(start[waits], end[waits]), waits[:5].tolist()),
                share("share of the recording", fraction),
            ),
            where=somewhere(analysis, longest, source=source_frame(trace, longest)),
            remedy=(
                "Set persistent_workers=True: the workers then live on from epoch to epoch. Build the DataLoader once, "
                "outside of the loop, and make what each worker loads at its start small."
            ),
            cost_ns=cost,
            counted_in=("input_bound", "host_bound", "step_outliers"),
        ),
    )


def startups(analysis: Analysis) -> NDArray[np.int64]:
    """Frames that make a loader's iterator and start processes, by time."""
    trace = analysis.trace
    makes, starts = host_marks(analysis, _MAKE), host_marks(analysis, _START)
    if not makes.any() or not starts.any():
        return np.zeros(0, np.int64)
    roots = np.zeros(len(makes), bool)
    roots[outermost(trace, makes)] = True
    rows = np.unique(enclosing_of(trace, roots, np.flatnonzero(starts)))
    rows = rows[rows >= 0]
    return rows[np.argsort(trace.array("slice", "ts")[rows], kind="stable")]


def _first_waits(analysis: Analysis, rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """The first wait for a batch after each start of workers, on its thread and before the next start."""
    trace = analysis.trace
    start, track = trace.array("slice", "ts"), trace.array("slice", "track_id")
    waits = outermost(trace, analysis.timelines.classes == INPUT)
    waits = waits[np.argsort(start[waits], kind="stable")]
    found = []
    for row, following in zip(rows.tolist(), [*rows.tolist()[1:], -1], strict=True):
        of = waits[(track[waits] == track[row]) & (start[waits] >= trace.end[row])]
        if len(of) and (following < 0 or start[of[0]] < start[following]):
            found.append(int(of[0]))
    return np.array(found, np.int64)
