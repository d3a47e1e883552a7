"""Where a command's result goes."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import click

from profsuite.cli.app import UNREADABLE, Failure, one_line


def write(text: str, output: str | None) -> None:
    """Write a result to the file ``output``, and say so on stderr; to stdout without one.

    The file appears when it is complete, and never in place of what the command reads.
    """
    if output is None or output == "-":
        click.echo(text, nl=False, color=True)  # text holds no codes but ours
        return
    if _is_input(output):
        raise Failure(f"{output}: is what the command reads; name another file to write to", UNREADABLE)
    try:
        _replace(Path(output), text)
    except OSError as error:
        raise Failure(f"{output}: cannot be written: {error.strerror}", UNREADABLE) from error
    from profsuite.exporters.units import size

    num_bytes = len(text.encode("utf-8", "replace"))
    click.echo(f"wrote {one_line(output)} ({size(num_bytes)})", err=True)


def _replace(path: Path, text: str) -> None:
    """Write ``path`` at once; a pipe or a device has no place to take, and is written to."""
    if path.exists() and not path.is_file():
        path.write_text(text, encoding="utf-8", newline="")
        return
    path = path.resolve()  # a link stays one
    with tempfile.TemporaryDirectory(prefix=f".{path.name[:64]}.", dir=path.parent) as building:
        complete = Path(building) / "result"
        complete.write_text(text, encoding="utf-8", newline="")
        if path.exists():
            shutil.copymode(path, complete)
        complete.replace(path)


def _is_input(output: str) -> bool:
    """Whether ``output`` is one of the files that the running command was told to read, or a trace in such a folder."""
    context = click.get_current_context(silent=True)
    if context is None or not os.path.isfile(output):  # noqa: PTH113
        return False
    arguments = [each.name for each in context.command.params if isinstance(each, click.Argument)]
    for name in arguments:
        given = context.params.get(name or "")
        for value in given if isinstance(given, (list, tuple)) else (given,):
            if isinstance(value, str) and any(_is_same(file, output) for file in _files(value, output)):
                return True
    return False


def _files(value: str, output: str) -> list[str]:
    """What is read of ``value``: a file, or the traces of a folder that ``output`` lies in."""
    if not Path(value).is_dir() or Path(value).resolve() not in Path(output).resolve().parents:
        return [value]
    from profsuite.cli.loading import expand
    from profsuite.errors import ProfsuiteError

    try:
        return [file.path for file in expand([value], None)]
    except ProfsuiteError:
        return []


def _is_same(file: str, output: str) -> bool:
    try:
        return os.path.samefile(file, output)  # noqa: PTH121
    except OSError:
        return False


def terminal_width(pipe: int = 100) -> int:
    """Columns of the terminal that the result goes to; ``pipe`` where it goes to none that says."""
    return shutil.get_terminal_size((pipe, 24)).columns
