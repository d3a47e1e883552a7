"""The pages: each turns one loaded trace into a layout; ``PAGES`` lists them in the order of the menu."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from profsuite.dashboard.pages.collectives import collectives
from profsuite.dashboard.pages.compare import compare
from profsuite.dashboard.pages.compiled import compiled
from profsuite.dashboard.pages.health import health
from profsuite.dashboard.pages.kernels import kernels
from profsuite.dashboard.pages.live import live
from profsuite.dashboard.pages.memory import memory
from profsuite.dashboard.pages.metrics import metrics
from profsuite.dashboard.pages.ops import ops
from profsuite.dashboard.pages.overview import overview
from profsuite.dashboard.pages.timeline import timeline
from profsuite.dashboard.pages.view import View
from profsuite.dashboard.pages.whatif import whatif


@dataclass(frozen=True, slots=True)
class Page:
    """A page: its ``name`` in addresses, its title in the menu, and what makes its layout.

    ``of_job`` pages are about all ranks of the trace's job.  Pages that are not ``whole`` do not wait for the report.
    """

    name: str
    title: str
    layout: Callable[[View], Any]
    of_job: bool = False
    whole: bool = True


PAGES = (
    Page("overview", "Overview", overview, whole=False),
    Page("timeline", "Timeline", timeline, whole=False),
    Page("ops", "Ops", ops),
    Page("kernels", "Kernels", kernels),
    Page("memory", "Memory", memory),
    Page("collectives", "Collectives", collectives, of_job=True),
    Page("whatif", "Critical path & what-if", whatif),
    Page("compile", "Compile", compiled, whole=False),
    Page("compare", "Compare", compare, whole=False),
    Page("metrics", "Metrics", metrics, whole=False),
    Page("health", "Trace health", health),
    Page("live", "Live", live),
)
BY_NAME = {page.name: page for page in PAGES}
