"""diff(a, b) is diff(b, a) with the sides swapped and every change negated."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from profsuite.analyzers.diff.report import diff
from profsuite.trace.load import load

MIRROR = {"more": "less", "less": "more", "same": "same", "noise": "noise", "unknown": "unknown"}

call = st.tuples(
    st.sampled_from(["aten::mm", "aten::add", "MulBackward0"]),
    st.integers(0, 800),  # start within the step, us
    st.integers(0, 400),  # duration of its kernel
    st.sampled_from(["gemm", "add", "ncclDevKernel_AllReduce"]),
    st.integers(7, 8),  # stream
    st.sampled_from(["[[2, 2]]", "[[4, 4]]", None]),
    st.booleans(),  # inside another op
    st.booleans(),  # with a recorded launch
)
jobs = st.tuples(st.lists(st.lists(call, max_size=4), max_size=3), st.integers(0, 2), st.booleans())


def trace_of(job):
    """A job of steps (or without marks) on a device of its own ordinal."""
    steps, device, marked = job
    events, correlation = [], 0
    for number, calls in enumerate(steps):
        at = number * 1000
        common = {"ph": "X", "pid": 1, "tid": 1}
        if marked:
            events.append(common | {"cat": "user_annotation", "name": f"ProfilerStep#{number}", "ts": at, "dur": 1000})
        for name, start, length, kernel, stream, shapes, inside, launched in calls:
            correlation += 1
            ts = at + start
            if inside:
                events.append(common | {"cat": "cpu_op", "name": "outer", "ts": ts - 1, "dur": 60})
            args = {} if shapes is None else {"Input Dims": json.loads(shapes)}
            events.append(common | {"cat": "cpu_op", "name": name, "ts": ts, "dur": 50, "args": args})
            if launched:
                launch = {"cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": ts + 5, "dur": 5}
                events.append(common | launch | {"args": {"correlation": correlation}})
            args = {"device": device, "stream": stream, "correlation": correlation}
            work = {"cat": "kernel", "name": kernel, "ts": ts + 20, "dur": length, "args": args}
            events.append({"ph": "X", "pid": device, "tid": stream} | work)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        path.write_text(json.dumps({"traceEvents": events}))
        return load(path, cache=False)


def numbers(time, swap):
    """A change as numbers, or what it must be when the sides are swapped."""
    if time is None:
        return None
    if swap:
        change = 0.0 - time.change_ms_per_step  # of 0 that is 0, not -0
        return (time.after_ns, time.before_ns, change, time.noise_ms_per_step, MIRROR[time.judgement])
    return (time.before_ns, time.after_ns, time.change_ms_per_step, time.noise_ms_per_step, time.judgement)


def content(report, swap=False):
    """All changes of a report, without the order of equals."""
    status = {"both": "both", "added": "removed", "removed": "added"} if swap else {}
    found = [("time", numbers(report.time, swap)), ("unattributed", numbers(report.ops.unattributed, swap))]
    for device in report.devices:
        found += [(name, numbers(getattr(device, name), swap)) for name in ("time", "idle", "work", "overlap")]
        found += [(part.part, numbers(part.time, swap)) for part in device.parts]
    if report.host is not None:
        found += [("host", part.part, numbers(part.time, swap)) for part in report.host.parts]
    for row in report.ops.rows:
        times = numbers(row.device, swap), numbers(row.host, swap)
        found.append(("op", row.name, status.get(row.status, row.status), *times))
    for row in report.ops.calls:
        times = numbers(row.device, swap), numbers(row.host, swap)
        found.append(("call", row.path[-1], row.matched_by, status.get(row.status, row.status), *times))
    for row in report.kernels.rows:
        found.append(("kernel", row.op, row.matched_by, status.get(row.status, row.status), numbers(row.device, swap)))
    for row in report.collectives.rows:
        found.append(("collective", row.matched_by, numbers(row.device, swap)))
    return sorted(map(repr, found))


@settings(max_examples=60, deadline=None)
@given(jobs, jobs)
def test_swapping_the_sides_negates_every_change(before, after):
    one, other = trace_of(before), trace_of(after)
    forth, back = diff(one, other), diff(other, one)
    assert content(forth) == content(back, swap=True)
    for device in forth.devices:
        for side in ("before_ns", "after_ns"):
            assert sum(getattr(part.time, side) for part in device.parts) == getattr(device.time, side)
    for side in ("before_ns", "after_ns"):
        rows = sum(getattr(row.device, side) for row in (*forth.ops.rows,)) + getattr(forth.ops.unattributed, side)
        assert rows == sum(getattr(row.device, side) for row in forth.kernels.rows)
