"""``profsuite analyze``: what holds a job back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from profsuite.cli.options import (
    color_option,
    examples,
    file_path,
    listed,
    parsed,
    reader_options,
    selection_options,
    wants_color,
)
from profsuite.cli.redaction import redaction_options

if TYPE_CHECKING:
    from collections.abc import Sequence

    from profsuite.analyzers.job.report import JobReport
    from profsuite.analyzers.job.run import Outcome
    from profsuite.analyzers.report import Report
    from profsuite.trace.redaction.redactor import Redactor

FORMATS = ("text", "json", "html", "markdown", "csv")
IN_WORDS = ("text", "html", "markdown")
"""Formats that show a report in words; the others give its fields."""
SECTIONS = (
    "verdict", "findings", "breakdown", "idle", "host", "steps", "compilation", "whatif", "ops", "kernels", "roofline",
    "attention", "sparse", "memory", "health",
)  # fmt: skip
GRAVE = {"critical": ("critical",), "warning": ("critical", "warning")}
"""Severities that make --fail-on fail."""


def peaks(text: str) -> dict[str, float]:
    """Peaks of a device, as ``bf16=989e12,bandwidth=3.35e12``."""
    from profsuite.analyzers.costs.peaks import PeakError, parse_peaks

    try:
        return parse_peaks(text)
    except PeakError as error:
        raise ValueError(str(error)) from None


def section_list(text: str) -> tuple[str, ...]:
    """Names of sections, separated by commas."""
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    for name in names:
        if name not in SECTIONS:
            raise ValueError(f"{name!r} is no section; choose from {', '.join(SECTIONS)}")
    return names


def fabric_name(text: str) -> str:
    """The name of a fabric whose bandwidth is known."""
    from profsuite.analyzers.job.fabrics import BY_NAME

    if text not in BY_NAME:
        raise ValueError(f"{text!r} is no known fabric; choose from {', '.join(BY_NAME)}")
    return text


EXAMPLES = examples(
    "profsuite analyze trace.json.gz",
    "profsuite analyze run/ --rank 0:4 --only verdict,findings",
    "profsuite analyze trace.json --steps 3:6 --format markdown --output report.md",
    "profsuite analyze trace.json --format json --fail-on critical > report.json",
    "ssh node7 cat /tmp/trace.json | profsuite analyze -",
)


@click.command("analyze", epilog=EXAMPLES)
@click.argument("paths", nargs=-1, required=True, metavar="PATH...", shell_complete=file_path)
@click.option(
    "--format", "form", type=click.Choice(FORMATS), default="text", show_default=True, help="How to write it."
)
@click.option(
    "--only",
    callback=parsed(section_list),
    shell_complete=listed(SECTIONS),
    metavar="NAME[,NAME]",
    help=f"Only these sections: {', '.join(SECTIONS)}.",
)
@click.option("--top", type=click.IntRange(min=1), default=10, show_default=True, help="Rows of ops and kernels.")
@click.option("--full", is_flag=True, help="Of several ranks, print every report whole (text and markdown).")
@click.option("-o", "--output", metavar="FILE", shell_complete=file_path, help="Write to a file instead of stdout.")
@click.option(
    "--peak",
    callback=parsed(peaks),
    metavar="NAME=RATE[,...]",
    help="Peaks of the device, as bf16=989e12,bandwidth=3.35e12 (FLOP/s, bytes a second).",
)
@selection_options
@reader_options
@click.option(
    "--fail-on", type=click.Choice(["warning", "critical"]), help="Exit with 1 on such a finding or a graver one."
)
@click.option(
    "--jobs", type=click.IntRange(min=1), metavar="N", help="Processes that read ranks; by default the cores."
)
@click.option("--scheduler", metavar="ADDRESS", help="Read the ranks on a Dask cluster, as tcp://host:8786.")
@click.option(
    "--fabric", callback=parsed(fabric_name), metavar="NAME", help="What connects the ranks: nvlink4, ib-ndr, …"
)
@redaction_options
@color_option
def command(
    paths: tuple[str, ...],
    form: str,
    only: tuple[str, ...] | None,
    top: int,
    full: bool,
    output: str | None,
    peak: dict[str, float] | None,
    ranks: list[int] | None,
    fail_on: str | None,
    jobs: int | None,
    scheduler: str | None,
    fabric: str | None,
    color: bool | None,
    redactor: Redactor | None,
    **options: Any,
) -> None:
    """Say what holds a job back, and what to do about it.

    PATH is a trace file (.json, .json.gz), a folder with one file a rank, or - for stdin.  A memory snapshot or
    timeline is answered as by profsuite memory.
    """
    from msgspec.structs import replace

    from profsuite.analyzers.report import analyze
    from profsuite.cli.app import FINDINGS, UNREADABLE, one_line
    from profsuite.cli.loading import examine_files, expand, load_one, tell_separate_runs
    from profsuite.cli.result import terminal_width, write
    from profsuite.exporters.ranks import Unreadable
    from profsuite.trace.memory_timeline import memory_kind

    if len(paths) == 1 and (kind := memory_kind(paths[0])) is not None:
        from profsuite.cli import memory

        answer = memory.of_file(paths[0], kind, top, options.get("max_unpacked"), redactor)
        memory.show(answer, form, output, color)
        if any(finding.severity in GRAVE.get(fail_on or "", ()) for finding in answer.findings or ()):
            raise click.exceptions.Exit(FINDINGS)
        return
    files = expand(paths, ranks)
    tell_separate_runs(files)
    options["redactor"] = redactor
    wanted = computed(only, form, fail_on, len(files))
    reports: list[Report] = []
    unreadable: list[Unreadable] = []
    job: JobReport | None = None
    if len(files) == 1:
        reports.append(analyze(load_one(files[0], **options), only=wanted, top=top, peak=peak))
    else:
        outcomes = examine_files(files, jobs, scheduler, only=wanted, top=top, peak=peak, **options)
        for outcome in outcomes:
            if outcome.report is not None:
                reports.append(outcome.report)
            else:
                why = one_line(outcome.error or "").removeprefix(f"{outcome.file.path}: ")
                unreadable.append(Unreadable(rank=outcome.file.rank, source=outcome.file.path, error=why))
        if redactor is not None:
            from profsuite.trace.redaction.structs import redact_struct

            unreadable = [redact_struct(each, redactor) for each in unreadable]
        if only is None or fail_on is not None or {"verdict", "findings"} & set(only):
            job = job_report(outcomes, fabric)
    grave = GRAVE.get(fail_on or "", ())
    found = [finding for report in reports for finding in report.findings or ()]
    failed = any(finding.severity in grave for finding in (*found, *(job.findings if job is not None else ())))
    if reports:
        style: dict[str, Any] = {}
        if form == "text":
            width = terminal_width()
            style = {"width": width, "color": wants_color(color) and output is None}
        if form in IN_WORDS:
            style["only"] = only
        if len(files) > 1:
            style["unreadable"] = unreadable
            style["job"] = job if only is None or {"verdict", "findings"} & set(only) else None
            if form in ("text", "markdown"):
                style["full"] = full
        if only is not None and form not in IN_WORDS:
            reports = [replace(report, **{name: None for name in SECTIONS if name not in only}) for report in reports]
        write(render(reports, form, several=len(files) > 1, **style), output)
    if unreadable:
        raise click.exceptions.Exit(UNREADABLE)
    if failed:
        raise click.exceptions.Exit(FINDINGS)


def job_report(outcomes: Sequence[Outcome], fabric: str | None) -> JobReport | None:
    """What the files say together, where they are the ranks of one job."""
    from profsuite.analyzers.job.report import analyze_summaries
    from profsuite.analyzers.job.run import summaries_of

    summaries = summaries_of(outcomes)
    return None if summaries is None else analyze_summaries(summaries, fabric)


def computed(only: tuple[str, ...] | None, form: str, fail_on: str | None, num_files: int) -> set[str] | None:
    """The sections to compute: those asked for, and those that what is shown, or the exit code, draws on."""
    if only is None:
        return None
    sections = set(only)
    if fail_on is not None:
        sections.add("findings")
    if form in IN_WORDS:
        sections |= {"steps"} | ({"breakdown"} if "steps" in only else set())
        if num_files > 1:
            sections |= {"verdict", "findings", "breakdown"}
    return sections


def render(reports: list[Report], form: str, several: bool, **style: Any) -> str:
    """The reports in one of ``FORMATS``."""
    from importlib import import_module

    exporter = import_module(f"profsuite.exporters.{form}")
    text = exporter.render_ranks(reports, **style) if several else exporter.render(reports[0], **style)
    assert isinstance(text, str)
    return text
