"""A check as a ``Document`` (text, Markdown) and as JUnit XML."""

from __future__ import annotations

from collections.abc import Sequence
from xml.sax.saxutils import escape, quoteattr

from profsuite.analyzers.check.check import FAILURES, ChangeRow, CheckReport, CheckRow, RankCheck
from profsuite.exporters.diff.document import CHANGE_COLUMNS, VERDICTS, change_cells, part_label
from profsuite.exporters.document import Cell, Column, Document, Name, Section, Table
from profsuite.exporters.names import printable
from profsuite.exporters.sections.words import without_empty
from profsuite.exporters.units import count, plural, size


def documents(report: CheckReport) -> list[Document]:
    """What was checked of each rank, what failed, and what changed."""
    return [_document(report, rank) for rank in report.ranks]


def junit(report: CheckReport) -> str:
    """The checks as JUnit XML: a test suite a rank, a test case a check."""
    lines = ['<?xml version="1.0" encoding="UTF-8"?>', "<testsuites>"]
    for rank in report.ranks:
        failed = [row for row in rank.rows if row.outcome in FAILURES]
        name = "profsuite check" if rank.rank is None else f"profsuite check, rank {rank.rank}"
        lines.append(f'<testsuite name={quoteattr(name)} tests="{len(rank.rows)}" failures="{len(failed)}">')
        for row in rank.rows:
            case = f"<testcase classname={quoteattr(printable(rank.source))} name={quoteattr(printable(row.name))}"
            message = printable(row.message)
            if row.outcome in FAILURES:
                lines.append(f"{case}><failure type={quoteattr(row.outcome)} message={quoteattr(message)}/></testcase>")
            else:
                lines.append(f"{case}><system-out>{escape(message)}</system-out></testcase>")
        lines.append("</testsuite>")
    return "\n".join([*lines, "</testsuites>"]) + "\n"


def _document(report: CheckReport, rank: RankCheck) -> Document:
    rows: list[tuple[Cell, ...]] = [
        (
            "failed" if row.outcome in FAILURES else row.outcome,
            Name(row.name),
            _value(row, row.baseline),
            _value(row, row.value),
            _value(row, row.limit),
        )
        for row in rank.rows
    ]
    columns = (
        Column("", False),
        Column("check", False),
        Column("baseline", optional=True),
        Column("now"),
        Column("limit"),
    )
    table = without_empty(plural(len(rows), "check"), columns, rows)
    notes = [f"{row.name}: {row.message}." for row in rank.rows] + list(rank.notes)
    sections = [Section("Checks", (table,) if rows else (), tuple(printable(note) for note in notes))]
    per = "per step" if rank.per == "step" else "of the whole window"
    if rank.parts:
        sections.append(Section("Time", (_changes(f"Parts of the time, {per}", rank.parts, True),)))
    if rank.ops:
        sections.append(Section("Changed ops", (_changes(f"GPU self time, {per}", rank.ops, False),)))
    facts = [] if rank.rank is None else [f"rank {rank.rank}"]
    if rank.baseline is not None:
        facts += [f"baseline {printable(rank.baseline)}", f"threshold {report.threshold_pct:g} %"]
    return Document(
        source=printable(rank.source),
        facts=tuple(facts) or ("no baseline",),
        verdict=_verdict(rank.rows),
        advice=None,
        sections=tuple(sections),
        remarks=(),
        next_step=None,
    )


def _verdict(rows: Sequence[CheckRow]) -> str:
    failed = [row for row in rows if row.outcome in FAILURES]
    if not failed:
        return f"Passed: {plural(len(rows), 'check')}." if rows else "Nothing was checked."
    first = f"{printable(failed[0].name)}: {printable(failed[0].message)}"
    more = f", and {plural(len(failed) - 1, 'more check')}" if len(failed) > 1 else ""
    return f"Failed: {first}{more}."


def _value(row: CheckRow, value: float | None) -> str:
    if value is None:
        return ""
    if row.unit == "bytes":
        return size(value)
    return f"{value:,.3f} ms" if row.unit == "ms" else f"{count(round(value, 1))} {row.unit}"


def _changes(caption: str, changes: Sequence[ChangeRow], are_parts: bool) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for change in changes:
        name: Cell = part_label(change.name) if are_parts else Name(change.name)
        rows.append((name, *change_cells(change.time), VERDICTS[change.time.judgement]))
    return without_empty(
        caption, (Column("part" if are_parts else "op", False), *CHANGE_COLUMNS, Column("", False)), rows
    )
