"""Findings in words."""

from __future__ import annotations

from collections.abc import Sequence

from profsuite.analyzers.base import Evidence, Finding, Place
from profsuite.analyzers.places import MAIN_THREAD
from profsuite.analyzers.report import Report
from profsuite.exporters.document import Advice
from profsuite.exporters.names import printable, shorten
from profsuite.exporters.sections.words import NAME_WIDTH, part_of
from profsuite.exporters.units import count, duration, percent, size


def advice(report: Report, finding: Finding) -> Advice:
    """A finding on a trace in words."""
    return advice_on(finding, part_of(report), report.findings or ())


def advice_on(finding: Finding, part: str, listed: Sequence[Finding] = ()) -> Advice:
    """A finding in words; ``part`` is what its numbers speak of, ``listed`` the list that it stands in."""
    cost, saving = finding.cost_ns, finding.saving_ms_per_step
    return Advice(
        severity=finding.severity,
        title=printable(finding.title),
        seen=tuple(_evidence(evidence) for evidence in finding.evidence),
        where=_where(finding.where),
        cost=None if cost is None else f"{duration(cost)} in this {part}{_counted_in(finding, listed)}",
        saving=None if saving is None else f"{duration(saving * 1e6)} a step, by replay",
        remedy=printable(finding.remedy),
    )


def _counted_in(finding: Finding, listed: Sequence[Finding]) -> str:
    """Which others of the list hold some of the same cost, by their numbers in it."""
    numbers = [str(number) for number, other in enumerate(listed, 1) if other.id in finding.counted_in]
    if not numbers:
        return ""
    named = f"{', '.join(numbers[:-1])} and {numbers[-1]}" if len(numbers) > 1 else numbers[0]
    return f" (some of it counted by finding{'s' if len(numbers) > 1 else ''} {named} too)"


def _evidence(evidence: Evidence) -> str:
    value, label = evidence.value, printable(evidence.label)
    if isinstance(value, str):
        return f"{label}: {shorten(value, NAME_WIDTH)}"
    if evidence.unit == "ms per step":
        return f"{label} {duration(value * 1e6)} per step"
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
