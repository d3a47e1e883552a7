"""Scalars of the TensorBoard event files that lie beside a trace, by step: loss, learning rate, whatever was logged."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import numpy as np
from dash import html

from profsuite.dashboard.components import figure, name_column, note, number, section, table
from profsuite.dashboard.event_files import Scalar, Scalars, read_scalars
from profsuite.dashboard.pages.view import View
from profsuite.dashboard.quantities import Chart, Measured, charts
from profsuite.exporters.figures.figure import Figure
from profsuite.exporters.figures.plots import Curve, curves

FIGURES_SHOWN: Final = 24
SERIES_SHOWN: Final = 12
POINTS: Final = 2_000
"""Of a curve; of more, the lowest and highest of each stretch are drawn."""


def scalars(view: View) -> list[Any]:
    """The section; none where no event file lies beside the trace."""
    paths = view.session.entry.event_files()
    if not paths:
        return []
    read = _read(tuple((path, state.st_size, state.st_mtime_ns) for path in paths if (state := path.stat())))
    shown = charts([_measured(each) for each in read.found], units_known=False)[:FIGURES_SHOWN]
    rows = [
        {
            "tag": each.tag,
            "points": len(each.value),
            "first": each.value[0],
            "last": each.value[-1],
            "min": min(each.value),
            "max": max(each.value),
        }
        for each in read.found
    ]
    columns = [
        name_column("tag", "tag"),
        number("points", "points", digits=0),
        *(number(name, name, digits=6) for name in ("first", "last", "min", "max")),
    ]
    empty = f"No scalars in {len(paths)} event file{'' if len(paths) == 1 else 's'} (looked for single numbers)."
    return [
        section(
            "Scalars logged beside the trace",
            note("From " + ", ".join(path.name for path in paths) + ", in the units that they were logged in."),
            *(note(fault) for fault in read.faults),
            html.Div([figure(_figure(chart, read.found), "") for chart in shown], className="charts"),
            table("scalars", columns, rows, empty),
        )
    ]


@lru_cache(8)
def _read(files: tuple[tuple[Path, int, int], ...]) -> Scalars:
    """Read once, until a file changes its size or time."""
    return read_scalars([path for path, _, _ in files])


def _curve(scalar: Scalar, name: str) -> Curve:
    step, value = np.array(scalar.step, float), np.array(scalar.value)
    if len(step) > POINTS:
        bounds = np.linspace(0, len(step), POINTS // 2 + 1).astype(int)[:-1]
        step = np.repeat(step[bounds], 2)
        value = np.column_stack((np.minimum.reduceat(value, bounds), np.maximum.reduceat(value, bounds))).ravel()
    return Curve(name, step.tolist(), value.tolist(), steps=False)


def _measured(scalar: Scalar) -> Measured:
    group, _, name = scalar.tag.rpartition("/")
    return Measured(group or scalar.tag, name, max(map(abs, scalar.value)))


def _figure(chart: Chart, found: Sequence[Scalar]) -> Figure:
    shown = list(zip(chart.members, chart.names, strict=True))[:SERIES_SHOWN]
    return curves(chart.title, [_curve(found[n], name) for n, name in shown], "step", "as logged", 260)
