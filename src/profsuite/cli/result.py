"""Where a command's result goes."""

from __future__ import annotations

import shutil

import click

from profsuite.cli.app import UNREADABLE, Failure, one_line


def write(text: str, output: str | None) -> None:
    """Write a result to the file ``output``, and say so on stderr; to stdout without one."""
    if output is None or output == "-":
        click.echo(text, nl=False, color=True)  # text holds no codes but ours
        return
    try:
        with open(output, "w", encoding="utf-8", newline="") as file:  # noqa: PTH123
            file.write(text)
    except OSError as error:
        raise Failure(f"{output}: cannot be written: {error.strerror}", UNREADABLE) from error
    from profsuite.exporters.units import size

    num_bytes = len(text.encode("utf-8", "replace"))
    click.echo(f"wrote {one_line(output)} ({size(num_bytes)})", err=True)


def terminal_width(pipe: int = 100) -> int:
    """Columns of the terminal that the result goes to; ``pipe`` where it goes to none that says."""
    return shutil.get_terminal_size((pipe, 24)).columns
