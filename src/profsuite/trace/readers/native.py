"""The C scanner as a reader: one file, a stream of bytes, or one file over several threads."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from profsuite.errors import TraceError
from profsuite.trace.readers.fields import ARGS, GROUPS, POOLS
from profsuite.trace.readers.raw import RawTrace, Remark, not_a_trace, remark_message

if TYPE_CHECKING:
    from numpy.typing import NDArray

try:
    from profsuite.trace import _scanner
except ImportError as error:  # no compiler when profsuite was installed
    _scanner = None  # type: ignore[assignment]
    MISSING: str | None = str(error)
else:
    MISSING = None
"""Why the C scanner cannot be used, None if it can."""

_KIND = {"time": 0, "int": 1, "grid": 1, "float": 2, "bool": 3, "row": 4, "track": 5, "phase": 6, "text": 7, "json": 7}
_DTYPE = (np.int64, np.int64, np.float64, np.int8, np.int32, np.int32, np.int8, np.int32)
_REMARKS = (
    "repaired", "dropped", "truncated", "negative_duration", "missing_duration", "trailing_data", "unsupported",
    "dropped",
)  # fmt: skip


def _columns(group: str) -> list[tuple[str, int, str]]:
    """The columns of a group with grids spread out: (name, kind number, pool)."""
    columns = []
    for name, kind, pool in GROUPS[group]:
        names = [f"{name}_x", f"{name}_y", f"{name}_z"] if kind == "grid" else [name]
        columns += [(n, _KIND[kind], pool) for n in names]
    return columns


COLUMNS = {group: _columns(group) for group in GROUPS}
GROUP_SPEC = tuple(
    tuple((kind, POOLS.index(pool) if pool else 0) for _, kind, pool in columns) for columns in COLUMNS.values()
)


def _arg_spec() -> tuple[tuple[bytes, int, int, bool, bool], ...]:
    spec = []
    for key, group, field, trigger in (*ARGS, ("Ev Idx", "memory", "event_index", False)):
        kind = next(kind for name, kind, _ in GROUPS[group] if name == field)
        first = f"{field}_x" if kind == "grid" else field
        column = [name for name, _, _ in COLUMNS[group]].index(first)
        spec.append((key.encode(), list(GROUPS).index(group), column, trigger, kind == "grid"))
    return tuple(spec)


ARG_SPEC = _arg_spec()

Columns = dict[str, dict[str, "NDArray[Any]"]]


def new_scanner() -> Any:
    """A C scanner set up for ``fields.GROUPS`` and ``fields.ARGS``."""
    return _scanner.Scanner(GROUP_SPEC, len(POOLS), ARG_SPEC)


def take(scanner: Any) -> Columns:
    """The rows since the last take as numpy arrays (no copy)."""
    taken: Columns = {}
    for (group, columns), buffers in zip(COLUMNS.items(), scanner.take(), strict=True):
        taken[group] = {
            name: np.frombuffer(buffer, _DTYPE[kind]) for (name, kind, _), buffer in zip(columns, buffers, strict=True)
        }
    return taken


def strings(scanner: Any, pool: int, start: int = 0) -> list[str]:
    """A pool's strings from number ``start`` on."""
    return [text.decode() for text in _texts(scanner, pool, start)]


def _texts(scanner: Any, pool: int, start: int) -> list[bytes]:
    offsets, data = scanner.strings(pool, start)
    return [data[a:b] for a, b in pairwise(np.frombuffer(offsets, np.int64).tolist())]


def _pool_array(scanner: Any, pool: int) -> pa.StringArray | None:
    """A pool as Arrow without a copy of each string; None where they pass 2 GB."""
    offsets, data = scanner.strings(pool, 0)
    bounds = np.frombuffer(offsets, np.int64)
    if bounds[-1] > 2**31 - 1:
        return None
    starts: Any = bounds.astype(np.int32)
    return pa.StringArray.from_buffers(len(starts) - 1, pa.py_buffer(starts), pa.py_buffer(data))


def tracks(scanner: Any) -> list[tuple[str, str]]:
    """(pid, tid) of every track."""
    pairs = []
    for text in _texts(scanner, -1, 0):
        pid, _, tid = text.partition(b"\xff")
        pairs.append((pid.decode(), tid.decode()))
    return pairs


def header(scanner: Any) -> list[tuple[str, str]]:
    """The top-level members as text."""
    return [(key.decode("utf-8", "replace"), value.decode("utf-8", "replace")) for key, value in scanner.header()]


def remarks(scanners: list[Any]) -> list[Remark]:
    """The remarks of scanners that read one file's parts in order."""
    counts: dict[str, int] = {}
    first: dict[str, int] = {}
    phases: dict[str, int] = {}
    for scanner in scanners:
        found, unsupported = scanner.remarks()
        for kind, (count, offset) in zip(_REMARKS, found, strict=True):
            if count:
                counts[kind] = counts.get(kind, 0) + count
                first[kind] = min(first.get(kind, offset), offset)
        for code, count in unsupported.items():
            phases[chr(code)] = phases.get(chr(code), 0) + count
    order = sorted(counts, key=lambda kind: (first[kind], kind))
    return [Remark(kind, counts[kind], first[kind], remark_message(kind, counts[kind], phases)) for kind in order]


def _unite(parts: list[list[Any]]) -> tuple[list[Any], list[NDArray[np.int32] | None]]:
    """Several numberings as one: all words, and a table of new numbers a part (None: unchanged)."""
    numbers: dict[Any, int] = {}
    tables: list[NDArray[np.int32] | None] = []
    for words in parts:
        table = np.array([numbers.setdefault(word, len(numbers)) for word in words], np.int32)
        tables.append(None if bool((table == np.arange(len(words))).all()) else table)
    return list(numbers), tables


def collect(scanners: list[Any]) -> RawTrace:
    """The raw trace of scanners that read one file's parts in order; empties them.

    ``TraceError`` if the file is no trace.
    """
    check(scanners[0])
    pools: dict[str, pa.StringArray] = {}
    tables: list[list[NDArray[np.int32] | None]] = []
    for number, pool in enumerate(POOLS):
        array = _pool_array(scanners[0], number) if len(scanners) == 1 else None
        if array is None:
            words, renumber = _unite([strings(s, number) for s in scanners])
            array = pa.array(words, pa.string())
        else:
            renumber = [None]
        pools[pool] = array
        tables.append(renumber)
    pairs, renumber = _unite([tracks(s) for s in scanners])
    tables.append(renumber)
    for i, scanner in enumerate(scanners[1:], 1):
        scanners[0].absorb(scanner, tuple(table[i] for table in tables))
    return RawTrace(
        groups=take(scanners[0]),
        pools=pools,
        tracks=pairs,
        header=[item for s in scanners for item in header(s)],
        num_events=sum(s.num_events for s in scanners),
        num_bytes=scanners[-1].num_bytes,
        remarks=remarks(scanners),
    )


class Scanner:
    """The C scanner behind the interface of ``fallback.Scanner``."""

    def __init__(self) -> None:
        self._scanner = new_scanner()
        self._given = dict.fromkeys(POOLS, 0)

    def feed(self, data: bytes | memoryview) -> None:
        """Read the next bytes."""
        self._scanner.feed(data)

    def finish(self) -> None:
        """The input has ended; ``TraceError`` if it was no trace."""
        self._scanner.finish()
        check(self._scanner)

    def take(self) -> Columns:
        """The raw columns since the last call."""
        return take(self._scanner)

    def new_strings(self, pool: str) -> list[str]:
        """What a pool gained since the last call."""
        words = strings(self._scanner, POOLS.index(pool), self._given[pool])
        self._given[pool] += len(words)
        return words

    @property
    def num_rows(self) -> int:
        """Slices not yet taken."""
        return int(self._scanner.num_rows)

    @property
    def num_events(self) -> int:
        """Events met."""
        return int(self._scanner.num_events)

    @property
    def num_bytes(self) -> int:
        """Bytes received."""
        return int(self._scanner.num_bytes)

    @property
    def tracks(self) -> list[tuple[str, str]]:
        """(pid, tid) of every track as text, "" where absent."""
        return tracks(self._scanner)

    @property
    def header(self) -> list[tuple[str, str]]:
        """The top-level members."""
        return header(self._scanner)

    @property
    def remarks(self) -> list[Remark]:
        """The remarks so far."""
        return remarks([self._scanner])


def check(scanner: Any) -> None:
    """``TraceError`` if what was read is no trace."""
    if scanner.error or not scanner.events_seen:
        raise TraceError(not_a_trace(scanner.error or "no events"))


def read_chunks(chunks: Iterable[bytes]) -> RawTrace:
    """Read a whole trace from blocks of bytes; ``TraceError`` if it is none."""
    scanner = new_scanner()
    for chunk in chunks:
        scanner.feed(chunk)
    scanner.finish()
    return collect([scanner])


_WHOLE = 2**62
_SMALL = 8 << 20
"""Below this size one thread reads the file."""


def read_file(path: str, threads: int, progress: Callable[[int], None]) -> RawTrace:
    """Read a plain file; each thread takes one stretch of it.

    A stretch after the first begins at the first place that looks like an event.  Whether that guess was
    right is known when the stretch before it has been read: it must stop at the very same byte.  Where it
    does not, the earlier scanner reads on through that stretch, so the result never depends on the guess.
    """
    size = Path(path).stat().st_size
    with _opened(path) as fd:
        head = new_scanner()
        if threads > 1 and size >= _SMALL:
            while not head.in_events and not head.read(fd, _WHOLE, head.num_bytes + 1):
                if head.num_bytes > 64 << 20:
                    break
        if not head.in_events:
            head.read(fd, _WHOLE, -1)
            return collect([head])
        start = head.position
        bounds = [start + (size - start) * i // threads for i in range(threads)] + [-1]
        head.resume(bounds[1])
        scanners = [head]
        for low, high in pairwise(bounds[1:]):
            scanners.append(new_scanner())
            scanners[-1].start_at(low, high, head.array_form, True)
        _run(scanners, path, progress, bounds)
        chain = [head]
        for i in range(1, threads):
            last = chain[-1]
            if last.stopped < 0:  # the events ended before this stretch
                break
            if last.clean_stop and last.stopped == scanners[i].started:
                chain.append(scanners[i])
            else:
                last.resume(bounds[i + 1])
                last.read(fd, _WHOLE, -1)
        return collect(chain)


class _opened:  # noqa: N801 - a context manager that reads as a word
    """A file descriptor for reading."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __enter__(self) -> int:
        self.fd = os.open(self.path, os.O_RDONLY | getattr(os, "O_BINARY", 0))
        return self.fd

    def __exit__(self, *_: object) -> None:
        os.close(self.fd)


def _run(scanners: list[Any], path: str, progress: Callable[[int], None], bounds: list[int]) -> None:
    """Let every scanner read its stretch in a thread of its own; the first error is raised."""
    errors: list[BaseException] = []

    def work(scanner: Any) -> None:
        try:
            with _opened(path) as fd:
                # in blocks, so that an interrupt ends the others too
                while not errors and not scanner.read(fd, _WHOLE, scanner.num_bytes + (64 << 20)):
                    pass
        except BaseException as error:
            errors.append(error)

    workers = [threading.Thread(target=work, args=(s,), name="profsuite-scan") for s in scanners]
    for worker in workers:
        worker.start()
    try:
        for worker in workers:
            while worker.is_alive():
                worker.join(0.1)
                progress(sum(max(0, s.position - low) for s, low in zip(scanners, [0, *bounds[1:-1]], strict=True)))
    except BaseException as error:
        errors.append(error)
        for worker in workers:
            worker.join()
        raise
    if errors:
        raise errors[0]
