"""The report on a trace: kept beside the cached trace, else made by a process of its own, whose memory goes with it."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from profsuite import __version__
from profsuite.errors import ProfsuiteError, TraceError
from profsuite.trace.cache import MIN_BYTES, folder_for, settle
from profsuite.trace.source import open_source
from profsuite.trace.store import is_run_folder, open_folder

if TYPE_CHECKING:
    from profsuite.analyzers.report import Report
    from profsuite.trace.model import Trace

TOP: Final = 50
"""Rows of the report's lists."""
BRIEF: Final = ("breakdown", "steps")
"""The sections that are there in a fraction of a second."""
MANY_SLICES: Final = 200_000
"""From this many slices on the analysis takes longer than the start of a process, and what it gave is kept."""
_LOOK_S: Final = 0.1


def examine(path: Path, trace: Trace, going_on: Callable[[], None]) -> Report:
    """The report on a trace that was read from ``path``; ``going_on`` is called meanwhile, and may raise to end it.

    ``ProfsuiteError`` where the process that makes it fails.
    """
    from profsuite.analyzers.report import analyze

    folder = folder_of(path)
    found = kept(folder)
    if found is not None:
        return found
    if folder is None or trace.num_rows("slice") < MANY_SLICES:
        return analyze(trace, top=TOP)
    settle()  # a trace that was only just read is still being written there
    if not is_run_folder(folder):
        return analyze(trace, top=TOP)
    data = _in_a_process(folder, going_on)
    found = msgspec.msgpack.decode(data, type=type_of_reports())
    if folder != path:
        _keep(folder, data)
    return found


def folder_of(path: Path) -> Path | None:
    """The run folder that holds the trace of a path: itself, or its place in the cache, where it may not be (yet)."""
    if is_run_folder(path):
        return path
    try:
        with open_source(str(path)) as source:
            large = source.key is not None and (source.gzipped or (source.size or 0) >= MIN_BYTES)
            return folder_for(source.key) if source.key is not None and large else None
    except TraceError:
        return None


def kept(folder: Path | None) -> Report | None:
    """The report that was kept in a folder, null where there is none of this version, or it is damaged."""
    if folder is None:
        return None
    try:
        return msgspec.msgpack.decode((folder / _name()).read_bytes(), type=type_of_reports())
    except (OSError, msgspec.MsgspecError):
        return None


def type_of_reports() -> type[Report]:
    """``Report``, imported when it is needed: it takes all analyzers with it."""
    from profsuite.analyzers.report import Report

    return Report


def _keep(folder: Path, data: bytes) -> None:
    """Write it beside the trace; what other versions left there goes.  Failures are silent, as the cache's are."""
    with suppress(OSError):
        for old in folder.glob("report.*.msgpack"):
            old.unlink()
        with tempfile.NamedTemporaryFile(dir=folder, prefix=".report.", delete=False) as sink:
            sink.write(data)
        Path(sink.name).replace(folder / _name())


@cache
def _name() -> str:
    """Changes with whatever the report depends on: the version, and the analyzers' files as they are installed."""
    digest = hashlib.sha256(repr((__version__, TOP)).encode())
    from profsuite import analyzers, trace

    for package in (analyzers, trace):
        root = Path(str(package.__file__)).parent
        for file in sorted(root.rglob("*")):
            if file.suffix in (".py", ".toml", ".so", ".pyd"):
                state = file.stat()
                digest.update(f"{file.relative_to(root)} {state.st_size} {state.st_mtime_ns}\n".encode())
    return f"report.{digest.hexdigest()[:16]}.msgpack"


_PROGRAM: Final = """
import os, sys
if hasattr(os, "nice"):
    os.nice(10)  # pages and tiles are answered first
from profsuite.dashboard.examine import say
say(sys.argv[1])
"""


def _in_a_process(folder: Path, going_on: Callable[[], None]) -> bytes:
    command = [sys.executable, "-P", "-c", _PROGRAM, str(folder)]
    with tempfile.TemporaryFile() as sink, tempfile.TemporaryFile() as said:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=sink, stderr=said)  # noqa: S603
        try:
            while True:
                with suppress(subprocess.TimeoutExpired):
                    process.wait(_LOOK_S)
                    break
                going_on()
        finally:
            process.kill()
            process.wait()
        sink.seek(0)
        said.seek(0)
        if process.returncode:
            last = said.read()[-2000:].decode("utf-8", "replace").strip().splitlines()[-1:]
            raise ProfsuiteError(f"the analysis ended early ({last[0] if last else process.returncode})")
        return sink.read()


def say(folder: str) -> None:
    """What the process does: the report of a run folder, as MessagePack on standard output."""
    from profsuite.analyzers.report import analyze

    sys.stdout.buffer.write(msgspec.msgpack.encode(analyze(open_folder(Path(folder)), top=TOP)))
