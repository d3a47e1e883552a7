"""The traces that the dashboard may show: those below the given roots, by a name that says nothing of other paths."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from profsuite.errors import TraceError
from profsuite.trace.load import find_ranks
from profsuite.trace.store import is_run_folder

MOST_EVENT_FILES: Final = 16


@dataclass(frozen=True, slots=True)
class Entry:
    """One trace: its ``key`` in addresses, its file, its name below the root, its rank where known, and its job.

    ``job`` is shared by the ranks of one folder.  ``beside`` is the folder that it lies in, null where only the file
    itself is to be shown.
    """

    key: str
    path: Path
    name: str
    rank: int | None
    job: str
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
    """The traces below some roots (files or folders); ``TraceError`` where a root does not exist or holds none."""

    def __init__(self, roots: list[Path]) -> None:
        self.roots = [root.resolve() for root in roots]
        self.entries: dict[str, Entry] = {}
        self.refresh()
        if not self.entries:
            raise TraceError(f"{', '.join(map(str, roots))}: no trace there (.json, .json.gz, or a run folder)")

    def refresh(self) -> None:
        """Look again: what a running job writes shows up."""
        found: dict[str, Entry] = {}
        for root in self.roots:
            base = root if root.is_dir() else root.parent
            try:
                files = find_ranks(root)
            except TraceError:
                if not self.entries:
                    raise
                continue  # what was there is gone; the rest is still shown
            for file in files:
                path = Path(file.path).resolve()
                if not path.is_relative_to(base):  # a link that leads out
                    continue
                name = str(path.relative_to(base)) if path != base else path.name
                key = hashlib.sha256(str(path).encode("utf-8", "surrogateescape")).hexdigest()[:16]
                beside = path.parent if path != base and root.is_dir() and not is_run_folder(root) else None
                found[key] = Entry(key, path, name, file.rank, str(path.parent), beside)
        self.entries = found

    def ordered(self) -> list[Entry]:
        """All traces by job and rank; an address without a trace shows the first."""
        return sorted(
            self.entries.values(), key=lambda each: (each.job, -1 if each.rank is None else each.rank, each.name)
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
