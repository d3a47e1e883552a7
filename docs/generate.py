"""Writes docs/reference from the code: ``make docs``.  tests/test_reference.py fails where the two differ."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import click

REFERENCE = Path(__file__).parent / "reference"

WRITTEN_BY = "Written by `make docs`; change the code instead."


def tables_page() -> str:
    """Every table and column of a trace, from ``profsuite.trace.schema``."""
    from profsuite.trace.schema import SCHEMA_VERSION, TABLES

    lines = [
        "# Tables of a trace",
        "",
        f"Schema version {SCHEMA_VERSION}. {WRITTEN_BY}",
        "",
        "`trace.table(name)` gives a table as Arrow, `trace.to_pandas(name)` as a DataFrame, `profsuite query` takes",
        "SQL over all of them.",
        "",
        "- Row number is identity: `slice_id` in another table is a row number of `slice`. `profsuite query` and the",
        "  Parquet files of `profsuite convert` have it as the column `id`.",
        "- Time is integer nanoseconds, as the file counts it; add `trace.info.base_time_ns` for the epoch.",
        "- `text` columns are dictionary encoded.",
        "- Absent is null: no column uses 0, -1 or an empty string for unknown.",
        "",
        "| table | a row is |",
        "|---|---|",
        *(f"| [{table.name}](#{table.name}) | {_cell(table.row)} |" for table in TABLES),
    ]
    for table in TABLES:
        lines += ["", f"## {table.name}", "", table.row, ""]
        lines += ["| column | type | unit | null | meaning |", "|---|---|---|---|---|"]
        for column in table.columns:
            null = "yes" if column.nullable else ""
            cells = (f"`{column.name}`", column.dtype, column.unit, null, column.doc)
            lines.append(f"| {' | '.join(_cell(cell) for cell in cells)} |")
    return "\n".join(lines) + "\n"


def cli_page() -> str:
    """The help of every command, as ``--help`` prints it at 100 columns."""
    import click

    from profsuite.cli.app import COMMANDS, app

    context = click.Context(app, info_name="profsuite", **app.context_settings)
    lines = ["# Commands", "", WRITTEN_BY, "", *_help(app, context)]
    for name in COMMANDS:
        command = app.get_command(context, name)
        assert command is not None
        lines += ["", f"## profsuite {name}", "", *_help(command, click.Context(command, context, name))]
    return "\n".join(lines) + "\n"


def report_schema() -> str:
    """The JSON schema of ``profsuite analyze --format json``."""
    from profsuite.exporters.json import schema

    return json.dumps(schema(), indent=1, sort_keys=True) + "\n"


def findings_page() -> str:
    """Every kind of finding: what it is, when it fires, what to do; from the rules' docstrings."""
    from profsuite.analyzers.findings import RULES

    lines = [
        "# Kinds of findings",
        "",
        WRITTEN_BY,
        "",
        "A kind is one function in `analyzers/findings/`, in a file of the same name. What each number means stands in",
        "[analyses.md](../analyses.md#findings).",
        "",
        "| kind | what it is | fires | remedy |",
        "|---|---|---|---|",
    ]
    for rule in sorted(RULES, key=lambda rule: rule.__name__):
        what = (sys.modules[rule.__module__].__doc__ or "").strip()
        fires, _, remedy = " ".join((rule.__doc__ or "").split()).partition(" Remedy: ")
        cells = (f"`{rule.__name__}`", what, fires.removeprefix("Fires "), remedy)
        lines.append(f"| {' | '.join(_cell(cell).replace('``', '`') for cell in cells)} |")
    return "\n".join(lines) + "\n"


def devices_page() -> str:
    """Peaks of devices and connections with the documents that state them, from the tables of the code."""
    from profsuite.analyzers.costs.peaks import FORMATS, known_devices
    from profsuite.analyzers.job.fabrics import FABRICS

    lines = [
        "# Peaks of devices and connections",
        "",
        WRITTEN_BY,
        "",
        "TFLOP/s (int8: TOP/s) are dense, at the boost clock, with sums in fp32; what vector units reach is in",
        "brackets where it is less. Empty: not supported, or not stated. How they are used stands in",
        "[analyses.md](../analyses.md#roofline).",
        "",
        f"| device | units | memory, GB | GB/s | {' | '.join(FORMATS)} | stated in |",
        f"|---|---|---|---|{'---|' * len(FORMATS)}---|",
    ]
    for _, device in known_devices():
        rates = []
        for key in FORMATS:
            peak, slower = device.compute(key), device.vector_flops_per_s.get(key)
            rates.append("" if peak is None else f"{peak / 1e12:g}" + (f" ({slower / 1e12:g})" if slower else ""))
        size, speed = (device.memory_bytes or 0) / 1e9, (device.bandwidth_bytes_per_s or 0) / 1e9
        cells = (device.name, f"{device.units}", f"{size:g}", f"{speed:g}", *rates, device.source)
        lines.append(f"| {' | '.join(_cell(cell) for cell in cells)} |")
    lines += ["", "## Connections", "", "What a device can send at most, and receive at the same time.", ""]
    lines += ["| connection | GB/s | stated in |", "|---|---|---|"]
    lines += [f"| `{fabric.name}` | {fabric.gb_per_s:g} | {_cell(fabric.source)} |" for fabric in FABRICS]
    return "\n".join(lines) + "\n"


def diff_schema() -> str:
    """The JSON schema of ``profsuite diff --format json``."""
    from profsuite.exporters.diff.json import schema

    return json.dumps(schema(), indent=1, sort_keys=True) + "\n"


PICTURE = REFERENCE.parent / "images" / "analyze.svg"
SAMPLE = "sample_traces/gpu_ddp_one_rank/rank_0.json.gz"
PICTURE_LINES = 63


def picture() -> str:
    """The beginning of ``profsuite analyze`` on a sample trace, as a terminal shows it (SVG, no outside fonts)."""
    import re

    from rich.console import Console
    from rich.terminal_theme import MONOKAI
    from rich.text import Text

    import profsuite
    from profsuite.exporters.text import render

    trace = profsuite.load(REFERENCE.parent.parent / SAMPLE, cache=False)
    text = render(profsuite.analyze(trace), width=100, color=True).replace(str(REFERENCE.parent.parent) + "/", "")
    console = Console(record=True, width=100, file=io.StringIO(), force_terminal=True, legacy_windows=False)
    console.print(Text.from_ansi("\n".join(text.splitlines()[:PICTURE_LINES])), soft_wrap=True)
    svg = console.export_svg(title=f"profsuite analyze {SAMPLE}", theme=MONOKAI, unique_id="profsuite")
    svg = re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL)
    return svg.replace("Fira Code, monospace", "ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', monospace")


PAGES = {
    "tables.md": tables_page,
    "cli.md": cli_page,
    "findings.md": findings_page,
    "devices.md": devices_page,
    "report.schema.json": report_schema,
    "diff.schema.json": diff_schema,
}
"""Each file of docs/reference and what writes it."""


def _help(command: click.Command, context: click.Context) -> Iterable[str]:
    context.terminal_width = context.max_content_width = 100
    return ("```text", *command.get_help(context).rstrip().splitlines(), "```")


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def main() -> None:
    """Write every page."""
    REFERENCE.mkdir(exist_ok=True)
    for name, page in PAGES.items():
        (REFERENCE / name).write_text(page(), encoding="utf-8")
        sys.stdout.write(f"docs/reference/{name}\n")
    PICTURE.parent.mkdir(exist_ok=True)
    PICTURE.write_text(picture(), encoding="utf-8")
    sys.stdout.write("docs/images/analyze.svg\n")


if __name__ == "__main__":
    main()
