"""Communication that no computation hides."""

from __future__ import annotations

from typing import TYPE_CHECKING

from profsuite.analyzers.base import Evidence, Finding
from profsuite.analyzers.findings.wording import WARNING, grade, ms, per_step, percent, share, somewhere, text, time
from profsuite.analyzers.ranking import longest_names
from profsuite.trace.classes import WORK_KINDS

if TYPE_CHECKING:
    from profsuite.analyzers.analysis import Analysis


def exposed_communication(analysis: Analysis) -> tuple[Finding, ...]:
    """Fires when communication is exposed for 5 % of the window.

    Remedy: compare the ranks; then overlap more or send less.
    """
    device = analysis.device
    if analysis.main is None or device is None:
        return ()
    shares = device.shares
    fraction = analysis.share(shares.exposed_comm_ns)
    if fraction < WARNING:
        return ()
    work = analysis.work[analysis.main]
    top = longest_names(analysis.trace, work.ids[work.kind == WORK_KINDS.index("comm")])[0]
    evidence = [
        time("exposed communication", shares.exposed_comm_ns),
        share("share of the window", fraction),
        *per_step("exposed communication", analysis, shares.exposed_comm_ns),
        time("all communication", shares.comm_ns),
        Evidence(label="hidden by compute", value=shares.overlap_pct or 0.0, unit="%"),
        text("longest", top.name, top.slice_ids),
        time("its total", top.total_ns),
    ]
    return (
        Finding(
            id="exposed_communication",
            title=f"Exposed communication takes {ms(shares.exposed_comm_ns)} ({percent(fraction)} of the GPU window)",
            severity=grade(fraction),
            evidence=tuple(evidence),
            where=somewhere(analysis),
            remedy=COMMUNICATION_REMEDY,
            cost_ns=shares.exposed_comm_ns,
        ),
    )


COMMUNICATION_REMEDY = (
    "First compare the ranks: a collective's kernel also waits for the last rank to arrive, and a straggler is "
    "mended elsewhere. Then overlap more (DDP: bucket_cap_mb, gradient_as_bucket_view, static_graph; FSDP: "
    "prefetching, larger units), send less (gradients in 16 bits, accumulation under no_sync), or "
    "give each rank more compute per byte (larger batch)."
)
