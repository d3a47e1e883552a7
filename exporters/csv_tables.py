"""The tables as CSV, one file a table: RFC 4180, UTF-8, text always quoted, so that an empty text is no null."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from profsuite.exporters.parquet import with_id

if TYPE_CHECKING:
    from profsuite.exporters.source import Source
    from profsuite.exporters.target import Target

BATCH_ROWS: Final = 2**16

_FORMULA: Final = r"^(?:['=@\t\r]|[+-](?:[^0-9]|[0-9]*[^0-9.]))"
"""Text that a spreadsheet may take for a formula, and text with the mark of it; numbers are none."""


@dataclass(frozen=True, slots=True)
class CsvTables:
    """The format."""

    name: str = "csv"
    suffix: str = ""
    carries: str = "Every table and column, one file a table; a ' goes before text that spreadsheets would compute."
    compresses: bool = False
    merges: bool = False

    def write(self, source: Source, target: Target) -> str:
        """Write every table into the folder."""
        trace = source.trace()
        for name, table in trace.tables.items():
            safe = guarded(with_id(table))
            with csv.CSVWriter(str(target.path / f"{name}.csv"), safe.schema) as writer:
                for batch in safe.to_batches(max_chunksize=BATCH_ROWS):
                    writer.write_batch(batch)
        rows = sum(table.num_rows for table in trace.tables.values())
        return f"{len(trace.tables)} tables, {rows:,} rows"


FORMAT = CsvTables()


def guarded(table: pa.Table) -> pa.Table:
    """The table with a ``'`` before text that begins as a formula does, or with a ``'`` itself.

    Taking one leading ``'`` away gives the text back.
    """
    columns: list[Any] = []
    for column in table.columns:
        if not pa.types.is_dictionary(column.type):
            columns.append(column)
            continue
        chunks = []
        for chunk in column.unify_dictionaries().chunks:
            coded = cast("Any", chunk)
            chunks.append(pa.DictionaryArray.from_arrays(coded.indices, _guarded(coded.dictionary)).dictionary_decode())
        columns.append(pa.chunked_array(chunks, pa.string()))
    return pa.table(columns, names=table.column_names)


def _guarded(values: Any) -> Any:
    marked = pc.binary_join_element_wise(pa.scalar("'"), values, pa.scalar(""))
    return pc.if_else(pc.match_substring_regex(values, _FORMULA), marked, values)
