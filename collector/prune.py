"""Old builds in the user's cache: each new source, torch, Python or compiler leaves the builds of before behind.

A build is in use as long as somebody loads it: ``mark_used`` sets its time, ``prune`` removes what nobody has loaded
for ``UNUSED_DAYS``.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

UNUSED_DAYS: Final = 30
_BUILD: Final = re.compile(r"((?:recorder|extract|cupti_engine)-.+?)\.(?:so|failed|lock)(?:\.\d+)?")
"""A file of a build, or what a compiler that was killed left of one, and the build's name."""


def mark_used(build: Path) -> None:
    """Note that a build was loaded now; a cache of somebody else's stays as it is."""
    with suppress(OSError):
        os.utime(build)


def prune(folder: Path, keep: Path) -> list[Path]:
    """Remove the builds in ``folder`` that were not used for ``UNUSED_DAYS``, except ``keep``; what was removed.

    Other files are left alone, and so is a build that is under way.  Raises nothing.
    """
    builds: dict[str, list[Path]] = {}
    with suppress(OSError):
        for file in folder.iterdir():
            if match := _BUILD.fullmatch(file.name):
                builds.setdefault(match[1], []).append(file)
    builds.pop(keep.stem, None)
    oldest = time.time() - UNUSED_DAYS * 86_400
    removed = []
    for files in builds.values():
        if _last_used(files) < oldest and not any(_locked(file) for file in files if file.suffix == ".lock"):
            for file in files:
                with suppress(OSError):
                    file.unlink()
                    removed.append(file)
    return removed


def _last_used(files: Iterable[Path]) -> float:
    times = [0.0]
    for file in files:
        with suppress(OSError):
            times.append(file.stat().st_mtime)
    return max(times)


def _locked(file: Path) -> bool:
    """Whether a process holds the lock of a build."""
    import fcntl

    try:
        with file.open("rb") as opened:
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    return False
