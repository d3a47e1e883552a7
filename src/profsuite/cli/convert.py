"""``profsuite convert``: a trace in another format."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from profsuite.cli.options import examples, file_path, reader_options, selection_options
from profsuite.cli.redaction import redaction_options

if TYPE_CHECKING:
    from profsuite.trace.redaction.redactor import Redactor

FORMATS = (
    "parquet",
    "arrow",
    "chrome",
    "perfetto",
    "speedscope",
    "collapsed",
    "collapsed-device",
    "collapsed-memory",
    "pprof",
    "csv",
    "sqlite",
    "duckdb",
    "prometheus",
    "openmetrics",
    "otlp",
    "chakra",
    "tensorboard",
    "xprof",
    "memory-snapshot",
    "html",
    "markdown",
    "json",
    "junit",
)
"""``profsuite.exporters.formats.FORMATS``, which is not imported for ``--help``."""

EXAMPLES = examples(
    "profsuite convert trace.json.gz --output tables",
    "profsuite convert run/ --rank 0 --output rank0 --to arrow",
    "profsuite convert run/ --output http://localhost:4318 --to otlp",
    "profsuite convert trace.json.gz --output shared.json.gz --redact --opt-out 'mymodule.secret*'",
)


@click.command("convert", epilog=EXAMPLES)
@click.argument("path", metavar="PATH", shell_complete=file_path)
@click.option(
    "-o",
    "--output",
    metavar="PATH",
    shell_complete=file_path,
    help="File or folder to write to, or a collector's address; by default named after the input.",
)
@click.option(
    "--to",
    "form",
    type=click.Choice(FORMATS),
    help="The format; by default that of the output's ending, else parquet.",
)
@click.option("--force", is_flag=True, help="Overwrite a file, or write into a folder that is not empty.")
@selection_options
@redaction_options
@reader_options
def command(
    path: str,
    output: str | None,
    form: str | None,
    force: bool,
    ranks: list[int] | None,
    redactor: Redactor | None,
    **options: Any,
) -> None:
    """Write a trace in another format.

    docs/formats.md says what each format holds. Formats that hold several ranks take a folder of them; the
    others take one, by --rank.
    """
    from profsuite.cli.loading import load_one, one_job, only, stream_one
    from profsuite.errors import ProfsuiteError
    from profsuite.exporters.export import ENDPOINTS, write
    from profsuite.exporters.formats import format_called, format_of
    from profsuite.exporters.source import Source

    endpoint = output if output is not None and form in (None, "otlp") and output.startswith(ENDPOINTS) else None
    if form is not None:
        to = format_called(form)
    elif endpoint is not None:
        to = format_called("otlp")
    elif output is not None and "." in os.path.basename(output) and not Path(output).is_dir():  # noqa: PTH119
        to = format_of(output)
    else:
        to = format_called("parquet")
    target = Path(output if output is not None else named_after(shown(path, redactor), to.suffix or f".{to.name}"))
    if endpoint is None and target.exists() and not force:
        if to.suffix:
            raise ProfsuiteError(f"{target}: exists; choose another, or --force")
        if not target.is_dir() or any(target.iterdir()):
            raise ProfsuiteError(f"{target}: exists and is not an empty folder; choose another, or --force")
    files = one_job(path, ranks) if to.merges else [only(path, ranks)]
    by_path = {file.path: file for file in files}
    selected = options["steps"] is not None or options["time"] is not None or options["max_memory"] is not None
    if redactor is not None:
        selected = selected or bool(redactor.opt_out)  # slices are removed from tables
        options["redactor"] = redactor
    streaming = {name: options[name] for name in ("max_unpacked", "reader", "redactor") if name in options}
    source = Source(
        [file.path for file in files],
        lambda name: load_one(by_path[name], **options),
        lambda name: stream_one(by_path[name], **streaming),
        selected,
    )
    if endpoint is not None:
        from profsuite.exporters.otlp import send

        click.echo(f"{endpoint}: {send(source, endpoint)}", err=True)
    else:
        click.echo(f"{target}: {write(to, source, target)}", err=True)


def shown(path: str, redactor: Redactor | None) -> str:
    """The input's name, for the output to be named after: without the host or user in it."""
    if redactor is None:
        return path
    redactor.learn_value(path)
    return redactor.text(os.path.basename(path.rstrip("/\\")), "info.source")  # noqa: PTH119


def named_after(path: str, suffix: str) -> str:
    """The output's name for an input: in the current folder, without the input's ending."""
    from profsuite.errors import ProfsuiteError

    name = os.path.basename(path.rstrip("/\\"))  # noqa: PTH119
    if name in ("", "-"):
        raise ProfsuiteError("--output: name the file to write to")
    for ending in (".gz", ".zst", ".json", ".pftrace", ".pt.trace"):
        name = name.removesuffix(ending)
    return name + suffix
