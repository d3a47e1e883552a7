"""The device stands between streams: work was launched in time but waited for another stream or an event."""

from __future__ import annotations

from typing import TYPE_CHECKING

from profsuite.analyzers.base import Finding
from profsuite.analyzers.findings.wording import WARNING, count, grade, ms, percent, share, somewhere, time

if TYPE_CHECKING:
    from profsuite.analyzers.analysis import Analysis


def stream_waits(analysis: Analysis) -> tuple[Finding, ...]:
    """Fires when gaps of cause ``dependency`` make 5 % of the window.

    Remedy: fewer hand-overs between streams.
    """
    cost = analysis.idle_ns("dependency")
    fraction = analysis.share(cost)
    if analysis.main is None or fraction < WARNING:
        return ()
    idle = analysis.idle[analysis.main]
    gaps = next(row.num_gaps for row in idle.causes if row.cause == "dependency")
    return (
        Finding(
            id="stream_waits",
            title=(
                f"The GPU idles {ms(cost)} ({percent(fraction)} of the GPU window) where one stream hands over to "
                "another"
            ),
            severity=grade(fraction),
            evidence=(
                time("idle", cost, [g.next_slice_id for g in idle.top_gaps if g.cause == "dependency"][:5]),
                share("share of the window", fraction),
                count("hand-overs", gaps),
                time("mean", round(cost / gaps)),
            ),
            where=somewhere(analysis),
            remedy=(
                "Hand over less often: keep dependent work on one stream, wait for events only where data is really "
                "used, and group small collectives and copies."
            ),
            cost_ns=cost,
        ),
    )
