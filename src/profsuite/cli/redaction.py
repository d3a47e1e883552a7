"""``--redact`` and what goes with it: the options, and what a command does with them."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any

import click

from profsuite.cli.options import file_path, folder_path

if TYPE_CHECKING:
    from profsuite.trace.redaction.redactor import Redactor
    from profsuite.trace.redaction.settings import Redaction

SENSITIVITIES = ("low", "medium", "high")
KEY_VARIABLE = "PROFSUITE_REDACT_KEY"


def redaction_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """``--redact``, ``--sensitivity``, ``--redact-rules``, ``--opt-out``, ``--project``, ``--redact-report``.

    The command is called with ``redactor``, None where nothing is to be redacted; what was replaced is said when it
    has ended.
    """

    @wraps(command)
    def redacting(
        *args: Any,
        redact: bool,
        sensitivity: str | None,
        redact_rules: str | None,
        opt_out: tuple[str, ...],
        project: tuple[str, ...],
        redact_report: str | None,
        **options: Any,
    ) -> Any:
        wanted = redact or any(value is not None for value in (sensitivity, redact_rules, redact_report))
        if not wanted and not opt_out:
            return command(*args, redactor=None, **options)
        redactor = make_redactor(sensitivity or "medium" if wanted else None, redact_rules, opt_out, project)
        try:
            result = command(*args, redactor=redactor, **options)
        except click.exceptions.Exit:
            say(redactor, redact_report)
            raise
        say(redactor, redact_report)
        return result

    return redaction_flags(redacting)


def redaction_flags(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options alone, for a command that hands them on to another."""
    texts = {
        "--redact": "Hide names of hosts and users, paths outside the project, e-mail addresses, keys, environment.",
        "--sensitivity": "How much --redact hides; docs/redaction.md lists it. By default medium.",
        "--redact-rules": "Rules of your own, in TOML (implies --redact).",
        "--opt-out": "Remove modules, functions and annotations of such a name, as 'mymodule.secret*'.",
        "--project": "The project's folder: paths in it are shown from there. By default the current folder.",
        "--redact-report": "Write what was replaced, by kind and column, as JSON (implies --redact).",
    }
    made = (
        click.option("--redact", is_flag=True, help=texts["--redact"]),
        click.option("--sensitivity", type=click.Choice(SENSITIVITIES), help=texts["--sensitivity"]),
        click.option("--redact-rules", metavar="FILE", shell_complete=file_path, help=texts["--redact-rules"]),
        click.option("--opt-out", multiple=True, metavar="GLOB", help=texts["--opt-out"]),
        click.option("--project", multiple=True, metavar="DIR", shell_complete=folder_path, help=texts["--project"]),
        click.option("--redact-report", metavar="FILE", shell_complete=file_path, help=texts["--redact-report"]),
    )
    for option in reversed(made):
        command = option(command)
    return command


def make_redactor(
    sensitivity: str | None, rules: str | None, opt_out: tuple[str, ...], projects: tuple[str, ...]
) -> Redactor:
    """What redacts by these options; ``RuleError`` where the file of rules is wrong."""
    from profsuite.trace.redaction.redactor import Redactor
    from profsuite.trace.redaction.rules import read_rules
    from profsuite.trace.redaction.settings import LEVELS, Redaction

    key = os.environ.get(KEY_VARIABLE, "")
    settings = Redaction(
        level=None if sensitivity is None else LEVELS[sensitivity],
        projects=tuple(os.path.abspath(folder) for folder in projects) or this_folder(),  # noqa: PTH100
        rules=() if rules is None else read_rules(rules),
        opt_out=opt_out,
        key=key.encode("utf-8", "surrogateescape") or None,
    )
    return Redactor(settings)


def this_folder() -> tuple[str, ...]:
    """The current folder as the project, unless so much lies in it that it is none: /, /home, a home itself."""
    folder = os.getcwd()  # noqa: PTH109
    is_home = folder == os.path.expanduser("~")  # noqa: PTH111
    return () if is_home or folder.count(os.sep) < 2 else (folder,)


def across_processes(redactor: Redactor | None) -> Redaction | None:
    """Settings for other processes: with a key, so that the same secret gets the same pseudonym in each."""
    if redactor is None:
        return None
    import secrets
    from dataclasses import replace

    settings = redactor.redaction
    return settings if settings.key else replace(settings, key=secrets.token_bytes(16))


def say(redactor: Redactor, path: str | None) -> None:
    """One line on stderr about what was replaced, and the report's file."""
    from profsuite.cli.app import complain
    from profsuite.cli.result import write

    complain(redactor.report.line())
    if path is not None:
        write(redactor.report.dump(), path)
