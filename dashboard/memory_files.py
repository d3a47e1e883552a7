"""Files of memory alone: snapshots of the CUDA allocator and torch's memory timelines, opened beside the traces."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from profsuite.dashboard.background import Background
from profsuite.trace.memory_timeline import memory_kind

if TYPE_CHECKING:
    from profsuite.analyzers.memory.model import MemoryReport
    from profsuite.dashboard.catalog import Entry
    from profsuite.trace.snapshot import Snapshot

MemoryKind = Literal["snapshot", "timeline"]
ENDINGS: Final = (".pickle", ".pkl", ".raw.json.gz")
DEEPEST: Final = 3
"""Folders below a root."""
MOST: Final = 500
KEPT: Final = 4
TOP: Final = 50


@dataclass(frozen=True, slots=True)
class MemoryFile:
    """What a file says of memory; ``snapshot`` is null where it is a timeline."""

    report: MemoryReport
    snapshot: Snapshot | None


def find_memory_files(root: Path) -> Iterator[tuple[Path, MemoryKind]]:
    """The snapshots and timelines that a file is, or that lie in a folder and those below it; links are passed over."""
    if root.is_file():
        kind = memory_kind(root)
        if kind is not None:
            yield root, "snapshot" if kind == "snapshot" else "timeline"
        return
    found = 0
    for folder, below, names in os.walk(root):
        place = Path(folder)
        if len(place.relative_to(root).parts) >= DEEPEST:
            below.clear()
        below[:] = sorted(name for name in below if not name.startswith("."))
        for name in sorted(names):
            path = place / name
            if not name.endswith(ENDINGS) or path.is_symlink() or (kind := memory_kind(path)) is None:
                continue
            yield path, "snapshot" if kind == "snapshot" else "timeline"
            found += 1
            if found >= MOST:
                return


class MemoryFiles:
    """The files that were opened, the last few of them."""

    def __init__(self, kept: int = KEPT) -> None:
        self._kept = kept
        self._loads: OrderedDict[tuple[str, int], Background[MemoryFile]] = OrderedDict()
        self._lock = threading.Lock()

    def start(self, entry: Entry) -> Background[MemoryFile]:
        """The file, read in the background if it is not there yet (again, if it changed, failed or was given up)."""
        try:
            key = entry.key, entry.path.stat().st_mtime_ns
        except OSError:
            key = entry.key, 0
        with self._lock:
            found = self._loads.get(key)
            if found is None or found.state in ("failed", "cancelled"):
                found = self._loads[key] = Background(lambda _progress: _read(entry)).start()
                while len(self._loads) > self._kept:
                    self._loads.popitem(last=False)[1].cancel()
            self._loads.move_to_end(key)
            return found


def _read(entry: Entry) -> MemoryFile:
    from msgspec.structs import replace

    from profsuite.analyzers.findings import memory_findings
    from profsuite.analyzers.memory.snapshot import snapshot_memory
    from profsuite.analyzers.memory.timeline import timeline_memory
    from profsuite.trace.memory_timeline import read_memory_timeline
    from profsuite.trace.readers.snapshot import read_snapshot

    snapshot = None
    if entry.kind == "snapshot":
        snapshot = read_snapshot(entry.path)
        report = snapshot_memory(snapshot, TOP)
    else:
        report = timeline_memory(read_memory_timeline(entry.path))
    return MemoryFile(replace(report, findings=memory_findings(report)), snapshot)
