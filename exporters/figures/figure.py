"""What a figure is, and the colours and forms that all share."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from html import escape
from typing import Any, Final

from profsuite.exporters.names import printable, shorten

BLUE, ORANGE, GREEN, PURPLE, SKY, RED, YELLOW, GREY = (
    "#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442", "#8c8c8c",
)  # fmt: skip
"""Okabe and Ito's palette (Color Universal Design, 2008), told apart with any colour vision."""

LABEL_WIDTH: Final = 44


@dataclass(frozen=True, slots=True)
class Figure:
    """``data`` and ``layout`` as plotly.js takes them; every text in them is escaped for it.

    ``title`` is plain text.  ``height`` is in pixels.
    """

    title: str
    data: tuple[dict[str, Any], ...]
    layout: dict[str, Any] = field(default_factory=dict)
    height: int = 340


def text(name: str, width: int | None = None) -> str:
    """A name from a trace as a figure's text: plotly.js reads a few HTML tags, so none is left."""
    return escape(printable(name) if width is None else shorten(name, width), quote=False)


def labels(names: Iterable[str]) -> list[str]:
    """Short and distinct labels of names for an axis: plotly.js draws one bar for equal ones."""
    found: dict[str, int] = {}
    result = []
    for name in names:
        short = text(name, LABEL_WIDTH)
        found[short] = found.get(short, 0) + 1
        result.append(short if found[short] == 1 else f"{short} ({found[short]})")
    return result


def ms(ns: float) -> float:
    """Nanoseconds as milliseconds."""
    return ns / 1e6


def bars_across(
    title: str, names: Iterable[str], columns: Iterable[tuple[str, str, list[float]]], unit: str = "ms"
) -> Figure:
    """Horizontal bars, the first on top: ``columns`` are (name, colour, a value for each of ``names``)."""
    names = list(names)
    shown = labels(names)
    data = tuple(
        {
            "type": "bar",
            "orientation": "h",
            "name": text(label),
            "y": shown,
            "x": values,
            "marker": {"color": color},
            "customdata": [text(name) for name in names],
            "hovertemplate": f"%{{customdata}}<br>{text(label)}: %{{x:,.6~f}} {unit}<extra></extra>",
        }
        for label, color, values in columns
    )
    layout = {
        "barmode": "group",
        "xaxis": {"title": {"text": unit}, "rangemode": "tozero"},
        "yaxis": {"autorange": "reversed", "automargin": True},
        "showlegend": len(data) > 1,
    }
    return Figure(title, data, layout, height=120 + (22 if len(data) < 2 else 34) * len(names))
