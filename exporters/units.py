"""How numbers are printed: the unit always beside them, no more digits than mean something."""

from __future__ import annotations


def duration(ns: float) -> str:
    """A time in ns as ``1.234 s``, ``56.7 ms``, ``8.9 us`` or ``120 ns``."""
    for unit, scale in (("s", 1e9), ("ms", 1e6), ("µs", 1e3)):
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
    for unit, scale in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
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
