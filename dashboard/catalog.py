"""The traces that the dashboard may show: those below the given roots, by a name that says nothing of other paths."""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal

from profsuite.dashboard.memory_files import find_memory_files
from profsuite.errors import TraceError
from profsuite.trace.load import find_ranks
from profsuite.trace.store import is_run_folder

MOST_EVENT_FILES: Final = 16


@dataclass(frozen=True, slots=True)
class Entry:
    """One trace: its ``key`` in addresses, its file, its name below the root, its rank where known, and its job.

    ``job`` is shared by the ranks of one folder.  ``kind`` tells traces from files of memory alone.  ``beside`` is the
    folder that it lies in, null where only the file itself is to be shown.
    """

    key: str
    path: Path
    name: str
    rank: int | None
    job: str
    kind: Literal["trace", "snapshot", "timeline"] = "trace"
    beside: Path | None = None

    def event_files(self) -> list[Path]:
        """TensorBoard's event files beside the trace, the last ``MOST_EVENT_FILES`` by name, which says when."""
        if self.beside is None:
            return []
        try:
            found = [path for path in self.beside.glob("*.tfevents.*") if path.is_file() and not path.is_symlink()]
        except OSError:
            return []
        return sorted(found)[-MOST_EVENT_FILES:]


class Catalog:
    """The traces and memory files below some roots (files or folders).

    ``TraceError`` where a root does not exist or holds none.
    """

    def __init__(self, roots: list[Path]) -> None:
        for root in roots:
            if not root.exists():
                raise TraceError(f"{root}: no such file or folder")
        self.roots = [root.resolve() for root in roots]
        self.entries: dict[str, Entry] = {}
        self.refresh()
        if not self.entries:
            raise TraceError(
                f"{', '.join(map(str, roots))}: no trace there (.json, .json.gz, a run folder, a memory snapshot)"
            )

    def refresh(self) -> None:
        """Look again: what a running job writes shows up."""
        found: dict[str, Entry] = {}
        for root in self.roots:
            base = root if root.is_dir() else root.parent
            memory = list(find_memory_files(root))
            try:
                files = [] if root.is_file() and memory else find_ranks(root)
            except TraceError:
                if not self.entries and not memory:
                    raise
                files = []  # what was there is gone, or never was; the rest is still shown
            entries = [Entry("", Path(file.path), "", file.rank, "") for file in files]
            entries += [Entry("", path, "", None, "", kind) for path, kind in memory]
            for entry in entries:
                path = entry.path.resolve()
                if not path.is_relative_to(base):  # a link that leads out
                    continue
                name = str(path.relative_to(base)) if path != base else path.name
                key = hashlib.sha256(str(path).encode("utf-8", "surrogateescape")).hexdigest()[:16]
                beside = path.parent if path != base and root.is_dir() and not is_run_folder(root) else None
                found[key] = replace(entry, key=key, path=path, name=name, job=str(path.parent), beside=beside)
        self.entries = _told_apart(found)

    def ordered(self) -> list[Entry]:
        """All by job and rank, traces first; an address without a trace shows the first."""
        return sorted(
            self.entries.values(),
            key=lambda each: (each.kind != "trace", each.job, -1 if each.rank is None else each.rank, each.name),
        )

    def get(self, key: str) -> Entry:
        """The trace of a key; ``KeyError`` if there is none."""
        return self.entries[key]

    def job(self, entry: Entry) -> list[Entry]:
        """The ranks of a trace's job, by rank; the trace alone where ranks do not tell them apart."""
        ranks = [each for each in self.entries.values() if each.job == entry.job and each.rank is not None]
        if len(ranks) < 2 or entry.rank is None or len({each.rank for each in ranks}) < len(ranks):
            return [entry]
        return sorted(ranks, key=lambda each: each.rank or 0)


def _told_apart(entries: dict[str, Entry]) -> dict[str, Entry]:
    """Entries of several roots whose names are the same get as many of the folders above them as tell them apart."""
    alike = Counter(entry.name for entry in entries.values())
    longer = {}
    for key, entry in entries.items():
        parts, depth = entry.path.parts, len(Path(entry.name).parts)
        if alike[entry.name] > 1 and depth < len(parts):
            longer[key] = replace(entry, name=str(Path(*parts[-depth - 1 :])))
    return _told_apart(entries | longer) if longer else entries
