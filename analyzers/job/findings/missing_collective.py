"""Collectives that a rank lacks although the others have them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from profsuite.analyzers.base import Finding, Place
from profsuite.analyzers.findings.wording import count, text

if TYPE_CHECKING:
    from profsuite.analyzers.job.report import Job

LISTED = 5


def missing_collective(job: Job) -> tuple[Finding, ...]:
    """Fires when a rank lacks a collective within its recording, or all of a group that it belongs to."""
    found = sorted((m for m in job.mismatches if m.what == "missing"), key=lambda m: -m.count)
    if not found:
        return ()
    ranks = sorted({rank for m in found for rank in m.ranks})
    total = sum(m.count for m in found)
    named = ", ".join(map(str, ranks[:LISTED])) + (" and others" if len(ranks) > LISTED else "")
    evidence = [count("missing, all ranks together", total)]
    for m in found[:LISTED]:
        number = "" if m.sequence is None else f" {m.sequence}"
        group = "" if m.group is None else f" of group {m.group}"
        evidence.append(text(f"rank {m.ranks[0]}", f"lacks {m.count}, the first {m.kind}{number}{group}; {m.detail}"))
    return (
        Finding(
            id="missing_collective",
            title=f"{total:,} collectives are missing on rank {named}"
            if total > 1
            else f"A collective is missing on rank {named}",
            severity="warning",
            evidence=tuple(evidence),
            where=Place(rank=ranks[0]),
            remedy=(
                "Either the recording lost events (see the rank's trace health), or the rank took another path through "
                "the program: a branch that depends on its data or its rank, an uneven number of batches (Join, "
                "drop_last). A collective that one rank does not call hangs the others, or meets the next one."
            ),
        ),
    )
