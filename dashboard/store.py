"""Loaded traces: each is read once, in a thread of its own, and shared by all who look at it."""

from __future__ import annotations

import threading
from collections import OrderedDict
from functools import cached_property
from typing import TYPE_CHECKING, Final, Literal

from profsuite.analyzers.analysis import Analysis
from profsuite.analyzers.report import Report, report_of
from profsuite.dashboard.counters import Series, all_series
from profsuite.dashboard.tiles import Pyramid
from profsuite.errors import ProfsuiteError
from profsuite.trace.load import load

if TYPE_CHECKING:
    from profsuite.dashboard.catalog import Entry
    from profsuite.trace.model import Trace

KEPT: Final = 8
"""Traces kept in memory; the one unused for longest goes first."""
TOP: Final = 50
"""Rows of the report's lists."""

State = Literal["loading", "ready", "failed", "cancelled"]


class Cancelled(Exception):  # noqa: N818 - not an error
    """The reading was given up."""


class Session:
    """A loaded trace and what was computed of it, each part when it is first asked for and once."""

    def __init__(self, entry: Entry, trace: Trace) -> None:
        self.entry = entry
        self.trace = trace
        self._lock = threading.RLock()

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
        with self._lock:
            threads = self._analysis.host.threads
            return threads[0].track_id if threads else None

    @property
    def pyramid(self) -> Pyramid:
        """The timeline at all zooms."""
        with self._lock:
            return self._pyramid

    @property
    def series(self) -> tuple[Series, ...]:
        """The counters."""
        with self._lock:
            return self._series

    @cached_property
    def _analysis(self) -> Analysis:
        return Analysis(self.trace, top=TOP)

    @cached_property
    def _report(self) -> Report:
        return report_of(self._analysis)

    @cached_property
    def _pyramid(self) -> Pyramid:
        return Pyramid(self.trace)

    @cached_property
    def _series(self) -> tuple[Series, ...]:
        return tuple(all_series(self.trace))


class Loading:
    """A trace on its way: ``done_bytes`` of ``total_bytes`` (null where unknown) are read."""

    def __init__(self, entry: Entry) -> None:
        self.entry = entry
        self.state: State = "loading"
        self.done_bytes = 0
        self.total_bytes: int | None = None
        self.error: str | None = None
        self.session: Session | None = None
        self.finished = threading.Event()
        self._cancelled = threading.Event()

    def cancel(self) -> None:
        """Give up reading."""
        self._cancelled.set()

    def run(self) -> None:
        """Read the trace; whatever goes wrong is kept as a line to show."""
        try:
            trace = load(self.entry.path, progress=self._progress)
            self.session = Session(self.entry, trace)
            self.state = "ready"
        except Cancelled:
            self.state = "cancelled"
        except ProfsuiteError as error:
            self.state, self.error = "failed", str(error)
        except Exception as error:  # the page shows it; the server goes on
            self.state, self.error = "failed", f"{type(error).__name__}: {error}"
        finally:
            self.finished.set()

    def _progress(self, done: int, total: int | None) -> None:
        self.done_bytes, self.total_bytes = done, total
        if self._cancelled.is_set():
            raise Cancelled


class Store:
    """The traces in memory."""

    def __init__(self, kept: int = KEPT) -> None:
        self._kept = kept
        self._loads: OrderedDict[str, Loading] = OrderedDict()
        self._lock = threading.Lock()

    def start(self, entry: Entry) -> Loading:
        """The trace, read in the background if it is not there yet (again, if that failed or was cancelled)."""
        with self._lock:
            found = self._loads.get(entry.key)
            if found is None or found.state in ("failed", "cancelled"):
                found = self._loads[entry.key] = Loading(entry)
                threading.Thread(target=found.run, name="profsuite-load", daemon=True).start()
                while len(self._loads) > self._kept:
                    _, oldest = self._loads.popitem(last=False)
                    oldest.cancel()
            self._loads.move_to_end(entry.key)
            return found

    def peek(self, key: str) -> Loading | None:
        """The trace as it is, without starting anything."""
        with self._lock:
            return self._loads.get(key)

    def session(self, entry: Entry, seconds: float = 600) -> Session:
        """The loaded trace; waits for it.  ``ProfsuiteError`` where it cannot be read."""
        found = self.start(entry)
        found.finished.wait(seconds)
        if found.session is None:
            raise ProfsuiteError(found.error or f"{entry.name}: is still being read")
        return found.session
