"""A job without any device waits for communication: collectives run, and no op does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from profsuite.analyzers.base import Finding
from profsuite.analyzers.findings.cpu_only import is_cpu_only
from profsuite.analyzers.findings.wording import (
    WARNING,
    count,
    grade,
    ms,
    per_step,
    percent,
    share,
    somewhere,
    text,
    time,
    whole,
)
from profsuite.analyzers.host_collectives import communication_ns, communication_rows
from profsuite.analyzers.ranking import longest_names

if TYPE_CHECKING:
    from profsuite.analyzers.analysis import Analysis


def host_communication(analysis: Analysis) -> tuple[Finding, ...]:
    """Fires on CPU jobs when communication that no op hides takes 5 % of the window.

    Remedy: compare the ranks; then send less, less often, or while ops run.
    """
    if not is_cpu_only(analysis):
        return ()
    rows = communication_rows(analysis)
    everything, exposed = communication_ns(analysis, rows)
    fraction = analysis.share(exposed)
    if fraction < WARNING:
        return ()
    top = longest_names(analysis.trace, rows)[0]
    longest = top.slice_ids[0]
    return (
        Finding(
            id="host_communication",
            title=f"Communication takes {ms(exposed)} ({percent(fraction)} of the {whole(analysis)}) while no op runs",
            severity=grade(fraction),
            evidence=(
                time("communication on any thread", everything),
                time("of it while no op runs", exposed),
                share("share of the window", fraction),
                *per_step("communication while no op runs", analysis, exposed),
                count("collectives", len(rows)),
                text("longest", top.name, top.slice_ids),
                time("longest call", int(analysis.trace.array("slice", "dur")[longest]), [longest]),
            ),
            where=somewhere(analysis, longest),
            remedy=HOST_COMMUNICATION_REMEDY,
            cost_ns=exposed,
        ),
    )


HOST_COMMUNICATION_REMEDY = (
    "Compare the ranks first: a collective also lasts until the last rank arrives, and a straggler is mended "
    "elsewhere. Then send less, less often, or while ops run."
)
