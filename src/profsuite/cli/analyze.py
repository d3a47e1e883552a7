"""``profsuite analyze``: what holds a job back."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import click

from profsuite.cli.options import color_option, examples, parsed, reader_options, selection_options, wants_color

if TYPE_CHECKING:
    from profsuite.analyzers.report import Report

FORMATS = ("text", "json", "html", "markdown", "csv")
SECTIONS = ("verdict", "findings", "breakdown", "idle", "host", "steps", "ops", "kernels", "health")
PIPE_WIDTH = 100


def section_list(text: str) -> tuple[str, ...]:
    """Names of sections, separated by commas."""
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    for name in names:
        if name not in SECTIONS:
            raise ValueError(f"{name!r} is no section; choose from {', '.join(SECTIONS)}")
    return names


EXAMPLES = examples(
    "profsuite analyze trace.json.gz",
    "profsuite analyze run/ --rank 0:4 --only verdict,findings",
    "profsuite analyze trace.json --steps 3:6 --format html --output report.html",
    "profsuite analyze trace.json --format json --fail-on critical > report.json",
    "ssh node7 cat /tmp/trace.json | profsuite analyze -",
)


@click.command("analyze", epilog=EXAMPLES)
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option(
    "--format", "form", type=click.Choice(FORMATS), default="text", show_default=True, help="How to write it."
)
@click.option(
    "--only", callback=parsed(section_list), metavar="NAME[,NAME]", help=f"Only these sections: {', '.join(SECTIONS)}."
)
@click.option("--top", type=click.IntRange(min=1), default=10, show_default=True, help="Rows of ops and kernels.")
@click.option("-o", "--output", metavar="FILE", help="Write to a file instead of stdout.")
@selection_options
@reader_options
@click.option(
    "--fail-on", type=click.Choice(["warning", "critical"]), help="Exit with 1 on such a finding or a graver one."
)
@color_option
def command(
    paths: tuple[str, ...],
    form: str,
    only: tuple[str, ...] | None,
    top: int,
    output: str | None,
    ranks: list[int] | None,
    fail_on: str | None,
    color: bool | None,
    **options: Any,
) -> None:
    """Say what holds a job back, and what to do about it.

    PATH is a trace file (.json, .json.gz), a folder with one file a rank, or - for stdin.
    """
    from profsuite.analyzers.report import analyze
    from profsuite.cli.app import FINDINGS, UNREADABLE, complain
    from profsuite.cli.loading import expand, load_one, write
    from profsuite.errors import TraceError

    files = expand(paths, ranks)
    reports: list[Report] = []
    for file in files:
        try:
            reports.append(analyze(load_one(file, **options), only=computed(only, fail_on), top=top))
        except TraceError as error:
            if len(files) == 1:
                raise
            complain(str(error))
    grave = {"critical": ("critical",), "warning": ("critical", "warning")}.get(fail_on or "", ())
    failed = any(finding.severity in grave for report in reports for finding in report.findings or ())
    reports = [asked_for(report, only) for report in reports]
    if reports:
        write(render(reports, form, wants_color(color) and output is None, several=len(files) > 1), output)
    if len(reports) < len(files):
        raise click.exceptions.Exit(UNREADABLE)
    if failed:
        raise click.exceptions.Exit(FINDINGS)


def computed(only: tuple[str, ...] | None, fail_on: str | None) -> tuple[str, ...] | None:
    """The sections to compute: those asked for, and the findings where they decide the exit code."""
    return only if only is None or fail_on is None else (*only, "findings")


def asked_for(report: Report, only: tuple[str, ...] | None) -> Report:
    """The report without the sections that were computed but not asked for."""
    from msgspec.structs import replace

    return report if only is None else replace(report, **{name: None for name in SECTIONS if name not in only})


def render(reports: list[Report], form: str, color: bool, several: bool) -> str:
    """The reports in one of ``FORMATS``."""
    from importlib import import_module

    exporter = import_module(f"profsuite.exporters.{form}")
    style: dict[str, Any] = {}
    if form == "text":
        style = {"width": shutil.get_terminal_size((PIPE_WIDTH, 24)).columns, "color": color}
    text = exporter.render_ranks(reports, **style) if several else exporter.render(reports[0], **style)
    assert isinstance(text, str)
    return text
