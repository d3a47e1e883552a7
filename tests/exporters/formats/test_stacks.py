"""Collapsed stacks, speedscope and pprof: sums against the trace, and the formats' own schemas."""

from __future__ import annotations

import gzip
import json
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import profsuite
from profsuite.errors import ProfsuiteError
from profsuite.exporters import stacks as stacks_module
from profsuite.trace.model import Trace

STEP = 1000
MAIN = "main: thread"


def collapsed(file: Path) -> dict[tuple[str, ...], int]:
    """Stacks and values; flamegraph.pl takes what follows the last blank for the value."""
    found: dict[tuple[str, ...], int] = {}
    for line in file.read_text(encoding="utf-8").splitlines():
        stack, _, value = line.rpartition(" ")
        assert tuple(stack.split(";")) not in found
        found[tuple(stack.split(";"))] = int(value)
    return found


def host_self_ns(trace: Trace) -> int:
    kinds = trace.tracks.column("kind").to_pylist()
    rows = trace.slices.to_pylist()
    return sum(row["self_dur"] for row in rows if kinds[row["track_id"]] == "host")


def test_collapsed_by_hand(trace: Trace, tmp_path: Path) -> None:
    file = profsuite.export(trace, tmp_path / "job.collapsed")
    found = collapsed(file)
    step = (MAIN, "ProfilerStep#3", "train.py(88): step")
    assert found[step[:2]] == 100_000
    assert found[step] == 800_000 - 150_000
    assert found[(*step, "aten::mm")] == 100_000 - 10_500
    assert found[(*step, "aten::mm", "cudaLaunchKernel")] == 10_500
    assert found[("thread 2", "worker")] == 200_000
    assert found[("thread 2", "overlapping")] == 100_000
    assert sum(found.values()) == host_self_ns(trace)
    hostile = next(stack[3] for stack in found if len(stack) == 4 and stack[3].startswith("=cmd"))
    assert hostile.isprintable()


def test_collapsed_sums_the_same_stack(make: Callable[..., Trace], piece: Callable[..., Any], tmp_path: Path) -> None:
    trace = make([piece("cpu_op", "a", 10 * i, 5) for i in range(4)] + [piece("cpu_op", "b", 10, 2)])
    found = collapsed(profsuite.export(trace, tmp_path / "x.collapsed"))
    assert found == {("thread 1", "a"): 18_000, ("thread 1", "a", "b"): 2_000}


def test_device_time_goes_to_the_launch(trace: Trace, tmp_path: Path) -> None:
    found = collapsed(profsuite.export(trace, tmp_path / "job.device.collapsed"))
    base = (MAIN, "ProfilerStep#4", "train.py(88): step")
    assert found[(*base, "aten::mm", "cudaLaunchKernel", "gemm")] == 300_000
    orphan = [stack for stack in found if stack[-1] == "orphan"]
    assert [len(stack) for stack in orphan] == [2]  # only its stream is known
    assert sum(found.values()) == 805_000


def test_memory_goes_to_the_innermost_frame(trace: Trace, tmp_path: Path) -> None:
    found = collapsed(profsuite.export(trace, tmp_path / "job.memory.collapsed"))
    base = (MAIN, "ProfilerStep#3", "train.py(88): step")
    assert found[("allocated on cuda:0", *base, "aten::mm")] == 512
    assert found[("allocated on cpu", *base[:2])] == 64
    assert sum(value for stack, value in found.items() if stack[0] == "allocated on cuda:0") == 2 * (512 + 1024)


def test_a_trace_without_the_quantity_says_which_flag_records_it(
    make: Callable[..., Trace], piece: Callable[..., Any], tmp_path: Path
) -> None:
    trace = make([piece("cpu_op", "a", 0, 5)])
    with pytest.raises(ProfsuiteError, match="profile_memory=True"):
        profsuite.export(trace, tmp_path / "x.memory.collapsed")
    with pytest.raises(ProfsuiteError, match="ProfilerActivity"):
        profsuite.export(trace, tmp_path / "x.device.collapsed")


def test_a_stack_deeper_than_the_limit_keeps_its_time(
    make: Callable[..., Trace], piece: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stacks_module, "DEEPEST", 3)
    trace = make([piece("cpu_op", f"f{i}", i, 20 - 2 * i) for i in range(8)])
    found = collapsed(profsuite.export(trace, tmp_path / "x.collapsed"))
    assert max(map(len, found)) == 4
    assert sum(found.values()) == 20_000


# ---------------------------------------------------------------- speedscope
def speedscope(trace: Trace, tmp_path: Path) -> dict[str, Any]:
    file = profsuite.export(trace, tmp_path / "job.speedscope.json")
    found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return found


def replay(profile: dict[str, Any], frames: list[dict[str, Any]]) -> Counter[str]:
    """Self time by frame, as speedscope's importer adds it up; fails where opens and closes do not match."""
    own: Counter[str] = Counter()
    stack: list[int] = []
    last = profile["startValue"]
    for event in profile["events"]:
        assert event["at"] >= last
        if stack:
            own[frames[stack[-1]]["name"]] += event["at"] - last
        last = event["at"]
        if event["type"] == "O":
            stack.append(event["frame"])
        else:
            assert stack.pop() == event["frame"]
    assert not stack
    assert last == profile["endValue"]
    return own


def test_speedscope_replays_to_the_self_times(trace: Trace, hostile_name: str, tmp_path: Path) -> None:
    found = speedscope(trace, tmp_path)
    frames = found["shared"]["frames"]
    evented = [profile for profile in found["profiles"] if profile["type"] == "evented"]
    assert [profile["name"] for profile in evented] == ["main; thread", "thread 2", "thread 2 (overlapping, 1)"]
    own = sum((replay(profile, frames) for profile in evented), Counter())
    expected: Counter[str] = Counter()
    for row in trace.slices.to_pylist():
        if trace.tracks.column("kind")[row["track_id"]].as_py() == "host":
            expected[row["name"]] += row["self_dur"]
    expected["step"] = expected.pop("train.py(88): step")
    hostile = next(name for name in own if name.startswith("=cmd"))
    expected[hostile] = expected.pop(hostile_name)
    assert own == expected
    assert {"name": "step", "file": "train.py", "line": 88} in frames
    assert evented[0]["startValue"] == 0
    sampled = {
        profile["name"]: sum(profile["weights"]) for profile in found["profiles"] if profile["type"] == "sampled"
    }
    assert sampled == {"device time by launch": 805_000, "allocated on cpu": 128, "allocated on cuda:0": 3072}


def test_speedscope_of_slices_of_no_length(
    make: Callable[..., Trace], piece: Callable[..., Any], tmp_path: Path
) -> None:
    trace = make(
        [
            piece("cpu_op", "a", 0, 10), piece("cpu_op", "zero", 0, 0), piece("cpu_op", "zero", 10, 0),
            piece("cpu_op", "b", 10, 5), piece("cpu_op", "same", 0, 10), piece("cpu_op", "zero", 20, 0),
        ]
    )  # fmt: skip
    found = speedscope(trace, tmp_path)
    (profile,) = found["profiles"]
    assert replay(profile, found["shared"]["frames"]) == Counter({"a": 0, "same": 10_000, "b": 5_000, "zero": 0})


# ---------------------------------------------------------------- pprof
FIELDS = {
    # message: (name, number, type, repeated); types are those of descriptor.proto, or a message
    "ValueType": [("type", 1, "int64"), ("unit", 2, "int64")],
    "Label": [("key", 1, "int64"), ("str", 2, "int64"), ("num", 3, "int64"), ("num_unit", 4, "int64")],
    "Sample": [("location_id", 1, "*uint64"), ("value", 2, "*int64"), ("label", 3, "*Label")],
    "Line": [("function_id", 1, "uint64"), ("line", 2, "int64")],
    "Location": [("id", 1, "uint64"), ("mapping_id", 2, "uint64"), ("address", 3, "uint64"), ("line", 4, "*Line")],
    "Function": [
        ("id", 1, "uint64"), ("name", 2, "int64"), ("system_name", 3, "int64"), ("filename", 4, "int64"),
        ("start_line", 5, "int64"),
    ],
    "Profile": [
        ("sample_type", 1, "*ValueType"), ("sample", 2, "*Sample"), ("location", 4, "*Location"),
        ("function", 5, "*Function"), ("string_table", 6, "*string"), ("time_nanos", 9, "int64"),
        ("duration_nanos", 10, "int64"), ("default_sample_type", 14, "int64"),
    ],
}  # fmt: skip
"""github.com/google/pprof, proto/profile.proto."""


def profile_class() -> Any:
    protobuf = pytest.importorskip("google.protobuf", reason="protobuf is not installed")
    assert protobuf
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    file = descriptor_pb2.FileDescriptorProto(name="profile.proto", package="perftools.profiles", syntax="proto3")
    for message, fields in FIELDS.items():
        made = file.message_type.add(name=message)
        for name, number, kind in fields:
            one = made.field.add(name=name, number=number)
            one.label = one.LABEL_REPEATED if kind.startswith("*") else one.LABEL_OPTIONAL
            bare = kind.removeprefix("*")
            if bare in FIELDS:
                one.type, one.type_name = one.TYPE_MESSAGE, f".perftools.profiles.{bare}"
            else:
                one.type = getattr(one, f"TYPE_{bare.upper()}")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("perftools.profiles.Profile"))


def test_pprof(trace: Trace, tmp_path: Path) -> None:
    file = profsuite.export(trace, tmp_path / "job.pb.gz")
    found = profile_class().FromString(gzip.decompress(file.read_bytes()))
    text = list(found.string_table)
    assert text[0] == ""
    assert len(set(text)) == len(text)
    types = [text[one.type] for one in found.sample_type]
    assert [text[one.unit] for one in found.sample_type][:4] == ["count", "nanoseconds"] * 2
    functions = {one.id: one for one in found.function}
    locations = {one.id: functions[one.line[0].function_id] for one in found.location}
    assert 0 not in locations
    by_stack: dict[tuple[str, ...], dict[str, int]] = defaultdict(dict)
    for sample in found.sample:
        labels = {text[label.key]: text[label.str] for label in sample.label}
        stack = tuple(text[locations[i].name] for i in reversed(sample.location_id))
        for name, value in zip(types, sample.value, strict=True):
            key = f"{name} {labels['device']}" if "device" in labels else name
            if value:
                assert key not in by_stack[labels["thread"], *stack]
                by_stack[labels["thread"], *stack][key] = value
    op = ("main; thread", "ProfilerStep#3", "step", "aten::mm")
    assert by_stack[op] == {"calls": 1, "host": 89_500, "alloc_objects cuda:0": 1, "alloc_space cuda:0": 512}
    assert by_stack[*op, "cudaLaunchKernel", "gemm"] == {"launched": 1, "device": 300_000}
    totals = Counter[str]()
    for values in by_stack.values():
        totals.update(values)
    assert totals["host"] == host_self_ns(trace)
    assert totals["device"] == 805_000
    step = next(one for one in found.function if text[one.name] == "step")
    assert (text[step.filename], step.start_line, text[step.system_name]) == ("train.py", 88, "train.py(88): step")
    assert found.time_nanos == 1_700_000_000_000_000_000 + 1_000_000
    assert found.duration_nanos == 2_005_000
    assert text[found.default_sample_type] == "device"


def test_bytes_do_not_depend_on_when_it_was_written(trace: Trace, tmp_path: Path) -> None:
    one, two = (profsuite.export(trace, tmp_path / name).read_bytes() for name in ("a.pb.gz", "b.pb.gz"))
    assert one == two
