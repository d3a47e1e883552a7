"""A generated job in which the kernels of one op take longer: that op is named, with exactly that change."""

from __future__ import annotations

import bisect
import json
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import pytest

from profsuite.analyzers.diff.report import diff
from profsuite.trace.load import load

GENERATOR = Path(__file__).parents[3] / "benchmarks" / "gen_trace.py"
LONGER_NS = 40_000


@pytest.fixture(scope="module")
def generated(tmp_path_factory):
    """Events of a generated trace; times in whole ns from the first one."""
    folder = tmp_path_factory.mktemp("generated")
    command = [sys.executable, str(GENERATOR), "--size-mb", "0.2", "--min-steps", "4", "--out", str(folder)]
    subprocess.run(command, check=True, capture_output=True)
    document = json.loads((folder / "rank_0.json").read_text(), parse_float=Decimal)
    events = document["traceEvents"]
    first = min(event["ts"] for event in events)
    for event in events:
        event["ts"] = int((event["ts"] - first) * 1000)
        if "dur" in event:
            event["dur"] = int(event["dur"] * 1000)
    return events


def written(events, path):
    """The events as a trace; microseconds this small are exact to the nanosecond as floats."""
    out = []
    for event in events:
        args = {k: float(v) if isinstance(v, Decimal) else v for k, v in event.get("args", {}).items()}
        times = {key: event[key] / 1000 for key in ("ts", "dur") if key in event}
        out.append(event | times | ({"args": args} if args else {}))
    path.write_text(json.dumps({"traceEvents": out}))
    return load(path, cache=False)


def stretched(events, moments):
    """The events with ``LONGER_NS`` put in at each moment: what runs then takes longer, what comes later is later."""
    moments = sorted(moments)

    def moved(time):
        return time + LONGER_NS * bisect.bisect_left(moments, time)

    result = []
    for event in events:
        ts = moved(event["ts"])
        end = moved(event["ts"] + event["dur"]) if "dur" in event else ts
        result.append(event | {"ts": ts} | ({"dur": end - ts} if "dur" in event else {}))
    return result


def kernels_of(events, op):
    """The kernels of the ops of a name, as the file joins them: by external id."""
    ids = {e["args"]["External id"] for e in events if e.get("cat") == "cpu_op" and e["name"] == op}
    return [e for e in events if e.get("cat") == "kernel" and e["args"].get("External id") in ids]


def test_the_op_is_named_with_its_change(generated, tmp_path):
    kernels = kernels_of(generated, "aten::gelu")
    assert len(kernels) >= 4
    # One ns before each kernel ends; nothing else runs on the device then.
    moments = [kernel["ts"] + kernel["dur"] - 1 for kernel in kernels]
    before = written(generated, tmp_path / "before.json")
    report = diff(before, written(stretched(generated, moments), tmp_path / "after.json"))
    longer = LONGER_NS * len(kernels)

    op = report.ops.rows[0]
    assert (op.name, op.device.after_ns - op.device.before_ns) == ("aten::gelu", longer)
    assert op.calls_before == op.calls_after == len(kernels)
    assert op.device.judgement == "more"
    assert {row.device.change_ms_per_step for row in report.ops.rows[1:]} == {0.0}
    (kernel,) = [row for row in report.kernels.rows if row.device.judgement != "same"]
    assert (kernel.op, kernel.device.after_ns - kernel.device.before_ns) == ("aten::gelu", longer)
    calls = [row for row in report.ops.calls if row.device.judgement != "same"]
    assert sum(row.device.after_ns - row.device.before_ns for row in calls) == longer
    assert {row.matched_by for row in calls} == {"shapes"}

    parts = {part.part: part.time.after_ns - part.time.before_ns for part in report.devices[0].parts}
    assert {part: change for part, change in parts.items() if change} == {"compute": longer}
    assert report.time.after_ns - report.time.before_ns == longer
    assert report.before.num_steps == report.after.num_steps == 4


def test_steady_steps_name_it_in_the_sentence(generated, tmp_path):
    # Of one step nothing is known of noise, so the sentence names the cause.
    kernels = kernels_of(generated, "aten::gelu")
    moments = [kernel["ts"] + kernel["dur"] - 1 for kernel in kernels]
    before = written(generated, tmp_path / "before.json")
    after = written(stretched(generated, moments), tmp_path / "after.json")
    number = int(before.array("step", "number")[0])
    report = diff(before, after, steps=(number, number + 1))
    change = LONGER_NS * len(kernels) / 4 / 1e6
    assert report.time.change_ms_per_step == change
    assert f"because of compute (+{change:.3f} ms), above all aten::gelu (+{change:.3f} ms)." in report.summary
