"""Findings as JUnit XML: a test suite a rank, a test case a kind of finding, for CI to show.

A critical finding or a warning fails its case; an info is told in the case's output.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from xml.sax.saxutils import escape, quoteattr

from profsuite.analyzers.findings import RULES
from profsuite.exporters.names import printable
from profsuite.exporters.report_format import ReportFormat
from profsuite.exporters.units import duration

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from profsuite.analyzers.base import Finding
    from profsuite.analyzers.findings import Rule
    from profsuite.analyzers.report import Report


def render(report: Report) -> str:
    """The findings of one report as an XML document."""
    return render_ranks([report])


def render_ranks(reports: Sequence[Report]) -> str:
    """The findings of several reports as one document."""
    lines = ['<?xml version="1.0" encoding="UTF-8"?>', "<testsuites>"]
    for report in reports:
        lines += _suite(report)
    return "\n".join([*lines, "</testsuites>"]) + "\n"


def _suite(report: Report) -> Iterator[str]:
    found = report.findings or ()
    kinds = list(dict.fromkeys([*map(_kind, RULES), *(finding.id for finding in found)]))
    by_kind = {kind: [finding for finding in found if finding.id == kind] for kind in kinds}
    failures = sum(any(map(_fails, findings)) for findings in by_kind.values())
    name = "profsuite" if report.rank is None else f"profsuite, rank {report.rank}"
    yield f'<testsuite name={quoteattr(name)} tests="{len(kinds)}" failures="{failures}">'
    for kind, findings in by_kind.items():
        case = f"<testcase classname={quoteattr(printable(report.source))} name={quoteattr(kind)}"
        if not findings:
            yield f"{case}/>"
            continue
        yield f"{case}>"
        grave = [finding for finding in findings if _fails(finding)]
        if grave:  # a case holds one failure
            text = "\n".join(_words(finding) for finding in grave)
            title = quoteattr(printable(grave[0].title))
            yield f"<failure type={quoteattr(grave[0].severity)} message={title}>{escape(text)}</failure>"
        mild = "\n".join(_words(finding) for finding in findings if not _fails(finding))
        if mild:
            yield f"<system-out>{escape(mild)}</system-out>"
        yield "</testcase>"
    yield "</testsuite>"


def _kind(rule: Rule) -> str:
    """What a rule's findings are called: as the function is."""
    return str(getattr(rule, "__name__", "finding"))


def _fails(finding: Finding) -> bool:
    return finding.severity != "info"


def _words(finding: Finding) -> str:
    cost = "" if finding.cost_ns is None else f" ({duration(finding.cost_ns)})"
    return printable(f"{finding.severity}: {finding.title}{cost}. {finding.remedy}")


FORMAT = ReportFormat(
    "junit", ".junit.xml", "The findings as test cases of JUnit: warnings and graver ones fail.", render, render_ranks
)
