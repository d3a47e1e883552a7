"""The filters of a page's tables in its address, so that a link restores them: ``filter.<table>=<ag-grid's model>``."""

from __future__ import annotations

from typing import Any, Final, Literal
from urllib.parse import parse_qs, urlencode

import msgspec
from dash import ALL, Dash, Input, Output, State, ctx
from dash.exceptions import PreventUpdate

PREFIX: Final = "filter."
MOST: Final = 4_000
"""Characters of an address's parameters that are read or written."""


class Condition(msgspec.Struct, rename="camel", omit_defaults=True, forbid_unknown_fields=True):
    """What one column is filtered by, as ag-grid says it; an address is anybody's, so nothing else is let through."""

    filter_type: Literal["text", "number"]
    type: (
        Literal[
            "contains", "notContains", "equals", "notEqual", "startsWith", "endsWith", "blank", "notBlank",
            "lessThan", "lessThanOrEqual", "greaterThan", "greaterThanOrEqual", "inRange",
        ] | None
    ) = None  # fmt: skip
    filter: str | float | None = None
    filter_to: float | None = None
    operator: Literal["AND", "OR"] | None = None
    conditions: list[Condition] | None = None


def restore(layout: Any, query: dict[str, str]) -> None:
    """Set the filters of a layout's tables to those of an address; what is none is passed over."""
    models = {name.removeprefix(PREFIX): text for name, text in query.items() if name.startswith(PREFIX)}
    if not models:
        return
    for part in layout._traverse():
        name = part.id.get("of") if isinstance(getattr(part, "id", None), dict) else None
        if name in models and part.id.get("kind") == "grid":
            try:
                found = msgspec.json.decode(models[name][:MOST], type=dict[str, Condition])
            except (msgspec.MsgspecError, RecursionError):
                continue
            part.filterModel = msgspec.to_builtins(found)


def remembered(search: str | None, models: dict[str, dict[str, Any] | None]) -> str:
    """An address's parameters with the filters of its tables as they are now, and the others as they were."""
    known = parse_qs((search or "").lstrip("?"))
    query = {name: values[-1] for name, values in known.items() if not name.startswith(PREFIX)}
    query |= {PREFIX + name: msgspec.json.encode(model).decode() for name, model in sorted(models.items()) if model}
    text = urlencode(query)
    return f"?{text}" if text and len(text) <= MOST else ""


def install(app: Dash) -> None:
    """Keep the address up to date as tables are filtered."""

    @app.callback(
        Output("address", "search", allow_duplicate=True),
        Input({"kind": "grid", "of": ALL}, "filterModel"),
        State("address", "search"),
        prevent_initial_call=True,
    )
    def remember(_: list[dict[str, Any] | None], search: str | None) -> str:
        """The address carries the filters."""
        models = {each["id"]["of"]: each.get("value") for each in ctx.inputs_list[0]}
        made = remembered(search, models)
        if not models or made == (search or ""):
            raise PreventUpdate
        return made
