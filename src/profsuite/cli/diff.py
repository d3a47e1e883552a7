"""``profsuite diff``: what changed from one recording to another."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from profsuite.cli.options import color_option, examples, file_path, parsed, reader_options, step_range, wants_color
from profsuite.cli.redaction import redaction_options

if TYPE_CHECKING:
    from profsuite.analyzers.diff.ranks import UnmatchedRank
    from profsuite.analyzers.diff.report import DiffReport
    from profsuite.trace.load import RankFile
    from profsuite.trace.model import Trace
    from profsuite.trace.redaction.redactor import Redactor

FORMATS = ("text", "json", "markdown", "html", "csv")
SORTS = ("change", "increase", "decrease", "host")
EXAMPLES = examples(
    "profsuite diff before.json.gz after.json.gz",
    "profsuite diff runs/base runs/new --top 20 --sort increase",
    "profsuite diff h100.json.gz mi300.json.gz --format html --output diff.html",
    "profsuite diff run.json run.json --steps 3:6 --steps-after 10:13",
)


@click.command("diff", epilog=EXAMPLES)
@click.argument("before", metavar="BEFORE", shell_complete=file_path)
@click.argument("after", metavar="AFTER", shell_complete=file_path)
@click.option(
    "--format", "form", type=click.Choice(FORMATS), default="text", show_default=True, help="How to write it."
)
@click.option("--top", type=click.IntRange(min=1), default=10, show_default=True, help="Rows of each list.")
@click.option(
    "--sort",
    type=click.Choice(SORTS),
    default="change",
    show_default=True,
    help="By size of the change of GPU time, by growth, by shrinkage, or by size of the change of host time.",
)
@click.option("--steps", callback=parsed(step_range), metavar="A:B", help="Only these steps; 3:6 is 3, 4 and 5.")
@click.option(
    "--steps-after", callback=parsed(step_range), metavar="A:B", help="Those of AFTER, where they are others."
)
@click.option("--full", is_flag=True, help="Of several ranks, print every comparison whole (text, markdown, html).")
@click.option("-o", "--output", metavar="FILE", shell_complete=file_path, help="Write to a file instead of stdout.")
@reader_options
@redaction_options
@color_option
def command(
    before: str,
    after: str,
    form: str,
    top: int,
    sort: Any,
    steps: tuple[int | None, int | None] | None,
    steps_after: tuple[int | None, int | None] | None,
    full: bool,
    output: str | None,
    ranks: list[int] | None,
    color: bool | None,
    redactor: Redactor | None,
    **options: Any,
) -> None:
    """Say what changed between two recordings, why, and whether it is noise.

    BEFORE and AFTER are trace files or folders with one file a rank; of two folders the ranks that both have are
    compared.  The exit code is 2 where a trace could not be read, else 0: profsuite check fails on a regression.
    """
    from profsuite.analyzers.diff.ranks import ranks_diff
    from profsuite.analyzers.diff.report import diff
    from profsuite.cli.app import UNREADABLE
    from profsuite.cli.result import terminal_width, write

    matched, unmatched = pair_ranks(before, after, ranks)
    options["redactor"] = redactor
    reports: list[DiffReport] = []
    unreadable = 0
    for old, new in matched:
        traces = load_pair(old, new, (steps, steps_after or steps), unmatched, several=len(matched) > 1, **options)
        if traces is None:
            unreadable += 1
            continue
        reports.append(diff(*traces, top=top, steps=steps, steps_after=steps_after, sort=sort))
    if redactor is not None:
        from profsuite.trace.redaction.structs import redact_struct

        unmatched = [redact_struct(each, redactor) for each in unmatched]
    whole = reports[0] if len(matched) == 1 and not unmatched else ranks_diff(reports, unmatched)
    width = terminal_width()
    write(render(whole, form, full, width, wants_color(color) and output is None), output)
    if unreadable:
        raise click.exceptions.Exit(UNREADABLE)


def pair_ranks(
    before: str, after: str, ranks: list[int] | None
) -> tuple[list[tuple[RankFile, RankFile]], list[UnmatchedRank]]:
    """The traces to compare, and those without a counterpart; a single trace a side goes with the other's."""
    from profsuite.analyzers.diff.ranks import UnmatchedRank
    from profsuite.cli.loading import one_job
    from profsuite.errors import SelectionError

    old, new = one_job(before, ranks), one_job(after, ranks)
    if len(old) == len(new) == 1:
        return [(old[0], new[0])], []
    left, right = ({file.rank: file for file in files} for files in (old, new))
    for path, files, by_rank in ((before, old, left), (after, new, right)):
        if len(by_rank) < len(files) or (None in by_rank and len(files) > 1):
            raise SelectionError(f"{path}: holds {len(files)} traces whose ranks are not known; name one of them")
    common = [rank for rank in left if rank in right]
    if not common:
        raise SelectionError(f"{before} and {after} have no rank in common")
    unmatched = [
        UnmatchedRank(rank=file.rank, source=file.path, reason=f"rank {file.rank} is not in {other}")
        for files, others, other in ((old, right, after), (new, left, before))
        for file in files
        if file.rank not in others
    ]
    return [(left[rank], right[rank]) for rank in common], unmatched


def load_pair(
    old: RankFile,
    new: RankFile,
    steps: tuple[Any, Any],
    unmatched: list[UnmatchedRank],
    several: bool,
    **options: Any,
) -> tuple[Trace, Trace] | None:
    """Both traces, loaded once where they are one file; null (and a line on stderr) where one of several fails.

    Whole traces are loaded, since a window is what the device did in it, whichever step that was for; with a limit
    on memory only the steps.
    """
    from profsuite.analyzers.diff.ranks import UnmatchedRank
    from profsuite.cli.app import complain, one_line
    from profsuite.cli.loading import load_one
    from profsuite.errors import TraceError

    limited = options.get("max_memory") is not None
    traces: list[Trace] = []
    for file, wanted in ((old, steps[0]), (new, steps[1])):
        if traces and new.path == old.path and (not limited or steps[0] == steps[1]) and file.path != "-":
            traces.append(traces[0])
            continue
        try:
            traces.append(load_one(file, steps=wanted if limited else None, **options))
        except TraceError as error:
            if not several:
                raise
            complain(str(error))
            why = one_line(str(error)).removeprefix(f"{file.path}: ")
            unmatched.append(UnmatchedRank(rank=file.rank, source=file.path, reason=why))
            return None
    return traces[0], traces[1]


def render(whole: Any, form: str, full: bool, width: int, color: bool) -> str:
    """A ``DiffReport`` or ``RanksDiff`` in one of ``FORMATS``."""
    from importlib import import_module

    from profsuite.analyzers.diff.ranks import RanksDiff
    from profsuite.exporters.diff import csv, json
    from profsuite.exporters.diff.document import document, ranks_document

    several = isinstance(whole, RanksDiff)
    if form == "json":
        return json.render(whole)
    if form == "csv":
        return csv.render(whole.reports, whole.unmatched) if several else csv.render([whole])
    documents = ranks_document(whole, full) if several else [document(whole)]
    style = {"width": width, "color": color} if form == "text" else {}
    text = import_module(f"profsuite.exporters.{form}").render_documents(documents, **style)
    assert isinstance(text, str)
    return text
