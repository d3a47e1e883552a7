"""Collectives in which the ranks differ: kind, order, size or type."""

from __future__ import annotations

from typing import TYPE_CHECKING

from profsuite.analyzers.base import Finding, Place
from profsuite.analyzers.findings.wording import count, text

if TYPE_CHECKING:
    from profsuite.analyzers.job.report import Job

LISTED = 5
_WORDS = {"kind": "another collective", "order": "another order", "bytes": "another size", "dtype": "another type"}


def collective_mismatch(job: Job) -> tuple[Finding, ...]:
    """Fires when ranks differ in the kind, the order, the size or the type of one and the same collective."""
    found = sorted((m for m in job.mismatches if m.what != "missing"), key=lambda m: -m.count)
    if not found:
        return ()
    first = found[0]
    evidence = [count("collectives, by each difference", sum(m.count for m in found))]
    for m in found[:LISTED]:
        number = "" if m.sequence is None else f" {m.sequence}"
        group = "" if m.group is None else f" of group {m.group}"
        ranks = ", ".join(map(str, m.ranks[:LISTED])) + (" and others" if len(m.ranks) > LISTED else "")
        evidence.append(text(f"rank {ranks}, {m.count} times", f"{m.kind}{number}{group}: {m.detail}"))
    whose = f"rank {first.ranks[0]}" + (" and others" if len(first.ranks) > 1 else "")
    return (
        Finding(
            id="collective_mismatch",
            title=f"The ranks do not call the same collectives: {_WORDS[first.what]} on {whose}",
            severity="critical",
            evidence=tuple(evidence),
            where=Place(rank=first.ranks[0]),
            remedy=(
                "Ranks that differ here compute something wrong, or hang sooner or later: make every rank call the "
                "same collectives in the same order with the same sizes and types. TORCH_DISTRIBUTED_DEBUG=DETAIL "
                "checks that while the job runs."
            ),
        ),
    )
