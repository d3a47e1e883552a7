"""SQLite: the tables in one file, with foreign keys and indices."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from profsuite.errors import ProfsuiteError
from profsuite.exporters.parquet import with_id
from profsuite.trace.schema import BY_NAME

if TYPE_CHECKING:
    from collections.abc import Iterator

    from profsuite.exporters.source import Source
    from profsuite.exporters.target import Target
    from profsuite.trace.schema import Column, Table

BATCH_ROWS: Final = 2**15
TYPES: Final = {"int64": "INTEGER", "int32": "INTEGER", "bool": "INTEGER", "float64": "REAL", "text": "TEXT"}
"""Of a column, by its dtype; a bool is 0 or 1."""

INDEXED: Final = frozenset({"slice_id", "ts", "parent_id", "launch_id", "correlation_id"})
"""Columns by which rows are looked up."""


@dataclass(frozen=True, slots=True)
class Sqlite:
    """The format."""

    name: str = "sqlite"
    suffix: str = ".sqlite"
    carries: str = "Every table and column, with the row number as id, foreign keys, and indices on ids and times."
    compresses: bool = False
    merges: bool = False

    def write(self, source: Source, target: Target) -> str:
        """Write one database."""
        trace = source.trace()
        try:
            with closing(sqlite3.connect(target.path, isolation_level=None)) as database:
                # The file takes its place only when it is complete: a journal would protect nothing.
                database.executescript("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF")
                database.execute("BEGIN")
                for name, table in trace.tables.items():
                    database.execute(_create(BY_NAME[name]))
                    holes = ", ".join("?" * (len(BY_NAME[name].columns) + 1))
                    for batch in with_id(table).to_batches(max_chunksize=BATCH_ROWS):
                        columns = [column.to_pylist() for column in batch.columns]
                        database.executemany(f'INSERT INTO "{name}" VALUES ({holes})', zip(*columns, strict=True))  # noqa: S608
                for name in trace.tables:
                    for statement in _indices(BY_NAME[name]):
                        database.execute(statement)
                database.execute("COMMIT")
                database.execute("ANALYZE")
        except sqlite3.Error as error:
            raise ProfsuiteError(f"{target.final}: cannot be written: {error}") from error
        rows = sum(table.num_rows for table in trace.tables.values())
        return f"{len(trace.tables)} tables, {rows:,} rows"


FORMAT = Sqlite()


def _create(table: Table) -> str:
    columns = ["id INTEGER PRIMARY KEY", *(f'"{c.name}" {_type(c)}' for c in table.columns)]
    return f'CREATE TABLE "{table.name}" ({", ".join(columns)})'


def _type(column: Column) -> str:
    required = "" if column.nullable else " NOT NULL"
    to = column.unit.removeprefix("row of ") if column.unit.startswith("row of ") else None
    return f"{TYPES[column.dtype]}{required}" + (f' REFERENCES "{to}" (id)' if to else "")


def _indices(table: Table) -> Iterator[str]:
    for column in table.columns:
        if column.name in INDEXED:
            yield f'CREATE INDEX "{table.name}_{column.name}" ON "{table.name}" ("{column.name}")'
