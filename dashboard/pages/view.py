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
    for it; ``others`` are all traces that can be shown.
    """

    session: Session
    query: dict[str, str] = field(default_factory=dict)
    job: JobReport | None = None
    others: tuple[Entry, ...] = ()

    @property
    def report(self) -> Report:
        """The report on the trace."""
        return self.session.report

    def whole(self, name: str) -> int | None:
        """A parameter that is a whole number, null if it is missing or none."""
        try:
            return int(self.query[name])
        except (KeyError, ValueError):
            return None

    def link(self, page: str, **query: object) -> str:
        """The address of a page on the same trace."""
        from urllib.parse import urlencode

        known = {key: value for key, value in query.items() if value is not None}
        text = f"?{urlencode(known)}" if known else ""
        return f"/{self.session.entry.key}/{page}{text}"
