"""The pages: each turns one loaded trace into a layout; ``PAGES`` lists them in the order of the menu."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from profsuite.dashboard.pages.health import health
from profsuite.dashboard.pages.kernels import kernels
from profsuite.dashboard.pages.ops import ops
from profsuite.dashboard.pages.overview import overview
from profsuite.dashboard.pages.timeline import timeline
from profsuite.dashboard.pages.view import View
from profsuite.dashboard.pages.whatif import whatif


@dataclass(frozen=True, slots=True)
class Page:
    """A page: its ``name`` in addresses, its title in the menu, and what makes its layout."""

    name: str
    title: str
    layout: Callable[[View], Any]


PAGES = (
    Page("overview", "Overview", overview),
    Page("timeline", "Timeline", timeline),
    Page("ops", "Ops", ops),
    Page("kernels", "Kernels", kernels),
    Page("whatif", "Critical path & what-if", whatif),
    Page("health", "Trace health", health),
)
BY_NAME = {page.name: page for page in PAGES}
