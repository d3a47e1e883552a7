"""A report as one HTML file: nothing loaded from elsewhere, light or dark as the reader's system is.

Where plotly is installed it holds interactive figures, else no script at all.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from html import escape

from msgspec.structs import replace

from profsuite.analyzers.job.report import JobReport
from profsuite.analyzers.report import SECTIONS, Report
from profsuite.exporters.document import Advice, Bars, Cell, Document, Name, Section, Table
from profsuite.exporters.figures import page
from profsuite.exporters.figures.figure import Figure
from profsuite.exporters.figures.memory import main_memory_figure
from profsuite.exporters.figures.ranks import bandwidth_figure, over_time_figures, waiting_figure
from profsuite.exporters.figures.roofline import roofline_figure
from profsuite.exporters.figures.time import device_figure, idle_figure, over_time_figure, step_figure
from profsuite.exporters.figures.work import kernel_figure, op_figure, path_figure, saving_figure
from profsuite.exporters.names import printable, shorten
from profsuite.exporters.ranks import Unreadable, rank_lines, ranks_table, ranks_title
from profsuite.exporters.report_format import ReportFormat
from profsuite.exporters.sections import document
from profsuite.exporters.sections.job import job_advice, job_sections, job_verdict
from profsuite.exporters.sections.words import PAGE
from profsuite.exporters.units import percent

NAME_WIDTH = 80

STYLE = """
:root { color-scheme: light dark; --ink: #1c1e21; --quiet: #5b6168; --line: #d9dce0; --paper: #ffffff;
  --panel: #f5f6f8; --bar: #2f6fd0; --part: #9bb8e6; --critical: #b3261e; --warning: #8a5a00; --info: #1f5fa8; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e8eb; --quiet: #a2a9b1; --line: #3a3f45; --paper: #16181b;
  --panel: #1f2226; --bar: #6ea2f2; --part: #3d5f99; --critical: #ff8a80; --warning: #ffc861; --info: #8ab8ff; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1.5rem; max-width: 72rem; color: var(--ink); background: var(--paper);
  font: 1rem/1.5 system-ui, sans-serif; }
h1 { font-size: 1.35rem; overflow-wrap: anywhere; margin: 0; }
h2 { font-size: 1.1rem; margin: 2rem 0 .5rem; border-bottom: 1px solid var(--line); }
.facts, .note, figcaption { color: var(--quiet); }
.verdict { font-size: 1.15rem; font-weight: 600; }
.finding { background: var(--panel); border-left: .3rem solid var(--info); padding: .6rem 1rem; margin: .6rem 0; }
.finding.critical { border-color: var(--critical); } .finding.warning { border-color: var(--warning); }
.finding h3 { margin: 0; font-size: 1rem; } .finding p { margin: .2rem 0; overflow-wrap: anywhere; }
.critical .severity { color: var(--critical); } .warning .severity { color: var(--warning); }
.info .severity { color: var(--info); }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; margin: .3rem 0 0; font-variant-numeric: tabular-nums; }
figure { margin: .5rem 0 1rem; }
th, td { padding: .2rem .75rem .2rem 0; text-align: left; vertical-align: top; border-bottom: 1px solid var(--line); }
tbody th { font-weight: 400; }
.number { text-align: right; white-space: nowrap; }
.name { font-family: ui-monospace, monospace; font-size: .875rem; overflow-wrap: anywhere; min-width: 12rem; }
.bars { width: 100%; } .bars .track { width: 50%; }
.bar { display: block; height: .8rem; margin-top: .35rem; background: var(--bar); min-width: 1px; }
.within th { padding-left: 1.5rem; color: var(--quiet); } .within .bar { background: var(--part); }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(30rem, 1fr)); gap: 1rem; }
.chart { min-width: 0; margin: 0; } .plot { width: 100%; }
details summary { cursor: pointer; }
code { font-family: ui-monospace, monospace; overflow-wrap: anywhere; }
@media print { .scroll { overflow: visible; } body { max-width: none; } }
"""


def render(report: Report, *, only: Collection[str] | None = None) -> str:
    """The report as a whole HTML document; every name in it is escaped."""
    doc = document(report, only)
    return _page(doc.source, _document(doc, 1, _figures(report, only)))


def render_documents(documents: Sequence[Document]) -> str:
    """One page of several documents, as ``render`` writes one."""
    body: list[str] = []
    for number, doc in enumerate(documents):
        body += ["<hr>", *_document(doc, 2, ())] if number else _document(doc, 1, ())
    return _page(documents[0].source, body)


def render_ranks(
    reports: Sequence[Report],
    *,
    unreadable: Sequence[Unreadable] = (),
    job: JobReport | None = None,
    only: Collection[str] | None = None,
) -> str:
    """One document: what the ranks say together, a table of all and a line on each, then each rank's report."""
    title = ranks_title(reports, unreadable)
    body = [f"<h1>{title}</h1>"]
    if (verdict := job_verdict(job, only)) is not None:
        body.append(f'<p class="verdict">{_text(verdict)}</p>')
    body += _table(ranks_table(reports, unreadable))
    lines = [
        f"<li><strong>{_text(label)}:</strong> {_text(text)}</li>"
        for label, text in rank_lines(reports, unreadable, only)
    ]
    body += ["<ul>", *lines, "</ul>"] if lines else []
    overview = device_figure(reports) if page.is_available() else None
    if overview is not None:
        body += page.places([overview])
    if job is not None and page.is_available():
        found = (*over_time_figures(job), waiting_figure(job), bandwidth_figure(job))
        body += page.places([figure for figure in found if figure is not None])
    if on_job := job_advice(job, reports, only):
        body.append("<section>\n<h2>Findings</h2>")
        for number, item in enumerate(on_job, 1):
            body += _advice(number, item)
        body.append("</section>")
    for section in job_sections(job, only):
        body += _section(section)
    for report in reports:
        body += ["<hr>", *_document(document(report, only), 2, _figures(report, only))]
    return _page(title, body)


def _figures(report: Report, only: Collection[str] | None) -> list[Figure]:
    """The figures of what is shown of a report; none without plotly."""
    if not page.is_available():
        return []
    shown = report
    if only is not None:
        shown = replace(report, **{name: None for name in SECTIONS if name not in only})
    found = (
        step_figure(shown) or device_figure([shown]), idle_figure(shown), path_figure(shown), saving_figure(shown),
        op_figure(shown), kernel_figure(shown), over_time_figure(shown), roofline_figure(shown),
        main_memory_figure(shown.memory),
    )  # fmt: skip
    return [figure for figure in found if figure is not None]


def _page(title: str, body: Iterable[str]) -> str:
    text = "\n".join(body)
    has_figures = 'class="plot"' in text
    policy = page.policy() if has_figures else "default-src 'none'; style-src 'unsafe-inline'"
    head = (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>profsuite: {_text(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>\n"
    )
    return f"{head}{text}\n</main>\n{''.join(page.scripts()) if has_figures else ''}</body>\n</html>\n"


def _text(text: str) -> str:
    return escape(printable(text), quote=True)


def _document(doc: Document, level: int, figures: Sequence[Figure]) -> Iterable[str]:
    yield f'<h{level}>{_text(doc.source)}</h{level}>\n<p class="facts">{_text(", ".join(doc.facts))}</p>'
    if doc.verdict is not None:
        yield f'<p class="verdict">{_text(doc.verdict)}</p>'
    if doc.advice is not None:
        yield "<section>\n<h2>Findings</h2>"
        for number, item in enumerate(doc.advice, 1):
            yield from _advice(number, item)
        yield "</section>" if doc.advice else "<p>None.</p>\n</section>"
    if figures:
        yield '<section>\n<h2>Figures</h2>\n<div class="charts">'
        yield from page.places(figures)
        yield "</div>\n</section>"
    for section in doc.sections:
        yield from _section(section)
    if doc.remarks:
        yield "<section>\n<h2>Trace health</h2>\n<ul>"
        yield from (f"<li>{_text(remark)}</li>" for remark in doc.remarks)
        yield "</ul>\n</section>"
    if doc.next_step is not None and doc.next_step.shows != PAGE:
        yield f"<p>Next: {_text(doc.next_step.shows)}: <code>{_text(' '.join(doc.next_step.command))}</code></p>"


def _advice(number: int, item: Advice) -> Iterable[str]:
    yield f'<article class="finding {_text(item.severity)}">'
    yield f'<h3>{number}. <span class="severity">{_text(item.severity)}</span> {_text(item.title)}</h3>'
    for label, text in item.lines():
        yield f"<p><strong>{label.capitalize()}:</strong> {_text(text)}</p>"
    yield "</article>"


def _section(section: Section) -> Iterable[str]:
    yield f"<section>\n<h2>{_text(section.title)}</h2>"
    for block in section.blocks:
        yield from _table(block) if isinstance(block, Table) else _bars(block)
    for note in section.notes:
        yield f'<p class="note">{_text(note)}</p>'
    yield "</section>"


def _bars(bars: Bars) -> Iterable[str]:
    yield f'<figure>\n<figcaption>{_text(bars.caption)}</figcaption>\n<div class="scroll"><table class="bars">'
    yield '<thead><tr><th scope="col">part</th><th scope="col" class="number">share</th>'
    yield '<th scope="col" class="number">time</th><th scope="col" class="track">of the whole</th></tr>'
    yield "</thead>\n<tbody>"
    for bar in bars.rows:
        row = '<tr class="within">' if bar.within else "<tr>"
        width = max(0.0, min(bar.pct, 100.0))
        yield (
            f'{row}<th scope="row">{_text(bar.label)}</th><td class="number">{_text(percent(bar.pct))}</td>'
            f'<td class="number">{_text(bar.value)}</td>'
            f'<td class="track"><span class="bar" style="width:{width:.2f}%"></span></td></tr>'
        )
    yield "</tbody>\n</table></div>\n</figure>"


def _table(table: Table) -> Iterable[str]:
    # not a table's own caption: that one is no wider than its table
    yield f'<figure>\n<figcaption>{_text(table.caption)}</figcaption>\n<div class="scroll"><table>\n<thead><tr>'
    for column in table.columns:
        yield f'<th scope="col"{_class(column.numeric)}>{_text(column.title)}</th>'
    yield "</tr></thead>\n<tbody>"
    for row in table.rows:
        yield "<tr>" + "".join(_cell(c, i == 0, table.columns[i].numeric) for i, c in enumerate(row)) + "</tr>"
    yield "</tbody>\n</table></div>\n</figure>"


def _class(numeric: bool) -> str:
    return ' class="number"' if numeric else ""


def _cell(cell: Cell, first: bool, numeric: bool) -> str:
    kind = ' class="name"' if isinstance(cell, Name) else _class(numeric)
    tag, scope = ("th", ' scope="row"') if first else ("td", "")
    return f"<{tag}{scope}{kind}>{_name(cell) if isinstance(cell, Name) else _text(cell)}</{tag}>"


def _name(name: Name) -> str:
    """The name, or where it is long a short form that opens to the whole."""
    full, short = printable(name.text), shorten(name.text, NAME_WIDTH)
    if full == short:
        return escape(full)
    return f"<details><summary>{escape(short)}</summary>{escape(full)}</details>"


FORMAT = ReportFormat("html", ".html", "The report as one HTML page.", render, render_ranks)
