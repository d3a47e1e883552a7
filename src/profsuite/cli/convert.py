"""``profsuite convert``: a trace's tables in another format."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from profsuite.cli.options import examples, reader_options, selection_options

EXAMPLES = examples(
    "profsuite convert trace.json.gz --output tables",
    "profsuite convert run/ --rank 0 --output rank0 --to arrow",
)


@click.command("convert", epilog=EXAMPLES)
@click.argument("path", metavar="PATH")
@click.option("-o", "--output", required=True, metavar="FOLDER", help="Folder to write to.")
@click.option(
    "--to",
    "form",
    type=click.Choice(["parquet", "arrow"]),
    default="parquet",
    show_default=True,
    help="Parquet files, or a run folder of Arrow files that profsuite opens again at once.",
)
@click.option("--force", is_flag=True, help="Write into a folder that is not empty.")
@selection_options
@reader_options
def command(path: str, output: str, form: str, force: bool, ranks: list[int] | None, **options: Any) -> None:
    """Write a trace's tables as Parquet or Arrow, one file a table.

    docs/reference/tables.md describes the tables. Row numbers are identity: Parquet files get them as the
    column "id".
    """
    from profsuite.cli.loading import load_one, only
    from profsuite.errors import ProfsuiteError

    folder = Path(output)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())) and not force:
        raise ProfsuiteError(f"{folder}: exists and is not an empty folder; choose another, or --force")
    trace = load_one(only(path, ranks), **options)
    if form == "arrow":
        trace.save(folder)
    else:
        from pyarrow import parquet

        from profsuite.cli.query import with_id

        folder.mkdir(parents=True, exist_ok=True)
        for name, table in trace.tables.items():
            parquet.write_table(with_id(table), folder / f"{name}.parquet", compression="zstd")
    rows = sum(table.num_rows for table in trace.tables.values())
    click.echo(f"{folder}: {len(trace.tables)} tables, {rows:,} rows", err=True)
