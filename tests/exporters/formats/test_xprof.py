"""XProf's folder, decoded by protobuf from the messages' definition; tests/exporters/consumers has XProf itself."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import profsuite
from profsuite.errors import ProfsuiteError
from profsuite.trace.model import Trace

MESSAGES = {
    "XSpace": "planes:XPlane*=1 errors:string*=2 warnings:string*=3 hostnames:string*=4",
    "XPlane": "id:int64=1 name:string=2 lines:XLine*=3 event_metadata:EventEntry*=4 stat_metadata:StatEntry*=5 "
              "stats:XStat*=6",
    "EventEntry": "key:int64=1 value:XEventMetadata=2",
    "StatEntry": "key:int64=1 value:XStatMetadata=2",
    "XLine": "id:int64=1 display_id:int64=10 name:string=2 display_name:string=11 timestamp_ns:int64=3 "
             "duration_ps:int64=9 events:XEvent*=4",
    "XEvent": "metadata_id:int64=1 offset_ps:int64=2 num_occurrences:int64=5 duration_ps:int64=3 stats:XStat*=4",
    "XStat": "metadata_id:int64=1 double_value:double=2 uint64_value:uint64=3 int64_value:int64=4 str_value:string=5 "
             "bytes_value:bytes=6 ref_value:uint64=7",
    "XEventMetadata": "id:int64=1 name:string=2 display_name:string=4 metadata:bytes=3 stats:XStat*=5 "
                      "child_id:int64*=6",
    "XStatMetadata": "id:int64=1 name:string=2 description:string=3",
}  # fmt: skip
"""openxla's xplane.proto; a map is a repeated message of key and value."""


@pytest.fixture(scope="module")
def parse() -> Callable[[Path], Any]:
    pb = pytest.importorskip("google.protobuf.descriptor_pb2", reason="protobuf is not installed")
    from google.protobuf import descriptor_pool, message_factory

    file = pb.FileDescriptorProto(name="xplane.proto", package="x", syntax="proto3")
    for name, fields in MESSAGES.items():
        message = file.message_type.add(name=name)
        for text in fields.split():
            title, _, rest = text.partition(":")
            kind, _, number = rest.partition("=")
            field = message.field.add(name=title, number=int(number))
            field.label = field.LABEL_REPEATED if kind.endswith("*") else field.LABEL_OPTIONAL
            kind = kind.removesuffix("*")
            if kind in MESSAGES:
                field.type, field.type_name = field.TYPE_MESSAGE, f".x.{kind}"
            else:
                field.type = getattr(field, f"TYPE_{kind.upper()}")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    space = message_factory.GetMessageClass(pool.FindMessageTypeByName("x.XSpace"))
    return lambda path: space.FromString(path.read_bytes())


def events(space: Any) -> list[tuple[str, str, str, int, int, dict[str, Any]]]:
    """Plane, line, name, start (ns from the first), duration (ns) and stats of every event."""
    found = []
    for plane in space.planes:
        names = {entry.key: entry.value.name for entry in plane.event_metadata}
        titles = {entry.key: entry.value.name for entry in plane.stat_metadata}
        assert all(entry.key == entry.value.id for entry in (*plane.event_metadata, *plane.stat_metadata))
        assert len(set(titles.values())) == len(titles)
        assert len({line.id for line in plane.lines}) == len(plane.lines)
        for line in plane.lines:
            open_ends: list[int] = []
            for event in line.events:
                assert event.offset_ps % 1000 == event.duration_ps % 1000 == 0
                start = line.timestamp_ns + event.offset_ps // 1000
                while open_ends and open_ends[-1] <= start:
                    open_ends.pop()
                end = start + event.duration_ps // 1000
                assert not open_ends or end <= open_ends[-1]  # nested, never overlapping
                open_ends.append(end)
                stats = {
                    titles[stat.metadata_id]: titles[stat.ref_value] if stat.ref_value else stat.int64_value
                    for stat in event.stats
                }
                found.append((plane.name, line.name, names[event.metadata_id], start, event.duration_ps // 1000, stats))
    return found


def test_all_slices(trace: Trace, tmp_path: Path, parse: Callable[[Path], Any], hostile_name: str) -> None:
    folder = profsuite.export(trace, tmp_path / "logs", "xprof")
    (path,) = folder.rglob("*.xplane.pb")
    assert path.relative_to(folder).parts[:2] == ("plugins", "profile")
    assert path.name == "rank0.xplane.pb"
    space = parse(path)
    found = events(space)
    rows = trace.slices.to_pylist()
    first = min(row["ts"] for row in rows)
    names = trace.words("slice", "name")
    assert sorted((e[2], e[3], e[4]) for e in found) == sorted((r["name"], r["ts"] - first, r["dur"]) for r in rows)
    assert hostile_name in names
    assert [plane.name for plane in space.planes] == ["/host:CPU", "/device:GPU:0", "Task Environment"]
    lines = {(e[0], e[1]) for e in found}
    assert {line for plane, line in lines if plane == "/device:GPU:0"} == {"Stream #7", "Stream #9"}
    assert ("/host:CPU", "2 (overlapping, 1)") in lines
    session = {stat.uint64_value for stat in space.planes[-1].stats}
    last = max(row["ts"] + row["dur"] for row in rows)
    assert session == {trace.info.base_time_ns + first, trace.info.base_time_ns + last}
    assert list(space.hostnames) == ["rank0"]


def test_stats(trace: Trace, tmp_path: Path, parse: Callable[[Path], Any]) -> None:
    (path,) = profsuite.export(trace, tmp_path / "logs", "xprof").rglob("*.xplane.pb")
    found = events(parse(path))
    steps = [(e[2], e[5]) for e in found if "step_num" in e[5]]
    assert sorted(steps, key=lambda step: step[0]) == [
        ("ProfilerStep#3", {"_r": 1, "step_num": 3}),
        ("ProfilerStep#4", {"_r": 1, "step_num": 4}),
    ]
    launches = {e[5]["correlation_id"] for e in found if e[2] == "cudaLaunchKernel"}
    assert launches == {1, 2, 3, 4}
    gemm = [e[5] for e in found if e[2] == "gemm"]
    assert [(stats["correlation_id"], stats["op"], stats["kernel_details"]) for stats in gemm] == [
        (1, "aten::mm", "unknown"), (3, "aten::mm", "unknown"),
    ]  # fmt: skip
    assert {e[5].get("Input Dims") for e in found if e[2] == "aten::mm"} == {"[[2, 3], [3, 2]]"}
    (device,) = (plane for plane in parse(path).planes if plane.name == "/device:GPU:0")
    titles = {entry.key: entry.value.name for entry in device.stat_metadata}
    told = {titles[stat.metadata_id]: stat.int64_value or stat.str_value for stat in device.stats}
    assert told == {"core_count": 132, "memory_size": 85_000_000_000, "device_vendor": "Nvidia"}


def test_how_a_kernel_was_launched(
    make: Callable[..., Trace], piece: Callable[..., dict[str, Any]], tmp_path: Path, parse: Callable[[Path], Any]
) -> None:
    details = {"grid": [4, 2, 1], "block": [128, 1, 1], "registers per thread": 32, "est. achieved occupancy %": 40.5}
    kernel = [piece("kernel", "k", 1, 2, tid=7, pid=0, device=0, stream=7, **details, **{"shared memory": size})
              for size in (0, 512)]  # fmt: skip
    (path,) = profsuite.export(make(kernel), tmp_path / "logs", "xprof").rglob("*.xplane.pb")
    told = sorted(e[5]["kernel_details"] for e in events(parse(path)))
    assert told == [
        "regs:32 grid:4,2,1 block:128,1,1 occ_pct:40.5",
        "regs:32 static_shared:0 dynamic_shared:0 grid:4,2,1 block:128,1,1 occ_pct:40.5",
    ]
    assert path.parent.name == "profsuite"  # no base time: no date


def test_ranks_are_hosts_of_one_run(trace: Trace, tmp_path: Path) -> None:
    folder = profsuite.export([trace, trace], tmp_path / "logs", "xprof")
    assert sorted(path.name for path in folder.rglob("*.pb")) == ["rank0.xplane.pb", "rank0_1.xplane.pb"]
    assert len({path.parent for path in folder.rglob("*.pb")}) == 1


def test_nothing_and_too_much(
    make: Callable[..., Trace], piece: Callable[..., dict[str, Any]], tmp_path: Path, parse: Callable[[Path], Any]
) -> None:
    (path,) = profsuite.export(make([]), tmp_path / "none", "xprof").rglob("*.xplane.pb")
    assert events(parse(path)) == []
    far = make([piece("cpu_op", "a", 0, 1), piece("cpu_op", "b", 10**13, 1)])
    with pytest.raises(ProfsuiteError, match="106 days"):
        profsuite.export(far, tmp_path / "far", "xprof")
