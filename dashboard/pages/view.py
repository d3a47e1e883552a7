"""What a page looks at: a loaded trace, and what the address says of the view."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from profsuite.analyzers.job.report import JobReport
    from profsuite.analyzers.report import Report
    from profsuite.dashboard.catalog import Entry
    from profsuite.dashboard.store import Session


@dataclass(frozen=True)
class View:
    """One trace on one page; ``query`` are the address's parameters.

    ``job`` is what the ranks of its job say together, null for a trace that stands alone or on a page that does not ask
    for it; ``ranks`` are those of its job; ``others`` are all files that can be shown.
    """

    session: Session
    query: dict[str, str] = field(default_factory=dict)
    job: JobReport | None = None
    others: tuple[Entry, ...] = ()
    ranks: tuple[Entry, ...] = ()

    @property
    def report(self) -> Report:
        """The report on the trace."""
        return self.session.report

    @property
    def origin_ns(self) -> int:
        """The start of the recording on the file's clock, which the timeline counts from, ns."""
        return self.session.pyramid.start_ns

    def whole(self, name: str) -> int | None:
        """A parameter that is a whole number, null if it is missing or none."""
        try:
            return int(self.query[name])
        except (KeyError, ValueError):
            return None

    def link(self, page: str, **query: object) -> str:
        """The address of a page on the same trace."""
        return address(self.session.entry.key, page, **query)

    def slice_link(self, words: str, row: int | None) -> str | None:
        """Markdown that leads to a slice in the timeline; null for none.  ``words`` are this program's own."""
        return None if row is None else f"[{words}]({self.link('timeline', selected=row)})"

    def time_link(self, words: str, start_ns: int, end_ns: int) -> str:
        """Markdown that leads to a stretch of time (file's clock), with some room around it."""
        start, end = start_ns - self.origin_ns, end_ns - self.origin_ns
        room = max((end - start) // 10, 1000)
        return f"[{words}]({self.link('timeline', start=start - room, end=end + room)})"


def address(key: str, page: str, **query: object) -> str:
    """The address of a page on the trace of a key; parameters that are null are left out."""
    from urllib.parse import urlencode

    known = {name: value for name, value in query.items() if value is not None}
    return f"/{key}/{page}{f'?{urlencode(known)}' if known else ''}"
