"""``profsuite hang``: which rank a hanging job waits for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from profsuite.cli.options import color_option, examples, file_path, wants_color
from profsuite.cli.redaction import redaction_options

if TYPE_CHECKING:
    from profsuite.trace.redaction.redactor import Redactor

EXAMPLES = examples(
    "profsuite hang /tmp/nccl_trace_rank_*",
    "profsuite hang run_folder/",
    "profsuite hang run_folder/ --format json",
)


@click.command("hang", epilog=EXAMPLES)
@click.argument("paths", nargs=-1, required=True, metavar="DUMP...", shell_complete=file_path)
@click.option(
    "--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True, help="How to write it."
)
@redaction_options
@color_option
def command(paths: tuple[str, ...], form: str, color: bool | None, redactor: Redactor | None) -> None:
    """Say in which collective a job hangs, and which ranks have not called it.

    DUMP is a dump of torch.distributed's flight recorder, one a rank, or a folder with several: the files that NCCL's
    watchdog writes (TORCH_NCCL_DUMP_ON_TIMEOUT=1), what torch's _dump_fr_trace returns, or the recorder's
    flight_recorder.json.
    """
    import msgspec

    from profsuite.analyzers.hang import hang
    from profsuite.cli.result import terminal_width, write
    from profsuite.errors import SelectionError
    from profsuite.exporters.text import render_sections
    from profsuite.trace.readers.flight import find_dumps, read_flight

    dumps = [read_flight(name) for path in paths for name in find_dumps(path)]
    ranks = [dump.rank for dump in dumps]
    for dump in dumps:
        if dump.rank is None:
            raise SelectionError(f"{dump.source}: neither the file nor its folder names the rank (as rank_3)")
        if ranks.count(dump.rank) > 1:
            raise SelectionError(f"{dump.source}: rank {dump.rank} has two dumps; name one a rank")
    report = hang(dumps)
    if redactor is not None:
        from profsuite.trace.redaction.structs import redact_struct

        report = redact_struct(report, redactor)
    if form == "json":
        write(msgspec.json.format(msgspec.json.encode(report), indent=1).decode() + "\n", None)
        return
    from profsuite.exporters.hang import hang_sections, hang_title

    width = terminal_width()
    sections = tuple(hang_sections(report))
    write(render_sections(hang_title(report), report.verdict, sections, width=width, color=wants_color(color)), None)
