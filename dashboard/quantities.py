"""What counters count, by the names of their series, and which series can share a figure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from profsuite.exporters.units import Scale, size_scale, time_scale

UNITS: Final = {
    "bytes_per_s": "B/s", "bytes": "B", "pct": "%", "count": "", "w": "W", "mhz": "MHz", "c": "°C",
    "ms": "ms", "us": "µs", "ns": "ns",
}  # fmt: skip
"""Of the ends of names: those that the collector's channels write, and times."""
TIMES_NS: Final = {"ms": 1e6, "us": 1e3, "ns": 1.0}
ONLY_OF: Final = {"w": "power", "c": "temperature"}
"""How counters' names end where these letters are a unit: elsewhere they may be anything."""
NAMED: Final = 3
"""Series that a title names."""
APART: Final = 10
"""One series' largest value by another's from which on they have axes of their own."""


@dataclass(frozen=True, slots=True)
class Measured:
    """A series: what it is of, its name, the largest of its values without their signs."""

    of: str
    name: str
    largest: float


@dataclass(frozen=True, slots=True)
class Chart:
    """What one figure shows: ``members`` by their place in what was asked for, with the names they have there.

    Values times ``factor`` are in the unit of ``scale``, which is null where the unit is not known.
    """

    title: str
    members: tuple[int, ...]
    names: tuple[str, ...]
    scale: Scale | None
    factor: float


def unit_of(counter: str, name: str) -> tuple[str, str | None]:
    """A series' name without its unit, and that unit's key in ``UNITS``, null where it has none."""
    for key in UNITS:
        if name == key and key in ("bytes", "bytes_per_s", "count"):
            return name, key  # it is nothing but the unit
        short = name.removesuffix(f"_{key}")
        if short not in ("", name) and counter.endswith(ONLY_OF.get(key, "")):
            return short, key
    return name, None


def unit_text(counter: str, name: str) -> str:
    """The unit of a series' values as it is written after them, empty where it has none or none is known."""
    _, key = unit_of(counter, name)
    return "" if key is None else UNITS[key]


def charts(series: Sequence[Measured], units_known: bool = True) -> list[Chart]:
    """A figure for each counter and unit, and for those of its series that are within a factor of ``APART``.

    A name without a unit is of a number where the counter has units for others, else of something that is not known;
    so are all where ``units_known`` is not set: their names were given by somebody who has other rules.
    """
    parts = [unit_of(one.of, one.name) if units_known else (one.name, None) for one in series]
    counters: dict[str, dict[str | None, list[int]]] = {}
    for n, one in enumerate(series):
        counters.setdefault(one.of, {}).setdefault(parts[n][1], []).append(n)
    found = []
    for counter, units in counters.items():
        if len(units) > 1 and None in units:
            units["count"] = units.pop(None) + units.get("count", [])
        for unit, members in units.items():
            groups = list(_near(members, series))
            for group in groups:
                names, largest = [parts[n][0] for n in group], [series[n].largest for n in group]
                scale, factor = _scale(unit, largest)
                title = _title(counter, names, scale, named=len(groups) > 1 or len(names) == 1)
                found.append(Chart(title, tuple(group), tuple(names), scale, factor))
    return found


def _near(members: list[int], series: Sequence[Measured]) -> Iterable[list[int]]:
    """Groups of series, the largest first: each with those that are not too small to be seen beside its largest."""
    # What is zero throughout has no change to hide: it is with the largest.
    top = max(series[n].largest for n in members)
    height = {n: series[n].largest or top for n in members}
    group: list[int] = []
    for n in sorted(members, key=lambda n: -height[n]):
        if group and height[n] * APART < height[group[0]]:
            yield sorted(group)
            group = []
        group.append(n)
    yield sorted(group)


def _scale(unit: str | None, largest: Sequence[float]) -> tuple[Scale | None, float]:
    """The scale of a unit's values, and what brings them to it."""
    if unit is None:
        return None, 1.0
    if unit in TIMES_NS:
        scale = time_scale(value * TIMES_NS[unit] for value in largest)
        return scale, TIMES_NS[unit] / scale.divisor
    if unit in ("bytes", "bytes_per_s"):
        scale = size_scale(largest).per(UNITS[unit].removeprefix("B"))
        return scale, 1 / scale.divisor
    return Scale(UNITS[unit]), 1.0


def _title(counter: str, names: Sequence[str], scale: Scale | None, named: bool) -> str:
    title = counter
    if named and list(names) != [counter]:
        rest = len(names) - NAMED
        title += f": {', '.join(names[:NAMED])}{f' and {rest} more' if rest > 0 else ''}"
    return title if scale is None or not scale.unit else f"{title} ({scale.unit})"
