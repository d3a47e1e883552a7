"""The kinds of findings that need several ranks, one file each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from profsuite.analyzers.base import SEVERITIES, Finding
from profsuite.analyzers.job.findings.collective_mismatch import collective_mismatch
from profsuite.analyzers.job.findings.latency_bound import latency_bound
from profsuite.analyzers.job.findings.missing_collective import missing_collective
from profsuite.analyzers.job.findings.straggler import straggler

if TYPE_CHECKING:
    from profsuite.analyzers.job.report import Job


class JobRule(Protocol):
    """A kind of finding: looks at the ranks together and returns what it finds, nothing if it does not apply."""

    def __call__(self, job: Job, /) -> tuple[Finding, ...]:
        """What it finds in this job."""
        ...


RULES: tuple[JobRule, ...] = (straggler, missing_collective, collective_mismatch, latency_bound)
"""Every kind, in the order in which equals are listed."""


def job_findings(job: Job) -> tuple[Finding, ...]:
    """All findings on the job: gravest first, then by what they cost."""
    found = [finding for rule in RULES for finding in rule(job)]
    return tuple(sorted(found, key=lambda f: (SEVERITIES.index(f.severity), -(f.cost_ns or 0))))
