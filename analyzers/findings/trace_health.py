"""What the file lacks or got wrong, where it makes numbers of this report doubtful."""

from __future__ import annotations

from typing import TYPE_CHECKING

from profsuite.analyzers.base import Evidence, Finding, Place
from profsuite.analyzers.findings.wording import WARNING, count, ms, percent, share, somewhere, time

if TYPE_CHECKING:
    from profsuite.analyzers.analysis import Analysis

GRAVE = ("truncated", "dropped", "unclosed", "missing_duration", "negative_duration")
"""Kinds of fault that take time or events away: totals are then lower bounds."""

FAULTS = (*GRAVE, "repaired", "out_of_order", "clock_outlier")
"""Kinds that change numbers; what was merely not recorded stands in the health table only."""

UNKNOWN_SHARE = 0.2
"""Share of the idle time without a cause, from which the idle table is called incomplete."""


def trace_health(analysis: Analysis) -> tuple[Finding, ...]:
    """Fires on faults of the file that change numbers, and when idle time has no cause.

    Remedy: record again and let the profiler finish writing.
    """
    return (*_faults(analysis), *_unexplained(analysis))


def _faults(analysis: Analysis) -> tuple[Finding, ...]:
    rows = [row for row in analysis.trace.health.to_pylist() if row["kind"] in FAULTS]
    if not rows:
        return ()
    grave = [row for row in rows if row["kind"] in GRAVE]
    return (
        Finding(
            id="trace_health",
            title=f"The file has faults: {', '.join(sorted({row['kind'].replace('_', ' ') for row in rows}))}",
            severity="warning" if grave else "info",
            evidence=tuple(
                Evidence(label=row["kind"].replace("_", " "), value=row["count"], unit="count") for row in rows
            ),
            where=Place(rank=analysis.trace.info.rank),
            remedy=(
                "Totals are lower bounds. Record again, and let the profiler finish writing before the job ends."
                if grave
                else "Most numbers hold; what each fault means for them stands under Trace health."
            ),
            cost_ns=None,
        ),
    )


def _unexplained(analysis: Analysis) -> tuple[Finding, ...]:
    if analysis.main is None:
        return ()
    unknown = analysis.idle_ns("unknown")
    idle = analysis.idle[analysis.main].idle_ns
    if not idle or unknown < UNKNOWN_SHARE * idle or analysis.share(unknown) < WARNING:
        return ()
    work = analysis.work[analysis.main]
    orphans = int((work.launch_ids < 0).sum())
    return (
        Finding(
            id="idle_unexplained",
            title=f"{ms(unknown)} of the GPU's idle time ({percent(unknown / idle)}) has no known cause",
            severity="info",
            evidence=(
                time("idle without a cause", unknown),
                share("share of the idle time", unknown / idle),
                count("kernels and copies without a launch call", orphans),
                count("kernels and copies", len(work.ids)),
            ),
            where=somewhere(analysis),
            remedy=(
                "Record the host side too (ProfilerActivity.CPU): launches tell what a gap waited for."
                if orphans
                else "They follow work on the same stream and were launched in time; look at them in the timeline."
            ),
            cost_ns=None,
        ),
    )
