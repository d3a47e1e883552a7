"""Traces read before, kept as run folders in the user's cache; never required, never trusted blindly."""

from __future__ import annotations

import hashlib
import math
import os
import shutil
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

from profsuite.errors import TraceError
from profsuite.trace import spill
from profsuite.trace.cache_folder import cache_folder
from profsuite.trace.model import Trace
from profsuite.trace.schema import SCHEMA_VERSION
from profsuite.trace.store import MANIFEST, open_folder, save

MIN_BYTES = 32_000_000
"""Smaller traces are read from their file faster than they are looked up."""

DEFAULT_LIMIT_GB = 10.0

_THREAD = "profsuite-cache"


def folder_for(key: tuple[Any, ...]) -> Path:
    """The folder of the content that ``key`` (path, size, modification time) identifies."""
    digest = hashlib.sha256(repr((SCHEMA_VERSION, key)).encode()).hexdigest()[:32]
    return cache_folder() / digest


def find(key: tuple[Any, ...] | None) -> Trace | None:
    """The cached trace, None if there is none or it cannot be used (then it is removed)."""
    if key is None:
        return None
    folder = folder_for(key)
    if not (folder / MANIFEST).is_file():
        return None
    try:
        trace = open_folder(folder)
    except TraceError:
        shutil.rmtree(folder, ignore_errors=True)
        return None
    touch(folder)
    return trace


def keep(trace: Trace, key: tuple[Any, ...] | None) -> threading.Thread | None:
    """Write the cache in a thread of its own, so that nobody waits for it; failures are silent.

    Returns the thread (not a daemon: the interpreter ends after it), None where nothing is to be kept.
    """
    if key is None or trace.info.num_bytes < MIN_BYTES:
        return None

    folder = folder_for(key)

    def work() -> None:
        try:
            folder.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            save(trace, folder)
            prune()
        except (OSError, TraceError):
            pass  # a full or read-only disk: the next run reads the file again

    thread = threading.Thread(target=work, name=_THREAD)
    thread.start()
    return thread


def settle() -> None:
    """Wait until all that was to be kept is written, and its traces are free to go."""
    for thread in threading.enumerate():
        if thread.name == _THREAD:
            thread.join()


def touch(folder: Path) -> None:
    """Say that an entry was used: the least recently used go first."""
    with suppress(OSError):
        os.utime(folder)


def prune(limit_bytes: int | None = None) -> None:
    """Remove what was used longest ago until the cache is below its limit ($PROFSUITE_CACHE_GB, default 10)."""
    if limit_bytes is None:
        limit_bytes = int(_limit_gb() * 1e9)
    entries = []
    for folder in _entries():
        try:
            size = sum(file.stat().st_size for file in folder.iterdir())
            entries.append((folder.stat().st_mtime, size, folder))
        except OSError:
            continue
    total = sum(size for _, size, _ in entries)
    for _, size, folder in sorted(entries):
        if total <= limit_bytes:
            break
        shutil.rmtree(folder, ignore_errors=True)
        total -= size


def used_bytes() -> int:
    """Bytes that the cache holds."""
    total = 0
    for folder in _entries():
        try:
            total += sum(file.stat().st_size for file in folder.iterdir())
        except OSError:
            continue
    return total


def _limit_gb() -> float:
    try:
        limit = float(os.environ.get("PROFSUITE_CACHE_GB", DEFAULT_LIMIT_GB))
    except ValueError:
        return DEFAULT_LIMIT_GB
    return limit if math.isfinite(limit) else DEFAULT_LIMIT_GB


def _entries() -> list[Path]:
    """Run folders, and what ``spill`` streamed; not what is still being written."""
    manifests = (MANIFEST, spill.MANIFEST)
    try:
        return [
            entry
            for entry in cache_folder().iterdir()
            if not entry.name.startswith(".") and any((entry / name).is_file() for name in manifests)
        ]
    except OSError:
        return []
