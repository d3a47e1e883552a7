"""Parts that pages are made of: figures, tables, notes and the words for an empty view."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import dash_ag_grid as dag
from dash import dcc, html

from profsuite.analyzers.histogram import Histogram
from profsuite.dashboard.inputs import Columns
from profsuite.exporters.figures.figure import Figure
from profsuite.exporters.names import shorten_all

if TYPE_CHECKING:
    from dash.development.base_component import Component as AnyComponent


THEME = (
    "themeQuartz.withParams({backgroundColor: 'var(--paper)', foregroundColor: 'var(--ink)', "
    "headerBackgroundColor: 'var(--panel)', borderColor: 'var(--line)', accentColor: 'var(--link)', "
    "fontFamily: 'inherit', fontSize: 13, rowHeight: 30, spacing: 6})"
)
"""Of grids: the colours are those of the page, so that they follow its theme."""


def figure(
    made: Figure | None,
    empty: str,
    about: str | None = None,
    ids: Sequence[str] = (),
    hint: str | None = None,
    **more: Any,
) -> AnyComponent:
    """A figure as a graph that can be downloaded; where there is none, what was looked for.

    ``about`` names the section of the definitions that its numbers follow; ``ids`` are of its bars or points, different
    ones, which a click's event has; ``hint`` says what a click does; ``more`` is Graph's.
    """
    if made is None:
        return note(empty)
    layout = {
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "margin": {"l": 60, "r": 20, "t": 30, "b": 50},
        "legend": {"orientation": "h", "x": 0, "y": 1, "yanchor": "bottom", "traceorder": "normal"},
        "font": {"family": "system-ui, sans-serif", "size": 13, "color": "#5b6168"},
        **made.layout,
    }
    graph = dcc.Graph(
        figure={"data": [{**trace, "ids": ids} if ids else trace for trace in made.data], "layout": layout},
        config={"displayModeBar": False},
        style={"height": f"{made.height}px"},
        responsive=True,
        **more,
    )
    buttons: list[Any] = [_save(kind) for kind in ("PNG", "SVG", "CSV")]
    if hint is not None:
        buttons.append(html.Span(hint, className="hint"))
    caption: list[Any] = [made.title] if about is None else [made.title, definition(about)]
    classes = "chart" if hint is None else "chart clicked"
    return html.Figure([html.Figcaption(caption), graph, html.Div(buttons, className="saves")], className=classes)


def _save(kind: str) -> AnyComponent:
    wildcards: dict[str, Any] = {"data-save": kind.lower()}
    return html.Button(kind, type="button", className="quiet", title=f"Save as {kind}", **wildcards)


def facts(values: Mapping[str, Any]) -> AnyComponent:
    """Values with what they are; null ones are left out."""
    rows = [
        html.Tr([html.Th(label, scope="row"), html.Td(str(value))])
        for label, value in values.items()
        if value is not None
    ]
    return html.Table(html.Tbody(rows), className="facts-table")


def table(
    name: str, columns: Sequence[Mapping[str, Any]], rows: Sequence[Mapping[str, Any]], empty: str
) -> AnyComponent:
    """A grid with sorting, filters, column choice and download; where there are no rows, what was looked for.

    ``columns`` are ag-grid column definitions; numbers are sorted and filtered as such.  One with ``hide`` is shown
    when it is chosen.
    """
    if not rows:
        return note(empty)
    grid = dag.AgGrid(
        id={"kind": "grid", "of": name},
        columnDefs=[dict(column) for column in columns],
        rowData=[dict(row) for row in rows],
        defaultColDef={
            "sortable": True,
            "filter": True,
            "resizable": True,
            "minWidth": 90,
            "wrapHeaderText": True,
            "autoHeaderHeight": True,
        },
        columnSize="responsiveSizeToFit",
        csvExportParams={"fileName": f"{name}.csv"},
        dashGridOptions={
            "domLayout": "autoHeight" if len(rows) <= 15 else "normal",
            "theme": {"function": THEME},
            "animateRows": False,
            "defaultCsvExportParams": {"processCellCallback": {"function": "csvCell(params)"}},
            "enableCellTextSelection": True,
            "suppressFieldDotNotation": True,
            "ensureDomOrder": True,
            "suppressColumnVirtualisation": True,
        },
        className="grid",
        style=None if len(rows) <= 15 else {"height": "34rem"},
    )
    download = html.Button("Download CSV", id={"kind": "csv", "of": name}, type="button", className="quiet")
    labels = [{"field": column["field"], "label": column["headerName"]} for column in columns]
    hidden = [column["field"] for column in columns if column.get("hide")]
    choice = Columns({"kind": "columns", "of": name}, grid.id, re.sub(r"_?\d+$", "", name), labels, hidden)
    return html.Div([grid, html.Div([download, choice], className="table-tools")], className="table")


def number(
    field: str, header: str, unit: str = "", digits: int = 3, exact: bool = False, **more: Any
) -> dict[str, Any]:
    """A column of numbers; the unit is in the header, null stays empty.  ``exact`` shows up to a millionth."""
    title = f"{header} ({unit})" if unit else header
    form = ",.6~f" if exact else f",.{digits}f" if digits else ","
    fixed = f"d3.format('{form}')(params.value)"
    return {
        "field": field,
        "headerName": title,
        "type": "rightAligned",
        "filter": "agNumberColumnFilter",
        # A word of the heading is never broken; beside it are the filter's and the sorting's icons.
        "minWidth": max(90, 8 * max(map(len, title.split())) + (80 if "sort" in more else 58)),
        "valueFormatter": {"function": f"params.value == null ? '' : {fixed}"},
        **more,
    }


def histogram_column(field: str, header: str, **more: Any) -> dict[str, Any]:
    """A column of histograms (cells of ``histogram_cell``), drawn as bars."""
    return {
        "field": field,
        "headerName": header,
        "cellRenderer": "Histogram",
        "sortable": False,
        "filter": False,
        "width": 130,
        "minWidth": 130,
        **more,
    }


def histogram_cell(found: Histogram | None) -> str | None:
    """A histogram as text: its range in ns and its counts; assets/tables.js draws it."""
    if found is None:
        return None
    return f"{found.min_ns}..{found.max_ns} ns: {' '.join(map(str, found.counts))}"


def link_column(field: str, **more: Any) -> dict[str, Any]:
    """A column of links to the timeline: Markdown made of digits and the trace's key alone, of no name of a trace."""
    return {
        "field": field,
        "headerName": "timeline",
        "cellRenderer": "markdown",
        "minWidth": 110,
        "maxWidth": 130,
        "filter": False,
        "sortable": False,
        "pinned": "right",  # in sight, however many columns there are
        **more,
    }


def definition(about: str) -> AnyComponent:
    """A link to the section of the definitions of that anchor."""
    return html.A("definition", href=f"/definitions#{about}", className="definition", target="_blank")


def name_column(field: str, header: str, **more: Any) -> dict[str, Any]:
    """A column of names, whole in the tooltip."""
    return {"field": field, "headerName": header, "tooltipField": field, "width": 320, "minWidth": 200, **more}


def kernel_column(field: str, header: str, **more: Any) -> dict[str, Any]:
    """A column of kernels' names, which ``with_short`` shortened; sorting, filter, tooltip and CSV have them whole."""
    return name_column(field, header, valueFormatter={"function": f"params.data.{field}_short"}, **more)


def with_short(rows: Sequence[dict[str, Any]], field: str, width: int = 34) -> list[dict[str, Any]]:
    """Rows, each with what its name is shown as."""
    names = [row[field] or "" for row in rows]
    return [row | {f"{field}_short": short} for row, short in zip(rows, shorten_all(names, width), strict=True)]


def note(text: str) -> AnyComponent:
    """A remark."""
    return html.P(text, className="note")


def section(title: str, *children: Any, about: str | None = None) -> AnyComponent:
    """A heading and what it shows; ``about`` names the section of the definitions that its numbers follow."""
    heading: list[Any] = [title]
    if about is not None:
        heading.append(definition(about))
    return html.Section([html.H2(heading), *children])
