"""``profsuite check``: fails where a recording is slower than a baseline, or exceeds a budget."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import click

from profsuite.cli.options import color_option, examples, file_path, parsed, reader_options, step_range, wants_color
from profsuite.cli.redaction import redaction_options

if TYPE_CHECKING:
    from profsuite.analyzers.check.baseline import Baseline
    from profsuite.analyzers.check.check import CheckReport

FORMATS = ("text", "markdown", "json", "junit")
EXAMPLES = examples(
    "profsuite check trace.json.gz --save-baseline baseline.json",
    "profsuite check trace.json.gz --baseline baseline.json --github",
    "profsuite check run_folder/ --baseline main_run/ --threshold 10",
    "profsuite check trace.json.gz --budget budgets.toml --format junit --output check.xml",
)


@click.command("check", epilog=EXAMPLES)
@click.argument("path", metavar="TRACE", shell_complete=file_path)
@click.option(
    "--baseline",
    metavar="BASE",
    shell_complete=file_path,
    help="A trace, a folder of ranks, a saved baseline, or a report as JSON.",
)
@click.option(
    "--budget",
    metavar="FILE",
    shell_complete=file_path,
    help="Limits in TOML; docs/recipes.md lists the keys.",
)
@click.option(
    "--save-baseline",
    metavar="FILE",
    shell_complete=file_path,
    help="Write what is measured, to compare later recordings with.",
)
@click.option(
    "--threshold",
    type=click.FloatRange(min=0),
    default=5.0,
    show_default=True,
    metavar="PCT",
    help="What step time and peak memory may grow by.",
)
@click.option(
    "--format", "form", type=click.Choice(FORMATS), default="text", show_default=True, help="How to write it."
)
@click.option("--github", is_flag=True, help="Append Markdown to the file that $GITHUB_STEP_SUMMARY names.")
@click.option("--steps", callback=parsed(step_range), metavar="A:B", help="Only these steps of TRACE; 3:6 is 3, 4, 5.")
@click.option("--top", type=click.IntRange(min=1), default=10, show_default=True, help="Rows of changed ops.")
@click.option("-o", "--output", metavar="FILE", shell_complete=file_path, help="Write to a file instead of stdout.")
@reader_options
@redaction_options
@color_option
def command(
    path: str,
    baseline: str | None,
    budget: str | None,
    save_baseline: str | None,
    threshold: float,
    form: str,
    github: bool,
    steps: tuple[int | None, int | None] | None,
    top: int,
    output: str | None,
    ranks: list[int] | None,
    color: bool | None,
    **options: Any,
) -> None:
    """Fail on a recording that is slower than a baseline, or over budget.

    The exit code is 1 on a regression (step time or peak memory more than --threshold above the baseline's, the step
    time also beyond its noise), an exceeded budget, or a budget that the recording has no data for; 2 where something
    cannot be read; else 0.
    """
    from profsuite.analyzers.check.baseline import write_baselines
    from profsuite.analyzers.check.budget import read_budgets
    from profsuite.analyzers.check.check import check, check_report
    from profsuite.cli.app import FINDINGS
    from profsuite.cli.result import terminal_width, write

    if baseline is None and budget is None and save_baseline is None:
        raise click.UsageError("nothing to check against: give --baseline, --budget or --save-baseline")
    limits = read_budgets(budget) if budget is not None else ()
    current = measured(path, ranks, steps, options)
    base = [] if baseline is None else baselines(baseline, ranks, options)
    pairs = [(each, None if baseline is None else counterpart(each, current, base, baseline)) for each in current]
    checks = [check(each, other, limits, threshold, top) for each, other in pairs]
    report = check_report(checks, threshold)
    if save_baseline is not None:
        write(write_baselines(tuple(current)), save_baseline)
    if baseline is not None or budget is not None:
        width = terminal_width()
        write(render(report, form, width, wants_color(color) and output is None), output)
        if github:
            summarize(render(report, "markdown", width, False))
    if report.failed:
        raise click.exceptions.Exit(FINDINGS)


def measured(path: str, ranks: list[int] | None, steps: Any, options: dict[str, Any]) -> list[Baseline]:
    """What is measured of each trace behind a path."""
    from profsuite.analyzers.check.baseline import baseline
    from profsuite.cli.loading import load_one, one_job

    limited = steps if options.get("max_memory") is not None else None
    return [baseline(load_one(file, steps=limited, **options), steps) for file in one_job(path, ranks)]


def baselines(path: str, ranks: list[int] | None, options: dict[str, Any]) -> list[Baseline]:
    """The baselines in a file of profsuite's own, or of the traces behind a path."""
    from profsuite.analyzers.check.baseline import is_baseline, read_baselines

    if is_baseline(path):
        return [each for each in read_baselines(path) if not ranks or each.rank in ranks]
    return measured(path, ranks, None, options)


def counterpart(each: Baseline, current: list[Baseline], base: list[Baseline], path: str) -> Baseline:
    """The baseline of the same rank; where each side has one trace, that one."""
    from profsuite.errors import SelectionError

    if len(current) == len(base) == 1:
        return base[0]
    found = [other for other in base if other.rank == each.rank]
    if len(found) != 1 or each.rank is None:
        raise SelectionError(f"{path}: has no baseline for {each.source} (rank {each.rank})")
    return found[0]


def summarize(text: str) -> None:
    """Append to the job summary of GitHub Actions; a warning where this is none."""
    from profsuite.cli.app import UNREADABLE, Failure, complain

    name = os.environ.get("GITHUB_STEP_SUMMARY")
    if not name:
        complain("warning: --github: GITHUB_STEP_SUMMARY is not set, so this is no GitHub job; nothing was appended")
        return
    try:
        with open(name, "a", encoding="utf-8") as file:  # noqa: PTH123
            file.write(text)
    except OSError as error:
        raise Failure(f"{name}: cannot be written: {error.strerror}", UNREADABLE) from error


def render(report: CheckReport, form: str, width: int, color: bool) -> str:
    """The report in one of ``FORMATS``."""
    from profsuite.exporters import markdown, text
    from profsuite.exporters.diff.check import documents, junit
    from profsuite.exporters.json import encode

    if form == "json":
        return encode(report)
    if form == "junit":
        return junit(report)
    if form == "markdown":
        return markdown.render_documents(documents(report))
    return text.render_documents(documents(report), width=width, color=color)
