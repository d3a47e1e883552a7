"""DuckDB: the tables in one file, typed and commented."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from profsuite.errors import MissingExtraError, ProfsuiteError
from profsuite.exporters.parquet import with_id
from profsuite.trace.schema import BY_NAME

if TYPE_CHECKING:
    from profsuite.exporters.source import Source
    from profsuite.exporters.target import Target
    from profsuite.trace.schema import Column, Table

TYPES: Final = {"int64": "BIGINT", "int32": "INTEGER", "bool": "BOOLEAN", "float64": "DOUBLE", "text": "VARCHAR"}
"""Of a column, by its dtype."""


@dataclass(frozen=True, slots=True)
class DuckDB:
    """The format."""

    name: str = "duckdb"
    suffix: str = ".duckdb"
    carries: str = "Every table and column, with the row number as id; columns carry their meaning as comments."
    compresses: bool = False
    merges: bool = False

    def write(self, source: Source, target: Target) -> str:
        """Write one database."""
        try:
            import duckdb
        except ImportError:
            raise MissingExtraError("writing DuckDB needs DuckDB: pip install 'profsuite[query]'") from None
        trace = source.trace()
        try:
            with duckdb.connect(str(target.path)) as database:
                for name, table in trace.tables.items():
                    _write(database, BY_NAME[name], with_id(table))
        except duckdb.Error as error:
            raise ProfsuiteError(f"{target.final}: cannot be written: {error}") from error
        rows = sum(table.num_rows for table in trace.tables.values())
        return f"{len(trace.tables)} tables, {rows:,} rows"


FORMAT = DuckDB()


def _write(database: Any, table: Table, rows: Any) -> None:
    columns = ["id BIGINT NOT NULL", *(f'"{c.name}" {_type(c)}' for c in table.columns)]
    database.execute(f'CREATE TABLE "{table.name}" ({", ".join(columns)})')
    database.register("_rows", rows)
    database.execute(f'INSERT INTO "{table.name}" SELECT * FROM _rows')  # noqa: S608
    database.unregister("_rows")
    database.execute(f'COMMENT ON TABLE "{table.name}" IS {_quoted(table.row)}')
    for column in table.columns:
        words = f"{column.doc} [{column.unit}]" if column.unit else column.doc
        database.execute(f'COMMENT ON COLUMN "{table.name}"."{column.name}" IS {_quoted(words)}')


def _type(column: Column) -> str:
    return TYPES[column.dtype] + ("" if column.nullable else " NOT NULL")


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
