"""``profsuite memory``: what device memory is used for."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import click

from profsuite.cli.options import (
    color_option,
    examples,
    file_path,
    parsed,
    reader_options,
    selection_options,
    size,
    wants_color,
)
from profsuite.cli.redaction import redaction_options

if TYPE_CHECKING:
    from profsuite.analyzers.memory.model import MemoryReport
    from profsuite.trace.redaction.redactor import Redactor

FORMATS = ("text", "json", "html", "markdown", "csv")
EXAMPLES = examples(
    "profsuite memory trace.json.gz",
    "profsuite memory snapshot.pickle --device 0 --top 20",
    "profsuite memory run/ --rank 3 --format html --output memory.html",
    "profsuite memory b8.json --batch 8 --compare b16.json --other-batch 16 --capacity 80GB",
)


@click.command("memory", epilog=EXAMPLES)
@click.argument("path", metavar="PATH", shell_complete=file_path)
@click.option(
    "--format", "form", type=click.Choice(FORMATS), default="text", show_default=True, help="How to write it."
)
@click.option("--top", type=click.IntRange(min=1), default=10, show_default=True, help="Rows of each table.")
@click.option("--device", type=click.IntRange(min=0), metavar="N", help="Only this device.")
@click.option("--batch", type=click.IntRange(min=1), metavar="N", help="Batch size of PATH's run.")
@click.option(
    "--compare",
    "other",
    metavar="OTHER",
    shell_complete=file_path,
    help="The same job recorded with another batch size.",
)
@click.option("--other-batch", type=click.IntRange(min=1), metavar="N", help="Batch size of OTHER's run.")
@click.option("--capacity", callback=parsed(size), metavar="SIZE", help="Memory that a larger batch may use: 80GB.")
@click.option("-o", "--output", metavar="FILE", shell_complete=file_path, help="Write to a file instead of stdout.")
@selection_options
@reader_options
@redaction_options
@color_option
def command(
    path: str,
    form: str,
    top: int,
    device: int | None,
    batch: int | None,
    other: str | None,
    other_batch: int | None,
    capacity: int | None,
    output: str | None,
    color: bool | None,
    **options: Any,
) -> None:
    """Say what memory is used for: the peak, what makes it, growth, fragmentation.

    PATH is a trace recorded with profile_memory=True, a run folder, a snapshot of the CUDA allocator
    (torch.cuda.memory._dump_snapshot), or a memory timeline (export_memory_timeline).  Two batch sizes of one job
    (--batch, --compare, --other-batch, --capacity) tell the largest batch that fits.
    """
    from msgspec.structs import replace

    fitting = {"--batch": batch, "--compare": other, "--other-batch": other_batch, "--capacity": capacity}
    missing = [name for name, value in fitting.items() if value is None]
    if 0 < len(missing) < len(fitting):
        raise click.UsageError(f"{missing[0]} is missing: {', '.join(fitting)} go together")
    report = _of_device(read(path, top, **options), device)
    if other is not None:
        from profsuite.analyzers.memory.fit import largest_batch

        assert batch is not None
        assert other_batch is not None
        assert capacity is not None
        second = _of_device(read(other, top, **options), device)
        try:
            report = replace(report, largest_batch=largest_batch(report, second, batch, other_batch, capacity))
        except ValueError as error:
            raise click.UsageError(str(error)) from error
    show(report, form, output, color)


def read(path: str, top: int, **options: Any) -> MemoryReport:
    """The memory report of whatever ``path`` is; ``TraceError`` where it says nothing of memory."""
    from profsuite.cli.loading import load_one, only
    from profsuite.errors import TraceError
    from profsuite.trace.memory_timeline import memory_kind

    ranks = options.pop("ranks", None)
    if (kind := memory_kind(path)) is not None:
        return of_file(path, kind, top, options.get("max_unpacked"), options.get("redactor"))
    from profsuite.analyzers.analysis import Analysis
    from profsuite.analyzers.findings import memory_findings

    analysis = Analysis(load_one(only(path, ranks), **options), top)
    if analysis.memory is not None:
        from msgspec.structs import replace

        return replace(analysis.memory, findings=memory_findings(analysis.memory))
    if beside := snapshots_in(path):
        return of_file(beside[0], "snapshot", top, options.get("max_unpacked"), options.get("redactor"))
    raise TraceError(
        f"{path}: has no memory events; record them with profile(memory=True), or torch.profiler's profile_memory=True"
    )


def of_file(
    path: str, kind: str, top: int, max_unpacked: int | None = None, redactor: Redactor | None = None
) -> MemoryReport:
    """The memory report of a snapshot or a timeline, findings included."""
    from msgspec.structs import replace

    from profsuite.analyzers.findings import memory_findings

    if kind == "snapshot":
        from profsuite.analyzers.memory.snapshot import snapshot_memory
        from profsuite.trace.readers.snapshot import read_snapshot

        snapshot = read_snapshot(path, max_unpacked=max_unpacked)
        if redactor is not None:
            from profsuite.trace.redaction.tables import redact_snapshot

            snapshot = redact_snapshot(snapshot, redactor)
        report = snapshot_memory(snapshot, top)
    else:
        from profsuite.analyzers.memory.timeline import timeline_memory
        from profsuite.trace.memory_timeline import read_memory_timeline

        report = timeline_memory(read_memory_timeline(path, max_unpacked=max_unpacked))
        if redactor is not None:
            from profsuite.trace.redaction.tables import source_name

            redactor.learn_value(path)
            report = replace(report, source=source_name(report.source, redactor))
    return replace(report, findings=memory_findings(report))


def snapshots_in(path: str) -> list[str]:
    """The snapshots that the collector left in a run's folder: of memory that ran out first, the last one last."""
    if not os.path.isdir(path):  # noqa: PTH112
        return []
    names = sorted(name for name in os.listdir(path) if name.startswith("memory_") and name.endswith(".pickle"))  # noqa: PTH208
    names.sort(key=lambda name: "_oom_" not in name)
    return [os.path.join(path, name) for name in names]  # noqa: PTH118


def show(report: MemoryReport, form: str, output: str | None, color: bool | None) -> None:
    """Write the report to stdout or a file."""
    from profsuite.cli.result import terminal_width, write
    from profsuite.exporters.memory import render

    width = terminal_width()
    write(render(report, form, width=width, color=wants_color(color) and output is None), output)


def _of_device(report: MemoryReport, device: int | None) -> MemoryReport:
    """The report on one device; ``SelectionError`` where there is no such device."""
    from msgspec.structs import replace

    from profsuite.errors import SelectionError

    if device is None:
        return report
    kept = tuple(each for each in report.devices if each.device == device)
    if not kept:
        there = ", ".join(str(each.device) for each in report.devices if each.device is not None) or "none"
        raise SelectionError(f"{report.source}: has no memory of device {device} (devices: {there})")
    found = tuple(f for f in report.findings or () if f.where.device == device)
    return replace(report, devices=kept, findings=None if report.findings is None else found)
