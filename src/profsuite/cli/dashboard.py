"""``profsuite dashboard``: traces in a browser."""

from __future__ import annotations

from pathlib import Path

import click

from profsuite.cli.options import examples, file_path

EXAMPLES = examples(
    "profsuite dashboard runs/",
    "profsuite dashboard trace.json.gz --port 9000 --no-browser",
    "profsuite dashboard runs/ --host 0.0.0.0 --token secret",
)


@click.command("dashboard", epilog=EXAMPLES)
@click.argument("paths", nargs=-1, required=True, metavar="PATH...", shell_complete=file_path)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen at.")
@click.option("--port", type=click.IntRange(0, 65535), default=8050, show_default=True, help="0 takes a free one.")
@click.option("--no-browser", is_flag=True, help="Do not open a browser.")
@click.option(
    "--token", help="Ask for this token; made up where it listens beyond this machine.", envvar="PROFSUITE_TOKEN"
)
def command(paths: tuple[str, ...], host: str, port: int, no_browser: bool, token: str | None) -> None:
    """Show traces in a browser, from the answer down to the nanosecond.

    PATH is a trace file, or a folder of them. It works offline, and answers to this machine alone unless --host says
    otherwise; then it asks for a token.
    """
    from profsuite.errors import MissingExtraError

    try:
        from profsuite.dashboard.serve import serve
    except ImportError as error:
        raise MissingExtraError(f"the dashboard needs {error.name}: pip install 'profsuite[dashboard]'") from error
    serve([Path(path) for path in paths], host, port, token, open_browser=not no_browser, say=click.echo)
