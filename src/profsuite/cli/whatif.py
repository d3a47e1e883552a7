"""``profsuite whatif``: how long a job would take if some of its parts took less."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

import click

from profsuite.cli.options import color_option, examples, file_path, reader_options, selection_options, wants_color
from profsuite.cli.redaction import redaction_options

if TYPE_CHECKING:
    from profsuite.analyzers.analysis import Analysis
    from profsuite.analyzers.whatif.edits import Edit

EXAMPLES = examples(
    "profsuite whatif trace.json.gz",
    "profsuite whatif trace.json.gz --scale gemm=0.5 --no-input-wait",
    "profsuite whatif trace.json.gz --scale 'aten::layer_norm=0' --format json",
)


def scale(_context: click.Context, _option: click.Parameter, texts: tuple[str, ...]) -> tuple[tuple[str, float], ...]:
    """The scales of a command line."""
    if not texts:
        return ()
    from profsuite.analyzers.whatif.edits import parse_scale

    try:
        return tuple(parse_scale(text) for text in texts)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


@click.command("whatif", epilog=EXAMPLES)
@click.argument("path", metavar="PATH", shell_complete=file_path)
@click.option(
    "--scale",
    "scales",
    multiple=True,
    callback=scale,
    metavar="WHAT=FACTOR",
    help="Time of some kernels, ops or host time, times a factor: gemm=0.5, comm=2, python=0, 'aten::*norm*=0.3'; "
    "host:NAME is what a slice takes on the host, both:NAME an annotated part of the model with its backward.",
)
@click.option("--no-comm", is_flag=True, help="Without communication.")
@click.option("--early-comm", is_flag=True, help="Collectives start as soon as their inputs are ready.")
@click.option("--no-launch-overhead", is_flag=True, help="Launch calls, and from there to the kernel, take no time.")
@click.option("--graphs", is_flag=True, help="The host does nothing between launches, as with one graph a step.")
@click.option("--no-input-wait", is_flag=True, help="Input is always ready.")
@click.option("--no-sync", is_flag=True, help="The host never waits for the device.")
@click.option(
    "--step-ms",
    type=click.FloatRange(min=0, min_open=True),
    metavar="MS",
    help="What a step takes while nothing records: what the recording added is taken off first.",
)
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True)
@selection_options
@reader_options
@redaction_options
@color_option
def command(
    path: str,
    scales: tuple[tuple[str, float], ...],
    form: str,
    ranks: list[int] | None,
    no_comm: bool,
    early_comm: bool,
    no_launch_overhead: bool,
    graphs: bool,
    no_input_wait: bool,
    no_sync: bool,
    step_ms: float | None,
    color: bool | None,
    **options: Any,
) -> None:
    """Replay a recording with changes, and say how long a step would take.

    Without a change it shows the critical path, and what the removal of each obstacle would save.  All changes given
    together are one replay.
    """
    import msgspec

    from profsuite.analyzers.analysis import Analysis
    from profsuite.analyzers.whatif.edits import Edit
    from profsuite.analyzers.whatif.replay import replay
    from profsuite.cli.loading import load_one, only
    from profsuite.cli.result import terminal_width, write
    from profsuite.errors import SelectionError
    from profsuite.exporters.sections.whatif import answer

    edit = Edit(
        scales=scales,
        no_comm=no_comm,
        early_comm=early_comm,
        no_launch_overhead=no_launch_overhead,
        graphs=graphs,
        no_input_wait=no_input_wait,
        no_sync=no_sync,
        bare_step_ns=None if step_ms is None else round(step_ms * 1e6),
    )
    file = only(path, ranks)
    analysis = Analysis(load_one(file, **options))
    if analysis.graph is None:
        raise SelectionError(
            f"{file.path}: nothing to replay: no host thread and no device work was recorded, or no times"
        )
    if edit == Edit():
        if form == "text":
            write(overview(analysis, wants_color(color)), None)
            return
        result: Any = analysis.replays
    else:
        try:
            result = replay(analysis, analysis.graph, edit, describe(edit))
        except ValueError as error:
            raise SelectionError(f"{file.path}: {error}") from error
        if form == "text":
            # Without the recording's cost a step is not what was recorded, so its median does not compare.
            median = None if edit.bare_step_ns is not None else analysis.steps.median_ns
            sentences = answer(result, result.name, median)
            lines = (textwrap.fill(each, terminal_width(), break_on_hyphens=False) for each in sentences)
            write("\n".join(lines) + "\n", None)
            return
    write(msgspec.json.format(msgspec.json.encode(result), indent=1).decode() + "\n", None)


def describe(edit: Edit) -> str:
    """An edit as it is written on the command line."""
    parts = [f"{pattern}={factor:g}" for pattern, factor in edit.scales]
    flags = ("no_comm", "early_comm", "no_launch_overhead", "graphs", "no_input_wait", "no_sync")
    if edit.bare_step_ns is not None:
        parts.append(f"--step-ms {edit.bare_step_ns / 1e6:g}")
    return " ".join([*parts, *(f"--{flag.replace('_', '-')}" for flag in flags if getattr(edit, flag))])


def overview(analysis: Analysis, color: bool) -> str:
    """The critical path and the scenarios, as ``analyze`` shows them."""
    from profsuite.analyzers.report import report_of
    from profsuite.cli.result import terminal_width
    from profsuite.exporters import text

    report = report_of(analysis, only=["whatif", "steps"])
    return text.render(report, width=terminal_width(), color=color, only=["whatif"])
