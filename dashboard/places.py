"""Figures whose bars and points lead to their place in the timeline.

plotly.js hands the ``ids`` of what is clicked to the callback: each holds the parameters of the timeline's address.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode

from dash import ALL

from profsuite.dashboard.components import figure

if TYPE_CHECKING:
    from collections.abc import Sequence

    from profsuite.exporters.figures.figure import Figure, Place

ANY: Final = {"kind": "placed", "of": ALL}
"""The ids of all such figures."""
_PARAMETER: Final = re.compile(r"&(selected|start|end)=(-?\d{1,19})\b")


def placed(made: Figure | None, empty: str, name: str, origin_ns: int, about: str | None = None) -> Any:
    """``figure`` of that ``name``, a click on which leads to the timeline; ``origin_ns`` is what that counts from."""
    if made is None:
        return figure(None, empty)
    ids = [f"{n}&{urlencode(_query(place, origin_ns))}" for n, place in enumerate(made.places)]
    graph_id = {"kind": "placed", "of": name}
    return figure(made, empty, about, ids=ids, hint="A click leads to the timeline.", id=graph_id)


def _query(place: Place | None, origin_ns: int) -> dict[str, int]:
    if place is None:
        return {}
    if isinstance(place, int):
        return {"selected": place}
    return {"start": place[0] - origin_ns, "end": place[1] - origin_ns}


def target(clicks: Sequence[dict[str, Any] | None]) -> dict[str, int] | None:
    """The parameters of the timeline's address that a click leads to; null where none of the clicks leads anywhere."""
    for click in clicks:
        for point in (click or {}).get("points", ()):
            found = {name: int(value) for name, value in _PARAMETER.findall(str(point.get("id", "")))}
            if found:
                return found
    return None
