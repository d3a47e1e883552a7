"""Timeline: every slice of the trace, from the whole recording down to the nanosecond."""

from __future__ import annotations

from typing import Any

from dash import html

from profsuite.dashboard.components import note
from profsuite.dashboard.inputs import Timeline
from profsuite.dashboard.pages.view import View

HELP = (
    "Wheel zooms, drag moves, Shift+drag (or a drag on the ruler) selects a stretch of time and sums it up. Keys: W S "
    "A D, arrows, F fits all, / searches, N next match, Enter goes to the selection. Click a track's name to fold it, "
    "its right end to pin it. The address carries the view."
)


def timeline(view: View) -> Any:
    """The page; the address's ``start``, ``end`` and ``selected`` choose the view."""
    if not view.session.trace.num_rows("slice"):
        return note("This trace has no slices: nothing with a duration was recorded.")
    return html.Div(
        [
            Timeline(
                id="timeline",
                trace=view.session.entry.key,
                start_ns=view.whole("start"),
                end_ns=view.whole("end"),
                selected=view.whole("selected"),
            ),
            html.Details([html.Summary("Keys and mouse"), note(HELP)], className="keys"),
        ],
        className="timeline-page",
    )
