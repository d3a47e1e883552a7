"""Numbers as they are printed."""

from __future__ import annotations

import pytest

from profsuite.exporters.units import count, duration, percent, plural, size


@pytest.mark.parametrize(
    ("ns", "expected"),
    [
        (0, "0 ns"),
        (999, "999 ns"),
        (1_000, "1.000 µs"),
        (12_345, "12.35 µs"),
        (999_960, "1.000 ms"),
        (123_456_789, "123.5 ms"),
        (1_500_000_000, "1.500 s"),
        (7_200_000_000_000, "7,200.0 s"),
        (-5_000, "-5.000 µs"),
    ],
)
def test_duration(ns: int, expected: str) -> None:
    assert duration(ns) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [(0, "0.0 %"), (0.01, "<0.1 %"), (45.04, "45.0 %"), (99.99, ">99.9 %"), (100, "100.0 %")],
)
def test_percent(value: float, expected: str) -> None:
    assert percent(value) == expected


def test_counts_and_sizes() -> None:
    assert (count(1_234_567), count(1234.5), count(3.0)) == ("1,234,567", "1,234", "3")
    assert (size(999), size(1_500_000), size(2_500_000_000)) == ("999 B", "1.5 MB", "2.5 GB")
    assert (plural(1, "step"), plural(2, "step"), plural(0, "launch", "launches")) == (
        "1 step",
        "2 steps",
        "0 launches",
    )
