"""Kernels are spread over several streams and never run at the same time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from profsuite.analyzers.base import Finding
from profsuite.analyzers.findings.wording import count, share, somewhere, text, time
from profsuite.trace.classes import WORK_KINDS
from profsuite.trace.intervals import union_length

if TYPE_CHECKING:
    from profsuite.analyzers.analysis import Analysis

MIN_SHARE = 0.1
"""Share of compute time from which a stream counts."""

OVERLAP = 0.01
"""Share of the streams' compute time; below it, they don't overlap."""

MIN_SWITCHES = 10


def serialised_streams(analysis: Analysis) -> tuple[Finding, ...]:
    """Fires when two or more streams with 10 % of the compute time each overlap for less than 1 % of it.

    They must take turns at least ten times: streams used one after the other are no attempt to overlap.

    Remedy: dependent work on one stream; independent work that leaves SMs free on others.
    """
    if analysis.main is None or analysis.too_little:
        return ()
    work = analysis.work[analysis.main]
    at = np.flatnonzero(work.kind == WORK_KINDS.index("compute"))
    dur = work.end - work.start
    streams, number = np.unique(work.streams[at], return_inverse=True)
    if len(streams) < 2:
        return ()
    spent = np.bincount(number, weights=dur[at])
    large = np.flatnonzero(spent >= MIN_SHARE * spent.sum())
    at, number = at[np.isin(number, large)], number[np.isin(number, large)]
    switches = int((number[1:] != number[:-1]).sum())
    if len(large) < 2 or switches < MIN_SWITCHES:
        return ()
    total = sum(union_length(work.start[at[number == n]], work.end[at[number == n]]) for n in large.tolist())
    overlap = total - union_length(work.start[at], work.end[at])
    if overlap >= OVERLAP * total:
        return ()
    handed_over = analysis.idle_ns("dependency")
    longest = at[np.argsort(-dur[at], kind="stable")[:5]]
    return (
        Finding(
            id="serialised_streams",
            title=f"Kernels on {len(large)} streams take turns: hardly any of them overlap",
            severity="info",
            evidence=(
                text("streams", ", ".join(str(int(streams[n])) for n in large.tolist()), work.ids[longest].tolist()),
                time("compute on them", total),
                time("of it at the same time", overlap),
                share("share", overlap / total),
                count("changes of stream", switches),
                time("device idle at hand-overs", handed_over),
            ),
            where=somewhere(analysis),
            remedy=(
                "Each kernel fills the GPU, or waits for the other stream: then streams only add hand-overs. Keep "
                "dependent work on one stream; to overlap, take work that doesn't depend on each other, with kernels "
                "that leave SMs free."
            ),
            cost_ns=None,  # what the hand-overs cost is told by stream_waits
        ),
    )
