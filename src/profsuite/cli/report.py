"""``profsuite report``: what holds a job back, as one web page that opens without a server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from profsuite.cli import analyze
from profsuite.cli.options import examples, file_path, listed, parsed, reader_options, selection_options
from profsuite.cli.redaction import redaction_flags

if TYPE_CHECKING:
    from collections.abc import Sequence

EXAMPLES = examples(
    "profsuite report trace.json.gz --html report.html",
    "profsuite report run/ --rank 0:4 --html report.html",
    "profsuite report trace.json.gz --html report.html --redact --redact-report replaced.json",
    "profsuite report trace.json --steps 3:6 --only verdict,findings --html -",
)


@click.command("report", epilog=EXAMPLES)
@click.argument("paths", nargs=-1, required=True, metavar="PATH...", shell_complete=file_path)
@click.option(
    "--html", "output", required=True, metavar="FILE", shell_complete=file_path, help="The page to write; - for stdout."
)
@click.option(
    "--only",
    callback=parsed(analyze.section_list),
    shell_complete=listed(analyze.SECTIONS),
    metavar="NAME[,NAME]",
    help=f"Only these sections: {', '.join(analyze.SECTIONS)}.",
)
@click.option("--top", type=click.IntRange(min=1), default=10, show_default=True, help="Rows of ops and kernels.")
@click.option(
    "--peak",
    callback=parsed(analyze.peaks),
    metavar="NAME=RATE[,...]",
    help="Peaks of the device, as bf16=989e12,bandwidth=3.35e12 (FLOP/s, bytes a second).",
)
@selection_options
@reader_options
@redaction_flags
@click.option(
    "--jobs", type=click.IntRange(min=1), metavar="N", help="Processes that read ranks; by default the cores."
)
@click.pass_context
def command(ctx: click.Context, /, paths: Sequence[str], output: str, **options: Any) -> None:
    """Write the report on a job as one HTML file, with the dashboard's figures in it.

    It loads nothing from elsewhere and opens without a server.  PATH is what profsuite analyze takes; this is
    profsuite analyze --format html --output FILE.
    """
    target = None if output == "-" else output
    ctx.invoke(analyze.command, paths=tuple(paths), form="html", output=target, **options)
