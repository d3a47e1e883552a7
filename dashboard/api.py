"""What pages and the timeline fetch, as JSON or as tiles: ``/api/<trace>/…``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec
from flask import Blueprint, Response, abort, request

from profsuite.dashboard import timeline
from profsuite.dashboard.described import describe
from profsuite.errors import ProfsuiteError

if TYPE_CHECKING:
    from profsuite.dashboard.catalog import Catalog
    from profsuite.dashboard.store import Session, Store

WIDEST: Final = 16_384
"""Pixels of a drawing."""


def blueprint(catalog: Catalog, store: Store) -> Blueprint:
    """The routes."""
    routes = Blueprint("api", __name__, url_prefix="/api")

    def session(key: str) -> Session:
        try:
            entry = catalog.get(key)
        except KeyError:
            abort(404, "no such trace")
        try:
            return store.session(entry)
        except ProfsuiteError as error:
            abort(422, str(error))

    @routes.get("/<key>/status")
    def status(key: str) -> Response:
        """How far the reading of a trace is; starts it."""
        try:
            entry = catalog.get(key)
        except KeyError:
            abort(404, "no such trace")
        found = store.start(entry)
        facts = {"state": found.state, "done_bytes": found.done, "total_bytes": found.total}
        return _json({**facts, "error": found.error})

    @routes.post("/<key>/cancel")
    def cancel(key: str) -> Response:
        """Give up reading a trace."""
        store.cancel(key)
        return _json({})

    @routes.get("/<key>/tracks")
    def tracks(key: str) -> Response:
        return _json(timeline.tracks(session(key)))

    @routes.get("/<key>/tile")
    def tile(key: str) -> Response:
        data = timeline.tile(session(key), _numbers("lanes"), *_range(), _number("width", 1, WIDEST))
        return Response(data, mimetype="application/octet-stream")

    @routes.get("/<key>/counter")
    def counter(key: str) -> Response:
        try:
            found = timeline.counter(
                session(key), _number("counter", 0, 1 << 31), *_range(), _number("width", 1, WIDEST)
            )
        except IndexError:
            abort(404, "no such counter")
        return _json(found)

    @routes.get("/<key>/selection")
    def selection(key: str) -> Response:
        return _json(timeline.selection(session(key), _numbers("tracks"), *_range()))

    @routes.get("/<key>/export")
    def export(key: str) -> Response:
        """A stretch of the trace in another format, to save."""
        from profsuite.dashboard import excerpt

        found, form, (start, end) = session(key), request.args.get("format", ""), _range()
        if form not in excerpt.TYPES:
            abort(400, f"format: {' or '.join(excerpt.TYPES)}")
        try:
            blocks = excerpt.excerpt(found, start, end, form)
        except ProfsuiteError as error:
            abort(422, str(error))
        response = Response(blocks, mimetype=excerpt.TYPES[form])
        response.headers["Content-Disposition"] = f'attachment; filename="{excerpt.file_name(found, start, end, form)}"'
        return response

    @routes.get("/<key>/search")
    def search(key: str) -> Response:
        found, text = session(key), request.args.get("text", "")
        if not text:
            abort(400, "text: what to look for")
        return _json(timeline.search(found, text[:1000]))

    @routes.get("/<key>/slice")
    def slice_(key: str) -> Response:
        try:
            return _json(describe(session(key), _number("id", 0, 1 << 31)))
        except IndexError:
            abort(404, "no such slice")

    return routes


def _json(value: Any) -> Response:
    return Response(msgspec.json.encode(value), mimetype="application/json")


def _number(name: str, low: int, high: int) -> int:
    """A whole number of the request's; 400 where it is none, or out of bounds."""
    text = request.args.get(name, "")
    try:
        value = int(text)
    except ValueError:
        abort(400, f"{name}: a whole number")
    if not low <= value <= high:
        abort(400, f"{name}: from {low} to {high}")
    return value


def _numbers(name: str) -> list[int]:
    text = request.args.get(name, "")
    try:
        return [int(part) for part in text.split(",") if part][: timeline.MOST_LANES]
    except ValueError:
        abort(400, f"{name}: whole numbers, with commas between")


def _range() -> tuple[int, int]:
    bound = 1 << 62
    start, end = _number("start", -bound, bound), _number("end", -bound, bound)
    if end <= start:
        abort(400, "end: after start")
    return start, end
