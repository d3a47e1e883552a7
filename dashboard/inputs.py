"""Components of the dashboard's own, in plain JavaScript: the timeline, and the browser's own inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dash.development.base_component import Component


class Own(Component):
    """A component of assets/*.js; ``_prop_names`` are what it takes."""

    _namespace = "profsuite_dashboard"
    _children_props: list[str] = []  # noqa: RUF012 - Dash's
    _base_nodes: list[str] = ["children"]  # noqa: RUF012
    _valid_wildcard_attributes: list[str] = []  # noqa: RUF012

    def __init__(self, **given: Any) -> None:
        self.available_properties = list(self._prop_names)
        self.available_wildcard_properties: list[str] = []
        super().__init__(**given)  # type: ignore[no-untyped-call]


class Timeline(Own):
    """The timeline of one trace (assets/timeline.js).

    ``trace`` is its key, ``start_ns`` and ``end_ns`` the view in ns since the recording's start (null: all of it),
    ``selected`` the number of a slice or null, ``find`` what is searched for, ``range`` a selected stretch (start and
    end), ``tracks`` those that its sums are of (null: all), ``track`` the first track in view and how many of its rows
    are above, ``pinned`` the tracks that are, ``fold`` those that were folded or opened.  It sets all of them but the
    trace as the user moves.  Without a view, one around the selected slice is shown.
    """

    _type = "Timeline"
    _prop_names: list[str] = [  # noqa: RUF012
        "id", "trace", "start_ns", "end_ns", "selected", "find", "range", "tracks", "track", "pinned", "fold",
    ]  # fmt: skip

    def __init__(
        self,
        id: str,  # noqa: A002 - Dash's name
        trace: str,
        start_ns: int | None = None,
        end_ns: int | None = None,
        selected: int | None = None,
        find: str | None = None,
        range: Sequence[int] | None = None,  # noqa: A002
        tracks: Sequence[int] | None = None,
        track: Sequence[int] | None = None,
        pinned: Sequence[int] | None = None,
        fold: Sequence[int] | None = None,
    ) -> None:
        lists = {"range": range, "tracks": tracks, "track": track, "pinned": pinned, "fold": fold}
        super().__init__(
            id=id,
            trace=trace,
            start_ns=start_ns,
            end_ns=end_ns,
            selected=selected,
            find=find,
            **{name: None if given is None else list(given) for name, given in lists.items()},
        )


class Choice(Own):
    """One of several: ``options`` have a label and a value each."""

    _type = "Choice"
    _prop_names: list[str] = ["id", "label", "options", "value"]  # noqa: RUF012

    def __init__(
        self,
        id: str,  # noqa: A002
        label: str,
        options: Sequence[Mapping[str, str]],
        value: str | None = None,
    ) -> None:
        super().__init__(id=id, label=label, options=[dict(option) for option in options], value=value)


class Slider(Own):
    """A factor from ``min`` to ``max``, or a whole number from 0 that stands for one of ``words``."""

    _type = "Slider"
    _prop_names: list[str] = ["id", "label", "min", "max", "step", "value", "words"]  # noqa: RUF012

    def __init__(
        self,
        id: Mapping[str, str | int],  # noqa: A002
        label: str,
        least: float,
        most: float,
        step: float,
        value: float,
        words: Sequence[str] | None = None,
    ) -> None:
        of = None if words is None else list(words)
        super().__init__(id=dict(id), label=label, min=least, max=most, step=step, value=value, words=of)


class Toggle(Own):
    """On or off."""

    _type = "Toggle"
    _prop_names: list[str] = ["id", "label", "value"]  # noqa: RUF012

    def __init__(self, id: Mapping[str, str], label: str, value: bool = False) -> None:  # noqa: A002
        super().__init__(id=dict(id), label=label, value=value)


class Columns(Own):
    """The choice of a table's columns (assets/tables.js): ``columns`` have a field and a label each.

    ``grid`` is the grid's id; ``name`` is what the choice is kept under in the browser; ``hidden`` are the fields that
    are hidden until one is made.
    """

    _type = "Columns"
    _prop_names: list[str] = ["id", "grid", "name", "columns", "hidden"]  # noqa: RUF012

    def __init__(
        self,
        id: Mapping[str, str],  # noqa: A002
        grid: Mapping[str, str],
        name: str,
        columns: Sequence[Mapping[str, str]],
        hidden: Sequence[str],
    ) -> None:
        super().__init__(
            id=dict(id), grid=dict(grid), name=name, columns=[dict(column) for column in columns], hidden=list(hidden)
        )
