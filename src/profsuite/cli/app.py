"""The ``profsuite`` program: finds commands, and turns every error into one line and an exit code."""

from __future__ import annotations

import io
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from importlib import import_module
from typing import Any

import click

from profsuite import __version__
from profsuite.errors import ProfsuiteError

COMMANDS = (
    "record", "analyze", "report", "memory", "whatif", "diff", "check", "hang", "dashboard", "info", "convert", "query",
    "doctor", "completion",
)  # fmt: skip
"""Every command; each lives in the module of its name, as the attribute ``command``."""

COMPLETE = "_PROFSUITE_COMPLETE"
"""The variable by which a shell asks for completions, as click names it."""

FINDINGS, UNREADABLE, INTERNAL, INTERRUPTED, BROKEN_PIPE = 1, 2, 3, 130, 141
"""Exit codes other than 0; docs/reference/cli.md explains them."""

GRACE_SECONDS = 1.0
"""How long an interrupted command may take to clean up."""

EPILOG = """\b
Examples:
  profsuite analyze trace.json.gz
  profsuite report run_folder/ --html report.html
  profsuite diff before.json.gz after.json.gz
  profsuite query "SELECT name, sum(dur) FROM slice GROUP BY 1 ORDER BY 2 DESC LIMIT 10" trace.json

\b
Exit codes:
  0    done
  1    a finding at or above --fail-on, or a failed check
  2    the input cannot be read, or the command line is wrong
  3    a fault of profsuite itself (PROFSUITE_DEBUG=1 shows the traceback)
  130  interrupted
"""


@contextmanager
def _told() -> Iterator[None]:
    """Whatever goes wrong within becomes a ``click`` exception with a one-line message."""
    try:
        yield
    except BrokenPipeError:
        # The reader of our output has left (| head): nothing more to say, also at shutdown.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise click.exceptions.Exit(BROKEN_PIPE) from None
    except (click.exceptions.Exit, click.ClickException, click.Abort, KeyboardInterrupt):
        raise
    except ProfsuiteError as error:
        raise Failure(str(error), UNREADABLE) from error
    except MemoryError as error:
        raise Failure("not enough memory: --max-memory 2GB streams the trace through the cache", UNREADABLE) from error
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        raise Failure(f"{place}{error.strerror or error}", UNREADABLE) from error
    except Exception as error:
        if os.environ.get("PROFSUITE_DEBUG"):
            raise
        raise Failure(
            f"{_place(error)}: {type(error).__name__}: {error} (a fault of profsuite, please report it; "
            "PROFSUITE_DEBUG=1 shows the traceback)",
            INTERNAL,
        ) from error


class Commands(click.Group):
    """A group that imports a command's module only when it is needed."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The commands in the order in which ``--help`` shows them."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of that name, None if there is none."""
        if cmd_name not in COMMANDS:
            return None
        command = import_module(f"profsuite.cli.{cmd_name}").command
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click's, but a file in place of a command, or one misspelt, is told what to do."""
        if args and args[0] not in COMMANDS and not ctx.resilient_parsing:
            if os.path.exists(args[0]):  # noqa: PTH110
                raise click.UsageError(f"{args[0]!r} is a file: profsuite analyze {args[0]}", ctx=ctx)
            if not args[0].startswith("-") and (near := get_close_matches(args[0], COMMANDS, 1)):
                raise click.UsageError(f"no command {args[0]!r}; did you mean {near[0]}?", ctx=ctx)
        return super().resolve_command(ctx, args)

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """As click's; ``--help`` is printed here, and may find its reader gone or the disk full."""
        with _told():
            return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; whatever goes wrong becomes a ``click`` exception with a one-line message."""
        with _told():
            result = super().invoke(ctx)
            sys.stdout.flush()
            return result

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        **extra: Any,
    ) -> Any:
        """As click's, but an error is one line on stderr, and an interrupt exits with 130."""
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(errors="replace")  # a bar or a name that the terminal cannot show is no fault
        if COMPLETE in os.environ:
            import_module("profsuite.cli.completion")  # registers our shells
        if not standalone_mode:
            return super().main(args, prog_name, complete_var, standalone_mode=False, **extra)
        try:
            code = super().main(args, prog_name, complete_var, standalone_mode=False, **extra)
        except click.UsageError as error:
            program = error.ctx.command_path if error.ctx else "profsuite"
            complain(f"{error.format_message()} (see {program} --help)", program)
            code = error.exit_code
        except click.ClickException as error:
            complain(error.format_message())
            for line in getattr(error, "excerpt", "").splitlines():
                click.echo("".join(c if c.isprintable() else " " for c in line), err=True)
            code = error.exit_code
        except click.Abort:
            complain("interrupted")
            code = INTERRUPTED
        sys.exit(code if isinstance(code, int) else 0)


def run() -> None:
    """Run the program in a process of its own, and end that process."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by who started it, as by >&-
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: PTH123, SIM115
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, _interrupt)
    try:
        app(prog_name="profsuite")
    except SystemExit as end:
        if end.code == INTERRUPTED:
            _leave()
        raise


def _interrupt(*_: object) -> None:
    """Unwind on Ctrl-C, so that half-written files are removed; leave all the same where that hangs.

    A thread that waits for data from a pipe holds the pipe's lock, and closing it waits for that thread.
    """
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    hung = threading.Timer(GRACE_SECONDS, _leave, ["interrupted"])
    hung.daemon = True
    hung.start()
    raise KeyboardInterrupt


def _leave(last_words: str | None = None) -> None:
    """End the process now: at a regular end Python would wait for the lock of a pipe that is being read."""
    if last_words is not None:
        complain(last_words)
    os._exit(INTERRUPTED)


class Failure(click.ClickException):
    """An error that ends the program with ``exit_code``; ``excerpt`` is printed below its line, as it is set."""

    def __init__(self, message: str, exit_code: int, excerpt: str = "") -> None:
        super().__init__(message)
        self.excerpt = excerpt
        vars(self)["exit_code"] = exit_code  # click declares it for the class


def one_line(text: str) -> str:
    """``text`` as one line that is safe to print: control characters and line ends become blanks."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def complain(text: str, program: str = "profsuite") -> None:
    """Say what is wrong, in one line on stderr."""
    click.echo(f"{program}: {one_line(text)}", err=True)


def _place(error: BaseException) -> str:
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None:
        return "unknown place"
    return f"{os.path.basename(trace.tb_frame.f_code.co_filename)}:{trace.tb_lineno}"  # noqa: PTH119


@click.command(
    cls=Commands,
    epilog=EPILOG,
    invoke_without_command=True,
    subcommand_metavar="COMMAND [ARGS]...",
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(__version__, prog_name="profsuite", message="%(prog)s %(version)s")
@click.pass_context
def app(ctx: click.Context) -> None:
    """Where a PyTorch job's time and memory go, and what to change."""
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())
