"""The pages: each turns one loaded trace into a layout; ``PAGES`` lists them in the order of the menu."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from profsuite.dashboard.pages.view import View


@dataclass(frozen=True, slots=True)
class Page:
    """A page: its ``name`` in addresses, its title in the menu, and the module whose function of that name lays it out.

    ``of_job`` pages are about all ranks of the trace's job.  Pages that are not ``whole`` do not wait for the report.
    """

    name: str
    title: str
    module: str
    of_job: bool = False
    whole: bool = True

    def layout(self, view: View) -> Any:
        """What the page shows.  Its module is imported now: the first page does not wait for the others' imports."""
        return getattr(import_module(f"{__name__}.{self.module}"), self.module)(view)


PAGES: Final = (
    Page("overview", "Overview", "overview", whole=False),
    Page("timeline", "Timeline", "timeline", whole=False),
    Page("ops", "Ops", "ops"),
    Page("kernels", "Kernels", "kernels"),
    Page("memory", "Memory", "memory"),
    Page("collectives", "Collectives", "collectives", of_job=True),
    Page("whatif", "Critical path & what-if", "whatif"),
    Page("compile", "Compile", "compiled", whole=False),
    Page("compare", "Compare", "compare", whole=False),
    Page("metrics", "Metrics", "metrics", whole=False),
    Page("health", "Trace health", "health"),
    Page("live", "Live", "live"),
)
BY_NAME: Final = {page.name: page for page in PAGES}
