"""A report as GitHub Markdown, for issues and pull requests."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence

from profsuite.analyzers.job.report import JobReport
from profsuite.analyzers.report import Report
from profsuite.exporters.document import Advice, Bars, Cell, Document, Name, Section, Table
from profsuite.exporters.names import shorten
from profsuite.exporters.ranks import Unreadable, chosen, rank_lines, ranks_table, ranks_title
from profsuite.exporters.report_format import ReportFormat
from profsuite.exporters.sections import document
from profsuite.exporters.sections.job import job_advice, job_sections, job_verdict
from profsuite.exporters.units import percent

NAME_WIDTH = 100

_SPECIAL = re.compile(
    r"""
    [\\`*\[|<~$]                              # emphasis, code, links, tables, HTML, GitHub's strikethrough and formulas
    | (?<![^\W_]) _ | _ (?![^\W_])            # emphasis, but not within a word
    | & (?=\#?\w+;)                           # an entity
    | [@\#] (?=\w)                            # a mention, a reference
    | : (?=//|[\w+-]+:)                       # a bare link, an emoji
    | (?<=www) \.                             # a bare link
    | ^ [>=] | ^ [\#+-] (?=[\#\s-]|$)         # a quotation, a heading, a rule, a list
    """,
    re.VERBOSE | re.IGNORECASE,
)
_ENTITIES = {"<": "&lt;", "&": "&amp;", "@": "&#64;", "#": "&#35;", ":": "&#58;"}
"""Where a backslash is not honoured everywhere: HTML, mentions, references and bare links."""


def render(report: Report, *, only: Collection[str] | None = None) -> str:
    """The report as Markdown; nothing in a name is taken for markup, a link, a mention or HTML."""
    return "\n".join(_document(document(report, only), "#")) + "\n"


def render_documents(documents: Sequence[Document]) -> str:
    """Documents below each other, as ``render`` writes one; those after the first a level lower."""
    lines: list[str] = []
    for number, doc in enumerate(documents):
        lines += ["", *_document(doc, "##")] if number else _document(doc, "#")
    return "\n".join(lines) + "\n"


def render_ranks(
    reports: Sequence[Report],
    *,
    unreadable: Sequence[Unreadable] = (),
    job: JobReport | None = None,
    only: Collection[str] | None = None,
    full: bool = False,
) -> str:
    """What the ranks say together, a table of all and a line on each, then the report of one, or of all (``full``)."""
    lines = [f"# {ranks_title(reports, unreadable)}", ""]
    if (verdict := job_verdict(job, only)) is not None:
        lines += [f"**{escape(verdict)}**", ""]
    lines += [*_table(ranks_table(reports, unreadable)), ""]
    lines += [f"- {escape(label)}: {escape(text)}" for label, text in rank_lines(reports, unreadable, only)]
    if on_job := job_advice(job, reports, only):
        lines += ["", "## Findings", ""]
        for number, item in enumerate(on_job, 1):
            lines += _advice(number, item)
    for section in job_sections(job, only):
        lines += ["", *_section(section, "##")]
    whole, note = chosen(reports, unreadable, only, full)
    if note is not None:
        lines += ["", escape(note)]
    for report in whole:
        lines += ["", *_document(document(report, only), "##")]
    return "\n".join(lines) + "\n"


def escape(text: str) -> str:
    """``text`` with whatever in it Markdown, HTML or GitHub could take for its own escaped, and nothing else."""
    text = _SPECIAL.sub(lambda match: _ENTITIES.get(match[0], "\\" + match[0]), text)
    return re.sub(r"^([0-9]{1,9})([.)])(?=\s|$)", r"\1\\\2", text)  # a numbered list


def code(text: str) -> str:
    """``text`` as inline code, whatever back-ticks it holds; fit for a table cell."""
    text = text.replace("|", "\\|")
    fence = "`" * (max((len(run) for run in re.findall("`+", text)), default=0) + 1)
    pad = " " if text.startswith("`") or text.endswith("`") or not text.strip() else ""
    return f"{fence}{pad}{text}{pad}{fence}"


def _document(doc: Document, level: str) -> Iterable[str]:
    yield f"{level} {escape(doc.source)}"
    yield ""
    yield escape(", ".join(doc.facts))
    if doc.verdict is not None:
        yield from ("", f"**{escape(doc.verdict)}**")
    if doc.advice is not None:
        yield from ("", f"{level}# Findings", "")
        for number, item in enumerate(doc.advice, 1):
            yield from _advice(number, item)
        if not doc.advice:
            yield "None."
    for section in doc.sections:
        yield ""
        yield from _section(section, f"{level}#")
    if doc.remarks:
        yield from ("", f"{level}# Trace health", "")
        yield from (f"- {escape(remark)}" for remark in doc.remarks)
    if doc.next_step is not None:
        yield from ("", f"Next: {doc.next_step.shows}: {code(' '.join(doc.next_step.command))}")


def _advice(number: int, item: Advice) -> Iterable[str]:
    yield f"{number}. **{escape(item.title)}** ({item.severity})"
    for heading, text in item.lines():
        yield f"   - {heading.capitalize()}: {escape(text)}"


def _section(section: Section, level: str) -> Iterable[str]:
    yield f"{level} {section.title}"
    for block in section.blocks:
        yield from ("", escape(block.caption), "")
        yield from _table(block) if isinstance(block, Table) else _bars(block)
    for note in section.notes:
        yield from ("", escape(note))


def _bars(bars: Bars) -> Iterable[str]:
    yield "| part | share | time |"
    yield "|---|--:|--:|"
    for bar in bars.rows:
        label = f"&nbsp;&nbsp;of it: {bar.label}" if bar.within else bar.label
        yield f"| {label} | {escape(percent(bar.pct))} | {bar.value} |"


def _table(table: Table) -> Iterable[str]:
    yield "| " + " | ".join(escape(column.title) for column in table.columns) + " |"
    yield "|" + "|".join("--:" if column.numeric else "---" for column in table.columns) + "|"
    for row in table.rows:
        yield "| " + " | ".join(_cell(cell) for cell in row) + " |"


def _cell(cell: Cell) -> str:
    if isinstance(cell, Name):
        return code(shorten(cell.text, NAME_WIDTH)) if cell.text else ""
    return escape(cell)


FORMAT = ReportFormat("markdown", ".md", "The report as Markdown.", render, render_ranks)
