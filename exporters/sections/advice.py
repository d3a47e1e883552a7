"""Findings in words."""

from __future__ import annotations

from profsuite.analyzers.base import Evidence, Finding, Place
from profsuite.analyzers.places import MAIN_THREAD
from profsuite.analyzers.report import Report
from profsuite.exporters.document import Advice
from profsuite.exporters.names import printable, shorten
from profsuite.exporters.sections.words import NAME_WIDTH, part_of
from profsuite.exporters.units import count, duration, percent, size


def advice(report: Report, finding: Finding) -> Advice:
    """A finding on a trace in words."""
    return advice_on(finding, part_of(report))


def advice_on(finding: Finding, part: str) -> Advice:
    """A finding in words; ``part`` is what its numbers speak of."""
    cost, saving = finding.cost_ns, finding.saving_ms_per_step
    return Advice(
        severity=finding.severity,
        title=printable(finding.title),
        seen=tuple(_evidence(evidence) for evidence in finding.evidence),
        where=_where(finding.where),
        cost=None if cost is None else f"{duration(cost)} in this {part}{_counted_in(finding)}",
        saving=None if saving is None else f"{duration(saving * 1e6)} a step, by replay",
        remedy=printable(finding.remedy),
    )


def _counted_in(finding: Finding) -> str:
    kinds = finding.counted_in
    return f" (some of it counted by {' and '.join(map(printable, kinds))} too)" if kinds else ""


def _evidence(evidence: Evidence) -> str:
    value, label = evidence.value, printable(evidence.label)
    if isinstance(value, str):
        return f"{label}: {shorten(value, NAME_WIDTH)}"
    text = {"ns": duration, "%": percent, "bytes": size}.get(evidence.unit, count)(value)
    if evidence.unit not in ("ns", "%", "bytes", "count", ""):
        text += f" {printable(evidence.unit)}"
    return f"{label} {text}"


def _where(place: Place) -> str | None:
    parts = [
        f"{word} {value}"
        for word in ("rank", "device", "stream", "step")
        if (value := getattr(place, word)) is not None
    ]
    if place.thread:
        called = place.thread.startswith("thread ") or place.thread == MAIN_THREAD
        parts.append(printable(place.thread if called else f"thread {place.thread}"))
    if place.op:
        parts.append(f"op {printable(place.op)}")
    if place.source:
        parts.append(printable(place.source))
    return ", ".join(parts) or None
