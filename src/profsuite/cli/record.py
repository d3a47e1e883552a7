"""``profsuite record``: record an unchanged training script."""

from __future__ import annotations

import os
import signal
import sys
import threading
import traceback
from typing import TYPE_CHECKING, Any

import click

from profsuite.cli.options import examples, file_path, folder_path

if TYPE_CHECKING:
    from profsuite.collector.profiler import Profile

ENGINES = ("auto", "recorder", "kineto", "cupti")
CHANNELS = ("host", "gc", "dataloader", "nvml", "compile", "snapshot", "flight")

EXAMPLES = examples(
    "profsuite record train.py --epochs 1",
    "profsuite record --steps 10:15 --memory -o runs/exp1 train.py",
    "profsuite record -m my_package.train --lr 0.1",
    "torchrun --nproc-per-node 2 -m profsuite record --steps 10:15 train.py",
)


@click.command(
    "record",
    epilog=EXAMPLES,
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
@click.argument("script", required=True, shell_complete=file_path)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, shell_complete=file_path, metavar="[ARGS]...")
@click.option("-m", "module", is_flag=True, help="SCRIPT is a module, as for python -m.")
@click.option("--steps", metavar="A:B", help="Record only these optimizer steps: 10:15 is 10 to 14. [default: all]")
@click.option(
    "-o",
    "--output",
    metavar="DIR",
    shell_complete=folder_path,
    help="The run's folder. [default: runs/ and the script's name]",
)
@click.option("--engine", type=click.Choice(ENGINES), default="auto", show_default=True, help="What records.")
@click.option("--memory", is_flag=True, help="Every allocation.")
@click.option("--stacks", is_flag=True, help="Python calls and modules.")
@click.option("--shapes/--no-shapes", default=True, show_default=True, help="Shapes of the inputs.")
@click.option("--all-threads", is_flag=True, help="Ops of all threads with Kineto too.")
@click.option("--json", "json_", is_flag=True, help="Kineto's JSON beside the tables.")
@click.option("--channel", "channels", multiple=True, type=click.Choice(CHANNELS), help="Only these side channels.")
def command(
    script: str,
    arguments: tuple[str, ...],
    module: bool,
    output: str | None,
    json_: bool,
    channels: tuple[str, ...],
    **settings: Any,
) -> None:
    """Run a training script and record it.

    SCRIPT runs as with python; what follows it are its own arguments.  Steps are counted by its optimizer.
    """
    from importlib import util

    from profsuite.errors import MissingExtraError

    if util.find_spec("torch") is None:
        raise MissingExtraError("recording needs torch: pip install 'profsuite[torch]'")
    from profsuite.collector.profiler import profile
    from profsuite.collector.script import record

    name = script.rpartition(".")[2] if module else os.path.splitext(os.path.basename(script))[0]  # noqa: PTH119, PTH122
    if channels:
        settings["channels"] = channels
    try:
        prof = profile(output or f"runs/{name}", schedule=settings.pop("steps"), json=json_, **settings)
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    if not module and not os.path.isfile(script):  # noqa: PTH113
        raise click.UsageError(f"{script}: no such file")
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.default_int_handler)  # as the script would find it
    try:
        record(prof, script, list(arguments), module=module)
    except SystemExit:
        say(prof)
        raise
    except BaseException as error:
        code = fault_of_script(error)
        if code is None:
            raise
        say(prof)
        raise SystemExit(code) from None
    say(prof)


def fault_of_script(error: BaseException) -> int | None:
    """Print the script's own traceback, as Python would; its exit code, None if the fault is not the script's."""
    trace = error.__traceback__
    while trace is not None and "profsuite" in trace.tb_frame.f_globals.get("__name__", ""):
        trace = trace.tb_next
    while trace is not None and trace.tb_frame.f_code.co_filename == "<frozen runpy>":
        trace = trace.tb_next
    if trace is None and not isinstance(error, SyntaxError | KeyboardInterrupt):
        return None
    traceback.print_exception(type(error), error, trace)
    return 130 if isinstance(error, KeyboardInterrupt) else 1


def say(prof: Profile) -> None:
    """Where the recording is, in one line, and what it lacks."""
    from profsuite.cli.app import complain

    sys.stdout.flush()
    for note in prof.notes:
        complain(note)
    if prof.folder is not None and prof.folder.is_dir():
        complain(f"recorded {prof.folder}; next: profsuite analyze {prof.folder}")
