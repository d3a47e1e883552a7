"""Whole sessions of the engine on the simulated libcupti."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import threading
import time
import types
from pathlib import Path

import pytest

from profsuite.collector.cupti import library
from profsuite.collector.cupti.engine import CuptiConfig, available
from profsuite.collector.cupti.library import CuptiError
from profsuite.trace.assemble import assemble
from profsuite.trace.readers.fields import NULL_INT64


def slices(raw, epoch=0):
    """(category, name, start, duration, pid, tid, correlation, external) of every slice."""
    group = raw.groups["slice"]
    names, categories = raw.pools["name"].to_pylist(), raw.pools["category"].to_pylist()
    found = []
    for i in range(len(group["ts"])):
        name, category = group["name"][i], group["category"][i]
        ids = [None if v == NULL_INT64 else int(v) for v in (group["correlation"][i], group["external"][i])]
        found.append(
            (
                categories[category],
                names[name] if name >= 0 else None,
                int(group["ts"][i]) - epoch,
                int(group["dur"][i]),
                *raw.tracks[group["track"][i]],
                *ids,
            )
        )
    return found


def table(raw, group, *columns):
    return [
        tuple(None if v == NULL_INT64 else v for v in row)
        for row in zip(*(raw.groups[group][c].tolist() for c in columns), strict=True)
    ]


def me():
    return str(os.getpid()), str(threading.get_native_id())


def test_every_kind_of_record(sim, make_engine, exact):
    engine = make_engine()
    engine.start()
    engine.push(71)
    sim.runtime(sim.LAUNCH_KERNEL, 1000, 1500, 5)
    engine.push(72)
    sim.runtime(sim.MEMCPY_ASYNC, 1600, 1700, 6)
    engine.pop()
    sim.runtime(sim.MEMSET_ASYNC, 1800, 1900, 7)
    engine.pop()
    sim.driver(sim.CU_LAUNCH_KERNEL, 2000, 2100, 8)
    sim.kernel("_Z3addPfi", 2000, 3000, correlation=5, grid=(4, 2, 1), block=(128, 2, 2), registers=40,
               shared=(1024, 2048), queued=1990)  # fmt: skip
    sim.memcpy(1, 2, 3, 4096, 3000, 5048, 0, 1, 7, 6)
    sim.memset(3, 512, 5100, 5356, 0, 1, 7, 7)
    sim.kernel("triton_poi_fused_0", 5400, 5500, stream=13, correlation=8)
    sim.memcpy_peer(8192, 5400, 5600, 0, 1, 1, 14, 9)
    sim.sync(3, 6000, 6100, 10, 1, 7, 0xFFFFFFFF, 0xFFFFFFFF)
    sim.overhead(1 << 16, 7000, 7050)
    raw = engine.stop()

    pid, tid = me()
    assert slices(raw, sim.EPOCH) == [
        ("kernel", "add(float*, int)", 2000, 1000, "0", "7", 5, 71),
        ("kernel", "triton_poi_fused_0", 5400, 100, "0", "13", 8, None),
        ("gpu_memcpy", "Memcpy HtoD (Pinned -> Device)", 3000, 2048, "0", "7", 6, 72),
        ("gpu_memcpy", "Memcpy PtoP (Device -> Device)", 5400, 200, "0", "14", 9, None),
        ("gpu_memset", "Memset (Device)", 5100, 256, "0", "7", 7, 71),
        ("cuda_runtime", "cudaLaunchKernel", 1000, 500, pid, tid, 5, 71),
        ("cuda_runtime", "cudaMemcpyAsync", 1600, 100, pid, tid, 6, 72),
        ("cuda_runtime", "cudaMemsetAsync", 1800, 100, pid, tid, 7, 71),
        ("cuda_driver", "cuLaunchKernel", 2000, 100, pid, tid, 8, None),
        ("cuda_sync", "Stream Sync", 6000, 100, "0", "7", 10, None),
        ("overhead", "Buffer Flush", 7000, 50, "-1", "0", None, None),
    ]
    assert table(raw, "gpu", "row", "device", "stream", "context", "bytes", "graph", "graph_node") == [
        (0, 0, 7, 1, None, 0, 0),
        (1, 0, 13, 1, None, 0, 0),
        (2, 0, 7, 1, 4096, 0, 0),
        (3, 0, 14, 1, 8192, 0, 0),
        (4, 0, 7, 1, 512, 0, 0),
        (9, 0, 7, 1, None, None, None),
    ]
    columns = ("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z", "registers", "shared_memory")
    assert table(raw, "gpu", *columns)[0] == (4, 2, 1, 128, 2, 2, 40, 3072)
    assert raw.groups["gpu"]["queued"][:2].tolist() == [sim.EPOCH + 1990, NULL_INT64]
    assert raw.groups["gpu"]["bandwidth"][2:5].tolist() == [2.0, 40.96, 2.0]
    assert engine.problems == []
    assert engine.counts["records"] == 14
    assert engine.counts["dropped"] == engine.counts["errors"] == engine.counts["unknown"] == 0
    assert raw.num_events == 11
    assert raw.num_bytes == engine.counts["bytes"] > 0


def test_the_trace_joins_kernels_to_launches_and_ops(sim, make_engine, exact):
    engine = make_engine()
    engine.start()
    for i in range(3):
        sim.runtime(sim.LAUNCH_KERNEL, 1000 * i + 10, 1000 * i + 40, i + 1)
        sim.kernel(f"kernel_{i}", 1000 * i + 100, 1000 * i + 900, correlation=i + 1)
    trace = assemble(engine.stop(), "session", "cupti")
    kernel = trace.table("kernel").to_pydict()
    assert kernel["launch_id"] == [3, 4, 5]
    assert kernel["device"] == [0, 0, 0]
    assert kernel["stream"] == [7, 7, 7]
    assert [
        trace.table("track").column("kind").to_pylist(),
        trace.table("track").column("process_label").to_pylist(),
    ] == [
        ["device", "host"],
        ["GPU 0", None],
    ]


def test_a_graph_launch_with_many_kernels(sim, make_engine, exact):
    engine = make_engine()
    engine.start()
    sim.runtime(sim.GRAPH_LAUNCH, 1000, 1400, 9)
    for node in range(1500):
        sim.kernel(f"node_{node % 5}", 2000 + 20 * node, 2015 + 20 * node, correlation=9, graph=3, node=1 << 40 | node)
    trace = assemble(engine.stop(), "session", "cupti")
    kernel = trace.table("kernel").to_pydict()
    assert len(kernel["slice_id"]) == 1500
    assert set(kernel["launch_id"]) == {1500}
    assert set(kernel["graph_id"]) == {3}
    assert kernel["graph_node_id"] == [1 << 40 | node for node in range(1500)]
    assert engine.counts["buffers_completed"] > 1


def test_whole_graphs(sim, make_engine, exact):
    engine = make_engine(graphs="whole")
    engine.start()
    sim.runtime(sim.GRAPH_LAUNCH, 1000, 1400, 9)
    sim.graph(3, 2000, 9000, 0, 1, 7, 9)
    raw = engine.stop()
    assert slices(raw, sim.EPOCH)[0] == ("kernel", "CUDA graph 3", 2000, 7000, "0", "7", 9, None)
    assert table(raw, "gpu", "graph", "graph_node") == [(3, None)]


def test_waits_name_the_event_and_the_stream_that_recorded_it(sim, make_engine, exact):
    engine = make_engine()
    engine.start()
    sim.kernel("k", 1000, 1100, device=2, context=4, stream=20, correlation=81)
    sim.event(82, 4, 20, 9, 555)
    sim.sync(2, 2000, 2010, 83, 4, 7, 9, 555)
    sim.sync(1, 2100, 2110, 84, 4, 0xFFFFFFFF, 9, 777)
    sim.sync(4, 2200, 2210, 85, 99, 0xFFFFFFFF, 0xFFFFFFFF, 0)
    raw = engine.stop()
    assert slices(raw, sim.EPOCH)[1:] == [
        ("cuda_sync", "Stream Wait Event", 2000, 10, "2", "7", 83, None),
        ("cuda_sync", "Event Sync", 2100, 10, "2", "-1", 84, None),
        ("cuda_sync", "Context Sync", 2200, 10, "", "-1", 85, None),
    ]
    assert table(raw, "sync", "row", "event", "wait_stream", "record_correlation") == [
        (1, 9, 20, 82),
        (2, 9, None, None),
        (3, None, None, None),
    ]
    kinds = raw.pools["misc"].to_pylist()
    said = [kinds[code] for code in raw.groups["sync"]["sync_kind"]]
    assert said == ["Stream Wait Event", "Event Sync", "Context Sync"]
    assert table(raw, "gpu", "device", "stream")[1:] == [(2, 7), (2, -1), (None, -1)]


def test_quiet_calls_and_driver_calls_that_do_not_launch_are_left_out(sim, make_engine):
    def names(**settings):
        engine = make_engine(**settings)
        engine.start()
        sim.runtime(sim.GET_DEVICE, 10, 20, 1)
        sim.driver(sim.CU_MEM_ALLOC, 30, 40, 2)
        sim.driver(sim.CU_LAUNCH_KERNEL, 50, 60, 3)
        return [row[1] for row in slices(engine.stop())]

    assert names() == ["cuLaunchKernel"]
    assert names(driver_calls="all") == ["cuMemAlloc_v2", "cuLaunchKernel"]
    assert names(driver_calls="none") == []
    assert sim.num_enabled() == 0


def test_devices_that_torch_knows(sim, make_engine, exact, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", types.ModuleType("torch"))
    devices = [{"id": 0, "name": "Simulated", "numSms": 132}]
    monkeypatch.setattr("profsuite.collector.window.device_properties", lambda: devices)
    engine = make_engine()
    engine.start()
    sim.kernel("k", 1000, 1100, grid=(66, 2, 2), block=(128, 2, 1), correlation=1)
    sim.kernel("of a device that torch does not know", 1000, 1100, device=3, correlation=2)
    trace = assemble(engine.stop(), "session", "cupti")
    kernel = trace.table("kernel").to_pydict()
    assert kernel["blocks_per_sm"] == [2.0, None]
    assert kernel["warps_per_sm"] == [16.0, None]
    assert trace.info.devices == tuple(devices)
    assert "no_device_properties" not in trace.table("health").column("kind").to_pylist()


def test_torch_is_synchronised_before_the_end_unless_it_captures(sim, make_engine, monkeypatch):
    done = []
    state = {"initialized": True, "capturing": False}
    cuda = types.SimpleNamespace(
        is_initialized=lambda: state["initialized"],
        is_current_stream_capturing=lambda: state["capturing"],
        is_available=lambda: False,
        synchronize=lambda: done.append(sim.kernel("in flight", 10, 20)),
    )
    torch = types.ModuleType("torch")
    torch.cuda = cuda
    monkeypatch.setitem(sys.modules, "torch", torch)

    def session(**settings):
        engine = make_engine(**settings)
        engine.start()
        return len(slices(engine.stop())), engine.problems

    assert session() == (1, [])
    assert session(synchronize=False) == (0, [])
    state["capturing"] = True
    assert session() == (0, [])
    state.update(capturing=False, initialized=False)
    assert session() == (0, [])
    state["initialized"] = True
    cuda.synchronize = lambda: 1 / 0
    assert session() == (0, ["the device could not be synchronised: ZeroDivisionError"])
    assert len(done) == 1


def test_a_call_without_a_name_has_its_number(sim, make_engine):
    engine = make_engine()
    engine.start()
    sim.runtime(499, 10, 20, 1)
    assert slices(engine.stop())[0][1] == "cuda_runtime call 499"


def test_nothing_happened(sim, make_engine):
    engine = make_engine()
    engine.start()
    raw = engine.stop()
    assert raw.num_events == 0
    assert engine.problems == []
    assert assemble(raw, "session", "cupti").table("slice").num_rows == 0


def test_kernels_without_a_name_and_names_that_return(sim, make_engine):
    engine = make_engine()
    engine.start()
    for name in ("a", None, "b", "a", "_Zbroken", "x" * 9000):
        sim.kernel(name, 10, 20)
    assert [row[1] for row in slices(engine.stop())] == ["a", None, "b", "a", "_Zbroken", "x" * 9000]


def test_threads_at_once(sim, make_engine):
    engine = make_engine(max_buffers=4096)
    engine.start()
    stopping = threading.Event()

    def flush_now_and_then():
        while not stopping.wait(0.002):
            engine.flush()

    flusher = threading.Thread(target=flush_now_and_then)
    flusher.start()
    sim.storm(8, 5000)
    stopping.set()
    flusher.join()
    trace = assemble(engine.stop(), "session", "cupti")
    assert engine.counts["dropped"] == 0
    kernel = trace.table("kernel").to_pydict()
    assert len(kernel["slice_id"]) == 40_000
    correlation = trace.table("slice").column("correlation_id").to_pylist()
    assert sorted(correlation[row] for row in kernel["slice_id"]) == list(range(1, 40_001))
    pairs = zip(kernel["slice_id"], kernel["launch_id"], strict=True)
    assert all(correlation[row] == correlation[launch] for row, launch in pairs)
    assert engine.counts["buffers_requested"] == engine.counts["buffers_completed"]


def test_buffers_completed_out_of_order(sim, make_engine, exact):
    engine = make_engine()
    engine.start()
    sim.set(hold=1, reverse=1, buffer_records=2)
    for i in range(9):
        sim.kernel(f"k{i}", 100 * i + 10, 100 * i + 60, correlation=i + 1)
    sim.set(hold=0)
    sim.settle()
    raw = engine.stop()
    assert [row[1] for row in slices(raw)] == ["k6", "k7", "k4", "k5", "k2", "k3", "k0", "k1", "k8"]
    trace = assemble(raw, "session", "cupti")
    assert "overlapping" not in trace.table("health").column("kind").to_pylist()


def test_buffers_that_come_while_stop_waits(sim, make_engine):
    engine = make_engine()
    engine.start()
    sim.set(hold=1)
    sim.kernel("late", 10, 20)
    timer = threading.Timer(0.2, lambda: sim.set(hold=0))
    timer.start()
    assert len(slices(engine.stop())) == 1
    timer.join()
    assert engine.problems == []


def test_buffers_that_come_after_stop_are_counted_and_not_mixed_in(sim, make_engine):
    engine = make_engine(stop_timeout_s=0.1)
    engine.start()
    sim.kernel("in time", 10, 20)
    engine.flush()
    sim.set(hold=1)
    sim.kernel("too late", 30, 40)
    raw = engine.stop()
    assert [row[1] for row in slices(raw)] == ["in time"]
    assert engine.counts["buffers_missing"] == 1
    assert engine.problems == ["CUPTI had not given 1 buffer back when recording stopped; what they hold is lost."]
    assert [remark.kind for remark in raw.remarks] == ["dropped"]
    # It comes back in the middle of the next session.
    engine.start()
    sim.set(hold=0)
    sim.settle()
    sim.kernel("next", 50, 60)
    assert [row[1] for row in slices(engine.stop())] == ["next"]
    assert engine.counts["buffers_late"] == 1
    assert engine.counts["buffers_missing"] == 0


def test_a_pool_that_runs_dry_drops_records_and_says_so(sim, make_engine):
    engine = make_engine(max_buffers=2)
    engine.start()
    sim.set(hold=1, buffer_records=10)
    for i in range(25):
        sim.kernel("k", 10 + i, 11 + i)
    sim.set(hold=0)
    raw = engine.stop()
    assert engine.counts["kernel"] == 20
    assert engine.counts["dropped"] == 5
    assert engine.counts["buffers_denied"] == 5
    assert engine.problems == ["CUPTI dropped 5 records for want of buffers: raise max_buffers or flush more often."]
    assert [(remark.kind, remark.count) for remark in raw.remarks] == [("dropped", 5)]


def test_records_that_cupti_dropped_itself(sim, make_engine):
    engine = make_engine()
    engine.start()
    sim.set(dropped=1234)
    sim.kernel("k", 10, 20)
    raw = engine.stop()
    assert engine.counts["dropped"] == 1234
    assert raw.remarks[0].count == 1234
    assert "1,234 records" in engine.problems[0]


def test_the_limit_of_kept_records(sim, make_engine):
    engine = make_engine(max_bytes=1600)
    engine.start()
    for i in range(12):
        sim.kernel("k", 10 + i, 11 + i)
    engine.stop()
    assert engine.counts["kernel"] == 10
    assert engine.counts["over_limit"] == 2
    assert engine.problems[0].startswith("2 GPU records came after the limit of 1,600 bytes")


def test_kernels_that_never_ended_and_unknown_kinds(sim, make_engine):
    engine = make_engine()
    engine.start()
    sim.kernel("done", 10, 20)
    sim.future()
    sim.kernel("running", 30, 0)
    sim.future()
    assert [row[1] for row in slices(engine.stop())] == ["done"]
    assert engine.counts["incomplete"] == 1
    assert engine.counts["unknown"] == 2
    assert len(engine.problems) == 1


@pytest.mark.parametrize("walk", [1, 2, 3, 4])
def test_a_buffer_that_cannot_be_walked(sim, make_engine, walk):
    engine = make_engine()
    engine.start()
    sim.kernel("k", 10, 20)
    sim.kernel("k", 30, 40)
    sim.set(walk=walk)
    engine.flush()
    sim.set(walk=0)
    sim.kernel("good", 50, 60)
    assert "good" in [row[1] for row in slices(engine.stop())]
    assert engine.counts["lost_bytes"] > 0
    assert engine.counts["errors"] == 1
    assert "could not be read" in engine.problems[0]


@pytest.mark.parametrize(
    ("function", "status", "says"),
    [
        ("cuptiSubscribe", 39, "another CUPTI client"),
        ("cuptiSubscribe", 12, "another CUPTI client"),
        ("cuptiSubscribe", 15, "the NVIDIA driver cannot be initialised"),
        ("cuptiSubscribe", 1, "cuptiSubscribe failed with CUPTI error 1"),
        ("cuptiActivityRegisterCallbacks", 35, "lets administrators only profile"),
        ("cuptiActivityEnable", 35, "NVreg_RestrictProfilingToAdminUsers"),
    ],
)
def test_a_refusal_says_why_and_leaves_nothing_behind(sim, make_engine, function, status, says):
    engine = make_engine()
    sim.fail(function, status, 10 if function == "cuptiActivityEnable" else -1)
    with pytest.raises(CuptiError, match=says):
        engine.start()
    assert not engine.running
    assert sim.num_enabled() == 0
    assert not sim.subscribed()
    sim.reset()
    engine.start()
    sim.kernel("k", 10, 20)
    assert len(slices(engine.stop())) == 1


def test_another_client_is_there(sim, make_engine):
    handle = ctypes.c_void_p()
    assert sim.lib.cuptiSubscribe(ctypes.byref(handle), None, None) == 0
    with pytest.raises(CuptiError, match="MULTIPLE_SUBSCRIBERS"):
        make_engine().start()
    sim.lib.cuptiUnsubscribe(handle)


def test_another_client_is_refused_while_the_engine_records(sim, make_engine):
    engine = make_engine()
    engine.start()
    assert sim.lib.cuptiSubscribe(ctypes.byref(ctypes.c_void_p()), None, None) == 39
    with pytest.raises(CuptiError, match="another session"):
        make_engine().start()
    with pytest.raises(CuptiError, match="records already"):
        engine.start()
    engine.stop()
    assert not sim.subscribed()
    with pytest.raises(CuptiError, match="does not record"):
        engine.stop()


def test_torch_profiler_is_running(sim, make_engine, monkeypatch):
    autograd = types.SimpleNamespace(_profiler_enabled=lambda: True)
    monkeypatch.setitem(sys.modules, "torch", types.SimpleNamespace(_C=types.SimpleNamespace(_autograd=autograd)))
    with pytest.raises(CuptiError, match=r"while torch\.profiler does"):
        make_engine().start()


def test_a_kind_that_cupti_refuses_is_a_problem_and_the_rest_is_recorded(sim, make_engine):
    sim.fail("cuptiActivityEnable", 13, 38)
    sim.fail("cuptiSetThreadIdType", 13)
    engine = make_engine()
    engine.start()
    sim.kernel("k", 10, 20)
    assert len(slices(engine.stop())) == 1
    assert engine.problems == [
        "not recorded: waits (CUPTI_ERROR_NOT_READY)",
        "CUPTI cannot tell the system's thread ids: calls lie on tracks of their own",
    ]


def test_launches_without_gpu_activity(sim, make_engine):
    engine = make_engine()
    engine.start()
    sim.runtime(sim.DEVICE_SYNCHRONIZE, 10, 20, 1)
    engine.stop()
    assert engine.problems == []
    engine.start()
    sim.runtime(sim.LAUNCH_KERNEL, 10, 20, 1)
    engine.stop()
    assert "kernels were launched, but CUPTI gave no GPU activity" in engine.problems[0]


def test_times_become_ns_since_the_epoch(sim, make_engine):
    offset, drift_ppm = -1_600_000_000_000_000_000, 400
    sim.set(clock_offset=offset, clock_drift_ppm=drift_ppm)
    engine = make_engine()
    reading = ctypes.c_uint64()
    engine.start()
    expected = []
    for _ in range(5):
        time.sleep(0.05)
        before = time.time_ns()
        sim.lib.cuptiGetTimestamp(ctypes.byref(reading))
        expected.append((before, time.time_ns()))
        sim.kernel("k", reading.value, reading.value + 100_000)
    engine.flush()
    time.sleep(0.05)
    raw = engine.stop()
    for (before, after), ts, dur in zip(expected, raw.groups["slice"]["ts"], raw.groups["slice"]["dur"], strict=True):
        # 400 ppm over a quarter of a second would be 100 µs.
        assert before - 10_000 <= ts <= after + 10_000
        assert abs(int(dur) - 99_960) <= 10
    assert engine.problems in ([], [p for p in engine.problems if "the machine was busy" in p])


def test_a_clock_that_cannot_be_read(sim, make_engine):
    sim.fail("cuptiGetTimestamp", 15)
    engine = make_engine()
    engine.start()
    sim.kernel("k", 10, 20)
    assert slices(engine.stop())[0][2:4] == (10, 10)
    assert engine.problems[0] == "CUPTI's clock cannot be read: CUPTI_ERROR_NOT_INITIALIZED"


def test_flush_hands_records_over_and_frees_buffers(sim, make_engine):
    engine = make_engine(max_buffers=1)
    engine.start()
    for i in range(50):
        sim.kernel(f"k{i}", 10 + i, 11 + i)
        engine.flush()
    assert [row[1] for row in slices(engine.stop())] == [f"k{i}" for i in range(50)]
    assert engine.counts["dropped"] == 0


def test_many_sessions_leave_nothing_behind(sim, make_engine):
    engine = make_engine(max_buffers=2)

    def session():
        engine.start()
        sim.kernel("k", 10, 20)
        assert len(engine.stop().groups["slice"]["ts"]) == 1

    def resident():
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def num_threads():
        return len(list(Path("/proc/self/task").iterdir()))

    for _ in range(50):
        session()
    threads, memory = num_threads(), resident()
    for _ in range(1000):
        session()
    assert num_threads() == threads
    assert resident() - memory < 8 << 20


def test_a_session_is_decoded_while_the_next_one_runs(sim, make_engine):
    engine = make_engine()
    engine.start()
    sim.kernel("first", 10, 20)
    sim.set(dropped=7)
    decode = engine.halt()
    first = (engine.counts, engine.problems)
    engine.start()
    sim.kernel("second", 30, 40)
    assert [row[1] for row in slices(decode())] == ["first"]
    assert first[0]["dropped"] == 7
    assert len(first[1]) == 1
    assert [row[1] for row in slices(engine.stop())] == ["second"]
    assert engine.counts["dropped"] == 0
    assert engine.problems == []


def test_a_forked_child_has_no_session(sim, make_engine):
    engine = make_engine()
    engine.start()
    sim.kernel("k", 10, 20)
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            engine.flush()
            engine.push(1)
            if not engine.running:
                try:
                    engine.start()
                except CuptiError as error:
                    status = 0 if "forked" in str(error) else 2
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert len(slices(engine.stop())) == 1


def test_an_exit_without_stop_does_not_hang_or_crash(sim, simulator_path):
    code = f"""
import ctypes
from profsuite.collector.cupti.engine import CuptiConfig, CuptiEngine
engine = CuptiEngine(CuptiConfig(library={str(simulator_path)!r}, driver=None))
engine.start()
ctypes.CDLL({str(simulator_path)!r}).sim_storm(4, 2000)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


def test_what_is_missing_is_said(environment, monkeypatch, tmp_path):
    config = CuptiConfig(library="libcupti.so", driver=None)
    assert available(config) is None
    assert available(CuptiConfig(library="x", driver="libno-such-driver.so")) == (
        "no NVIDIA driver (libno-such-driver.so cannot be opened)"
    )
    monkeypatch.setattr(library, "find_library", lambda: None)
    assert available(CuptiConfig(driver=None)).startswith("no libcupti: pip install nvidia-cuda-cupti-cu12")
    monkeypatch.setattr(library, "compiler", lambda: None)
    monkeypatch.setattr(library, "built", lambda: None)
    assert available(config) == "no C++ compiler: install g++, or set CXX"
    monkeypatch.setattr(library, "find_headers", lambda: None)
    assert available(config).startswith("no CUPTI headers")


def test_a_library_that_is_no_cupti(environment, make_engine, tmp_path):
    engine = make_engine()
    engine.start()  # opens the simulator: a process has one libcupti
    engine.stop()
    other = make_engine()
    object.__setattr__(other.config, "library", str(tmp_path / "libcupti.so"))
    with pytest.raises(CuptiError, match="this process uses"):
        other.start()


def test_settings_that_make_no_sense():
    for settings in ({"buffer_bytes": 1}, {"max_buffers": 0}, {"max_bytes": -1}, {"stop_timeout_s": -1.0}):
        with pytest.raises(ValueError, match=next(iter(settings))):
            CuptiConfig(**settings)
