"""Loaded traces: each is read once, in the background, and shared by all who look at it."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from contextlib import suppress
from functools import cached_property
from itertools import count
from typing import TYPE_CHECKING, Final

import numpy as np

from profsuite.dashboard.background import Background, Progress
from profsuite.dashboard.examine import BRIEF, MANY_SLICES, TOP, examine, folder_of
from profsuite.dashboard.memory import give_back
from profsuite.errors import ProfsuiteError, TraceError
from profsuite.trace.cache import settle
from profsuite.trace.load import RankFile, load
from profsuite.trace.store import MANIFEST, is_run_folder

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from profsuite.analyzers.analysis import Analysis
    from profsuite.analyzers.diff.report import DiffReport
    from profsuite.analyzers.job.report import JobReport
    from profsuite.analyzers.report import Report
    from profsuite.analyzers.whatif.graph import Graph
    from profsuite.dashboard.catalog import Entry
    from profsuite.dashboard.counters import Series
    from profsuite.dashboard.tiles import Pyramid
    from profsuite.trace.model import Trace

# What is read at the start must not wait for the analyzers' import: functions import them.

Version = tuple[int, int]
KEPT: Final = 8
"""Traces kept in memory; the one unused for longest goes first."""
PATIENCE_S: Final = 600

_NUMBERS = count()


class Session:
    """A loaded trace and what was computed of it, each part when it is first asked for and once."""

    def __init__(self, entry: Entry, trace: Trace) -> None:
        self.entry = entry
        self.trace = trace
        self.number = next(_NUMBERS)
        self._lock = threading.RLock()
        self._drawing = threading.RLock()
        self._briefing = threading.RLock()
        self._replaying = threading.RLock()

    def begin(self) -> None:
        """Compute what the first pages ask for: timeline, report, and meanwhile the part of it that is quick."""
        threading.Thread(target=lambda: self.pyramid, name="profsuite-timeline", daemon=True).start()
        if self.examined.state != "ready":
            threading.Thread(target=self._brief_ahead, name="profsuite-brief", daemon=True).start()

    def _brief_ahead(self) -> None:
        """Compute the quick part; what cannot be analysed is said by the page that asks for it."""
        with suppress(ProfsuiteError):
            _ = self.brief

    @property
    def examined(self) -> Background[Report]:
        """The whole report, or how its making goes."""
        with self._lock:
            return self._examined

    @property
    def report(self) -> Report:
        """The whole report; waits for it.  ``ProfsuiteError`` where it cannot be made."""
        return self.examined.wait(PATIENCE_S)

    @property
    def brief(self) -> Report:
        """The sections ``BRIEF`` of the report, which are quick; more where the whole is there."""
        found = self.examined.result
        if found is not None:
            return found
        with self._briefing:
            return self._brief

    @property
    def analysis(self) -> Analysis:
        """What goes beyond the report begins with."""
        return self._analysis

    @property
    def graph(self) -> Graph | None:
        """What replays replay; null without host threads and device work."""
        with self._replaying:
            if "graph" not in vars(self._analysis):
                _ = self._analysis.graph
                give_back()
            return self._analysis.graph

    def cancel(self) -> None:
        """Give up making the report."""
        found = vars(self).get("_examined")
        if found is not None and found.state == "loading":
            found.cancel()

    def retry(self) -> None:
        """Begin the report again where it was given up, or failed."""
        with self._lock:
            found = vars(self).get("_examined")
            if found is not None and found.state in ("failed", "cancelled"):
                del vars(self)["_examined"]

    @property
    def main_track(self) -> int | None:
        """The track of the host's main thread, null without one."""
        with self._drawing:
            return self._main_track

    @property
    def pyramid(self) -> Pyramid:
        """The timeline at all zooms."""
        with self._drawing:
            return self._pyramid

    @property
    def series(self) -> tuple[Series, ...]:
        """The counters."""
        with self._drawing:
            return self._series

    @property
    def kinds(self) -> NDArray[np.uint8]:
        """What each slice is: its code in ``kinds.KINDS``."""
        with self._drawing:
            return self._kinds

    @cached_property
    def _kinds(self) -> NDArray[np.uint8]:
        from profsuite.dashboard.kinds import slice_kinds

        return slice_kinds(self.trace)

    @cached_property
    def _examined(self) -> Background[Report]:
        return Background(lambda go_on: examine(self.entry.path, self.trace, lambda: go_on(0, None))).start()

    @cached_property
    def _brief(self) -> Report:
        from profsuite.analyzers.report import analyze

        return analyze(self.trace, top=TOP, only=BRIEF)

    @cached_property
    def _analysis(self) -> Analysis:
        from profsuite.analyzers.analysis import Analysis

        return Analysis(self.trace, top=TOP)

    @cached_property
    def _main_track(self) -> int | None:
        from profsuite.analyzers.host import main_first

        kinds = self.trace.tracks.column("kind").to_pylist()
        hosts = [track for track, kind in enumerate(kinds) if kind == "host"]
        first = main_first(self.trace)
        sizes = np.bincount(self.trace.array("slice", "track_id"), minlength=len(kinds))
        return min(hosts, key=lambda t: (first[t], -sizes[t]), default=None)

    @cached_property
    def _pyramid(self) -> Pyramid:
        from profsuite.dashboard import kept_timeline
        from profsuite.dashboard.tiles import build

        large = self.trace.num_rows("slice") >= MANY_SLICES
        folder = folder_of(self.entry.path) if large else None
        found = None if folder is None else kept_timeline.kept(self.trace, folder)
        if found is None:
            found = build(self.trace)
            give_back()
            if folder is not None and folder != self.entry.path:
                threading.Thread(target=_keep, args=(found, folder), name="profsuite-keep", daemon=True).start()
        return found

    @cached_property
    def _series(self) -> tuple[Series, ...]:
        from profsuite.dashboard.counters import all_series

        return tuple(all_series(self.trace))


def _keep(pyramid: Pyramid, folder: Path) -> None:
    """Write a timeline beside its trace in the cache, once that is written."""
    from profsuite.dashboard.kept_timeline import keep

    settle()
    if is_run_folder(folder):
        keep(pyramid, folder)


class Store:
    """The traces in memory, and what was said of several together."""

    def __init__(self, kept: int = KEPT) -> None:
        self._kept = kept
        self._loads: OrderedDict[str, Background[Session]] = OrderedDict()
        self._versions: dict[str, Version | None] = {}
        self._newer: dict[str, Background[Session]] = {}
        self._jobs: OrderedDict[tuple[str, ...], Background[JobReport]] = OrderedDict()
        self._diffs: OrderedDict[tuple[int, int], DiffReport] = OrderedDict()
        self._lock = threading.Lock()

    def start(self, entry: Entry) -> Background[Session]:
        """The trace, read in the background if it is not there yet (again, if that failed or was cancelled).

        Where the file has changed since, it is read again, and what was read before is shown until then.
        """
        with self._lock:
            found = self._loads.get(entry.key)
            if found is None or found.state in ("failed", "cancelled"):
                found = self._loads[entry.key] = self._read(entry)
                while len(self._loads) > self._kept:
                    key, oldest = self._loads.popitem(last=False)
                    self._newer.pop(key, None)
                    oldest.cancel()
            elif found.state == "ready":
                found = self._loads[entry.key] = self._current(entry, found)
            self._loads.move_to_end(entry.key)
            return found

    def _current(self, entry: Entry, found: Background[Session]) -> Background[Session]:
        newer = self._newer.get(entry.key)
        if newer is not None:
            if newer.state == "loading":
                return found
            del self._newer[entry.key]
            # What cannot be read (a job is writing it just now) does not replace what could.
            return newer if newer.state == "ready" else found
        if version(entry) not in (None, self._versions[entry.key]):
            self._newer[entry.key] = self._read(entry)
        return found

    def _read(self, entry: Entry) -> Background[Session]:
        self._versions[entry.key] = version(entry)

        def work(progress: Progress) -> Session:
            session = Session(entry, load(entry.path, progress=progress))
            session.begin()
            return session

        return Background(work).start()

    def peek(self, key: str) -> Background[Session] | None:
        """The trace as it is, without starting anything."""
        with self._lock:
            return self._loads.get(key)

    def session(self, entry: Entry, seconds: float = PATIENCE_S) -> Session:
        """The loaded trace; waits for it.  ``ProfsuiteError`` where it cannot be read."""
        return self.start(entry).wait(seconds)

    def cancel(self, key: str) -> None:
        """Give up reading a trace, its report, and the jobs that it belongs to."""
        with self._lock:
            found = self._loads.get(key)
            for work in (found, *(job for keys, job in self._jobs.items() if key in keys)):
                if work is not None and work.state == "loading":
                    work.cancel()
        if found is not None and found.result is not None:
            found.result.cancel()

    def job(self, entries: Sequence[Entry]) -> Background[JobReport]:
        """What the ranks of a job say together, each read in turn in the background."""
        key = tuple(entry.key for entry in entries)
        with self._lock:
            found = self._jobs.get(key)
            if found is None or found.state in ("failed", "cancelled"):
                files = [RankFile(entry.rank, str(entry.path)) for entry in entries]
                found = self._jobs[key] = Background(lambda progress: _job(files, progress)).start()
                while len(self._jobs) > self._kept:
                    self._jobs.popitem(last=False)[1].cancel()
            self._jobs.move_to_end(key)
            return found

    def diff(self, before: Session, after: Session) -> DiffReport:
        """What changed between two traces."""
        from profsuite.analyzers.diff.report import diff

        key = before.number, after.number
        with self._lock:
            known = self._diffs.get(key)
        if known is None:
            known = diff(before.trace, after.trace, top=TOP)
            with self._lock:
                self._diffs[key] = known
                while len(self._diffs) > self._kept:
                    self._diffs.popitem(last=False)
        return known


def version(entry: Entry) -> Version | None:
    """What changes whenever a trace is written again: time and number of its file; null where it is not there."""
    path = entry.path / MANIFEST if is_run_folder(entry.path) else entry.path
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ino


def _job(files: list[RankFile], progress: Progress) -> JobReport:
    from profsuite.analyzers.job.report import analyze_summaries
    from profsuite.analyzers.job.run import examine_all, summaries_of

    outcomes = examine_all(files, only=(), done=progress)
    for outcome in outcomes:
        if outcome.error is not None:
            raise TraceError(outcome.error)
    summaries = summaries_of(outcomes)
    if summaries is None:
        raise TraceError("these are not the ranks of one job (two or more, each once)")
    return analyze_summaries(summaries)
