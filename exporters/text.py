"""A report for the terminal."""

from __future__ import annotations

import io
from collections.abc import Collection, Sequence

from rich.console import Console
from rich.padding import Padding
from rich.table import Table as RichTable
from rich.text import Text

from profsuite.analyzers.job.report import JobReport
from profsuite.analyzers.report import Report
from profsuite.exporters.columns import lines
from profsuite.exporters.document import Advice, Bars, Document, Section, Table
from profsuite.exporters.names import printable, shorten
from profsuite.exporters.ranks import Unreadable, chosen, rank_lines, ranks_table, ranks_title
from profsuite.exporters.sections import document
from profsuite.exporters.sections.job import job_advice, job_sections, job_verdict
from profsuite.exporters.units import percent, plural

FINDINGS_SHOWN = 3
NARROWEST, WIDEST = 60, 120

STYLES = {"critical": "bold red", "warning": "bold yellow", "info": "bold cyan"}


def render(report: Report, *, width: int = 80, color: bool = False, only: Collection[str] | None = None) -> str:
    """The report as text of at most ``width`` columns; no line holds a control character but ``color``'s own."""
    console = _console(width, color)
    _write(console, document(report, only))
    return _text(console)


def render_documents(documents: Sequence[Document], *, width: int = 80, color: bool = False) -> str:
    """Documents below each other, as ``render`` writes one."""
    console = _console(width, color)
    for number, doc in enumerate(documents):
        if number:
            console.print(_blank())
            console.rule(style="dim")
        _write(console, doc)
    return _text(console)


def render_ranks(
    reports: Sequence[Report],
    *,
    unreadable: Sequence[Unreadable] = (),
    job: JobReport | None = None,
    width: int = 80,
    color: bool = False,
    only: Collection[str] | None = None,
    full: bool = False,
) -> str:
    """What the ranks say together, a table of all and a line on each, then the report of one, or of all (``full``)."""
    console = _console(width, color)
    console.print(Text(ranks_title(reports, unreadable), style="bold underline"))
    if (verdict := job_verdict(job, only)) is not None:
        console.print(_blank())
        console.print(Text(verdict, style="bold"))
        console.print(_blank())
    _write_block(console, ranks_table(reports, unreadable))
    on_each = [(shorten(label, console.width // 3), line) for label, line in rank_lines(reports, unreadable, only)]
    if on_each:
        console.print(_blank())
        console.print(Padding(_labelled(on_each, 1 + max(len(label) for label, _ in on_each)), (0, 0, 0, 2)))
    if on_job := job_advice(job, reports, only):
        _write_advice(console, on_job)
    for section in job_sections(job, only):
        _write_section(console, section)
    whole, note = chosen(reports, unreadable, only, full)
    if note is not None:
        console.print(_blank())
        console.print(Padding(Text(note, style="dim"), (0, 0, 0, 2)))
    for report in whole:
        console.print(_blank())
        console.rule(Text("" if report.rank is None else f"rank {report.rank}"), style="dim")
        _write(console, document(report, only))
    return _text(console)


def render_sections(
    title: str, verdict: str, sections: Sequence[Section], *, width: int = 80, color: bool = False
) -> str:
    """A title, a verdict and sections as text."""
    console = _console(width, color)
    console.print(Text(title, style="bold underline"))
    console.print(_blank())
    console.print(Text(printable(verdict), style="bold"))
    for section in sections:
        _write_section(console, section)
    return _text(console)


def _console(width: int, color: bool) -> Console:
    return Console(
        file=io.StringIO(),
        width=max(NARROWEST, min(width, WIDEST)),
        color_system="standard" if color else None,
        force_terminal=color,
        no_color=not color,
        legacy_windows=False,
        markup=False,
        emoji=False,
        highlight=False,
    )


def _text(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return "\n".join(line.rstrip() for line in console.file.getvalue().splitlines()) + "\n"


def _write(console: Console, doc: Document) -> None:
    console.print(Text(shorten(doc.source, console.width), style="bold"))
    console.print(Text(", ".join(doc.facts), style="dim"))
    if doc.verdict is not None:
        console.print(_blank())
        console.print(Text(doc.verdict, style="bold"))
    if doc.advice is not None:
        _write_advice(console, doc.advice)
    for section in doc.sections:
        _write_section(console, section)
    if doc.remarks:
        console.print(_heading("Trace health"))
        for remark in doc.remarks:
            console.print(Padding(Text(remark), (0, 0, 0, 2)))
    if doc.next_step is not None:
        console.print(_blank())
        console.print(Text.assemble(("Next: ", "bold"), doc.next_step.shows))
        for line in _command_lines(doc.next_step.command, console.width - 2):
            console.print(Text(f"  {line}"), soft_wrap=True)


def _command_lines(parts: Sequence[str], width: int) -> list[str]:
    """A command to copy, broken between its parts as a shell allows it where it is wider than ``width``."""
    lines = [parts[0]]
    for number, part in enumerate(parts[1:], 2):
        room = width if number == len(parts) else width - 2
        if len(lines[-1]) + 1 + len(part) <= room:
            lines[-1] += f" {part}"
        else:
            lines[-1] += " \\"
            lines.append(f"  {part}")
    return lines


def _write_advice(console: Console, advice: Sequence[Advice]) -> None:
    console.print(_heading("Findings"))
    if not advice:
        console.print(Padding(Text("None."), (0, 0, 0, 2)))
    for number, item in enumerate(advice[:FINDINGS_SHOWN], 1):
        title = Text.assemble(f"{number}. ", (item.severity, STYLES.get(item.severity, "bold")), f"  {item.title}")
        console.print(Padding(title, (0, 0, 0, 2)))
        console.print(Padding(_labelled(item.lines(), 6), (0, 0, 0, 5)))
    left = len(advice) - FINDINGS_SHOWN
    if left > 0:
        rest = ", ".join(f"{n}. {item.title}" for n, item in enumerate(advice[FINDINGS_SHOWN:], FINDINGS_SHOWN + 1))
        console.print(Padding(Text(f"{plural(left, 'more finding')}: {rest}", style="dim"), (0, 0, 0, 2)))


def _labelled(rows: Sequence[tuple[str, str]], width: int) -> RichTable:
    """Each text beside its label, which has ``width`` columns."""
    grid = RichTable.grid(padding=(0, 1))
    grid.add_column(width=width, style="dim", no_wrap=True)
    grid.add_column(ratio=1, overflow="fold")
    for label, text in rows:
        grid.add_row(Text(label), Text(text))
    return grid


def _write_section(console: Console, section: Section) -> None:
    console.print(_heading(section.title))
    blocks = [block for block in section.blocks if isinstance(block, Bars) or not block.detail]
    for number, block in enumerate(blocks):
        if number:
            console.print(_blank())
        _write_block(console, block)
    for note in section.notes:
        console.print(Padding(Text(note, style="dim"), (0, 0, 0, 2)))


def _write_block(console: Console, block: Table | Bars) -> None:
    console.print(Padding(Text(shorten(block.caption, console.width - 2), style="dim"), (0, 0, 0, 2)))
    if isinstance(block, Bars):
        console.print(Padding(_bars(block, console.width - 4), (0, 0, 0, 2)))
        return
    heading, rule, *rows = lines(block, console.width - 2)
    for line, style in ((heading, "bold"), (rule, "dim"), *((row, "") for row in rows)):
        console.print(Text(f"  {line}", style=style, no_wrap=True, overflow="ignore"), crop=False)


def _bars(bars: Bars, width: int) -> RichTable:
    label_width = max((len(bar.label) + 2 * bar.within for bar in bars.rows), default=0)
    room = max(10, width - label_width - 24)
    grid = RichTable.grid(padding=(0, 2))
    grid.add_column(no_wrap=True)
    grid.add_column(justify="right", no_wrap=True)
    grid.add_column(justify="right", no_wrap=True)
    grid.add_column(no_wrap=True)
    for bar in bars.rows:
        label = Text("  " * bar.within + bar.label, style="dim" if bar.within else "")
        length = round(room * min(bar.pct, 100.0) / 100) or (1 if bar.pct else 0)
        line = Text(("░" if bar.within else "█") * length, style="dim" if bar.within else "cyan")
        grid.add_row(label, Text(percent(bar.pct)), Text(bar.value), line)
    return grid


def _heading(title: str) -> Text:
    return Text(f"\n{title}", style="bold underline")


def _blank() -> Text:
    return Text("")
