"""The reader of XLA's planes on small files, whole and damaged."""

from __future__ import annotations

import random
import tracemalloc

import pytest

import profsuite
from profsuite.errors import TraceError
from profsuite.trace.assemble import assemble
from profsuite.trace.readers.raw import RawTrace
from profsuite.trace.readers.xspace import is_xspace, read_xspace

HOST = ("/host:CPU", [("python", [("outer", 1000, 500, {"step_num": 3}), ("inner", 1100.4, 100.2)])])


@pytest.fixture(scope="module")
def make(planes):
    make_plane, make_space, _ = planes
    return lambda *wanted: make_space(*(make_plane(*each) for each in wanted))


def test_both_ends_are_rounded(make, rows):
    trace = assemble(read_xspace([make(HOST)]), "x", "xspace")
    # 1100.4 ns to 1200.6 ns
    assert rows(trace, "slice", "name", "ts", "dur", "depth") == [("outer", 1000, 500, 0), ("inner", 1100, 101, 1)]
    assert trace.tracks.column("thread_name").to_pylist() == ["python"]


def test_stats_of_an_event_go_before_those_of_its_name(planes, rows):
    make_plane, make_space, _ = planes
    lines = [("XLA Ops", [("%fusion.1 = f32[8]", 0, 5), ("%fusion.1 = f32[8]", 5, 5, {"flops": 9})])]
    metadata = {"%fusion.1 = f32[8]": ("fusion.1", {"hlo_category": "loop fusion", "flops": 64})}
    trace = assemble(read_xspace([make_space(make_plane("/device:TPU:0", lines, metadata=metadata))]), "x", "xspace")
    assert rows(trace, "xla_op", "hlo_category", "flops") == [("loop fusion", 64), ("loop fusion", 9)]
    assert rows(trace, "slice", "name") == [("fusion.1",), ("fusion.1",)]


def test_the_epoch_of_the_profile(planes):
    make_plane, make_space, proto = planes
    task = make_plane("Task Environment", [], {"profile_start_time": 1_700_000_000_000_000_000})
    raw = read_xspace([make_space(make_plane(*HOST), task)])
    assert dict(raw.header)["baseTimeNanoseconds"] == "1700000000000000000"
    # Lines that count from the epoch themselves are left as they are.
    line = proto((1, 1), (2, "python"), (3, 1_700_000_000_500_000_000), (4, proto((1, 1), (2, 7000), (3, 1000))))
    raw = read_xspace([make_space(proto((2, "/host:CPU"), (3, line)), task)])
    assert dict(raw.header)["baseTimeNanoseconds"] == "0"
    assert raw.groups["slice"]["ts"].tolist() == [1_700_000_000_500_000_007]


def test_the_module_says_what_communicates(planes, rows):
    make_plane, make_space, proto = planes
    array = proto((2, 16), (3, proto_packed(8, 128)))  # bf16[8,128]
    both = proto((2, 13), (4, proto((2, 16), (3, proto_packed(2, 128)))), (4, array))
    groups = [(49, proto((1, 0), (1, 4))), (49, proto((1, 1), (1, 5)))]
    instructions = [
        proto((1, "psum.3"), (2, "all-reduce"), (3, array), *groups),
        proto((1, "gather-start.1"), (2, "all-gather-start"), (3, both), (87, proto((2, proto((1, 2), (2, 4)))))),
        proto((1, "fusion.2"), (2, "fusion"), (3, array)),
    ]
    computation = proto((1, "main"), *((2, each) for each in instructions))
    module = proto((1, proto((1, "jit_f"), (3, computation))))
    ops = [(f"op {name}", 10 * i, 5, {"hlo_op": name, "program_id": 12})
           for i, name in enumerate(("psum.3", "gather-start.1", "fusion.2"))]  # fmt: skip
    space = make_space(
        make_plane("/device:TPU:0", [("XLA Ops", ops)]), make_plane("/host:metadata", [], modules={12: module})
    )
    trace = assemble(read_xspace([space]), "x", "xspace")
    assert rows(trace, "collective", "collective_name", "dtype", "in_nelems", "out_nelems", "group_size", "group_ranks",
                "is_async") == [
        ("allreduce", "BFloat16", 1024, 1024, 2, "[[0,4],[1,5]]", False),
        ("allgather", "BFloat16", 256, 1024, 4, None, True),
    ]  # fmt: skip
    assert [code for (code,) in rows(trace, "xla_op", "hlo_opcode")] == ["all-reduce", "all-gather-start", "fusion"]


def proto_packed(*values):
    out = b""
    for value in values:
        while value >= 128:
            out += bytes([value & 127 | 128])
            value >>= 7
        out += bytes([value])
    return out


@pytest.mark.parametrize(
    ("first", "expected"),
    [
        (b"\n\x10\x12\x09/host:CPU", True),
        (b"\n\x12\x08\x05\x12\x0b/device:GPU:", True),
        (b"\n\n{\"traceEvents\"", False),
        (b"\n\x0c\xc2\x3e\x09\x0a", False),
        (b"\n\x10\x12\x09/h\xff\xfe:CPU", False),
        (b"\n\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", False),
        (b"\n", False),
        (b"", False),
        (b"{}", False),
    ],
)  # fmt: skip
def test_what_begins_like_planes(first, expected):
    assert is_xspace(first) is expected


def test_a_protobuf_of_another_kind_is_named(tmp_path):
    path = tmp_path / "x.pb"
    path.write_bytes(b"\n\x04\xff\xfe\xfd\xfc")
    with pytest.raises(TraceError, match=r"x.pb: is a binary protobuf, but neither XLA's planes .* lists what"):
        profsuite.load(path)


def test_no_plane_is_left(make):
    with pytest.raises(TraceError, match="is no XSpace"):
        read_xspace([b"\xff" * 40])


def test_gzip_and_folder(tmp_path, make):
    import gzip

    path = tmp_path / "host.xplane.pb"
    path.write_bytes(make(HOST))
    packed = tmp_path / "packed"
    packed.write_bytes(gzip.compress(make(HOST)))
    assert profsuite.load(packed).num_rows("slice") == profsuite.load(path).num_rows("slice") == 2
    assert profsuite.load(path, steps=(3, 4)).num_rows("step") == 1


def damaged(data, seed):
    """``data`` with a few bytes changed, or cut off."""
    chance = random.Random(seed)
    out = bytearray(data)
    for _ in range(chance.randint(1, 6)):
        at = chance.randrange(len(out))
        if chance.random() < 0.5:
            out[at] = chance.choice([0, 0x7F, 0x80, 0xFF, chance.randrange(256)])
        else:
            out[at] ^= 1 << chance.randrange(8)
    return bytes(out[: chance.randint(1, len(out))] if chance.random() < 0.4 else out)


def test_damage_never_gets_through(make):
    ops = [(f"all-reduce-start.{i}", 10 * i, 4, {"hlo_op": f"all-reduce-start.{i}", "kernel_details": "regs:3"})
           for i in range(20)]  # fmt: skip
    data = make(HOST, ("/device:TPU:0", [("XLA Ops", ops), ("Steps", [("1", 0, 50)])]),
                ("/device:GPU:1", [("Stream #3(Compute)", ops[:9])]))  # fmt: skip
    kept = 0
    for seed in range(150):
        try:
            raw = read_xspace([damaged(data, seed)])
        except TraceError:
            continue
        assert isinstance(raw, RawTrace)
        trace = assemble(raw, "x", "xspace")
        kept += trace.num_rows("slice") > 0
        assert trace.num_rows("slice") <= 60
    assert kept > 75


def test_every_cut_is_noticed(make):
    data = make(HOST)
    for size in range(1, len(data)):
        try:
            raw = read_xspace([data[:size]])
        except TraceError:
            continue
        assert "truncated" in {each.kind for each in raw.remarks}


def test_lengths_beyond_the_file_allocate_nothing(planes):
    _, _, proto = planes
    plane = proto((2, "/host:CPU"), (3, proto((1, 1), (2, "python"))))
    huge = plane + b"\x1a\xff\xff\xff\xff\x07\x22"  # a line of 2 GiB
    tracemalloc.start()
    raw = read_xspace([b"\n\xff\xff\xff\xff\x07" + huge])
    assert tracemalloc.get_traced_memory()[1] < 10e6
    tracemalloc.stop()
    assert {each.kind for each in raw.remarks} == {"truncated"}


def test_an_event_of_very_many_fields_is_left_out(planes):
    _, _, proto = planes
    event = proto(*((1, 1) for _ in range(5000)), (2, 5))
    line = proto((1, 1), (2, "python"), (4, event), (4, proto((1, 1), (2, 7000), (3, 1000))))
    raw = read_xspace([proto((1, proto((2, "/host:CPU"), (3, line))))])
    assert len(raw.groups["slice"]["ts"]) == 1
    assert [(each.kind, each.count) for each in raw.remarks] == [("dropped", 1)]
