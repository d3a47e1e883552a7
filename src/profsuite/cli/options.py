"""Options that several commands take, and how their values are written."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

Value = TypeVar("Value")
Command = TypeVar("Command", bound=Callable[..., Any])

TIME_UNITS = {"ns": 1, "us": 1_000, "µs": 1_000, "ms": 1_000_000, "s": 1_000_000_000}
SIZE_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
SIZE_UNITS |= {"KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40}


_NUMBER = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([a-zA-Zµ]*)\s*")


def step_range(text: str) -> tuple[int | None, int | None]:
    """``3:6`` is steps 3, 4 and 5, as in Python; ``3`` is step 3; ``3:`` and ``:6`` are open (None)."""
    first, colon, end = text.partition(":")
    try:
        start = int(first) if first.strip() or not colon else None
        stop = (int(end) if end.strip() else None) if colon else int(first) + 1
    except ValueError:
        raise ValueError(f"{text!r} is no range of steps; write 3:6 for steps 3, 4 and 5") from None
    if start is not None and stop is not None and stop <= start:
        raise ValueError(f"{text!r} holds no step")
    return start, stop


def time_range(text: str) -> tuple[int | None, int | None]:
    """``10ms:20ms`` in ns after the first event; ``10ms:`` and ``:20ms`` are open (None)."""
    first, colon, end = text.partition(":")
    bounds: list[int | None] = []
    for bound in (first, end):
        match = _NUMBER.fullmatch(bound)
        if colon and not bound.strip():
            bounds.append(None)
        elif colon and match and match[2] in TIME_UNITS:
            bounds.append(_scaled(match[1], TIME_UNITS[match[2]]))
        else:
            raise ValueError(f"{text!r} is no range of time; write 10ms:20ms (ns, us, ms or s)")
    start, stop = bounds
    if start is not None and stop is not None and stop <= start:
        raise ValueError(f"{text!r} holds no time")
    return start, stop


def size(text: str) -> int:
    """``2GB``, ``500MB``, ``1.5GiB`` in bytes; a bare number is bytes."""
    match = _NUMBER.fullmatch(text)
    if not match or match[2].upper() not in SIZE_UNITS:
        raise ValueError(f"{text!r} is no size; write 2GB or 500MB")
    return _scaled(match[1], SIZE_UNITS[match[2].upper()])


def rank_list(text: str) -> list[int]:
    """``0``, ``0,3`` or ``0:4`` (0, 1, 2 and 3), in order."""
    ranks: set[int] = set()
    for part in text.split(","):
        first, colon, end = part.partition(":")
        try:
            ranks |= set(range(int(first), int(end))) if colon else {int(first)}
        except ValueError:
            raise ValueError(f"{text!r} names no ranks; write 0, 0,3 or 0:4") from None
    if not ranks:
        raise ValueError(f"{text!r} holds no rank")
    return sorted(ranks)


def _scaled(digits: str, scale: int) -> int:
    """Exact: decimal digits times a whole scale, what is below one left out."""
    whole, _, fraction = digits.partition(".")
    return int(whole) * scale + (int(fraction) * scale // 10 ** len(fraction) if fraction else 0)


def parsed(parse: Callable[[str], Value]) -> Callable[[click.Context, click.Parameter, str | None], Value | None]:
    """An option's callback that parses its value; ``ValueError`` becomes a usage error."""

    def callback(ctx: click.Context, param: click.Parameter, text: str | None) -> Value | None:
        if text is None:
            return None
        try:
            return parse(text)
        except ValueError as error:
            raise click.BadParameter(str(error), ctx, param) from error

    return callback


def file_path(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Tells the shell to complete a path by itself: of a file, or of a folder on the way or in its place."""
    from click.shell_completion import CompletionItem

    return [CompletionItem(incomplete, type="file")]


def folder_path(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Tells the shell to complete the path of a folder by itself."""
    from click.shell_completion import CompletionItem

    return [CompletionItem(incomplete, type="dir")]


def listed(names: Sequence[str]) -> Callable[[click.Context, click.Parameter, str], list[str]]:
    """Completes the last of some names that are separated by commas, by those that are not there yet."""

    def complete(_context: click.Context, _option: click.Parameter, incomplete: str) -> list[str]:
        before, comma, last = incomplete.rpartition(",")
        given = before.split(",")
        return [before + comma + name for name in names if name.startswith(last) and name not in given]

    return complete


def examples(*lines: str) -> str:
    """A command's epilogue: example calls, one a line."""
    return "\n".join(("\b", "Examples:", *(f"  {line}" for line in lines)))


def selection_options(command: Command) -> Command:
    """``--steps``, ``--time``: what to load of a trace."""
    steps = "Only these steps; 3:6 is 3, 4 and 5."
    time = "Only this time, counted from the first event, as 10ms:20ms."
    command = click.option("--time", callback=parsed(time_range), metavar="A:B", help=time)(command)
    return click.option("--steps", callback=parsed(step_range), metavar="A:B", help=steps)(command)


def reader_options(command: Command) -> Command:
    """``--rank``, ``--max-memory``, ``--max-unpacked``, ``--no-cache``, ``--reader``: how to load a trace."""
    ranks = "Only these ranks of a folder: 0, 0,3 or 0:4."
    memory = "Beyond it the trace is streamed through the disk, as 2GB; as many steps as fit are loaded."
    unpacked = "What a .gz may unpack to, as 100GB; by default 4 GiB or 200 times its size."
    reader = "The C scanner, or the slower reader in Python."
    options = (
        click.option("--rank", "ranks", callback=parsed(rank_list), metavar="N[,N]", help=ranks),
        click.option("--max-memory", callback=parsed(size), metavar="SIZE", help=memory),
        click.option("--max-unpacked", callback=parsed(size), metavar="SIZE", help=unpacked),
        click.option("--no-cache", is_flag=True, help="Neither read nor write the cache."),
        click.option(
            "--reader", type=click.Choice(["auto", "c", "python"]), default="auto", show_default=True, help=reader
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


def color_option(command: Command) -> Command:
    """``--color / --no-color``: None when not given."""
    text = "Colour the text; by default on a terminal, unless NO_COLOR is set."
    return click.option("--color/--no-color", default=None, help=text)(command)


def wants_color(color: bool | None) -> bool:
    """Whether to colour what goes to stdout."""
    if color is not None:
        return color
    return not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb" and sys.stdout.isatty()
