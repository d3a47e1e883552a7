"""A report for the terminal."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Literal

from rich import box
from rich.console import Console
from rich.padding import Padding
from rich.table import Table as RichTable
from rich.text import Text

from profsuite.analyzers.report import Report
from profsuite.exporters.document import Advice, Bars, Cell, Document, Name, Section, Table
from profsuite.exporters.names import printable, shorten
from profsuite.exporters.sections import document, ranks_table
from profsuite.exporters.units import plural

FINDINGS_SHOWN = 3
NARROWEST, WIDEST = 60, 120

STYLES = {"critical": "bold red", "warning": "bold yellow", "info": "bold cyan"}


def render(report: Report, *, width: int = 80, color: bool = False) -> str:
    """The report as text of at most ``width`` columns; no line holds a control character but ``color``'s own."""
    console = _console(width, color)
    _write(console, document(report))
    return _text(console)


def render_ranks(reports: Sequence[Report], *, width: int = 80, color: bool = False) -> str:
    """A table of all ranks, then each rank's report."""
    console = _console(width, color)
    console.print(_heading(plural(len(reports), "rank")))
    _write_block(console, ranks_table(reports))
    for report in reports:
        console.print(_blank())
        console.rule(Text("" if report.rank is None else f"rank {report.rank}"), style="dim")
        _write(console, document(report))
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
    console.print(_blank())
    console.print(Text.assemble(("Next: ", "bold"), doc.next_command), soft_wrap=True)


def _write_advice(console: Console, advice: Sequence[Advice]) -> None:
    console.print(_heading("Findings"))
    if not advice:
        console.print(Padding(Text("None."), (0, 0, 0, 2)))
    for number, item in enumerate(advice[:FINDINGS_SHOWN], 1):
        title = Text.assemble(f"{number}. ", (item.severity, STYLES.get(item.severity, "bold")), f"  {item.title}")
        console.print(Padding(title, (0, 0, 0, 2)))
        lines = [("seen", "; ".join(item.seen)), ("where", item.where), ("cost", item.cost), ("do", item.remedy)]
        grid = RichTable.grid(padding=(0, 1))
        grid.add_column(width=5, style="dim")
        grid.add_column(ratio=1, overflow="fold")
        for label, text in lines:
            if text:
                grid.add_row(Text(label), Text(text))
        console.print(Padding(grid, (0, 0, 0, 5)))
    left = len(advice) - FINDINGS_SHOWN
    if left > 0:
        rest = ", ".join(item.title for item in advice[FINDINGS_SHOWN:])
        console.print(Padding(Text(f"{plural(left, 'more finding')}: {rest}", style="dim"), (0, 0, 0, 2)))


def _write_section(console: Console, section: Section) -> None:
    console.print(_heading(section.title))
    for number, block in enumerate(section.blocks):
        if number:
            console.print(_blank())
        _write_block(console, block)
    for note in section.notes:
        console.print(Padding(Text(note, style="dim"), (0, 0, 0, 2)))


def _write_block(console: Console, block: Table | Bars) -> None:
    console.print(Padding(Text(shorten(block.caption, console.width - 2), style="dim"), (0, 0, 0, 2)))
    rich = _bars(block, console.width - 4) if isinstance(block, Bars) else _table(block, console.width - 2)
    console.print(Padding(rich, (0, 0, 0, 2)))


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
        grid.add_row(label, Text(f"{bar.pct:.1f} %"), Text(bar.value), line)
    return grid


def _table(table: Table, width: int) -> RichTable:
    """A table in which the columns of names share the room that the numbers leave."""
    needed = [max([len(c.title), *(len(_plain(row[i])) for row in table.rows)]) for i, c in enumerate(table.columns)]
    flexible = [i for i in range(len(needed)) if any(isinstance(row[i], Name) for row in table.rows)]
    room = width - sum(n for i, n in enumerate(needed) if i not in flexible) - 2 * (len(needed) - 1)
    for left, i in zip(range(len(flexible), 0, -1), sorted(flexible, key=lambda i: needed[i]), strict=True):
        needed[i] = min(needed[i], max(8, room // left))
        room -= needed[i]
    rich = RichTable(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for i, column in enumerate(table.columns):
        justify: Literal["left", "right"] = "right" if column.numeric else "left"
        wrap = i not in flexible and not column.numeric
        rich.add_column(Text(column.title), justify=justify, no_wrap=not wrap, max_width=needed[i], overflow="ellipsis")
    for row in table.rows:
        rich.add_row(*(Text(shorten(c.text, needed[i]) if isinstance(c, Name) else c) for i, c in enumerate(row)))
    return rich


def _plain(cell: Cell) -> str:
    return printable(cell.text) if isinstance(cell, Name) else cell


def _heading(title: str) -> Text:
    return Text(f"\n{title}", style="bold underline")


def _blank() -> Text:
    return Text("")
