"""The Dash application: one layout, an address for every page of every trace, and the callbacks between them."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qs

from dash import ALL, MATCH, Dash, Input, Output, State, ctx, dcc, html, no_update
from dash.exceptions import PreventUpdate

from profsuite.dashboard import api, definitions, figure_table, filters, places
from profsuite.dashboard.background import Background
from profsuite.dashboard.catalog import Catalog
from profsuite.dashboard.components import note
from profsuite.dashboard.guard import Guard
from profsuite.dashboard.inputs import Choice
from profsuite.dashboard.memory_files import MemoryFiles
from profsuite.dashboard.pages import BY_NAME, PAGES, Page
from profsuite.dashboard.pages.view import View, address
from profsuite.dashboard.store import Session, Store
from profsuite.errors import ProfsuiteError
from profsuite.exporters.units import size

if TYPE_CHECKING:
    from profsuite.dashboard.catalog import Entry

POLL_MS: Final = 100
PATIENCE_S: Final = 0.25
"""How long an answer waits for what is about to be there: a page is shown the moment it can be."""
WAIT_S: Final = 600


def create(roots: list[Path], guard: Guard | None = None) -> Dash:
    """The application that shows the traces below ``roots``; ``TraceError`` where there are none."""
    return application(Catalog(roots), Store(), guard or Guard())


def application(catalog: Catalog, store: Store, guard: Guard) -> Dash:
    """The application that shows the traces of a catalog."""
    app = Dash(
        "profsuite.dashboard",
        title="profsuite",
        update_title=None,  # type: ignore[arg-type]
        assets_folder=str(Path(__file__).with_name("assets")),
        serve_locally=True,
        external_scripts=[figure_table.ADDRESS],
        suppress_callback_exceptions=True,
    )
    app.index_string = app.index_string.replace("<html>", '<html lang="en">')
    app.layout = lambda: _layout(catalog)
    app.server.register_blueprint(api.blueprint(catalog, store))
    app.server.register_blueprint(definitions.blueprint())
    app.server.register_blueprint(figure_table.blueprint())
    _callbacks(app, catalog, store, MemoryFiles())
    filters.install(app)
    guard.install(app.server, [f"'{digest}'".replace("''", "'") for digest in app.csp_hashes()])
    return app


def _layout(catalog: Catalog) -> Any:
    catalog.refresh()
    options = [{"label": entry.name, "value": entry.key} for entry in catalog.ordered()]
    return html.Div(
        [
            dcc.Location(id="address", refresh="callback-nav"),
            html.Header(
                [
                    html.Strong("profsuite", className="brand"),
                    Choice("trace", "Trace", options),
                    html.Nav(id="menu", role="navigation"),
                    html.Button("Theme", id="theme", type="button", className="quiet", title="Dark or light"),
                ]
            ),
            html.Main(html.Div(id="page"), id="main"),
            html.Div(
                [html.Span(id="progress", role="status"), html.Button("Cancel", id="cancel", type="button")],
                id="loading",
                hidden=True,
            ),
            dcc.Interval(id="poll", interval=POLL_MS, disabled=True),
        ]
    )


def _parse(catalog: Catalog, path: str | None, search: str | None) -> tuple[Entry | None, str, dict[str, str]]:
    """The trace, the page and the parameters of an address; the first trace and page where it names none."""
    parts = [part for part in (path or "").split("/") if part]
    key = parts[0] if parts else catalog.ordered()[0].key
    page = parts[1] if len(parts) > 1 else "overview"
    query = {name: values[-1] for name, values in parse_qs((search or "").lstrip("?")).items()}
    return catalog.entries.get(key), page, query


# Pages are imported by what answers for them, so that the first of them is there sooner.
def _callbacks(app: Dash, catalog: Catalog, store: Store, memory_files: MemoryFiles) -> None:
    @app.callback(
        Output("page", "children"),
        Output("loading", "hidden"),
        Output("progress", "children"),
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
        if entry is not None and entry.kind != "trace":
            return _show_file(entry, memory_files)
        page, menu = BY_NAME.get(name), _menu(entry, name)
        done = True, "", True, menu, None if entry is None else entry.key
        if entry is None:
            return note("There is no such trace (any more): choose another above."), *done
        if page is None:
            return note("There is no such page: choose one above."), *done
        # What was given up is not begun again by asking how far it is.
        polled = ctx.triggered_id == "poll"
        found = (store.peek(entry.key) if polled else None) or store.start(entry)
        until = time.monotonic() + PATIENCE_S
        work = _first_unfinished(found, page, until, retry=not polled)
        job, together = None, tuple(catalog.job(entry))
        if work is None and page.of_job and len(together) > 1:
            job = store.job(together)
            job.finished.wait(max(0, until - time.monotonic()))
            work = None if job.state == "ready" else job
        if work is not None and work.state == "loading":
            what = "ranks" if work is job else "file" if work is found else "report"
            return no_update, False, _progress(entry, work, what), False, menu, entry.key
        if work is not None or found.result is None:
            return _failed(entry, (work and work.error) or "It was given up."), *done
        of_job = None if job is None else job.result
        view = View(found.result, query, of_job, tuple(catalog.entries.values()), together)
        try:
            content = html.Div(page.layout(view), id="content", className=f"page-{name}")
        except ProfsuiteError as error:  # what can be drawn may be nothing that can be analysed
            return _failed(entry, str(error)), *done
        filters.restore(content, query)
        return content, *done

    @app.callback(
        Output("overview", "children"),
        Input("overview-poll", "n_intervals"),
        State("address", "pathname"),
        prevent_initial_call=True,
    )
    def complete(_: int | None, path: str | None) -> Any:
        """The overview as a whole, once the report is there."""
        from profsuite.dashboard.pages.overview import overview

        entry, _name, query = _parse(catalog, path, None)
        found = None if entry is None else store.peek(entry.key)
        if entry is None or found is None or found.result is None:
            raise PreventUpdate
        found.result.examined.finished.wait(PATIENCE_S)
        if found.result.examined.state == "loading":
            raise PreventUpdate
        view = View(found.result, query, None, tuple(catalog.entries.values()), tuple(catalog.job(entry)))
        return overview(view).children

    @app.callback(Input("cancel", "n_clicks"), State("address", "pathname"), prevent_initial_call=True)
    def give_up(_: int | None, path: str | None) -> None:
        """Cancel the reading of the trace."""
        entry, _name, _query = _parse(catalog, path, None)
        if entry is not None:
            store.cancel(entry.key)

    @app.callback(
        Output("address", "pathname"),
        Output("address", "search", allow_duplicate=True),
        Input("trace", "value"),
        State("address", "pathname"),
        State("address", "search"),
        prevent_initial_call=True,
    )
    def choose(key: str | None, path: str | None, search: str | None) -> Any:
        """Go to the same page of another trace; what the address says of this one's view is not of that one's."""
        entry, name, _ = _parse(catalog, path, search)
        if key is None or (entry is not None and entry.key == key):
            raise PreventUpdate
        return f"/{key}/{name}", ""

    @app.callback(
        Output("address", "search"),
        Input("timeline", "start_ns"),
        Input("timeline", "end_ns"),
        Input("timeline", "selected"),
        Input("timeline", "find"),
        Input("timeline", "range"),
        Input("timeline", "tracks"),
        Input("timeline", "track"),
        Input("timeline", "pinned"),
        Input("timeline", "fold"),
        prevent_initial_call=True,
    )
    def remember(start: int | None, end: int | None, *more: Any) -> Any:
        """The address carries the view."""
        from profsuite.dashboard.pages.timeline import address as timeline_address

        if start is None or end is None:
            raise PreventUpdate
        return timeline_address(start, end, *more)

    @app.callback(
        Output({"kind": "grid", "of": MATCH}, "exportDataAsCsv"),
        Input({"kind": "csv", "of": MATCH}, "n_clicks"),
        prevent_initial_call=True,
    )
    def download(clicks: int | None) -> bool:
        """Download a table."""
        return bool(clicks)

    _answers(app, catalog, store, memory_files)


def _answers(app: Dash, catalog: Catalog, store: Store, memory_files: MemoryFiles) -> None:
    """The callbacks of single pages."""

    def session_of(path: str | None) -> Session:
        entry, _name, _query = _parse(catalog, path, None)
        if entry is None:
            raise PreventUpdate
        return store.session(entry)

    @app.callback(
        Output("whatif-outcome", "children"),
        Input({"scale": ALL}, "value"),
        Input({"flag": ALL}, "value"),
        State("address", "pathname"),
    )
    def again(_: list[float], _flags: list[bool], path: str | None) -> str:
        """Replay the recording with the sliders' changes."""
        from profsuite.dashboard.pages.whatif import outcome

        scales = {each["id"]["scale"]: float(each["value"]) for each in ctx.inputs_list[0]}
        flags = [each["id"]["flag"] for each in ctx.inputs_list[1] if each.get("value")]
        try:
            return outcome(session_of(path), scales, flags)
        except ProfsuiteError as error:
            return str(error)

    @app.callback(
        Output({"kind": "alive", "of": MATCH}, "children"),
        Input({"kind": "memory", "of": MATCH}, "clickData"),
        Input({"kind": "moment", "of": MATCH}, "value"),
        State("address", "pathname"),
        prevent_initial_call=True,
    )
    def alive(click: dict[str, Any] | None, point: float | None, path: str | None) -> Any:
        """What is allocated at the point that was clicked, or that the slider is at."""
        from profsuite.dashboard.pages.memory import moment_in_point, moment_of_point

        entry, _name, _query = _parse(catalog, path, None)
        device, clicked = int(ctx.triggered_id["of"]), ctx.triggered_id["kind"] == "memory"
        if entry is None or (clicked and (not click or not click.get("points"))) or (not clicked and point is None):
            raise PreventUpdate
        at = int(click["points"][0]["pointNumber"] if clicked and click else point or 0)
        if entry.kind == "trace":
            return moment_of_point(store.session(entry), device, at)
        return moment_in_point(memory_files.start(entry).wait(WAIT_S), device, at)

    @app.callback(
        Output("overview-ranks", "children"),
        Output("overview-job", "children"),
        Output("ranks-poll", "disabled"),
        Output("ranks-read", "hidden"),
        Input("ranks-poll", "n_intervals"),
        Input("ranks-read", "n_clicks"),
        State("address", "pathname"),
    )
    def read_ranks(_: int | None, asked: int | None, path: str | None) -> Any:
        """How the ranks of a job spent their time; those of a large job are read only when that was asked for."""
        from profsuite.dashboard.pages.overview import RANKS_READ, ranks, together

        entry, _name, _query = _parse(catalog, path, None)
        job = [] if entry is None else catalog.job(entry)
        if entry is None or len(job) < 2 or (len(job) > RANKS_READ and not asked):
            raise PreventUpdate
        work = store.job(job)
        return ranks(work), together(work, entry.key), work.state != "loading", True

    @app.callback(
        Output("address", "href"),
        Input(places.ANY, "clickData"),
        State("address", "pathname"),
        prevent_initial_call=True,
    )
    def go(clicks: list[dict[str, Any] | None], path: str | None) -> str:
        """Go to the place in the timeline of what was clicked in a figure."""
        found = places.target(clicks)
        entry, _name, _query = _parse(catalog, path, None)
        if found is None or entry is None:
            raise PreventUpdate
        return address(entry.key, "timeline", **found)

    @app.callback(
        Output("address", "search", allow_duplicate=True), Input("compare-with", "value"), prevent_initial_call=True
    )
    def compare_with(key: str | None) -> str:
        """The address carries which trace is the one before."""
        if key is None:
            raise PreventUpdate
        return f"?with={key}"

    @app.callback(Output("compare-outcome", "children"), Input("compare-with", "value"), State("address", "pathname"))
    def against(key: str | None, path: str | None) -> Any:
        """What changed from another trace to this one."""
        from profsuite.dashboard.pages.compare import changes

        other = catalog.entries.get(key or "")
        if other is None:
            raise PreventUpdate
        try:
            before, after = store.session(other), session_of(path)
            return changes(store.diff(before, after), before, after)
        except ProfsuiteError as error:
            return note(str(error))

    @app.callback(
        Output("live-now", "children"),
        Input("live-poll", "n_intervals"),
        State("address", "pathname"),
        prevent_initial_call=True,
    )
    def follow(_: int | None, path: str | None) -> Any:
        """The run as it is now."""
        from profsuite.dashboard.pages.live import now

        return now(session_of(path))


def _show_file(entry: Entry, memory_files: MemoryFiles) -> Any:
    """The one page of a file of memory alone, in the outputs of ``show``."""
    from profsuite.dashboard.pages.memory import memory_file

    found = memory_files.start(entry)
    menu = _menu(entry, "memory")
    if found.state == "loading":
        return no_update, False, f"Reading {entry.name}", False, menu, entry.key
    done = True, "", True, menu, entry.key
    if found.result is None:
        return _failed(entry, found.error or "The reading was given up."), *done
    return html.Div(memory_file(entry, found.result), id="content", className="page-memory"), *done


def _first_unfinished(found: Background[Session], page: Page, until: float, retry: bool) -> Background[Any] | None:
    """What a page still lacks, waited for until then: its trace, or the report on it; null where both are there."""
    found.finished.wait(max(0, until - time.monotonic()))
    if found.result is None or not page.whole:
        return found if found.result is None else None
    if retry:
        found.result.retry()
    report = found.result.examined
    report.finished.wait(max(0, until - time.monotonic()))
    return None if report.state == "ready" else report


def _progress(entry: Entry, work: Background[Any], what: str) -> str:
    if what == "report":
        return f"Analysing {entry.name}"
    if what == "ranks":
        return f"Reading the ranks of the job: {work.done} of {work.total or '?'}"
    if work.total:
        return f"Reading {entry.name}: {100 * work.done / work.total:.0f} % of {size(work.total)}"
    return f"Reading {entry.name}: {size(work.done)}"


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
            if entry.kind == "trace" or page.name == "memory"
        ]
    )


def _failed(entry: Entry, error: str) -> Any:
    return html.Div(
        [html.H2(f"{entry.name} cannot be shown"), note(error), note("profsuite info says what is in the file.")],
        className="failed",
    )
