"""What counters count, by their names, and which of their series share a figure."""

from __future__ import annotations

import pytest

from profsuite.dashboard.quantities import Measured, charts, unit_of, unit_text

HOST = (
    ("CPU", "process_pct", 104.0),
    ("CPU", "system_pct", 52.0),
    ("CPU", "threads", 4.0),
    ("host memory", "rss_bytes", 480e6),
    ("host memory", "available_bytes", 24.5e9),
    ("process I/O", "read_bytes_per_s", 12.7e6),
    ("process I/O", "write_bytes_per_s", 0.0),
)
NVML = (
    ("GPU 0 utilization", "gpu_pct", 99.0),
    ("GPU 0 utilization", "memory_pct", 40.0),
    ("GPU 0 memory", "used_bytes", 70e9),
    ("GPU 0 power", "draw_w", 612.5),
    ("GPU 0 power", "limit_w", 700.0),
    ("GPU 0 clocks", "sm_mhz", 1980.0),
    ("GPU 0 clocks", "memory_mhz", 2619.0),
    ("GPU 0 temperature", "gpu_c", 51.0),
    ("GPU 0 throttling", "power_cap", 1.0),
    ("GPU 0 throttling", "sync_boost", 0.0),
)


def shown(*series):
    """Title, names and what a value of 1000 becomes, of each figure."""
    found = charts([Measured(*each) for each in series])
    drawn = [n for chart in found for n in chart.members]
    assert sorted(drawn) == list(range(len(series)))  # each once
    return [(chart.title, chart.names, round(1000 * chart.factor, 9)) for chart in found]


def test_the_hosts_counters():
    assert shown(*HOST) == [
        ("CPU (%)", ("process", "system"), 1000),
        ("CPU: threads", ("threads",), 1000),
        ("host memory: available (GB)", ("available",), 1e-6),
        ("host memory: rss (MB)", ("rss",), 1e-3),
        ("process I/O (MB/s)", ("read", "write"), 1e-3),
    ]


def test_a_devices_counters():
    assert [title for title, _, _ in shown(*NVML)] == [
        "GPU 0 utilization (%)",
        "GPU 0 memory: used (GB)",
        "GPU 0 power (W)",
        "GPU 0 clocks (MHz)",
        "GPU 0 temperature: gpu (°C)",
        "GPU 0 throttling",
    ]
    assert charts([Measured(*each) for each in NVML])[-1].scale is None


def test_a_name_of_no_unit_has_none():
    assert unit_of("host memory", "rss_bytes") == ("rss", "bytes")
    assert unit_of("process I/O", "read_bytes_per_s") == ("read", "bytes_per_s")
    assert unit_of("retries", "retry_count") == ("retry", "count")
    assert unit_of("memory", "bytes") == ("bytes", "bytes")
    assert [unit_of("any", name)[1] for name in ("threads", "c", "loss_c", "loss_w", "_pct", "")] == [None] * 6
    assert unit_of("GPU 0 power", "draw_w") == ("draw", "w")


def test_times_have_the_unit_that_suits():
    assert shown(("input", "wait_us", 2_500.0)) == [("input: wait (ms)", ("wait",), 1)]
    assert shown(("input", "wait_ms", 0.0025)) == [("input: wait (µs)", ("wait",), 1e6)]


def test_who_names_otherwise_has_no_units():
    found = charts([Measured("train", "loss_pct", 2.0), Measured("train", "lr", 1e-4)], units_known=False)
    assert [(chart.title, chart.names, chart.scale, chart.factor) for chart in found] == [
        ("train: loss_pct", ("loss_pct",), None, 1),
        ("train: lr", ("lr",), None, 1),
    ]


def test_a_title_names_a_few():
    found = charts([Measured("a", f"s{n}", value) for n, value in enumerate((100, 9, 8, 7, 6, 5))])
    assert [chart.title for chart in found] == ["a: s0", "a: s1, s2, s3 and 2 more"]


@pytest.mark.parametrize(
    ("largest", "groups"),
    [
        ((100, 10), [(0, 1)]),
        ((100, 9.9), [(0,), (1,)]),
        ((0, 5, 1000, 0), [(0, 2, 3), (1,)]),
        ((1, 5, 25, 125), [(2, 3), (0, 1)]),
        ((0, 0), [(0, 1)]),
    ],
)
def test_series_that_hide_each_others_change_are_apart(largest, groups):
    found = charts([Measured("a", f"{n}_x", value) for n, value in enumerate(largest)])
    assert [chart.members for chart in found] == groups


def test_the_unit_after_a_value() -> None:
    assert [unit_text("host", name) for name in ("rss_bytes", "read_bytes_per_s", "cpu_pct", "any", "retry_count")] == [
        "B", "B/s", "%", "", "",
    ]  # fmt: skip
