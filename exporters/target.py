"""Where an export goes: a file or folder that appears only when it is complete, packed by its ending."""

from __future__ import annotations

import gzip
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import Queue
from threading import Thread
from typing import IO, Any

from profsuite.errors import ProfsuiteError
from profsuite.exporters.formats import COMPRESSIONS
from profsuite.exporters.rows import Rendering

LEVEL = 1
"""How hard gzip tries: traces are written far slower at higher levels, and hardly smaller."""


class Target:
    """The file or folder of one export.

    ``path`` is where the format writes to: beside the target under a name of its own.  The export takes the
    target's place at the end, all at once.
    """

    def __init__(self, path: Path, compresses: bool) -> None:
        self.final = path
        self.path = path
        ending = path.suffix if compresses else ""
        self.compression = COMPRESSIONS.get(ending)

    @contextmanager
    def open(self) -> Iterator[Sink]:
        """What takes the bytes of the target, compressed where its ending says so."""
        with self.path.open("wb") as file:
            if self.compression == "gzip":
                stream = _gzip(file)
            elif self.compression == "zstd":
                import pyarrow as pa

                stream = pa.CompressedOutputStream(pa.PythonFile(file, "w"), "zstd")
            else:
                stream = file
            with stream, _behind(stream) as queue:
                yield queue


class Sink:
    """Takes bytes, or rows to render, for another thread to write; raises what went wrong there."""

    def __init__(self) -> None:
        self.waiting: Queue[Any] = Queue(1)
        self.error: BaseException | None = None

    def write(self, data: bytes | bytearray | memoryview | Rendering) -> None:
        """Write the bytes or rows, some time."""
        if self.error is not None:
            raise self.error
        self.waiting.put(data)


@contextmanager
def _behind(stream: Any) -> Iterator[Sink]:
    """Renders, packs and writes in a thread of its own, without the interpreter: the next rows are made meanwhile."""
    queue = Sink()

    def work() -> None:
        while (data := queue.waiting.get()) is not None:
            try:
                if queue.error is None:
                    for piece in data.pieces() if isinstance(data, Rendering) else (data,):
                        stream.write(piece)
                        del piece  # its memory is the next one's
            except BaseException as error:
                queue.error = error
            del data

    thread = Thread(target=work, name="profsuite-write", daemon=True)
    thread.start()
    try:
        yield queue
    finally:
        queue.waiting.put(None)
        thread.join()
    if queue.error is not None:
        raise queue.error


def _gzip(file: IO[bytes]) -> Any:
    """A gzip stream on ``file``: isal's where it is installed, which is several times faster."""
    try:
        from isal import igzip
    except ImportError:
        return gzip.GzipFile("", "wb", LEVEL, file, mtime=0)
    packed: Any = igzip.IGzipFile
    return packed("", "wb", LEVEL, file, mtime=0)


@contextmanager
def replacing(path: Path, compresses: bool, is_folder: bool) -> Iterator[Target]:
    """A target for ``path``; it is renamed to ``path`` on success and removed on failure.

    A folder that exists is written into.  ``ProfsuiteError`` where the disk refuses.
    """
    target = Target(path, compresses)
    try:
        if is_folder and path.is_dir():
            yield target
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        building = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
        try:
            target.path = building / path.name
            if is_folder:
                target.path.mkdir()
            yield target
            target.path.replace(path)
        finally:
            shutil.rmtree(building, ignore_errors=True)
    except OSError as error:
        raise ProfsuiteError(f"{path}: cannot be written: {error.strerror or error}") from error
