"""The script that makes a CSV file of a figure, as the HTML report has it, at an address of its own."""

from __future__ import annotations

from typing import Final

from flask import Blueprint, Response

from profsuite.exporters.figures.page import TABLE

ADDRESS: Final = "/figures/table.js"


def blueprint() -> Blueprint:
    """The route."""
    routes = Blueprint("figure_table", __name__)

    @routes.get(ADDRESS)
    def table() -> Response:
        return Response(TABLE, mimetype="text/javascript")

    return routes
