"""The rows of ``compile_event`` and ``tensor`` as plain lists, for formats that have no place of their own for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from profsuite.trace.columns import Text
from profsuite.trace.readers.fields import GROUPS, NULL_INT64

if TYPE_CHECKING:
    from profsuite.trace.batches import Batches


def compile_rows(batches: Batches, group: str = "compile") -> list[list[Any]]:
    """One list a row, its values in the order of the raw columns; None where null."""
    rows: list[list[Any]] = []
    for columns in batches.batches(group):
        values: list[list[Any]] = []
        for name, _, _ in GROUPS[group]:
            column = columns[name]
            if isinstance(column, Text):
                words = column.pool.to_pylist()
                values.append([None if code < 0 else words[code] for code in column.codes.tolist()])
            else:
                values.append([None if number == NULL_INT64 else number for number in column.tolist()])
        rows += [list(row) for row in zip(*values, strict=True)]
    return rows
