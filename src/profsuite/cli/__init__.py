"""The command line: one file a command, each of them glue between the reader, the analyzers and the exporters."""

from __future__ import annotations


def main() -> None:
    """The ``profsuite`` program."""
    from profsuite.cli.app import run

    run()
