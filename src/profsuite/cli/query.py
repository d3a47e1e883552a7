"""``profsuite query``: SQL over a trace's tables."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from profsuite.cli.options import examples, file_path, reader_options, selection_options

if TYPE_CHECKING:
    from profsuite.trace.model import Trace


EXAMPLES = examples(
    'profsuite query "SELECT name, sum(dur) / 1e6 AS ms FROM slice GROUP BY 1 ORDER BY 2 DESC LIMIT 10" trace.json',
    'profsuite query "SELECT k.grid_x, s.name, s.dur FROM kernel k JOIN slice s ON s.id = k.slice_id" trace.json',
    'profsuite query "SELECT * FROM health" trace.json',
)


@click.command("query", epilog=EXAMPLES)
@click.argument("sql", metavar="SQL")
@click.argument("path", metavar="PATH", shell_complete=file_path)
@click.option("--format", "form", type=click.Choice(["text", "json", "csv"]), default="text", show_default=True)
@click.option("--limit", type=click.IntRange(min=0), default=50, show_default=True, help="Rows of text; 0 is all.")
@selection_options
@reader_options
def command(sql: str, path: str, form: str, limit: int, ranks: list[int] | None, **options: Any) -> None:
    """Ask a trace in SQL (DuckDB); needs the extra profsuite[query].

    The tables are those of docs/reference/tables.md, each with a column "id", its row number: what slice_id,
    launch_id, op_id and their like refer to. Times are nanoseconds.
    """
    from profsuite.errors import MissingExtraError

    try:
        import duckdb
    except ImportError as error:
        raise MissingExtraError("profsuite query needs DuckDB: pip install 'profsuite[query]'") from error
    from profsuite.cli.loading import load_one, only

    trace = load_one(only(path, ranks), **options)
    with duckdb.connect(":memory:", config={"autoinstall_known_extensions": "false"}) as connection:
        register(connection, trace, sql)
        try:
            result = connection.execute(sql)
            columns = [column[0] for column in result.description or ()]
            rows = result.fetchmany(limit + 1) if form == "text" and limit else result.fetchall()
        except duckdb.Error as error:
            raise refusal(str(error), list(trace.tables)) from error
    if form == "json":
        click.echo(json.dumps([dict(zip(columns, row, strict=True)) for row in rows], default=str, indent=1))
    elif form == "csv":
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(rows)
        click.echo(out.getvalue(), nl=False)
    else:
        click.echo(as_text(columns, rows[:limit] if limit else rows), nl=False)
        if limit and len(rows) > limit:
            click.echo(f"profsuite: the first {limit} rows; --limit 0 prints all", err=True)


def refusal(message: str, tables: Sequence[str]) -> click.ClickException:
    """DuckDB's error: what is wrong, with its hints in a line, then the place in the query that it points at."""
    from profsuite.cli.app import UNREADABLE, Failure

    what, _, place = message.partition("\n\n")
    lines = what.splitlines()
    if "Table with name" in message:  # DuckDB's own hint knows only its catalogue
        lines = [line for line in lines if not line.startswith("Did you mean")]
        lines.append(f"The tables are {', '.join(tables)}.")
    return Failure(" ".join(lines), UNREADABLE, place)


def register(connection: Any, trace: Trace, sql: str) -> None:
    """Give the connection those of the trace's tables that the query may name."""
    from profsuite.exporters.parquet import with_id

    words = {word.lower() for word in re.findall(r"\w+", sql)}
    catalogue = bool(words & {"show", "describe", "duckdb_tables", "information_schema"})
    for name, table in trace.tables.items():
        if catalogue or name in words:
            connection.register(name, with_id(table))


def as_text(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Rows as a plain table that fits the terminal; names are made safe to print."""
    from profsuite.cli.result import terminal_width
    from profsuite.exporters.columns import lines
    from profsuite.exporters.document import Column, Name, Table

    numeric = [all(isinstance(row[i], int | float | None) for row in rows) for i in range(len(columns))]
    headings = tuple(Column(title, number) for title, number in zip(columns, numeric, strict=True))
    cells = tuple(
        tuple(_shown(value) if number else Name(_shown(value)) for value, number in zip(row, numeric, strict=True))
        for row in rows
    )
    width = terminal_width(pipe=160)
    return "\n".join(lines(Table("", headings, cells), width)) + "\n"


def _shown(value: Any) -> str:
    return "" if value is None else str(value)
