"""What a figure is, and the colours and forms that all share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any, Final

from profsuite.exporters.names import printable, shorten, shorten_all
from profsuite.exporters.units import Scale, time_scale

BLUE, ORANGE, GREEN, PURPLE, SKY, RED, YELLOW, GREY = (
    "#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442", "#8c8c8c",
)  # fmt: skip
"""Okabe and Ito's palette (Color Universal Design, 2008), told apart with any colour vision."""

LABEL_WIDTH: Final = 44

Place = int | tuple[int, int]
"""Where in a recording something is: the row of a slice, or from when to when (ns, the file's clock)."""


@dataclass(frozen=True, slots=True)
class Figure:
    """``data`` and ``layout`` as plotly.js takes them; every text in them is escaped for it.

    ``title`` is plain text.  ``height`` is in pixels.  ``places`` says of each bar or point along the axis, the same in
    all of ``data``, where in the recording it is, null where that is not known; empty where they are no places.
    """

    title: str
    data: tuple[dict[str, Any], ...]
    layout: dict[str, Any] = field(default_factory=dict)
    height: int = 340
    places: tuple[Place | None, ...] = ()


def text(name: str, width: int | None = None) -> str:
    """A name from a trace as a figure's text: plotly.js reads a few HTML tags, so none is left."""
    return escape(printable(name) if width is None else shorten(name, width), quote=False)


def labels(names: Iterable[str]) -> list[str]:
    """Short and distinct labels of names for an axis: plotly.js draws one bar for equal ones."""
    found: dict[str, int] = {}
    result = []
    for name in shorten_all(list(names), LABEL_WIDTH):
        short = text(name)
        found[short] = found.get(short, 0) + 1
        result.append(short if found[short] == 1 else f"{short} ({found[short]})")
    return result


def axis(title: str, **more: Any) -> dict[str, Any]:
    """An axis of numbers that are written out: its unit leaves no need for a prefix of plotly.js's own."""
    return {
        "title": {"text": text(title)},
        "exponentformat": "none",
        "separatethousands": True,
        "automargin": True,
        **more,
    }


def names_down(**more: Any) -> dict[str, Any]:
    """The axis of names of horizontal bars, the first on top."""
    return {"autorange": "reversed", "automargin": True, "ticklabelstandoff": 5, "showgrid": False, **more}


def names_along(title: str) -> dict[str, Any]:
    """The axis of names of upright bars."""
    return {"title": {"text": text(title)}, "type": "category", "showgrid": False}


def bars_across(
    title: str,
    names: Iterable[str],
    columns: Sequence[tuple[str, str, Sequence[float]]],
    per: str = "",
    places: Sequence[Place | None] = (),
) -> Figure:
    """Horizontal bars of times, the first on top: ``columns`` are (name, colour, ns for each of ``names``).

    ``per`` is what the times are for, as " per step"; ``places`` are as in ``Figure``.
    """
    names = list(names)
    shown = labels(names)
    scale = time_scale(ns for _, _, values in columns for ns in values).per(per)
    data = tuple(
        {
            "type": "bar",
            "orientation": "h",
            "name": text(label),
            "y": shown,
            "x": scale.all(values),
            "marker": {"color": color},
            "customdata": [text(name) for name in names],
            "hovertemplate": f"%{{customdata}}<br>{text(label)}: {hover('x', scale)}<extra></extra>",
        }
        for label, color, values in columns
    )
    layout = {
        "barmode": "group",
        "xaxis": axis(scale.unit, rangemode="tozero"),
        "yaxis": names_down(),
        "showlegend": len(data) > 1,
    }
    height = 120 + (22 if len(data) < 2 else 34) * len(names)
    return Figure(title, data, layout, height, tuple(places))


def hover(value: str, scale: Scale) -> str:
    """A value of a point (x, y or z) with its unit, as plotly.js's templates have it."""
    return f"%{{{value}:{scale.form}}} {text(scale.unit)}"
