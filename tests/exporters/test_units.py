"""Numbers as they are printed."""

from __future__ import annotations

import pytest

from profsuite.exporters.units import Scale, count, duration, percent, plural, size, size_scale, time_scale


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


@pytest.mark.parametrize(
    ("values", "unit", "shown"),
    [
        ([], "B", []),
        ([0], "B", [0]),
        ([999, 12], "B", [999, 12]),
        ([1_000, 12], "kB", [1, 0.012]),
        ([42_949_672_960, 8_589_934_592], "GB", [42.94967296, 8.589934592]),
        ([-3e12], "TB", [-3]),
    ],
)
def test_sizes_share_the_unit_of_the_largest(values: list[float], unit: str, shown: list[float]) -> None:
    scale = size_scale(values)
    assert scale.unit == unit
    assert scale.all(values) == shown


def test_times_share_the_unit_of_the_largest() -> None:
    assert [time_scale([0, ns]).unit for ns in (5, 5e3, 5e6, 5e9, 3.6e12)] == ["ns", "µs", "ms", "s", "s"]
    assert time_scale([50_000]).of(50_000) == 50


def test_a_scale_shows_what_one_was() -> None:
    forms = {scale.unit: scale.form for scale in (Scale("GB", 1e9), Scale("ms", 1e6), Scale("%"))}
    assert forms == {"GB": ",.9~f", "ms": ",.6~f", "%": ",.3~f"}
    assert size_scale([5e6]).per("/s") == Scale("MB/s", 1e6)
