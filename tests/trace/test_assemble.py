"""Raw columns to tables: nulls, tracks, B and E, header, and the counts of real files."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from profsuite.trace import intervals
from profsuite.trace.header import rank_in_name
from profsuite.trace.readers import native
from profsuite.trace.schema import TABLES

X = {"ph": "X", "pid": 1, "tid": 1}


def test_every_table_has_its_schema(make_trace):
    trace = make_trace([])
    for table in TABLES:
        assert trace.table(table.name).schema == table.arrow_schema()
        assert trace.num_rows(table.name) == 0 or table.name in ("health", "metadata")


def test_slices(make_trace, rows):
    trace = make_trace(
        [
            {**X, "name": "outer", "cat": "cpu_op", "ts": 1.5, "dur": 10, "args": {"External id": 7}},
            {**X, "name": "inner", "ts": 3, "dur": 2.25, "args": {"correlation": 3, "External id": 0}},
        ]
    )
    assert rows(
        trace,
        "slice",
        "ts",
        "dur",
        "name",
        "category",
        "correlation_id",
        "external_id",
        "parent_id",
        "depth",
        "self_dur",
    ) == [
        (1500, 10000, "outer", "cpu_op", None, 7, None, 0, 7750),
        (3000, 2250, "inner", "", 3, None, 0, 1, 2250),
    ]


def test_kernels_and_copies(make_trace, rows):
    args = {
        "device": 1, "context": 1, "stream": 7, "grid": [3, 2, 1], "block": [128, 1, 1], "registers per thread": 32,
        "shared memory": 0, "blocks per SM": 0.5, "est. achieved occupancy %": 0, "queued": 0, "graph id": 0,
        "graph node id": 12,
    }  # fmt: skip
    trace = make_trace(
        [
            {"ph": "X", "cat": "kernel", "name": "gemm", "pid": 1, "tid": 7, "ts": 1, "dur": 1, "args": args},
            {"ph": "X", "cat": "Memcpy", "name": "Memcpy HtoD", "pid": 1, "tid": 7, "ts": 3, "dur": 1,
             "args": {"device": 1, "stream": 7, "bytes": 64, "memory bandwidth (GB/s)": 1.5}},
            {"ph": "X", "cat": "kernel", "name": "gemm", "pid": 1, "tid": 9, "ts": 1, "dur": 1,
             "args": {"Collective name": "allreduce", "stream": 4294967295}},
            {"ph": "X", "cat": "kernel", "name": "__amd_rocclr_copyBuffer.kd", "pid": 0, "tid": "stream 5", "ts": 1},
        ]
    )  # fmt: skip
    assert rows(
        trace, "kernel", "slice_id", "kind", "device", "stream", "context", "grid_x", "block_x", "registers_per_thread"
    ) == [
        (0, "compute", 1, 7, 1, 3, 128, 32),
        (2, "comm", 1, 9, None, None, None, None),
        (3, "memory", 0, 5, None, None, None, None),
    ]
    assert rows(trace, "kernel", "shared_memory_bytes", "blocks_per_sm", "queued", "graph_id", "graph_node_id")[0] == (
        0, 0.5, None, None, 12,
    )  # fmt: skip
    assert rows(trace, "memcpy", "slice_id", "device", "stream", "bytes", "bandwidth_gb_per_s", "launch_id") == [
        (1, 1, 7, 64, 1.5, None)
    ]


def test_ops(make_trace, rows):
    trace = make_trace(
        [
            {**X, "name": "a", "cat": "cpu_op", "ts": 1, "dur": 1,
             "args": {"Sequence number": -1, "Fwd thread id": 0, "Record function id": 0, "Call stack": "",
                      "Input Dims": [[2, 3], []], "Ev Idx": 0}},
            {**X, "name": "b", "cat": "cpu_op", "ts": 3, "dur": 1, "args": {"External id": 1}},
        ]
    )  # fmt: skip
    columns = ("slice_id", "sequence_number", "forward_thread_id", "record_function_id", "event_index", "call_stack")
    assert rows(trace, "op", *columns) == [(0, None, None, None, 0, None)]
    assert json.loads(trace.ops.column("input_dims")[0].as_py()) == [[2, 3], []]


def test_collectives_syncs_and_python(make_trace, rows):
    trace = make_trace(
        [
            {**X, "name": "record_param_comms", "cat": "cpu_op", "ts": 1, "dur": 1,
             "args": {"Collective name": "send", "In msg nelems": 4, "Group size": 2, "dtype": "Float",
                      "Src Rank": -1, "Dst Rank": 1, "Comms Id": 10159970886766084423}},
            {"ph": "X", "pid": 0, "tid": -1, "name": "Event Sync", "cat": "cuda_sync", "ts": 1, "dur": 1,
             "args": {"cuda_sync_kind": "Event Sync", "wait_on_stream": -1,
                      "wait_on_cuda_event_record_corr_id": -1, "wait_on_cuda_event_id": 8}},
            {**X, "name": "f", "cat": "python_function", "ts": 5, "dur": 1,
             "args": {"Python id": 1, "Python parent id": 0, "Python module id": 3}},
        ]
    )  # fmt: skip
    assert rows(
        trace, "collective", "slice_id", "collective_name", "in_nelems", "group_size", "source_rank",
        "destination_rank", "comms_id",
    ) == [(0, "send", 4, 2, None, 1, "10159970886766084423")]  # fmt: skip
    assert rows(
        trace, "sync", "slice_id", "sync_kind", "wait_on_stream", "event_record_correlation_id", "event_id"
    ) == [(1, "Event Sync", None, None, 8)]
    assert rows(trace, "python_call", "slice_id", "python_id", "python_parent_id", "python_module_id") == [
        (2, 1, None, 3)
    ]


def test_events_of_other_kinds(make_trace, rows):
    trace = make_trace(
        [
            {"ph": "i", "name": "[memory]", "pid": 1, "tid": 1, "ts": 1,
             "args": {"Device Type": 0, "Device Id": -1, "Bytes": -4, "Addr": 9}},
            {"ph": "i", "name": "[memory]", "pid": 1, "tid": 1, "ts": 2,
             "args": {"Device Type": 1, "Device Id": 0, "Bytes": 8, "Total Allocated": 8, "Ev Idx": 5}},
            {"ph": "i", "name": "mark", "pid": 1, "tid": 1, "ts": 3},
            {"ph": "C", "name": "GPU", "pid": 1, "ts": 4, "args": {"util": 0.5, "text": "x"}},
            {"ph": "s", "name": "ac2g", "cat": "ac2g", "id": 5, "pid": 1, "tid": 1, "ts": 5},
            {"ph": "f", "name": "ac2g", "cat": "ac2g", "id": "0xg", "pid": 1, "tid": 1, "ts": 6},
        ],
        schemaVersion=1,
    )  # fmt: skip
    assert rows(
        trace, "memory_event", "ts", "device_type", "device", "bytes", "total_allocated_bytes", "event_index"
    ) == [
        (1000, 0, None, -4, None, None),
        (2000, 1, 0, 8, 8, 5),
    ]
    assert rows(trace, "instant", "ts", "name", "category") == [(3000, "mark", "")]
    assert rows(trace, "counter", "ts", "name", "series", "value") == [(4000, "GPU", "util", 0.5)]
    assert rows(trace, "flow", "phase", "category", "flow_id", "flow_id_text") == [
        ("s", "ac2g", 5, None),
        ("f", "ac2g", None, "0xg"),
    ]
    assert rows(trace, "metadata", "scope", "track_id", "key", "value") == [("file", None, "schemaVersion", "1")]
    assert trace.metadata("schemaVersion") == 1


def test_begin_and_end(make_trace, rows):
    def event(ph, ts, name="", tid=1):
        return {"ph": ph, "name": name, "pid": 1, "tid": tid, "ts": ts}

    trace = make_trace(
        [
            event("E", 0),  # closes nothing
            event("B", 1, "a"),
            event("B", 2, "b"),
            event("E", 3),
            event("B", 3, "c"),
            event("E", 4),
            event("E", 9),
            event("E", 10),  # closes nothing
            event("B", 11, "d"),
            event("E", 11),
            event("B", 5, "other thread", tid=2),
            event("B", 6, "never closed", tid=2),
            event("E", 8, tid=2),
            {**X, "tid": 2, "name": "x", "ts": 1, "dur": 6},
            event("B", 20, "alone", tid=3),
        ]
    )
    assert rows(trace, "slice", "name", "ts", "dur", "parent_id") == [
        ("a", 1000, 8000, None),
        ("b", 2000, 1000, 0),
        ("c", 3000, 1000, 0),
        ("d", 11000, 0, None),
        ("other thread", 5000, 3000, None),
        ("never closed", 6000, 2000, 4),
        ("x", 1000, 6000, None),
        ("alone", 20000, 0, None),
    ]
    found = {kind: count for kind, count in rows(trace, "health", "kind", "count") if kind in ("dropped", "unclosed")}
    assert found == {"dropped": 2, "unclosed": 2}


def test_tracks(make_trace, rows):
    meta = [
        ("process_name", 0, {"name": "python"}), ("process_labels", 0, {"labels": "GPU 0"}),
        ("process_name", 12345, {"name": "old"}), ("process_name", 12345, {"name": "python"}),
        ("process_labels", 12345, {"labels": "CPU"}),
    ]  # fmt: skip
    events = [{"ph": "M", "name": name, "pid": pid, "tid": 0, "args": args} for name, pid, args in meta]
    events += [
        {"ph": "M", "name": "thread_name", "pid": 12345, "tid": 8, "args": {"name": "main"}},
        {"ph": "M", "name": "thread_sort_index", "pid": 12345, "tid": 8, "args": {"sort_index": 3}},
        {"ph": "X", "cat": "cpu_op", "name": "a", "pid": 12345, "tid": 8, "ts": 1},
        {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 1},
        {"ph": "X", "cat": "kernel", "name": "k", "pid": 12345, "tid": "stream 4", "ts": 1, "args": {"device": 3}},
        {"ph": "X", "cat": "Trace", "name": "PyTorch Profiler (0)", "pid": "Spans", "tid": "PyTorch Profiler", "ts": 1},
        {"ph": "C", "name": "c", "pid": "QoS", "tid": 0, "ts": 1, "args": {"v": 1}},
    ]
    trace = make_trace(events, source="rank_2.json")
    assert rows(trace, "track", "rank", "pid", "tid", "kind", "device", "stream") == [
        (2, "0", "0", "device", 0, None),
        (2, "12345", "0", "host", None, None),
        (2, "12345", "8", "host", None, None),
        (2, "0", "7", "device", 0, 7),
        (2, "12345", "stream 4", "device", 3, 4),
        (2, "Spans", "PyTorch Profiler", "other", None, None),
        (2, "QoS", "0", "other", None, None),
    ]
    assert rows(trace, "track", "process_name", "process_label", "thread_name", "sort_index")[2:4] == [
        ("python", "CPU", "main", 3),
        ("python", "GPU 0", None, None),
    ]


def test_header(make_trace):
    trace = make_trace(
        [],
        source="rank_9.json",
        distributedInfo={"backend": "nccl", "rank": 3, "world_size": 8},
        baseTimeNanoseconds="1711964646000000000",
        deviceProperties=[{"id": 0, "name": "NVIDIA A100"}],
    )
    info = trace.info
    assert (info.rank, info.world_size, info.backend) == (3, 8, "nccl")
    assert info.base_time_ns == 1711964646000000000
    assert info.devices == ({"id": 0, "name": "NVIDIA A100"},)
    assert make_trace([], baseTimeNanoseconds=1711964646000000000).info.base_time_ns == 1711964646000000000
    odd = make_trace([], distributedInfo=[1], deviceProperties="x", baseTimeNanoseconds=True).info
    assert (odd.rank, odd.world_size, odd.backend, odd.base_time_ns, odd.devices) == (None, None, None, None, ())


@pytest.mark.parametrize(
    ("name", "rank"),
    [
        ("rank_3.json", 3),
        ("rank-34.Jul_15_10_52_41.1074.pt.trace.json.gz", 34),
        ("s3://bucket/rank7/rank3.json", 3),
        ("worker3.pt.trace.json", 3),
        ("worker0_step_12.1694128201545.pt.trace.json", 0),
        ("409ef99__rank-70.Mar_25_20_48_12.2861.pt.trace.json.gz", 70),
        ("v100_resnet50_workers4.json", None),
        ("local_rank_3.json", None),
        ("num_rank_8.json", None),
        ("frank3.json", None),
        ("rank_1_worker_2.json", 1),
        ("rank_1_vs_rank_2.json", None),
        ("rank_not_found.json", None),
        ("trace_3.json", None),
        ("rank_3/trace.json", None),
    ],
)
def test_rank_in_name(name, rank):
    assert rank_in_name(name) == rank


EVENTS = st.lists(
    st.fixed_dictionaries(
        {
            "ph": st.sampled_from("XXXXBEsftCiMZ"),
            "ts": st.integers(-5, 20) | st.sampled_from([2**52, -(2**52), 0.5]),
            "tid": st.integers(-1, 2),
            "pid": st.sampled_from([0, 1, "Spans", ""]),
        },
        optional={
            "dur": st.integers(-1, 9),
            "name": st.sampled_from(["a", "ProfilerStep#1", "ProfilerStep#2", "xBackward0", "nccl", "[memory]", ""]),
            "cat": st.sampled_from(["cpu_op", "kernel", "cuda_runtime", "gpu_memcpy", "ac2g", "fwdbwd", "Trace", ""]),
            "id": st.integers(0, 2) | st.just("x"),
            "args": st.dictionaries(
                st.sampled_from(["correlation", "External id", "Sequence number", "Fwd thread id", "device", "stream"]),
                st.integers(-1, 3) | st.sampled_from([2**63 - 1, -(2**63), "a", None]),
            ),
        },
    ),
    max_size=20,
)


@given(EVENTS)
def test_whatever_the_events_the_tables_are_valid(make_trace, events):
    trace = make_trace(events)
    num = trace.num_rows("slice")
    for table in TABLES:
        found = trace.table(table.name)
        found.validate(full=True)
        assert found.schema == table.arrow_schema()
        for column in table.columns:
            if not column.nullable:
                assert found.column(column.name).null_count == 0
            if column.unit == "row of slice":
                ids = found.column(column.name).drop_null().to_pylist()
                assert all(0 <= i < num for i in ids)
    flows = trace.flows()
    assert len(flows.start) == len(flows.finish) == len(flows.start_slice) == len(flows.finish_slice)
    json.dumps(trace.info.to_json())


REAL = [
    "a100_alexnet.json.gz", "a100_cupti_range_profiler.json.gz", "a100_event_sync.json.gz",
    "a100_event_sync_multi_stream.json.gz", "a100_nccl_metadata.json.gz", "a100_no_kernels.json",
    "a100_particle_transformer.json.gz", "a100_rank_not_found.json.gz", "a100_triton.json.gz", "ascend_rank0.json.gz",
    "ascend_rank1.json.gz", "b200_eager_stacks.json.gz", "backward_thread.json", "cpu_only_gloo_rank34.json.gz",
    "diff_a100_control.json.gz", "diff_v100_test.json.gz", "gp100_gpu_user_annotation.json.gz",
    "h100_bert_small.json.gz", "h100_cuda_sync_after.json", "h100_qwen_0_5b.json.gz", "large_integer_rank70.json.gz",
    "mi210_gpu_only.json.gz", "mi250_rocm62.json.gz", "mi300_bert_small.json.gz", "mi300_normalization.json.gz",
    "mi300_qwen_0_5b.json.gz", "mi300_torch_compile.json.gz", "mi300_vllm_decode_graph.json.gz",
    "rtx2080ti_linear.json.gz", "simple_add_kineto.json.gz", "torch18_autograd_api.json.gz",
    "v100_ns_resolution.json.gz", "v100_resnet50_workers0.json.gz", "v100_resnet50_workers4.json.gz",
    *(f"dlrm_8ranks/worker{i}.pt.trace.json.gz" for i in range(8)),
]  # fmt: skip


@pytest.mark.parametrize("name", REAL)
def test_device_work_of_real_traces(real_trace, expected, name):
    trace, truth = real_trace(name), expected[name.rpartition("/")[2]]
    assert trace.info.num_events == truth["num_events"]
    counts = {}
    for kind, device in zip(*(trace.table("kernel").column(c).to_pylist() for c in ("kind", "device")), strict=True):
        counts.setdefault(str(device), dict.fromkeys(("compute", "comm", "memory"), 0))[kind] += 1
    for device in trace.table("memcpy").column("device").to_pylist():
        counts.setdefault(str(device), dict.fromkeys(("compute", "comm", "memory"), 0))["memory"] += 1
    assert counts == {
        device: {"compute": d["num_compute"], "comm": d["num_comm"], "memory": d["num_mem"]}
        for device, d in truth["devices"].items()
    }


@pytest.mark.parametrize("name", REAL)
def test_busy_time_of_real_traces(real_trace, expected, name):
    trace, truth = real_trace(name), expected[name.rpartition("/")[2]]
    start, end = trace.array("slice", "ts"), trace.end
    for device, figures in truth["devices"].items():
        sets = {}
        for kind in ("compute", "comm", "memory"):
            rows = [
                s
                for s, k, d in zip(
                    *(trace.table("kernel").column(c).to_pylist() for c in ("slice_id", "kind", "device")), strict=True
                )
                if k == kind and str(d) == device
            ]
            if kind == "memory":
                rows += [
                    s
                    for s, d in zip(
                        *(trace.table("memcpy").column(c).to_pylist() for c in ("slice_id", "device")), strict=True
                    )
                    if str(d) == device
                ]
            sets[kind] = intervals.merge(start[rows], end[rows])
        compute, comm = sets["compute"], sets["comm"]
        everything = [np.concatenate([s[side] for s in sets.values()]) for side in (0, 1)]
        busy = intervals.merge(*everything)
        assert intervals.length(compute) == figures["compute_ns"]
        assert intervals.length(comm) == figures["comm_ns"]
        assert intervals.overlap_length(comm, compute) == figures["overlapped_comm_ns"]
        assert intervals.subtract_length(comm, compute) == figures["exposed_comm_ns"]
        assert intervals.length(busy) == figures["busy_ns"]
        assert int(busy[1][-1] - busy[0][0]) == figures["window_ns"]


@pytest.mark.parametrize("layout", ["current", "classic", "compact"])
def test_generated(generated_trace, layout):
    trace, truth = generated_trace(layout)
    assert trace.info.num_events == truth["events"]
    by_category = {}
    for word in trace.table("slice").column("category").to_pylist():
        by_category[f"X/{word}"] = by_category.get(f"X/{word}", 0) + 1
    assert by_category == {k: n for k, n in truth["by_ph_cat"].items() if k.startswith("X/")}
    launched = (
        trace.table("kernel").column("launch_id").null_count + trace.table("memcpy").column("launch_id").null_count
    )
    assert launched == 0
    assert trace.num_rows("kernel") + trace.num_rows("memcpy") == truth["gpu_launches"]
    assert trace.num_rows("step") == truth["steps"]
    assert trace.table("step").column("truncated").to_pylist() == [False] * truth["steps"]


@pytest.mark.skipif(native.MISSING is not None, reason="the C extension is not built")
def test_pandas_is_not_imported():
    """It takes longer to import than most traces take to read."""
    code = (
        "import sys; from profsuite.trace.assemble import assemble; from profsuite.trace.readers.native import *;"
        'data = b\'{"a":1,"traceEvents":[{"ph":"X","name":"k","cat":"kernel","ts":1,"pid":0,"tid":7},\''
        'b\'{"ph":"M","name":"process_name","pid":0,"args":{"name":"x"}}]}\';'
        "trace = assemble(read_chunks([data]), 'x', 'x'); trace.flows(); trace.words('slice', 'name');"
        "print('pandas' in sys.modules, trace.num_rows('kernel'))"
    )
    path = [str(Path(__file__).parents[2] / "src"), *filter(None, [os.environ.get("PYTHONPATH")])]
    result = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path)},
    )
    assert (result.stdout.split(), result.stderr) == (["False", "1"], "")
