"""Forms of figures: curves and areas over time, matrices, points."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from profsuite.exporters.figures.figure import BLUE, GREEN, ORANGE, PURPLE, RED, SKY, Figure, Place, axis, hover, text
from profsuite.exporters.units import Scale

COLORS: Final = (BLUE, ORANGE, GREEN, PURPLE, SKY, RED)


@dataclass(frozen=True, slots=True)
class Curve:
    """One curve: a name, where it is along the axis, how high; ``steps`` where it holds its value until the next."""

    name: str
    x: Sequence[float]
    y: Sequence[float | None]
    steps: bool = True


def curves(
    title: str, found: Sequence[Curve], x_title: str, y_title: str, height: int = 300, scale: Scale | None = None
) -> Figure:
    """Curves over a common axis; ``scale`` is of values whose unit is known, which are in it already."""
    value = "%{y}" if scale is None else hover("y", scale)
    data: list[dict[str, Any]] = [
        {
            "type": "scatter",
            "mode": "lines",
            "name": text(curve.name),
            "x": list(curve.x),
            "y": list(curve.y),
            "line": {"shape": "hv" if curve.steps else "linear", "color": COLORS[n % len(COLORS)], "width": 1.5},
            "hovertemplate": f"{text(curve.name)}: {value}<extra></extra>",
        }
        for n, curve in enumerate(found)
    ]
    # Of an unknown unit plotly.js chooses the prefix: k, M, G.
    known: dict[str, Any] = {} if scale is not None else {"exponentformat": "SI"}
    layout = {
        "xaxis": axis(x_title),
        "yaxis": axis(y_title, rangemode="tozero", **known),
        "showlegend": len(found) > 1,
        "hovermode": "x",
        "hoverdistance": -1,
    }
    return Figure(title, tuple(data), layout, height)


def areas(
    title: str,
    x: Sequence[float],
    parts: Sequence[tuple[str, str, Sequence[float]]],
    x_title: str,
    scale: Scale,
    height: int = 300,
    places: Sequence[Place | None] = (),
) -> Figure:
    """Parts (name, colour, height at each ``x``) on top of each other; each holds its height until the next ``x``.

    Heights are in the scale's unit already; ``places`` are of the ``x``, as in ``Figure``.
    """
    data: list[dict[str, Any]] = [
        {
            "type": "scatter",
            "mode": "lines",
            "stackgroup": "parts",
            "name": text(name),
            "x": list(x),
            "y": list(values),
            "line": {"shape": "hv", "color": color, "width": 0.5},
            "fillcolor": color,
            "hovertemplate": f"{text(name)}: {hover('y', scale)}<extra></extra>",
        }
        for name, color, values in parts
    ]
    layout = {
        "xaxis": axis(x_title),
        "yaxis": axis(scale.unit, rangemode="tozero"),
        "showlegend": True,
        "hovermode": "x unified",
        "hoverdistance": -1,
    }
    return Figure(title, tuple(data), layout, height, tuple(places))


def matrix(
    title: str,
    names: tuple[Sequence[str], Sequence[float | str]],
    values: Sequence[Sequence[float]],
    scale: Scale,
    axes: tuple[str, str],
    height: int | None = None,
) -> Figure:
    """A matrix by colour; ``names`` are of its rows and of its columns (numbers where the axis is one of numbers).

    ``axes`` says what a row and what a column is; the values are in the scale's unit already.
    """
    down, across = [text(name) for name in names[0]], names[1]
    of_numbers = all(isinstance(each, float) for each in across)
    place = f"{text(axes[0])} %{{y}}, {text(axes[1])} %{{x{':,.6~f' if of_numbers else ''}}}"
    data = {
        "type": "heatmap",
        "x": [each if isinstance(each, float) else text(each) for each in across],
        "y": down,
        "z": [list(row) for row in values],
        # Of one hue, from the page's own paper, light or dark, to the full colour: it reads without colour too.
        "colorscale": [[0, "rgba(0,114,178,0.06)"], [1, "rgba(0,114,178,1)"]],
        "zmin": 0,
        "colorbar": {"title": {"text": text(scale.unit)}, "exponentformat": "none", "separatethousands": True},
        "hovertemplate": f"{place}: {hover('z', scale)}<extra></extra>",
    }
    layout = {
        "xaxis": axis(axes[1]) if of_numbers else {"title": {"text": text(axes[1])}, "type": "category"},
        "yaxis": {"title": {"text": text(axes[0])}, "type": "category", "autorange": "reversed"},
    }
    return Figure(title, (data,), layout, height=height or max(300, 120 + 24 * len(down)))


@dataclass(frozen=True, slots=True)
class Points:
    """Points of one kind; ``labels`` are what each is."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    labels: Sequence[str]


def points(title: str, found: Sequence[Points], x_title: str, y_title: str) -> Figure:
    """Points on logarithmic axes; what they are says where they are along the first."""
    data = tuple(
        {
            "type": "scatter",
            "mode": "markers",
            "name": text(kind.name),
            "x": list(kind.x),
            "y": list(kind.y),
            "customdata": [text(label) for label in kind.labels],
            "marker": {"size": 10, "color": COLORS[n % len(COLORS)], "symbol": n},
            "hovertemplate": f"%{{customdata}}<br>%{{y:,.4~g}} {text(y_title)}<extra></extra>",
        }
        for n, kind in enumerate(found)
    )
    layout = {
        "xaxis": axis(x_title, type="log", dtick="D2"),
        "yaxis": axis(y_title, type="log", dtick="D2"),
        "showlegend": len(found) > 1,
    }
    return Figure(title, data, layout, height=360)
