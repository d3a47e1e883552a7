"""Tables as lines of text: as wide as their content, as narrow as the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rich.cells import cell_len, set_cell_size

from profsuite.exporters.document import Cell, Name, Table
from profsuite.exporters.names import middle, printable, shorten_all

GAP = 2
READABLE = 28
"""Columns of text that a name should have before optional columns are shown beside it."""


def lines(table: Table, width: int) -> list[str]:
    """The heading, a rule and the rows, none wider than ``width``.

    Columns of names share the room that the others leave, the short ones first; where that is too little to
    read a name by, optional columns are left out, the last one first.
    """
    while True:
        needed = _needed(table)
        flexible = [i for i in range(len(needed)) if any(isinstance(row[i], Name) for row in table.rows)]
        room = width - sum(n for i, n in enumerate(needed) if i not in flexible) - GAP * (len(needed) - 1)
        optional = [i for i, column in enumerate(table.columns) if column.optional]
        if not optional or room >= sum(min(needed[i], READABLE) for i in flexible):
            break
        table = _without(table, optional[-1])
    for left, i in zip(range(len(flexible), 0, -1), sorted(flexible, key=needed.__getitem__), strict=True):
        needed[i] = min(needed[i], max(8, room // left))
        room -= needed[i]
    heading = [column.title for column in table.columns]
    rule = "─" * min(width, sum(needed) + GAP * (len(needed) - 1))
    numeric = [column.numeric for column in table.columns]
    columns = [_texts([row[i] for row in table.rows], width) for i, width in enumerate(needed)]
    rows = [_line(row, needed, numeric) for row in zip(*columns, strict=True)]
    return [_line(heading, needed, numeric), rule, *rows]


def _needed(table: Table) -> list[int]:
    return [
        max([cell_len(column.title), *(cell_len(_plain(row[i])) for row in table.rows)])
        for i, column in enumerate(table.columns)
    ]


def _plain(cell: Cell) -> str:
    return printable(cell.text if isinstance(cell, Name) else cell)


def _without(table: Table, column: int) -> Table:
    """The table without one of its columns."""
    rows = tuple((*row[:column], *row[column + 1 :]) for row in table.rows)
    return replace(table, columns=(*table.columns[:column], *table.columns[column + 1 :]), rows=rows)


def _texts(cells: Sequence[Cell], width: int) -> list[str]:
    """A column's cells as text that fits its width."""
    short = iter(shorten_all([cell.text for cell in cells if isinstance(cell, Name)], width))
    return [next(short) if isinstance(cell, Name) else middle(printable(cell), width) for cell in cells]


def _line(cells: Sequence[str], widths: Sequence[int], numeric: Sequence[bool]) -> str:
    parts = []
    for text, width, right in zip(cells, widths, numeric, strict=True):
        fitted = text if cell_len(text) <= width else set_cell_size(text, width)
        blanks = " " * (width - cell_len(fitted))
        parts.append(blanks + fitted if right else fitted + blanks)
    return (" " * GAP).join(parts).rstrip()
