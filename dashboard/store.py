"""Loaded traces: each is read once, in the background, and shared by all who look at it."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from functools import cached_property
from itertools import count
from typing import TYPE_CHECKING, Final

from profsuite.analyzers.analysis import Analysis
from profsuite.analyzers.diff.report import DiffReport, diff
from profsuite.analyzers.job.report import JobReport, analyze_summaries
from profsuite.analyzers.job.run import examine_all, summaries_of
from profsuite.analyzers.report import Report, report_of
from profsuite.dashboard.background import Background, Progress
from profsuite.dashboard.counters import Series, all_series
from profsuite.dashboard.tiles import Pyramid
from profsuite.errors import TraceError
from profsuite.trace.load import RankFile, load
from profsuite.trace.store import MANIFEST, is_run_folder

if TYPE_CHECKING:
    from profsuite.dashboard.catalog import Entry
    from profsuite.trace.model import Trace

Version = tuple[int, int]
KEPT: Final = 8
"""Traces kept in memory; the one unused for longest goes first."""
TOP: Final = 50
"""Rows of the report's lists."""

_NUMBERS = count()


class Session:
    """A loaded trace and what was computed of it, each part when it is first asked for and once."""

    def __init__(self, entry: Entry, trace: Trace) -> None:
        self.entry = entry
        self.trace = trace
        self.number = next(_NUMBERS)
        self._lock = threading.RLock()
        self._drawing = threading.RLock()

    def warm(self) -> None:
        """Compute what the first pages ask for: the timeline, which is quick, then the report."""
        _ = self.main_track, self.pyramid
        _ = self.report

    @property
    def report(self) -> Report:
        """The whole report."""
        with self._lock:
            return self._report

    @property
    def analysis(self) -> Analysis:
        """What the report was made of, for what goes beyond it."""
        with self._lock:
            _ = self._report
            return self._analysis

    @property
    def main_track(self) -> int | None:
        """The track of the host's main thread, null without one."""
        if "_main_track" in vars(self):  # the timeline does not wait for the report
            return self._main_track
        with self._lock:
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

    @cached_property
    def _analysis(self) -> Analysis:
        return Analysis(self.trace, top=TOP)

    @cached_property
    def _report(self) -> Report:
        return report_of(self._analysis)

    @cached_property
    def _main_track(self) -> int | None:
        threads = self._analysis.host.threads
        return threads[0].track_id if threads else None

    @cached_property
    def _pyramid(self) -> Pyramid:
        return Pyramid(self.trace)

    @cached_property
    def _series(self) -> tuple[Series, ...]:
        return tuple(all_series(self.trace))


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
        return Background(lambda progress: Session(entry, load(entry.path, progress=progress))).start()

    def peek(self, key: str) -> Background[Session] | None:
        """The trace as it is, without starting anything."""
        with self._lock:
            return self._loads.get(key)

    def session(self, entry: Entry, seconds: float = 600) -> Session:
        """The loaded trace; waits for it.  ``ProfsuiteError`` where it cannot be read."""
        return self.start(entry).wait(seconds)

    def cancel(self, key: str) -> None:
        """Give up reading a trace, and the jobs that it belongs to."""
        with self._lock:
            for work in (self._loads.get(key), *(job for keys, job in self._jobs.items() if key in keys)):
                if work is not None and work.state == "loading":
                    work.cancel()

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
    outcomes = examine_all(files, only=(), done=progress)
    for outcome in outcomes:
        if outcome.error is not None:
            raise TraceError(outcome.error)
    summaries = summaries_of(outcomes)
    if summaries is None:
        raise TraceError("these are not the ranks of one job (two or more, each once)")
    return analyze_summaries(summaries)
