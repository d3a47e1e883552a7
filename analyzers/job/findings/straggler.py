"""One rank that the others wait for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from profsuite.analyzers.base import Evidence, Finding, Place
from profsuite.analyzers.findings.wording import WARNING, count, grade, ms, percent, share, time
from profsuite.analyzers.job.verdict import blamed, reasons

if TYPE_CHECKING:
    from profsuite.analyzers.job.report import Job


def straggler(job: Job) -> tuple[Finding, ...]:
    """Fires when waiting for one rank that nothing hides takes 5 % of the others' windows."""
    n = blamed(job)
    if n is None:
        return ()
    others = [i for i in range(job.size) if i != n]
    window = sum(job.summaries[i].window_ns for i in others)
    exposed, caused = int(job.waits.exposed_matrix[n].sum()), int(job.waits.matrix[n].sum())
    fraction = exposed / window if window else 0.0
    if fraction < WARNING:
        return ()
    rank, most = job.summaries[n].rank, max(others, key=lambda i: int(job.waits.matrix[n, i]))
    last = int((job.waits.last == n).sum())
    evidence = [
        time("the others waited for it, together", caused),
        time("of that while nothing else ran", exposed),
        share("share of the others' windows", fraction),
        share("share of all waiting", caused / int(job.waits.matrix.sum())),
        count("collectives at which it was last", last),
        share("of all matched collectives", last / max(int((job.waits.last >= 0).sum()), 1)),
        time(f"rank {job.summaries[most].rank} waited longest", int(job.waits.matrix[n, most])),
    ]
    for what, own, theirs in reasons(job, n)[:2]:
        evidence += [
            Evidence(label=f"its {what}", value=int(own), unit="ns"),
            Evidence(label=f"{what} of the others, median", value=int(theirs), unit="ns"),
        ]
    return (
        Finding(
            id="straggler",
            title=(
                f"The other ranks wait for rank {rank}: {ms(exposed / len(others))} each "
                f"({percent(fraction)} of their time)"
            ),
            severity=grade(fraction),
            evidence=tuple(evidence),
            where=Place(rank=rank),
            remedy=(
                "Compare this rank's report with another's: more work (uneven batches, shards, layers), slower kernels "
                "(clocks, power or temperature limit, a shared device), late input, or pauses of its host. The time "
                "that the others wait comes back only when this rank is as early as they are."
            ),
            cost_ns=int(np.int64(exposed) // len(others)),
        ),
    )
