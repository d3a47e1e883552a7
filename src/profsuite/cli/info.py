"""``profsuite info``: what a trace file holds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from profsuite.cli.options import examples, file_path, reader_options, selection_options

if TYPE_CHECKING:
    from profsuite.trace.model import Trace


EXAMPLES = examples(
    "profsuite info trace.json.gz",
    "profsuite info run/ --format json",
)


@click.command("info", epilog=EXAMPLES)
@click.argument("paths", nargs=-1, required=True, metavar="PATH...", shell_complete=file_path)
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True)
@selection_options
@reader_options
def command(paths: tuple[str, ...], form: str, ranks: list[int] | None, **options: Any) -> None:
    """Say what a trace file holds: its origin, tables and health."""
    from profsuite.cli.app import UNREADABLE, complain
    from profsuite.cli.loading import expand, load_one
    from profsuite.errors import TraceError

    files, found = expand(paths, ranks), []
    for file in files:
        try:
            found.append(facts(load_one(file, **options)) | {"stored_bytes": stored_bytes(file.path)})
        except TraceError as error:
            if len(files) == 1:
                raise
            complain(str(error))
    if form == "json":
        click.echo(json.dumps(found, indent=1))
    else:
        click.echo("\n".join(as_text(each) for each in found), nl=False)
    if len(found) < len(files):
        raise click.exceptions.Exit(UNREADABLE)


def facts(trace: Trace) -> dict[str, Any]:
    """What ``info`` prints of a trace, as one JSON object."""
    import pyarrow.compute as pc

    info = trace.info.to_json()
    slices = trace.slices
    info["span_ns"] = None
    if slices.num_rows:
        start = pc.min(slices.column("ts")).as_py()
        info["span_ns"] = int(trace.end.max()) - start
    categories = pc.value_counts(slices.column("category"))
    names, numbers = categories.field("values").to_pylist(), categories.field("counts").to_pylist()
    info["categories"] = dict(zip(names, numbers, strict=True))
    info["rows"] = {name: table.num_rows for name, table in trace.tables.items()}
    info["health"] = trace.health.to_pylist()
    return info


def stored_bytes(name: str) -> int | None:
    """What a compressed file takes on the disk; None of any other input, which has one size alone."""
    from profsuite.trace.source import is_packed

    path = Path(name)
    try:
        if "://" in name or not path.is_file():
            return None
        with path.open("rb") as file:
            return path.stat().st_size if is_packed(file.read(4)) else None
    except OSError:
        return None


def as_text(info: dict[str, Any]) -> str:
    """The facts on a screen; what the file does not say is left out."""
    from profsuite.exporters.names import printable
    from profsuite.exporters.units import count, duration, size

    stored, unpacked = info["stored_bytes"], size(info["num_bytes"])
    names = sorted({str(device["name"]) for device in info["devices"] if device.get("name")})
    lines = [
        ("file", info["source"]),
        ("size", unpacked if stored is None else f"{size(stored)}, {unpacked} unpacked"),
        ("reader", info["reader"]),
        ("selected", info["selection"]),
        ("events", count(info["num_events"])),
        ("span", None if info["span_ns"] is None else duration(info["span_ns"])),
        ("rank", info["rank"]),
        ("world size", info["world_size"]),
        ("backend", info["backend"]),
        ("devices", f"{len(info['devices'])}, {', '.join(names)}" if names else None),
    ]
    text = [f"{label:<12}{printable(str(value))}" for label, value in lines if value is not None]
    text.append("")
    text += [f"{count(rows):>12}  {name}" for name, rows in info["rows"].items() if rows]
    categories = sorted(info["categories"].items(), key=lambda item: -item[1])
    if categories:
        text += ["", "slices by category"]
        text += [f"{count(number):>12}  {printable(name) or '(none)'}" for name, number in categories]
    if info["health"]:
        text += ["", "health"]
    for row in info["health"]:
        lacking = row["kind"].startswith("no_")  # what the whole file lacks is not to be counted
        number = "" if lacking else count(row["count"])
        place = "" if lacking or row["byte_offset"] is None else f" (first at byte {row['byte_offset']:,})"
        text.append(f"{number:>12}  {printable(row['kind'])}{place}: {printable(row['message'])}")
    return "\n".join(text) + "\n"
