"""What must not matter to a report: the order of the events, where the clock starts, how numbers are written.

The job is the generator's, without memory events (of allocations of one size the file's order decides which is named
first); no two of its slices on one thread have the same start and duration, so that nothing is left to that order.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import msgspec
import pytest

from profsuite.analyzers.report import analyze
from profsuite.trace.load import load
from profsuite.trace.select import select_steps

ROOT = Path(__file__).parents[2]
ROWS = {"slice_id", "slice_ids", "longest_slice_id", "next_slice_id", "track_id"}
"""Fields that name rows of tables, which are in the file's order."""
FILE = {"source", "num_bytes", "byte_offset"}
MOMENTS = {"start_ns", "end_ns", "edges_ns"}
"""Fields that are moments on the file's clock; the others are lengths of time."""


@pytest.fixture(scope="module")
def recording(tmp_path_factory):
    """The file's path and its content, numbers with a point as their exact values."""
    folder = tmp_path_factory.mktemp("job")
    command = [sys.executable, str(ROOT / "benchmarks" / "gen_trace.py"), "--size-mb", "0.3", "--out", str(folder)]
    subprocess.run([*command, "--no-memory", "--cuda-sync", "--seed", "4"], check=True, stdout=subprocess.DEVNULL)
    path = folder / "rank_0.json"
    return path, json.loads(path.read_text(), parse_float=Decimal)


def plain(value, moved_by=0, without=FILE):
    """A report without what belongs to the file, its moments moved."""
    if isinstance(value, dict):
        return {
            key: _moved(item, moved_by) if key in MOMENTS else plain(item, moved_by, without)
            for key, item in value.items()
            if key not in without
        }
    if isinstance(value, (list, tuple)):
        return [plain(item, moved_by, without) for item in value]
    return float(f"{value:.12g}") if isinstance(value, float) else value  # sums of doubles depend on their order


def _moved(value, by):
    if value is None:
        return None
    return [each + by for each in value] if isinstance(value, (list, tuple)) else value + by


def report_of(path):
    return msgspec.to_builtins(analyze(load(path, cache=False), top=50))


def written(folder, content, as_text=False):
    """The content as a file; numbers with a point as such, or in quotes."""
    path = folder / "again.json"
    text = json.dumps(content, default=lambda number: f"@@{number}@@")
    path.write_text(text.replace("@@", "") if as_text else text.replace('"@@', "").replace('@@"', ""))
    return path


def times(content):
    return [event for event in content["traceEvents"] if event["ph"] != "M"]


@pytest.mark.parametrize("seed", [None, 1])
def test_the_order_of_the_events(recording, tmp_path, seed):
    path, content = recording
    events = list(content["traceEvents"])
    events.reverse() if seed is None else random.Random(seed).shuffle(events)
    again = report_of(written(tmp_path, content | {"traceEvents": events}))
    assert plain(again, without=FILE | ROWS) == plain(report_of(path), without=FILE | ROWS)


def test_where_the_clock_starts(recording, tmp_path):
    path, content = recording
    by = Decimal("-5199373040123.457")
    moved = [event | ({"ts": event["ts"] + by} if event["ph"] != "M" else {}) for event in content["traceEvents"]]
    again = report_of(written(tmp_path, content | {"traceEvents": moved}))
    assert plain(again) == plain(report_of(path), moved_by=int(by * 1000))


@pytest.mark.parametrize("unit", ["ns", "us"])
def test_the_unit_that_viewers_show(recording, tmp_path, unit):
    path, content = recording
    assert plain(report_of(written(tmp_path, content | {"displayTimeUnit": unit}))) == plain(report_of(path))


def test_times_as_text(recording, tmp_path):
    path, content = recording
    assert all(isinstance(event["ts"], Decimal) for event in times(content))
    assert plain(report_of(written(tmp_path, content, as_text=True))) == plain(report_of(path))


def test_selected_steps_add_up_to_the_recording(recording):
    """Each piece of work, each op and each step is of one selection, and spent there what it spent in the whole."""
    trace = load(recording[0], cache=False)
    whole = analyze(trace, top=10_000)
    numbers = [step.number for step in whole.steps.steps]
    parts = [analyze(select_steps(trace, (number, number + 1)), top=10_000) for number in numbers]
    assert len(parts) > 1
    for part in ("num_compute", "num_comm", "num_memcpy"):
        assert sum(getattr(each.breakdown[0], part) for each in parts) == getattr(whole.breakdown[0], part)
    for each, number in zip(parts, range(len(numbers)), strict=True):
        assert each.breakdown[0].steps[0] == whole.breakdown[0].steps[number]
        assert sum(cause.total_ns for cause in each.idle[0].causes) == each.breakdown[0].shares.idle_ns
    for table in ("ops", "kernels"):
        of_parts: dict[str, int] = {}
        for each in parts:
            for row in getattr(each, table).rows:
                of_parts[row.name] = of_parts.get(row.name, 0) + row.count
        assert of_parts == {row.name: row.count for row in getattr(whole, table).rows}
