"""The traces in a folder: which of its files are some, and which rank each is of."""

from __future__ import annotations

import json
import re
import zlib
from typing import TYPE_CHECKING

from profsuite.errors import TraceError
from profsuite.trace.header import rank_in_name
from profsuite.trace.jax_log import XPLANE, preferred, rank_in_run
from profsuite.trace.source import ZSTD, first_unpacked
from profsuite.trace.store import is_run_folder, open_folder

if TYPE_CHECKING:
    from pathlib import Path

_DEPTH = 4


def traces_in(folder: Path, depth: int = 0) -> list[Path]:
    """Trace files and run folders below a folder; JSON that is no trace is passed over."""
    found: list[Path] = []
    files: list[Path] = []
    try:
        entries = sorted(folder.iterdir())
    except OSError as error:
        raise TraceError(f"{folder}: cannot be listed: {error.strerror}") from error
    for entry in entries:
        if entry.name.startswith("."):
            continue
        if entry.is_dir():
            if is_run_folder(entry):
                found.append(entry)
            elif depth < _DEPTH and not entry.is_symlink():
                found += traces_in(entry, depth + 1)
        elif entry.exists() and not entry.is_file():
            continue  # a pipe or device: reading it might wait for ever
        elif entry.name.endswith((".json", ".json.gz", ".json.zst", ".trace.gz")):
            start = _peek(entry)
            if _is_trace(start) or (_is_named_as_trace(entry.name) and _is_broken(start)):
                files.append(entry)
        elif entry.name.endswith(XPLANE):
            files.append(entry)
    return found + preferred(files)


_PEEK = 65_536


def _peek(path: Path, size: int = _PEEK) -> bytes:
    """The first bytes of a file, unpacked."""
    try:
        with path.open("rb") as stream:
            data = stream.read(size)
    except OSError:
        return b""
    if data[:2] == b"\x1f\x8b":
        try:
            return zlib.decompressobj(31).decompress(data, size)
        except zlib.error:
            return b""
    if data[:4] == ZSTD:
        return first_unpacked(data, size)
    return data


_MARKS = (b'"traceEvents"', b'"schemaVersion"', b'"deviceProperties"', b'"distributedInfo"', b'"baseTimeNanoseconds"')


def _is_trace(start: bytes) -> bool:
    text = start.removeprefix(b"\xef\xbb\xbf").lstrip()
    if text.startswith(b"["):
        return b'"ph"' in text
    return text.startswith(b"{") and any(mark in text for mark in _MARKS)


def _is_named_as_trace(name: str) -> bool:
    """Whether a name is one that only the profiler's files have: the rank in it, or its usual ending."""
    return rank_in_name(name) is not None or name.endswith((".pt.trace.json", ".pt.trace.json.gz"))


def _is_broken(start: bytes) -> bool:
    """Whether a file of these first bytes is empty, damaged or cut off, and not JSON of another kind."""
    text = start.removeprefix(b"\xef\xbb\xbf").lstrip()
    if not text.startswith((b"{", b"[")):
        return True
    if len(start) >= _PEEK:
        return False
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return True
    return False


def rank_of(path: Path) -> int | None:
    """The rank that a file's name or its header's first bytes give."""
    if (rank := rank_in_name(str(path))) is not None or (rank := rank_in_run(path)) is not None:
        return rank
    if path.is_dir():
        return open_folder(path).info.rank
    found = re.search(rb'"distributedInfo"\s*:\s*\{[^{}]*?"rank"\s*:\s*(\d{1,9})\b', _peek(path))
    return int(found[1]) if found else None
