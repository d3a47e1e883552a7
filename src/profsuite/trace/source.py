"""Bytes of a trace: a file, standard input, an fsspec URL; gzip by its magic, not by its name."""

from __future__ import annotations

import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from queue import Full, Queue
from threading import Event, Thread
from typing import IO, TYPE_CHECKING, Any, cast

from profsuite.errors import MissingExtraError, TraceError
from profsuite.trace.inputs import Format, format_of

if TYPE_CHECKING:
    from collections.abc import Callable

LOOK = 4096
"""Bytes that are looked at to tell the format."""

BLOCK = 1 << 20
"""Bytes read, or unpacked, at a time."""

PIECE = 1 << 12
"""Bytes of a zstd stream that are unpacked at a time: Arrow keeps to itself what it unpacked just before a fault."""

ZSTD = b"\x28\xb5\x2f\xfd"
"""What a zstd frame begins with."""

EXPANSION_FLOOR = 4 << 30
EXPANSION_RATIO = 200
"""A gzip stream may grow to 200 times its size or to 4 GiB, whichever is more: traces grow 8 to 40 times."""

_FORMATS = {
    b"PK\x03\x04": "a zip archive; unpack it first",
    b"BZh": "compressed with bzip2; unpack it first",
    b"\xfd7zXZ": "compressed with xz; unpack it first",
    b"PAR1": "a Parquet file",
    b"ARROW1": "an Arrow file; a run folder is opened by its folder",
    b"SQLite format 3": "an SQLite database (Nsight Systems?)",
    b"\x7fELF": "a program",
    b"\xff\xfe": "text in UTF-16; save it as UTF-8",
    b"\xfe\xff": "text in UTF-16; save it as UTF-8",
    b"{\0": "text in UTF-16; save it as UTF-8",
    b"[\0": "text in UTF-16; save it as UTF-8",
    b"\0{": "text in UTF-16; save it as UTF-8",
    b"\0[": "text in UTF-16; save it as UTF-8",
    b"\x80": "a pickle (a memory snapshot? profsuite memory reads those)",
    b"\n": "a binary protobuf, but neither XLA's planes (xplane.pb) nor a Perfetto file of one rank that "
    "profsuite wrote",
}


@dataclass(slots=True)
class Source:
    """An opened input.

    ``path`` is set for a plain local file (readers may read it by themselves), else ``read(n)`` gives
    the next bytes as stored.  ``size`` is its size as stored, None if unknown.  ``fault`` is set by
    ``chunks`` where compressed data ended early or broke.  ``gzipped`` holds for all compressed data, ``regular`` for a
    file of this machine that is no pipe.
    """

    name: str
    path: str | None
    size: int | None
    gzipped: bool
    key: tuple[Any, ...] | None
    stream: IO[bytes]
    first: bytes = b""
    consumed: int = 0
    fault: str | None = None
    limit: int | None = None
    zstd: bool = False
    regular: bool = False
    _closing: Event = field(default_factory=Event)
    _reader: Thread | None = None

    def read(self, size: int) -> bytes:
        """The next bytes as stored; ``TraceError`` where the device or the server fails."""
        if self.first:
            data, self.first = self.first[:size], self.first[size:]
        else:
            try:
                data = self.stream.read(size)
            except OSError as error:
                raise TraceError(f"{self.name}: cannot be read at byte {self.consumed}: {error}") from error
        self.consumed += len(data)
        return data

    def chunks(self) -> Iterator[bytes]:
        """The uncompressed bytes in blocks; another thread reads and unpacks ahead."""
        unpack = _unpack_zstd if self.zstd else _inflate
        blocks = unpack(self) if self.gzipped else iter(lambda: self.read(BLOCK), b"")
        return self._ahead(blocks)

    def beginning(self) -> bytes:
        """The first uncompressed bytes, read by the calling thread; nothing else is to be read afterwards."""
        unpack = _unpack_zstd if self.zstd else _inflate
        blocks = unpack(self) if self.gzipped else iter(lambda: self.read(BLOCK), b"")
        return next(blocks, b"")

    @property
    def format(self) -> Format:
        """What the first bytes say that it is; to be asked before anything is read."""
        return format_of(self._unpacked() if self.gzipped else self.first)

    def _unpacked(self) -> bytes:
        if self.zstd:
            return first_unpacked(self.first, LOOK)
        try:
            return zlib.decompressobj(31).decompress(self.first, LOOK)
        except zlib.error:
            return b""

    def close(self) -> None:
        """End the thread that reads ahead: it must not read from what is next opened under the same descriptor."""
        self._closing.set()
        if self._reader is not None:
            # A pipe may have nothing to read for ever; a thread that waits in its read stays with the pipe.
            self._reader.join(None if self.regular else 0.05)

    def _ahead(self, blocks: Iterator[bytes]) -> Iterator[bytes]:
        """The same blocks, made by another thread up to four ahead; its errors are raised here."""
        queue: Queue[tuple[bytes | None, BaseException | None]] = Queue(4)

        def put(item: tuple[bytes | None, BaseException | None]) -> bool:
            while not self._closing.is_set():
                try:
                    queue.put(item, timeout=0.1)
                except Full:
                    continue
                return True
            return False

        def work() -> None:
            try:
                for block in blocks:
                    if not put((block, None)):
                        return
                put((None, None))
            except BaseException as error:
                put((None, error))

        self._reader = Thread(target=work, name="profsuite-read", daemon=True)
        self._reader.start()
        while True:
            block, error = queue.get()
            if error is not None:
                raise error
            if block is None:
                return
            yield block


def is_packed(first: bytes) -> bool:
    """Whether the first bytes of a file are those of compressed data that is read: gzip or zstd."""
    return first[:2] == b"\x1f\x8b" or first[:4] == ZSTD


@contextmanager
def open_source(name: str, limit: int | None = None, magic: bytes | None = None) -> Iterator[Source]:
    """Open ``name``: a path, ``-`` for standard input, or an fsspec URL.

    ``limit`` caps the uncompressed bytes of a gzip stream (default: see EXPANSION_RATIO).  ``magic`` begins the
    format that is wanted, where that is no JSON.  ``TraceError`` names what is wrong: no such file, a folder, no
    permission, a format that is no trace.
    """
    with _open(name) as (stream, path, size, key):
        first = b""
        while len(first) < LOOK and (more := stream.read(LOOK - len(first))):  # a pipe gives what it has
            first += more
        zstd = first[:4] == ZSTD
        gzipped = is_packed(first)
        if not first:
            raise TraceError(f"{name}: is empty (0 bytes); was the profiler stopped before it could write?")
        if not gzipped:
            for known, what in _FORMATS.items():
                if known == magic:
                    continue
                readable = known == b"\n" and (_looks_like_json(first) or format_of(first) != "json")
                if first.startswith(known) and not readable:
                    raise TraceError(f"{name}: is {what}; docs/inputs.md lists what profsuite reads")
        source = Source(name, None if gzipped else path, size, gzipped, key, stream, first, limit=limit, zstd=zstd)
        source.regular = path is not None
        try:
            yield source
        finally:
            source.close()


def _looks_like_json(first: bytes) -> bool:
    return first.strip()[:1] in (b"", b"{", b"[")


@contextmanager
def _open(name: str) -> Iterator[tuple[IO[bytes], str | None, int | None, tuple[Any, ...] | None]]:
    """(stream, path if local, size, what identifies the content)."""
    if name == "-":
        yield sys.stdin.buffer, None, None, None
    elif "://" in name:
        with _open_url(name) as opened:
            yield opened
    else:
        path = Path(name)
        try:
            stat = path.stat()
            if path.is_dir():
                raise TraceError(f"{name}: is a folder without a trace in it")
            # Unbuffered: a buffer's lock would make closing a pipe wait for the thread that reads ahead.
            stream = path.open("rb", buffering=0)
        except FileNotFoundError:
            raise TraceError(f"{name}: no such file") from None
        except OSError as error:
            raise TraceError(f"{name}: cannot be opened: {error.strerror}") from error
        regular = path.is_file()
        with stream:
            key = (str(path.resolve()), stat.st_size, stat.st_mtime_ns) if regular else None
            yield stream, name if regular else None, stat.st_size if regular else None, key


@contextmanager
def _open_url(url: str) -> Iterator[tuple[IO[bytes], None, int | None, tuple[Any, ...] | None]]:
    import fsspec

    try:
        fs, path = fsspec.core.url_to_fs(url)
        info = fs.info(path)
        stream = fs.open(path, "rb")
    except ImportError as error:
        raise MissingExtraError(f"{url}: {error}") from error
    except ValueError as error:
        raise TraceError(f"{url}: {error}") from error
    except FileNotFoundError:
        raise TraceError(f"{url}: no such file") from None
    except Exception as error:  # every file system has its own
        raise TraceError(f"{url}: cannot be opened: {type(error).__name__}: {error}") from error
    version = next((str(info[k]) for k in ("ETag", "etag", "md5Hash", "mtime", "LastModified") if info.get(k)), None)
    size = info.get("size")
    with stream:
        yield stream, None, size, (url, size, version) if version else None


def _decompressor() -> Callable[[], Any]:
    try:
        from isal import isal_zlib
    except ImportError:
        return lambda: zlib.decompressobj(31)
    return lambda: isal_zlib.decompressobj(31)


def _inflate(source: Source) -> Iterator[bytes]:
    """Unpack gzip members one after another; what was unpacked before a fault is kept."""
    fresh = _decompressor()
    unpack = fresh()
    data, total = b"", 0
    while True:
        if not data:
            data = source.read(BLOCK)
            if not data:
                rest = b"" if unpack.eof else unpack.flush()
                if rest:
                    yield rest
                if not unpack.eof:
                    source.fault = f"The gzip stream ends early, after {source.consumed:,} bytes."
                return
        if unpack.eof:
            if not data.startswith(b"\x1f") and not data.strip(b"\0"):  # padding
                data = b""
                continue
            unpack = fresh()
        try:
            out = unpack.decompress(data, BLOCK)
        except Exception as error:  # zlib.error, isal_zlib.IsalError
            source.fault = f"The gzip stream is damaged near byte {source.consumed:,} ({error})."
            return
        data = unpack.unused_data if unpack.eof else unpack.unconsumed_tail
        if not out:
            continue
        total += len(out)
        if _is_too_much(source, total):
            return
        yield out


def _is_too_much(source: Source, total: int) -> bool:
    """Whether the unpacked bytes pass the limit, which is then the source's fault."""
    limit = source.limit
    if limit is None:
        limit = max(EXPANSION_FLOOR, EXPANSION_RATIO * source.consumed)
    if total > limit:
        source.fault = (
            f"Stopped after {limit / 1e9:,.1f} GB of unpacked data from {source.consumed:,} bytes "
            "(--max-unpacked raises the limit)."
        )
    return total > limit


def _unpack_zstd(source: Source) -> Iterator[bytes]:
    """Unpack a zstd stream; what was unpacked before a fault is kept."""
    import pyarrow as pa

    total = 0
    pieces: list[bytes] = []
    try:
        with pa.CompressedInputStream(pa.PythonFile(cast("Any", _Stored(source)), "r"), "zstd") as stream:
            while out := stream.read(PIECE):
                total += len(out)
                if _is_too_much(source, total):
                    return
                pieces.append(out)
                if len(pieces) * PIECE >= BLOCK:
                    yield b"".join(pieces)
                    pieces.clear()
    except OSError as error:
        source.fault = f"The zstd stream is damaged near byte {source.consumed:,} ({error})."
    if pieces:
        yield b"".join(pieces)


def first_unpacked(data: bytes, size: int) -> bytes:
    """At most ``size`` bytes from the beginning of a zstd stream, which may break off; b"" if it is none."""
    import pyarrow as pa

    found = b""
    try:
        with pa.CompressedInputStream(pa.BufferReader(data), "zstd") as stream:
            while len(found) < size and (more := stream.read(1 << 12)):
                found += more
    except OSError:
        pass  # it breaks off, or is none
    return found[:size]


class _Stored:
    """The bytes of a source as stored, as a file that Arrow reads."""

    closed = False

    def __init__(self, source: Source) -> None:
        self.read = source.read

    def close(self) -> None:
        """Nothing: who opened the source closes it."""
