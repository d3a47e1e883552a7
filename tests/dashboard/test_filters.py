"""Filters in an address: restored where they are filters, passed over where they are something else."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("dash", reason="the dashboard is not installed")

from dash import html

from profsuite.dashboard.components import name_column, number, table
from profsuite.dashboard.filters import remembered, restore

MODEL = {
    "name": {"filterType": "text", "type": "contains", "filter": "gemm"},
    "count": {
        "filterType": "number",
        "operator": "AND",
        "conditions": [
            {"filterType": "number", "type": "greaterThan", "filter": 2.0},
            {"filterType": "number", "type": "inRange", "filter": 3.5, "filterTo": 9.0},
        ],
    },
}


def layout():
    columns = [name_column("name", "name"), number("count", "count")]
    return html.Div([table(name, columns, [{"name": "a", "count": 1}], "") for name in ("kernels", "ops")])


def models(made):
    return {
        part.id["of"]: getattr(part, "filterModel", None)
        for part in made._traverse()
        if isinstance(getattr(part, "id", None), dict) and part.id["kind"] == "grid"
    }


def test_there_and_back():
    address = remembered("?start=1", {"kernels": MODEL, "ops": {}})
    from urllib.parse import parse_qs

    query = {name: values[-1] for name, values in parse_qs(address[1:]).items()}
    assert query["start"] == "1"
    made = layout()
    restore(made, query)
    assert models(made) == {"kernels": MODEL, "ops": None}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{",
        '{"name": {"function": "alert(1)"}}',
        '{"name": {"filterType": "text", "type": "contains", "filter": {"function": "alert(1)"}}}',
        '{"name": {"filterType": "function", "type": "contains"}}',
        '{"name": ' + '{"filterType": "text", "conditions": [' * 2000,
        json.dumps({f"c{n}": {"filterType": "text"} for n in range(5000)}),
    ],
)
def test_what_is_none_is_passed_over(text):
    made = layout()
    restore(made, {"filter.kernels": text})
    assert models(made) == {"kernels": None, "ops": None}


def test_without_filters_the_address_is_clean():
    assert remembered("?filter.kernels=%7B%7D", {"kernels": {}}) == ""
    assert remembered(None, {"kernels": None}) == ""
