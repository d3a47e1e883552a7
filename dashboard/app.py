"""The Dash application: one layout, an address for every page of every trace, and the callbacks between them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qs

from dash import ALL, MATCH, Dash, Input, Output, State, ctx, dcc, html, no_update
from dash.exceptions import PreventUpdate

from profsuite.dashboard import api, definitions
from profsuite.dashboard.catalog import Catalog
from profsuite.dashboard.components import note
from profsuite.dashboard.guard import Guard
from profsuite.dashboard.pages import BY_NAME, PAGES
from profsuite.dashboard.pages.view import View
from profsuite.dashboard.pages.whatif import factor, outcome
from profsuite.dashboard.store import Store
from profsuite.errors import ProfsuiteError
from profsuite.exporters.units import size

if TYPE_CHECKING:
    from profsuite.dashboard.catalog import Entry

POLL_MS: Final = 300


def create(roots: list[Path], guard: Guard | None = None) -> Dash:
    """The application that shows the traces below ``roots``; ``TraceError`` where there are none."""
    catalog, store = Catalog(roots), Store()
    app = Dash(
        "profsuite.dashboard",
        title="profsuite",
        update_title=None,  # type: ignore[arg-type]
        assets_folder=str(Path(__file__).with_name("assets")),
        serve_locally=True,
        suppress_callback_exceptions=True,
    )
    app.layout = _layout(catalog)
    app.server.register_blueprint(api.blueprint(catalog, store))
    app.server.register_blueprint(definitions.blueprint())
    _callbacks(app, catalog, store)
    (guard or Guard()).install(app.server, [f"'{digest}'".replace("''", "'") for digest in app.csp_hashes()])
    return app


def _layout(catalog: Catalog) -> Any:
    options = [{"label": entry.name, "value": entry.key} for entry in sorted(catalog.entries.values(), key=_order)]
    return html.Div(
        [
            dcc.Location(id="address", refresh="callback-nav"),
            html.Header(
                [
                    html.Strong("profsuite", className="brand"),
                    html.Label("Trace", htmlFor="trace", className="hidden-label"),
                    dcc.Dropdown(id="trace", options=options, clearable=False, className="trace"),
                    html.Nav(id="menu", role="navigation"),
                    html.Button("Theme", id="theme", type="button", className="quiet", title="Dark or light"),
                ]
            ),
            html.Main(html.Div(id="page"), id="main"),
            html.Div(id="loading", role="status"),
            dcc.Interval(id="poll", interval=POLL_MS, disabled=True),
        ]
    )


def _order(entry: Entry) -> tuple[str, int, str]:
    return entry.job, -1 if entry.rank is None else entry.rank, entry.name


def _parse(catalog: Catalog, path: str | None, search: str | None) -> tuple[Entry | None, str, dict[str, str]]:
    """The trace, the page and the parameters of an address; the first trace and page where it names none."""
    parts = [part for part in (path or "").split("/") if part]
    key = parts[0] if parts else next(iter(sorted(catalog.entries.values(), key=_order))).key
    page = parts[1] if len(parts) > 1 else "overview"
    query = {name: values[-1] for name, values in parse_qs((search or "").lstrip("?")).items()}
    return catalog.entries.get(key), page, query


def _callbacks(app: Dash, catalog: Catalog, store: Store) -> None:
    @app.callback(
        Output("page", "children"),
        Output("loading", "children"),
        Output("poll", "disabled"),
        Output("menu", "children"),
        Output("trace", "value"),
        Input("address", "pathname"),
        Input("poll", "n_intervals"),
        State("address", "search"),
    )
    def show(path: str | None, _: int | None, search: str | None) -> Any:
        """Show a page, or how far its trace is read."""
        entry, name, query = _parse(catalog, path, search)
        if entry is None:
            return note("There is no such trace (any more): choose another above."), None, True, _menu(None, name), None
        page = BY_NAME.get(name)
        menu = _menu(entry, name)
        if page is None:
            return note("There is no such page: choose one above."), None, True, menu, entry.key
        found = store.start(entry)
        if found.state == "loading":
            progress = size(found.done_bytes)
            if found.total_bytes:
                progress = f"{100 * found.done_bytes / found.total_bytes:.0f} % of {size(found.total_bytes)}"
            return no_update, f"Reading {entry.name}: {progress}", False, menu, entry.key
        if found.session is None:
            return _failed(entry, found.error or "The reading was given up."), None, True, menu, entry.key
        view = View(found.session, query)
        return html.Div(page.layout(view), id="content", className=f"page-{name}"), None, True, menu, entry.key

    @app.callback(
        Output("address", "pathname"),
        Input("trace", "value"),
        State("address", "pathname"),
        State("address", "search"),
        prevent_initial_call=True,
    )
    def choose(key: str | None, path: str | None, search: str | None) -> Any:
        """Go to the same page of another trace."""
        entry, name, _ = _parse(catalog, path, search)
        if key is None or (entry is not None and entry.key == key):
            raise PreventUpdate
        return f"/{key}/{name}"

    @app.callback(
        Output("address", "search"),
        Input("timeline", "start_ns"),
        Input("timeline", "end_ns"),
        Input("timeline", "selected"),
        prevent_initial_call=True,
    )
    def remember(start: int | None, end: int | None, selected: int | None) -> Any:
        """The address carries the view."""
        if start is None or end is None:
            raise PreventUpdate
        chosen = "" if selected is None else f"&selected={selected}"
        return f"?start={start}&end={end}{chosen}"

    @app.callback(
        Output({"grid": MATCH}, "exportDataAsCsv"), Input({"csv": MATCH}, "n_clicks"), prevent_initial_call=True
    )
    def download(clicks: int | None) -> bool:
        """Download a table."""
        return bool(clicks)

    @app.callback(
        Output("whatif-outcome", "children"),
        Output({"factor": ALL}, "children"),
        Input({"scale": ALL}, "value"),
        Input("whatif-flags", "value"),
        State("address", "pathname"),
    )
    def again(_: list[float], flags: list[str] | None, path: str | None) -> tuple[str, list[str]]:
        """Replay the recording with the sliders' changes."""
        entry, _name, _query = _parse(catalog, path, None)
        if entry is None:
            raise PreventUpdate
        scales = {each["id"]["scale"]: float(each["value"]) for each in ctx.inputs_list[0]}
        try:
            said = outcome(store.session(entry), scales, flags or [])
        except ProfsuiteError as error:
            said = str(error)
        return said, [factor(value) for value in scales.values()]


def _menu(entry: Entry | None, current: str) -> Any:
    if entry is None:
        return None
    return html.Ul(
        [
            html.Li(
                dcc.Link(
                    page.title,
                    href=f"/{entry.key}/{page.name}",
                    className="current" if page.name == current else "",
                )
            )
            for page in PAGES
        ]
    )


def _failed(entry: Entry, error: str) -> Any:
    return html.Div(
        [html.H2(f"{entry.name} cannot be shown"), note(error), note("profsuite info says what is in the file.")],
        className="failed",
    )
