"""The decoder on raw buffers: real record structs of cupti-python, and garbage."""

from __future__ import annotations

import ctypes
import subprocess

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from profsuite.collector.cupti import engine as engine_module
from profsuite.collector.cupti import library
from profsuite.collector.cupti.clock import Anchor, Clock
from profsuite.collector.cupti.decode import DTYPES, decode
from profsuite.trace.assemble import assemble
from profsuite.trace.readers.fields import NULL_INT64

KERNEL, MEMCPY, MEMSET, RUNTIME, DRIVER, OVERHEAD, MEMCPY2, EVENT, SYNC, EXTERNAL, GRAPH = (
    10, 1, 2, 5, 4, 17, 22, 36, 38, 39, 51,
)  # fmt: skip
CLOCK = Clock([Anchor(0, 0, 0)])


@pytest.fixture
def native(environment):
    loaded = library.load(library.build())
    loaded.psc_clear()
    yield loaded
    loaded.psc_clear()


@pytest.fixture
def split(native):
    """A function from a buffer and record sizes by kind to the kept records and the engine's counts."""

    def cut(data, sizes, *, read_names=False, limit=1 << 30):
        native.psc_clear()
        counts = (ctypes.c_uint64 * len(engine_module.COUNTS))()
        table = np.zeros(256, np.uint32)
        for kind, size in sizes.items():
            table[kind] = size
        buffer = np.frombuffer(bytes(data) + b"\xff" * 64, np.uint8)  # what lies behind must not be read as data
        pointer = table.ctypes.data_as(ctypes.POINTER(ctypes.c_uint32))
        assert (
            native.psc_split(buffer.ctypes.data, len(data), pointer, 256, read_names, limit, counts, len(counts)) == 0
        )
        return engine_module.take(native), dict(zip(engine_module.COUNTS, counts, strict=True))

    return cut


def test_the_engine_keeps_what_the_dtypes_describe(native):
    engine_module.check_layout(native)
    layout = (library.KindLayout * 32)()
    num = native.psc_layout(layout, 32)
    assert {entry.kind for entry in layout[:num]} == set(DTYPES)
    for entry in layout[:num]:
        assert entry.least <= entry.item == DTYPES[entry.kind].itemsize
        assert entry.name_offset == (DTYPES[entry.kind].fields["name"][1] if entry.kind in (3, 10) else 0)


def test_the_engine_compiles_without_warnings(headers, tmp_path):
    folders = ["-isystem", headers, "-idirafter", library.STUB]
    command = [library.compiler(), *library._FLAGS, "-Werror", *folders, library.SOURCE, "-o", tmp_path / "engine.so"]
    assert subprocess.run(command, capture_output=True, text=True).stderr == ""


# ---------------------------------------------------------------- cupti-python

FIELDS = {
    "registers": "registers_per_thread", "device": "device_id", "context": "context_id", "stream": "stream_id",
    "static_shared": "static_shared_memory", "dynamic_shared": "dynamic_shared_memory",
    "correlation": "correlation_id", "graph_node": "graph_node_id", "graph": "graph_id", "call": "cbid",
    "process": "process_id", "thread": "thread_id", "source": "src_kind", "target": "dst_kind", "memory": "memory_kind",
    "overhead": "overhead_kind", "event": "cuda_event_id", "sync_id": "cuda_event_sync_id",
    "external": "external_id", "source_device": "src_device_id", "target_device": "dst_device_id",
}  # fmt: skip
RECORDS = {
    "activity_kernel9": KERNEL, "activity_kernel10": KERNEL, "activity_kernel11": KERNEL, "activity_kernel12": KERNEL,
    "activity_kernel13": KERNEL, "activity_memcpy5": MEMCPY, "activity_memcpy6": MEMCPY, "activity_memcpy7": MEMCPY,
    "activity_memcpy_pto_p4": MEMCPY2, "activity_memset4": MEMSET, "activity_memset5": MEMSET,
    "activity_api": RUNTIME, "activity_overhead3": OVERHEAD, "activity_synchronization": SYNC,
    "activity_synchronization2": SYNC, "activity_cuda_event": EVENT, "activity_cuda_event2": EVENT,
    "activity_external_correlation": EXTERNAL, "activity_graph_trace2": GRAPH,
}  # fmt: skip
NEWER_FIELDS = {"activity_synchronization": {"sync_id"}, "activity_cuda_event": {"sync_id"}}
"""What the older version of a record has not."""


@pytest.fixture(scope="module")
def cupti():
    return pytest.importorskip("cupti.cupti", reason="cupti-python is not installed: pip install cupti-python")


def theirs(dtype, kind, field):
    if kind == EVENT and field == "event":
        return "event_id"
    return field if field in dtype.fields else FIELDS[field]


@pytest.mark.parametrize("name", RECORDS)
def test_the_dtypes_agree_with_cupti_python(cupti, name):
    dtype = getattr(cupti, f"{name}_dtype", None)
    if dtype is None:
        pytest.skip(f"this cupti-python has no {name}")
    kind = RECORDS[name]
    for field, (ours, offset, *_) in DTYPES[kind].fields.items():
        if field in NEWER_FIELDS.get(name, ()):
            continue
        their_type, their_offset = dtype.fields[theirs(dtype, kind, field)]
        assert (offset, ours.itemsize) == (their_offset, their_type.itemsize), field


@pytest.mark.parametrize("name", RECORDS)
def test_records_of_cupti_python_are_kept_field_by_field(cupti, split, name):
    dtype = getattr(cupti, f"{name}_dtype", None)
    if dtype is None:
        pytest.skip(f"this cupti-python has no {name}")
    kind = RECORDS[name]
    random = np.random.default_rng(7)
    records = np.frombuffer(random.bytes(dtype.itemsize * 100), dtype).copy()
    records["kind"] = kind
    kept, counts = split(records.tobytes(), {kind: dtype.itemsize})
    assert counts["records"] == 100
    (ours,) = kept[kind]
    for field in DTYPES[kind].names:
        if field == "name":
            assert not ours["name"].any()  # pointers of an untrusted buffer are not followed
        elif field in NEWER_FIELDS.get(name, ()):
            assert not ours[field].any()
        else:
            expected = records[theirs(dtype, kind, field)]
            assert ours[field].astype(expected.dtype).tolist() == expected.tolist(), field


def test_a_session_of_cupti_python_records(cupti, split, native):
    name = ctypes.create_string_buffer(b"_ZN2at6native18vectorized_elementILi4EEEvv")
    call = np.zeros(1, cupti.activity_api_dtype)
    call["kind"], call["cbid"], call["start"], call["end"], call["correlation_id"] = RUNTIME, 211, 100, 150, 3
    call["process_id"], call["thread_id"] = 11, 12
    external = np.zeros(1, cupti.activity_external_correlation_dtype)
    external["kind"], external["external_kind"] = EXTERNAL, int(cupti.ExternalCorrelationKind.CUSTOM2)
    external["external_id"], external["correlation_id"] = 77, 3
    kineto = external.copy()
    kineto["external_kind"], kineto["external_id"] = int(cupti.ExternalCorrelationKind.CUSTOM0), 99
    kernel = cupti.ActivityKernel13() if hasattr(cupti, "ActivityKernel13") else cupti.ActivityKernel9()
    dtype = cupti.activity_kernel13_dtype if hasattr(cupti, "ActivityKernel13") else cupti.activity_kernel9_dtype
    raw_kernel = np.frombuffer((ctypes.c_char * dtype.itemsize).from_address(kernel.ptr), dtype).copy()
    raw_kernel["kind"], raw_kernel["start"], raw_kernel["end"] = KERNEL, 200, 260
    raw_kernel["correlation_id"], raw_kernel["name"], raw_kernel["grid_x"] = 3, ctypes.addressof(name), 8
    raw_kernel["stream_id"], raw_kernel["context_id"] = 7, 1
    data = b"".join(part.tobytes() for part in (kineto, external, call, raw_kernel))
    kept, counts = split(data, {RUNTIME: 40, EXTERNAL: 24, KERNEL: dtype.itemsize}, read_names=True)
    assert counts["records"] == 4
    raw, rows = decode(kept, engine_module.names_of(native), CLOCK, lambda domain, call: f"call{domain}_{call}_v7000")
    assert rows == {"incomplete": 0, "kernel": 1, "cuda_runtime": 1}
    assert raw.groups["slice"]["ts"].tolist() == [200, 100]
    assert raw.groups["slice"]["external"].tolist() == [77, 77]
    assert raw.pools["name"].to_pylist() == ["void at::native::vectorized_element<4>()", "call2_211"]
    trace = assemble(raw, "session", "cupti")
    assert trace.table("kernel").column("launch_id").to_pylist() == [1]
    assert trace.table("kernel").column("grid_x").to_pylist() == [8]


# ---------------------------------------------------------------- garbage

SIZES = {kind: dtype.itemsize for kind, dtype in DTYPES.items()}


def check(split_result, data):
    """Whatever the buffer held: nothing is invented, everything is accounted for, and a trace comes of it."""
    kept, counts = split_result
    assert counts["records"] == sum(len(chunk) for chunks in kept.values() for chunk in chunks)
    assert counts["lost_bytes"] <= len(data)
    raw, _ = decode(kept, ["a", "b"], CLOCK, lambda domain, call: None)
    assert raw.num_events <= counts["records"]
    assert all(len(group["ts"]) == raw.num_events for name, group in raw.groups.items() if name == "slice")
    assert (raw.groups["slice"]["dur"] >= 0).all()
    assemble(raw, "garbage", "cupti")


@settings(max_examples=80, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(data=st.binary(max_size=600))
def test_garbage(split, data):
    check(split(data, SIZES), data)


@settings(max_examples=80, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(seed=st.integers(0, 2**32), cut=st.integers(0, 200), flips=st.integers(0, 8))
def test_records_with_garbage_in_their_fields(split, seed, cut, flips):
    random = np.random.default_rng(seed)
    parts = []
    for kind in random.choice(list(DTYPES), size=int(random.integers(0, 40))):
        record = bytearray(random.bytes(SIZES[int(kind)]))
        record[:4] = int(kind).to_bytes(4, "little")
        parts.append(bytes(record))
    data = bytearray(b"".join(parts))
    for _ in range(flips if data else 0):
        data[int(random.integers(len(data)))] ^= 1 << int(random.integers(8))
    data = bytes(data[: max(0, len(data) - cut)])
    check(split(data, SIZES), data)


def record(kind, **values):
    made = np.zeros(1, DTYPES[kind])
    made["kind"] = kind
    for name, value in values.items():
        made[name] = value
    return made.tobytes()


def test_a_truncated_record_ends_the_buffer(split):
    whole = record(RUNTIME, start=1, end=2)
    _, counts = split(whole + whole[:-8], SIZES)
    assert (counts["records"], counts["lost_bytes"]) == (1, 32)
    _, counts = split(whole[:6], SIZES)
    assert (counts["records"], counts["lost_bytes"]) == (0, 6)


def test_a_record_of_size_0_ends_the_buffer(split):
    whole = record(RUNTIME, start=1, end=2)
    _, counts = split(whole * 3, {RUNTIME: 0})
    assert (counts["records"], counts["unknown"], counts["lost_bytes"]) == (0, 1, 120)


def test_unknown_kinds_are_skipped_where_their_size_is_known(split):
    whole = record(RUNTIME, start=1, end=2)
    unknown = (199).to_bytes(8, "little") * 3
    _, counts = split(whole + unknown + whole, {**SIZES, 199: 24})
    assert (counts["records"], counts["unknown"], counts["lost_bytes"]) == (2, 1, 0)
    _, counts = split(whole + unknown + whole, SIZES)
    assert (counts["records"], counts["unknown"], counts["lost_bytes"]) == (1, 1, 64)


def test_records_of_a_layout_that_is_too_old(split):
    _, counts = split(bytes(record(KERNEL))[:120] * 2, {KERNEL: 120})
    assert (counts["records"], counts["short"]) == (0, 2)


def test_a_number_without_a_name_and_numbers_beyond_the_words(split):
    data = (
        record(MEMCPY, copy_kind=200, source=99, target=1, start=1, end=2, bytes=4)
        + record(OVERHEAD, overhead=12345, start=1, end=2)
        + record(SYNC, type=77, start=1, end=1)
    )
    kept, _ = split(data, SIZES)
    raw, _ = decode(kept, [], CLOCK, lambda domain, call: None)
    names = raw.pools["name"].to_pylist()
    assert names == ["Memcpy <unknown> (Unrecognized -> Pageable)", "<unknown>", "Unrecognized"]
    assert raw.groups["slice"]["correlation"].tolist() == [0, 0, NULL_INT64]


def test_many_chunks_and_sparse_ids(split):
    num = 150_000
    kernel = np.zeros(num, DTYPES[KERNEL])
    kernel["kind"], kernel["start"], kernel["end"] = KERNEL, np.arange(num) + 1, np.arange(num) + 5
    kernel["correlation"] = np.arange(num) * 20_011 % 2**32
    kernel["stream"] = np.arange(num) % 5
    external = np.zeros(num, DTYPES[EXTERNAL])
    external["kind"], external["external_kind"] = EXTERNAL, 5
    external["correlation"], external["external"] = kernel["correlation"], np.arange(num)
    kept, _ = split(kernel.tobytes() + external.tobytes(), SIZES)
    assert len(kept[KERNEL]) > 1
    raw, _ = decode(kept, [], CLOCK, lambda domain, call: None)
    assert raw.groups["slice"]["external"].tolist() == list(range(num))
    assert [raw.tracks[t] for t in raw.groups["slice"]["track"][:5]] == [("0", str(i)) for i in range(5)]
