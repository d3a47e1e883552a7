"""Python's garbage collector runs inside the steps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from profsuite.analyzers.base import Finding
from profsuite.analyzers.findings.wording import count, grade, ms, percent, share, somewhere, time, whole
from profsuite.analyzers.host_calls import GC

if TYPE_CHECKING:
    from profsuite.analyzers.analysis import Analysis

FIRES_FROM = 0.01


def garbage_collection(analysis: Analysis) -> tuple[Finding, ...]:
    """Fires when collections take 1 % of a thread's window.

    Remedy: gc.freeze(), gc.disable(), and collections at chosen steps on all ranks.
    """
    rows = analysis.rows_of(GC)
    if not len(rows) or not analysis.host.window_ns:
        return ()
    held = max(thread.shares.gc_ns for thread in analysis.host.threads)
    fraction = held / analysis.host.window_ns
    if fraction < FIRES_FROM:
        return ()
    longest = int(rows[0])
    return (
        Finding(
            id="garbage_collection",
            title=f"Python's garbage collector takes {ms(held)} ({percent(fraction)} of the {whole(analysis)})",
            severity=grade(fraction, FIRES_FROM),
            evidence=(
                time("collecting", held),
                share("share of the recording", fraction),
                count("collections", len(rows), rows[:5].tolist()),
                time("longest", int(analysis.trace.array("slice", "dur")[longest]), [longest]),
                time("device idle for it", analysis.idle_ns("gc")),
            ),
            where=somewhere(analysis, longest),
            remedy=(
                "Call gc.freeze() after set-up and gc.disable(), then gc.collect() every few hundred steps at the same "
                "step on every rank: otherwise ranks stop at different times and wait for each other."
            ),
            cost_ns=held,
        ),
    )
