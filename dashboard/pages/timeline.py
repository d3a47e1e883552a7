"""Timeline: every slice of the trace, from the whole recording down to the nanosecond."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import urlencode

from dash import html

from profsuite.dashboard.components import note
from profsuite.dashboard.inputs import Timeline
from profsuite.dashboard.pages.view import View

HELP = (
    "Wheel zooms, drag moves, double click fits a slice; Alt+wheel, or the wheel over the names, scrolls. A drag on "
    "the ruler selects a stretch of time and sums it up, Shift+drag that of the tracks it touches. Keys: W S A D, "
    "arrows, F fits all, / searches, N next match, Enter goes to the selection, Escape gives it up. Click a track's "
    "name to fold it, its right end to pin it. The address carries the view."
)


def timeline(view: View) -> Any:
    """The page; the address chooses the view, as ``address`` writes it."""
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
                find=view.query.get("find"),
                range=_numbers(view.query.get("range"), "-", 2),
                tracks=_numbers(view.query.get("tracks"), ",", None),
                track=_numbers(view.query.get("track"), "-", 2),
                pinned=_numbers(view.query.get("pinned"), ",", None),
                fold=_numbers(view.query.get("fold"), ",", None),
            ),
            html.Details([html.Summary("Keys and mouse"), note(HELP)], className="keys"),
        ],
        className="timeline-page",
    )


def address(
    start: int,
    end: int,
    selected: int | None,
    find: str | None,
    range: Sequence[int] | None,  # noqa: A002
    tracks: Sequence[int] | None,
    track: Sequence[int] | None = None,
    pinned: Sequence[int] | None = None,
    fold: Sequence[int] | None = None,
) -> str:
    """The address's parameters that restore a view."""
    known = {
        "start": start,
        "end": end,
        "selected": selected,
        "find": find or None,
        "range": _text(range, "-"),
        "tracks": _text(tracks, ","),
        "track": _text(track, "-"),
        "pinned": _text(pinned, ","),
        "fold": _text(fold, ","),
    }
    return "?" + urlencode({name: value for name, value in known.items() if value is not None}, safe=",")


def _text(numbers: Sequence[int] | None, between: str) -> str | None:
    return None if numbers is None else between.join(map(str, numbers))


def _numbers(text: str | None, between: str, count: int | None) -> list[int] | None:
    """Whole numbers, null where it is something else, or not as many."""
    if text is None:
        return None
    try:
        found = [int(part) for part in text.split(between) if part]
    except ValueError:
        return None
    return found if count in (None, len(found)) else None
