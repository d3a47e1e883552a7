"""How numbers are printed: the unit always beside them, no more digits than mean something."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

TIMES: Final = (("s", 1e9), ("ms", 1e6), ("µs", 1e3), ("ns", 1.0))
SIZES: Final = (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3), ("B", 1.0))


@dataclass(frozen=True, slots=True)
class Scale:
    """The unit that many numbers share: each is divided by ``divisor`` and then is in ``unit``."""

    unit: str
    divisor: float = 1.0

    def of(self, value: float) -> float:
        """A number in the unit."""
        return value / self.divisor

    def all(self, values: Iterable[float]) -> list[float]:
        """Numbers in the unit."""
        return [value / self.divisor for value in values]

    @property
    def form(self) -> str:
        """How d3 writes a number in the unit: to what was one before the division, without trailing zeros."""
        return f",.{max(3, len(str(int(self.divisor))) - 1)}~f"

    def per(self, what: str) -> Scale:
        """The same for a rate: ``per("/s")`` of GB is GB/s."""
        return Scale(f"{self.unit}{what}", self.divisor)


PERCENT: Final = Scale("%")


def time_scale(values_ns: Iterable[float]) -> Scale:
    """The unit in which the largest of some times (ns) is at least one, of s, ms, µs and ns."""
    return _scale(values_ns, TIMES)


def size_scale(values_bytes: Iterable[float]) -> Scale:
    """The unit in which the largest of some sizes is at least one, of TB, GB, MB, kB and B: decimal, as in ``size``."""
    return _scale(values_bytes, SIZES)


def _scale(values: Iterable[float], units: tuple[tuple[str, float], ...]) -> Scale:
    largest = max(map(abs, values), default=0)
    return Scale(*next((each for each in units if largest >= each[1]), units[-1]))


def duration(ns: float) -> str:
    """A time in ns as ``1.234 s``, ``56.7 ms``, ``8.9 us`` or ``120 ns``."""
    for unit, scale in TIMES[:-1]:
        if abs(ns) >= scale * 0.99995:  # what would round to 1000 of the smaller unit
            value = ns / scale
            digits = 1 if abs(value) >= 100 else 2 if abs(value) >= 10 else 3
            return f"{value:,.{digits}f} {unit}"
    return f"{ns:.0f} ns"


def percent(value: float) -> str:
    """A share as ``12.3 %``; never rounded to 0 or 100 unless it is.

    Two ways to compute one share can differ in the last bit, which must not decide how 8.95 is rounded.
    """
    if 0 < value < 0.05:
        return "<0.1 %"
    if 99.95 <= value < 100:
        return ">99.9 %"
    return f"{round(value, 9):.1f} %"


def count(value: float) -> str:
    """A number of things, with thousands separated; fractions to four digits, to a whole number from 1,000 on."""
    if isinstance(value, int) or float(value).is_integer():
        return f"{int(value):,}"
    return f"{value:,.4g}" if abs(value) < 1000 else f"{value:,.0f}"


def size(num_bytes: float) -> str:
    """Bytes as ``1.2 GB``; decimal units, as bandwidths are given."""
    for unit, scale in SIZES[:-1]:
        if abs(num_bytes) >= scale:
            return f"{num_bytes / scale:,.1f} {unit}"
    return f"{num_bytes:,.0f} B"


def rate(value: float, unit: str) -> str:
    """A large number with a decimal prefix, as ``989 TFLOP/s``; three significant digits."""
    for prefix, scale in (("E", 1e18), ("P", 1e15), ("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if abs(value) >= scale * 0.9995:
            scaled = value / scale
            digits = 0 if abs(scaled) >= 99.95 else 1 if abs(scaled) >= 9.995 else 2
            return f"{scaled:.{digits}f} {prefix}{unit}"
    return f"{value:.3g} {unit}".rstrip()


def plural(number: int, noun: str, several: str | None = None) -> str:
    """``1 step``, ``12 steps``; ``several`` is the plural where it does not end in s alone."""
    return f"{count(number)} {noun if number == 1 else several or noun + 's'}"
