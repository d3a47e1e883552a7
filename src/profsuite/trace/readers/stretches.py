"""A plain file by several processes, where only the reader in Python is there: each takes one stretch.

``read_file`` reads the first stretch itself; ``python -m profsuite.trace.readers.stretches`` reads another
and writes a ``Part`` to its standard output.  A stretch begins at a place that looks like the start of an
event.  Whether it is one is known when the stretch before has been read, which must end just there, between
two events.  Where it does not, or a process fails, the rest is read here, so no result depends on a guess.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

import msgspec
import numpy as np

from profsuite.trace.readers.columns import Part
from profsuite.trace.readers.fallback import Scanner, raw_trace

if TYPE_CHECKING:
    from types import TracebackType

    from profsuite.trace.readers.raw import RawTrace

BLOCK: Final = 1 << 20
SMALLEST: Final = 64 << 20
"""Bytes of a file below which one process is as fast."""
LEAD: Final = 24 << 20
"""Bytes that are read here until another process has started."""
_EVENT: Final = re.compile(rb"\}[ \t\n\r]*,[ \t\n\r]*(?=\{[ \t\n\r]*\"(?:ph|name|cat|pid|tid|ts)\")")


def read_file(
    path: str, num_processes: int, progress: Callable[[int], None], smallest: int = SMALLEST, lead: int = LEAD
) -> RawTrace:
    """Read a plain file; ``TraceError`` if it is no trace.  ``progress`` is told about how many bytes are read."""
    size = Path(path).stat().st_size
    scanner = Scanner()
    furthest = 0

    def done(num_bytes: int) -> None:
        nonlocal furthest
        furthest = max(furthest, min(size, num_bytes))
        progress(furthest)

    with Path(path).open("rb", buffering=0) as file:
        starts = _starts(file, size, num_processes, lead) if size >= smallest else []
        file.seek(0)
        is_object = file.read(3).lstrip(b"\xef\xbb\xbf \t\n\r")[:1] == b"{"
        with _Others(path, [*starts, size], is_object) as others:
            share = len(starts) + 1  # the others come about as far in the same time
            stop = starts[0] if starts else size
            _feed(scanner, file, 0, stop, lambda read: done(read * share))
            num_read = 0
            if starts and scanner.is_between_events():
                for part in others.parts():
                    scanner.absorb(part, others.bounds[num_read + 1] - others.bounds[num_read])
                    num_read += 1
        if num_read < len(starts):
            start = starts[num_read]
            rest = Scanner.at_event(start, is_object) if num_read else scanner
            _feed(rest, file, start, size, done)
            rest.finish()
            if rest is not scanner:
                scanner.absorb(rest.part(), size - start)
        elif not starts:
            scanner.finish()
    done(size)
    return raw_trace(scanner)


def _starts(file: IO[bytes], size: int, num_processes: int, lead: int) -> list[int]:
    """Where the stretches after the first begin: places that look like the start of an event."""
    found: list[int] = []
    for number in range(1, num_processes):
        wanted = lead + (size - lead) * number // num_processes
        file.seek(wanted)
        match = _EVENT.search(file.read(BLOCK))
        if match and wanted + match.end() < size:
            found.append(wanted + match.end())
    return sorted(set(found))


def _feed(scanner: Scanner, file: IO[bytes], start: int, stop: int, progress: Callable[[int], None]) -> None:
    file.seek(start)
    while start < stop and (data := file.read(min(BLOCK, stop - start))):
        scanner.feed(data)
        start += len(data)
        progress(start)


class _Others:
    """The processes that read the stretches between ``bounds``; they end with the context."""

    def __init__(self, path: str, bounds: list[int], is_object: bool) -> None:
        self.path = path
        self.bounds = bounds
        self.is_object = is_object
        self.processes: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> _Others:
        module = __spec__.name if __spec__ else __name__
        form = "object" if self.is_object else "array"
        # the modules that this process found, from the same places
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry)}
        for start, stop in pairwise(self.bounds):
            until = "end" if stop == self.bounds[-1] else str(stop)
            command = [sys.executable, "-m", module, self.path, str(start), until, form]
            try:
                process = subprocess.Popen(  # noqa: S603 - this Python, this module
                    command, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
                )
            except OSError:
                break
            self.processes.append(process)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for process in self.processes:
            process.kill()
            if process.stdout:
                process.stdout.close()
            process.wait()

    def parts(self) -> Iterator[Part]:
        """The parts in order, up to the first that has not ended just before the next."""
        for process in self.processes:
            assert process.stdout is not None
            part = _receive(process.stdout)
            if part is None:
                return
            yield part


def _send(part: Part, file: IO[bytes]) -> None:
    """Write a part: the length of a JSON text, that text, the columns."""
    columns = [column for group in part.groups.values() for column in group.values()]
    names = {
        group: [(name, column.dtype.str, len(column)) for name, column in found.items()]
        for group, found in part.groups.items()
    }
    said = (part.pools, part.tracks, part.header, part.num_events, part.remarks, part.unsupported)
    text = msgspec.json.encode((names, *said))
    file.write(len(text).to_bytes(8, "little") + text)
    for column in columns:
        file.write(column.data)
    file.flush()


_Said = tuple[
    dict[str, list[tuple[str, str, int]]],
    dict[str, list[str]],
    list[tuple[str, str]],
    list[tuple[str, str]],
    int,
    dict[str, tuple[int, int]],
    dict[str, int],
]


def _receive(file: IO[bytes]) -> Part | None:
    """What ``_send`` wrote, None if it is not all there."""
    length = int.from_bytes(file.read(8), "little")
    text = file.read(length)
    if not length or len(text) < length:
        return None
    names, *said = msgspec.json.decode(text, type=_Said)
    groups: dict[str, dict[str, Any]] = {group: {} for group in names}
    for group, columns in names.items():
        for name, dtype, count in columns:
            column = np.empty(count, dtype)
            if file.readinto(column.view(np.uint8).data) < column.nbytes:  # type: ignore[attr-defined]
                return None
            groups[group][name] = column
    return Part(groups, *said)  # type: ignore[arg-type]


def main(path: str, start: int, until: str, form: str) -> None:
    """Read from ``start`` to a byte or the ``end``; write nothing where that byte is not between events."""
    scanner = Scanner.at_event(start, form == "object")
    with Path(path).open("rb", buffering=0) as file:
        _feed(scanner, file, start, Path(path).stat().st_size if until == "end" else int(until), lambda _: None)
    if until == "end":
        scanner.finish()
    elif not scanner.is_between_events():
        return
    _send(scanner.part(), sys.stdout.buffer)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4])
