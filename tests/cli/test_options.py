"""How values of options are written."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from profsuite.cli.options import rank_list, size, step_range, time_range

MS = 1_000_000


@pytest.mark.parametrize(
    ("parse", "text", "expected"),
    [
        (step_range, "3:6", (3, 6)),
        (step_range, "3", (3, 4)),
        (step_range, "3:", (3, None)),
        (step_range, ":6", (None, 6)),
        (time_range, "10ms:20ms", (10 * MS, 20 * MS)),
        (time_range, "1.5s:", (1_500 * MS, None)),
        (time_range, ":250us", (None, 250_000)),
        (time_range, "0.0000019s:7us", (1_900, 7_000)),
        (size, "2GB", 2 * 10**9),
        (size, "1.5GiB", 3 * 2**29),
        (size, "500 mb", 500 * 10**6),
        (size, "4096", 4096),
        (rank_list, "0", [0]),
        (rank_list, "3,0,0:2", [0, 1, 3]),
    ],
)
def test_values(parse: Callable[[str], object], text: str, expected: object) -> None:
    assert parse(text) == expected


@pytest.mark.parametrize(
    ("parse", "text"),
    [
        (step_range, ""),
        (step_range, "6:3"),
        (step_range, "3:3"),
        (step_range, "a:b"),
        (step_range, "1:2:3"),
        (time_range, "10ms"),
        (time_range, "10:20"),
        (time_range, "20ms:10ms"),
        (time_range, "1h:2h"),
        (time_range, "-1ms:2ms"),
        (size, "2 elephants"),
        (size, ""),
        (size, "-1"),
        (rank_list, ""),
        (rank_list, "a"),
        (rank_list, "4:4"),
    ],
)
def test_what_is_refused_says_how_to_write_it(parse: Callable[[str], object], text: str) -> None:
    with pytest.raises(ValueError, match=r"write|holds"):
        parse(text)
