"""Live: a run that is being recorded, window by window as it is written."""

from __future__ import annotations

import time
from typing import Any, Final

from dash import dcc, html

from profsuite.dashboard.components import facts, note, section
from profsuite.dashboard.pages.view import View
from profsuite.dashboard.places import placed
from profsuite.dashboard.store import Session, version
from profsuite.exporters.figures.time import step_figure
from profsuite.exporters.units import duration

EVERY_MS: Final = 2000


def live(view: View) -> Any:
    """The page; app.py fills it again every two seconds."""
    return html.Div(
        [
            note(
                "Follows the file while a job writes it (profsuite.profile writes its run folder at the end of each "
                "window of the schedule)."
            ),
            html.Div(now(view.session), id="live-now"),
            dcc.Interval(id="live-poll", interval=EVERY_MS),
        ]
    )


def now(session: Session) -> Any:
    """The state of the run: how much there is, how old it is, what it says so far."""
    report = session.report
    written = version(session.entry)
    steps = report.steps.count if report.steps is not None else 0
    median = None if report.steps is None else report.steps.median_ns
    values = {
        "last written": "the file is gone" if written is None else f"{_age(written[0])} ago",
        "slices": f"{report.trace.num_slices:,}",
        "steps recorded": f"{steps:,}",
        "median step": None if median is None else duration(median),
    }
    return [
        section("The run", facts(values), about="the-file"),
        html.P(report.verdict or "Nothing can be said of it yet.", className="verdict"),
        section(
            "Steps",
            placed(step_figure(report), "No steps so far: prof.step() marks them.", "steps", session.pyramid.start_ns),
            about="steps",
        ),
    ]


def _age(written_ns: int) -> str:
    """How long ago that was; a file from the future (another machine's clock) is new."""
    return duration(max(0, time.time_ns() - written_ns))
