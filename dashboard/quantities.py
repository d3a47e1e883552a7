"""What counters count, by the names of their series, and which series can share a figure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from profsuite.exporters.units import Scale, size_scale, time_scale

UNITS: Final = {
    "bytes_per_s": "B/s", "bytes": "B", "pct": "%", "count": "", "w": "W", "mhz": "MHz", "c": "°C",
    "s": "s", "ms": "ms", "us": "µs", "ns": "ns",
}  # fmt: skip
"""Of the ends of names: those that the collector's channels write, and times."""
TIMES_NS: Final = {"s": 1e9, "ms": 1e6, "us": 1e3, "ns": 1.0}
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


def unit_of(name: str) -> tuple[str, str | None]:
    """A series' name without its unit, and that unit's key in ``UNITS``, null where it has none."""
    for key in UNITS:
        if name == key and key in ("bytes", "bytes_per_s", "count"):
            return name, key  # it is nothing but the unit
        if name.endswith(f"_{key}"):
            return name.removesuffix(f"_{key}"), key
    return name, None


def charts(series: Sequence[Measured]) -> list[Chart]:
    """A figure for each counter and unit, and for those of its series that are within a factor of ``APART``.

    A name without a unit is of a number where the counter has units for others, else of something that is not known.
    """
    counters: dict[str, dict[str | None, list[int]]] = {}
    for n, one in enumerate(series):
        counters.setdefault(one.of, {}).setdefault(unit_of(one.name)[1], []).append(n)
    found = []
    for counter, units in counters.items():
        if len(units) > 1 and None in units:
            units["count"] = units.pop(None) + units.get("count", [])
        for unit, members in units.items():
            groups = list(_near(members, series))
            found += [_chart(series, counter, unit, group, len(groups) == 1) for group in groups]
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


def _chart(series: Sequence[Measured], counter: str, unit: str | None, members: list[int], alone: bool) -> Chart:
    names = [unit_of(series[n].name)[0] for n in members]
    largest = [series[n].largest for n in members]
    factor = 1.0
    if unit in TIMES_NS:
        scale: Scale | None = time_scale(value * TIMES_NS[unit] for value in largest)
        factor = TIMES_NS[unit]
    elif unit in ("bytes", "bytes_per_s"):
        scale = size_scale(largest).per(UNITS[unit].removeprefix("B"))
    else:
        scale = None if unit is None else Scale(UNITS[unit])
    if scale is not None:
        factor /= scale.divisor
    title = counter
    if (not alone or len(names) == 1) and names != [counter]:
        title += f": {', '.join(names)}"
    if scale is not None and scale.unit:
        title += f" ({scale.unit})"
    return Chart(title, tuple(members), tuple(names), scale, factor)
