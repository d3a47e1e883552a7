"""Profiles that JAX makes here, on two CPU devices, against JAX's own reader and against plain arithmetic."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from importlib.util import find_spec

import pytest

import profsuite

pytestmark = pytest.mark.skipif(find_spec("jax") is None, reason="jax is not installed (the extra dev has it)")

JOB = """
import sys
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import Mesh, PartitionSpec as P

mesh = Mesh(np.array(jax.devices()), ("d",))
shared = jax.jit(jax.shard_map(lambda x, w: jax.lax.psum((x @ w).sum(), "d"), mesh=mesh,
                               in_specs=(P("d"), P()), out_specs=P()))
looped = jax.jit(lambda a: jax.lax.fori_loop(0, 4, lambda i, v: jnp.tanh(v @ v), a).sum())
x, w = jnp.ones((256, 128)), jnp.ones((128, 128))
shared(x, w).block_until_ready(), looped(w).block_until_ready()
with jax.profiler.trace(sys.argv[1], create_perfetto_trace=True):
    for i in range(3):
        with jax.profiler.StepTraceAnnotation("train", step_num=7 + i):
            with jax.profiler.TraceAnnotation("forward"):
                shared(x, w).block_until_ready()
            looped(w).block_until_ready()
"""


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    """The log folder of a job of three steps."""
    folder = tmp_path_factory.mktemp("jax")
    flags = {"XLA_FLAGS": "--xla_force_host_platform_device_count=2", "JAX_PLATFORMS": "cpu"}
    subprocess.run([sys.executable, "-c", JOB, str(folder)], check=True, env={**os.environ, **flags}, timeout=300)
    return folder


@pytest.fixture(scope="module")
def trace(log):
    return profsuite.load(log)


@pytest.fixture(scope="module")
def truth(log):
    """Every event as JAX's own reader gives it: plane, line, name, start and end (ns), stats."""
    from jax.profiler import ProfileData

    (path,) = log.rglob("*.xplane.pb")
    return [
        (plane.name, line.name, event.name, round(event.start_ns), round(event.start_ns + event.duration_ns),
         dict(event.stats))
        for plane in ProfileData.from_file(str(path)).planes for line in plane.lines for event in line.events
    ]  # fmt: skip


def named_slices(trace):
    table = trace.table("slice")
    return Counter(zip(*(table.column(name).to_pylist() for name in ("name", "ts", "dur")), strict=True))


def test_every_event_is_there(trace, truth):
    assert named_slices(trace) == Counter((name, start, end - start) for _, _, name, start, end, _ in truth)
    assert trace.info.num_events == len(truth)
    assert trace.info.reader == "xspace"


def test_the_json_holds_the_same_slices(log, trace):
    (path,) = (each for each in log.rglob("*.trace.json.gz") if each.name != "perfetto_trace.json.gz")
    for other in (path, path.with_name("perfetto_trace.json.gz")):
        read = profsuite.load(other)
        assert named_slices(read) == named_slices(trace)
        for name in ("category", "self_dur"):
            ours, theirs = (Counter(t.table("slice").column(name).to_pylist()) for t in (trace, read))
            assert ours == theirs
        assert read.num_rows("kernel") == trace.num_rows("kernel") > 0
        assert "dropped" not in read.words("health", "kind")


def test_the_log_folder_is_one_recording(log, trace):
    (file,) = profsuite.find_ranks(log)
    assert file.path.endswith(".xplane.pb")
    assert trace.info.source == file.path
    assert trace.info.base_time_ns > 1.7e18  # the epoch's nanoseconds of a time after 2023


def test_steps_are_the_annotations(trace, truth):
    marks = [(stats["step_num"], start, end - start) for _, _, _, start, end, stats in truth if "step_num" in stats]
    table = trace.table("step")
    found = list(zip(*(table.column(name).to_pylist() for name in ("number", "ts", "dur")), strict=True))
    assert found == sorted(marks, key=lambda mark: mark[1])
    assert [number for number, _, _ in found] == [7, 8, 9]


def innermost(events):
    """The (start, end, name) of a thread's instructions that hold no other."""
    return [a for a in events if not any(b != a and a[0] <= b[0] < b[1] <= a[1] for b in events)]


def instructions(truth):
    """The innermost instructions of each device: (start, end, name)."""
    threads = {}
    for plane, line, name, start, end, stats in truth:
        if "hlo_op" in stats:
            key = (stats.get("device_ordinal", 0), plane, line)
            threads.setdefault(key, []).append((start, end, name))
    devices = {}
    for (device, _, _), events in threads.items():
        devices.setdefault(device, []).extend(innermost(events))
    return devices


def test_kernels_are_the_innermost_instructions(trace, truth, rows):
    name, ts, dur = (trace.table("slice").column(c).to_pylist() for c in ("name", "ts", "dur"))
    found = {}
    for device, row in rows(trace, "kernel", "device", "slice_id"):
        found.setdefault(device, []).append((ts[row], ts[row] + dur[row], name[row]))
    expected = instructions(truth)
    assert set(found) == {0, 1}
    assert {device: sorted(each) for device, each in found.items()} == {
        device: sorted(each) for device, each in expected.items()
    }


def test_loops_are_annotations(trace, truth):
    held = sum("hlo_op" in each[5] for each in truth) - sum(map(len, instructions(truth).values()))
    assert trace.table("slice").column("category").to_pylist().count("gpu_user_annotation") == held


def test_the_module_tells_of_the_all_reduce(trace, rows):
    # psum of one float over two devices, three times: an instruction whose name is no opcode.
    found = rows(trace, "collective", "collective_name", "dtype", "in_nelems", "out_nelems", "group_size",
                 "group_ranks", "is_async")  # fmt: skip
    assert found == [("allreduce", "Float", 1, 1, 2, "[0,1]", False)] * 6
    kinds = dict(rows(trace, "kernel", "slice_id", "kind"))
    assert [kinds[row] for (row,) in rows(trace, "collective", "slice_id")] == ["comm"] * 6
    opcodes = {op: code for op, code in rows(trace, "xla_op", "hlo_op", "hlo_opcode") if op and op.startswith("psum")}
    assert set(opcodes.values()) == {"all-reduce"}


def covered(spans):
    """Length of a union of (start, end)."""
    length, reach = 0, None
    for start, end in sorted(spans):
        if reach is None or start > reach:
            length, reach = length + end - start, end
        elif end > reach:
            length, reach = length + end - reach, end
    return length


def test_device_time_is_broken_down(trace, truth):
    report = profsuite.analyze(trace)
    assert [each.device for each in report.breakdown] == [0, 1]
    for each in report.breakdown:
        work, shares = instructions(truth)[each.device], each.shares
        spans = [(start, end) for start, end, _ in work]
        compute = [(start, end) for start, end, name in work if not name.startswith("psum")]
        assert shares.busy_ns == covered(spans)
        assert shares.compute_ns == covered(compute)
        assert shares.exposed_comm_ns == covered(spans) - covered(compute)
        assert shares.comm_ns == covered([(start, end) for start, end, name in work if name.startswith("psum")])
        parts = shares.compute_ns + shares.exposed_comm_ns + shares.exposed_memcpy_ns + shares.idle_ns
        assert parts == shares.window_ns


def test_host_time_is_broken_down(trace):
    host = profsuite.analyze(trace).host
    assert host.threads
    for thread in host.threads:
        shares = thread.shares
        parts = [getattr(shares, name) for name in shares.__struct_fields__ if name != "window_ns"]
        assert sum(parts) == shares.window_ns
    main = max(host.threads, key=lambda thread: thread.num_slices)
    assert main.thread == "python"
    assert main.shares.op_ns > 0
    assert main.shares.python_ns > 0


def test_a_truncated_file_gives_what_is_left(log, tmp_path, trace):
    (path,) = log.rglob("*.xplane.pb")
    data = path.read_bytes()
    cut = tmp_path / "cut.xplane.pb"
    cut.write_bytes(data[: len(data) * 3 // 4])
    read = profsuite.load(cut)
    assert 0 < read.num_rows("slice") < trace.num_rows("slice")
    assert "truncated" in read.words("health", "kind")


@pytest.mark.parametrize("ending", [".json.gz", ".pftrace"])
def test_exports_come_back(trace, tmp_path, ending):
    out = tmp_path / f"out{ending}"
    profsuite.export(trace, out)
    again = profsuite.load(out)
    for name in ("track", "kernel", "collective", "xla_op", "step", "metadata"):
        assert again.table(name).to_pylist() == trace.table(name).to_pylist()
    assert named_slices(again) == named_slices(trace)
