"""Perfetto's packets, read with Perfetto's own definitions."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from pathlib import Path

import pytest

import profsuite

protos = pytest.importorskip(
    "perfetto.protos.perfetto.trace.perfetto_trace_pb2", reason="needs the package perfetto: pip install perfetto"
)
SHARED = Path(__file__).parents[3] / "shared" / "traces"
BEGIN, END, INSTANT, COUNTER = 1, 2, 3, 4


class Viewer:
    """What a viewer makes of a file: it sorts packets by time, those of one time stay in the file's order."""

    def __init__(self, path: Path) -> None:
        trace = protos.Trace()
        trace.ParseFromString(path.read_bytes())
        self.names, self.categories, self.keys, self.strings = {}, {}, {}, {}
        self.tracks = {}
        self.clocks = []
        events = []
        for packet in trace.packet:
            data = packet.interned_data
            self.names |= {e.iid: e.name for e in data.event_names}
            self.categories |= {e.iid: e.name for e in data.event_categories}
            self.keys |= {e.iid: e.name for e in data.debug_annotation_names}
            self.strings |= {e.iid: e.str.decode() for e in data.debug_annotation_string_values}
            if packet.HasField("track_descriptor"):
                self.tracks[packet.track_descriptor.uuid] = packet.track_descriptor
            if packet.HasField("clock_snapshot"):
                self.clocks += [(clock.clock_id, clock.timestamp) for clock in packet.clock_snapshot.clocks]
            if packet.HasField("track_event"):
                events.append((packet.timestamp, packet.track_event))
        events.sort(key=lambda event: event[0])
        self.slices, self.counters, self.flows = [], [], defaultdict(list)
        stacks = defaultdict(list)
        for ts, event in events:
            stack = stacks[event.track_uuid]
            for flow in (*event.flow_ids, *event.terminating_flow_ids):
                self.flows[flow].append((ts, self.names.get(event.name_iid)))
            if event.type == BEGIN:
                stack.append((ts, event))
            elif event.type == END:
                start, begun = stack.pop()
                self.slices.append((start, ts - start, begun))
            elif event.type == INSTANT:
                self.slices.append((ts, 0, event))
            else:
                self.counters.append((self.tracks[event.track_uuid].name, ts, event.double_counter_value))
        assert not any(stacks.values()), "slices that never end"

    def counted(self) -> Counter:
        return Counter(
            (ts, dur, self.names[event.name_iid], "".join(self.categories[i] for i in event.category_iids))
            for ts, dur, event in self.slices
            if event.name_iid
        )

    def args(self, event) -> dict:
        found = {}
        for annotation in event.debug_annotations:
            kind = annotation.WhichOneof("value")
            value = (
                self.strings[annotation.string_value_iid] if kind == "string_value_iid" else getattr(annotation, kind)
            )
            found[self.keys[annotation.name_iid]] = value
        return found


def written(path: Path, *events: dict, **header: object) -> Path:
    path.write_text(json.dumps({**header, "traceEvents": list(events)}), encoding="utf-8")
    return path


@pytest.mark.skipif(not SHARED.is_dir(), reason="the real traces are not here: ../shared/traces")
@pytest.mark.parametrize("name", ["b200_eager_stacks", "diff_v100_test", "h100_bert_small", "ascend_rank0"])
def test_a_viewer_sees_every_slice(name: str, tmp_path: Path) -> None:
    trace = profsuite.load(SHARED / f"{name}.json.gz", cache=False)
    viewer = Viewer(profsuite.export(trace, tmp_path / "x.pftrace"))
    table = trace.slices
    columns = (trace.array("slice", "ts").tolist(), trace.array("slice", "dur").tolist())
    expected = Counter(
        zip(*columns, table.column("name").to_pylist(), table.column("category").to_pylist(), strict=True)
    )
    instants = Counter(
        (row["ts"], 0, row["name"], row["category"]) for row in trace.table("instant").to_pylist()
    ) + Counter((ts, 0, "[memory]", "") for ts in trace.array("memory_event", "ts").tolist())
    assert viewer.counted() == expected + instants
    assert sum(len(ends) for ends in viewer.flows.values()) == trace.num_rows("flow")
    assert len(viewer.counters) == trace.num_rows("counter")


def event(ph: str = "X", **fields: object) -> dict:
    return {"ph": ph, "name": "n", "pid": 12, "tid": 12, "ts": 1, **({"dur": 1} if ph == "X" else {}), **fields}


def test_a_viewer_sees_args_arrows_counters_and_names(tmp_path: Path) -> None:
    args = {"correlation": 5, "External id": 2**40, "device": 0, "stream": 7, "grid": [1, 2, 3], "blocks per SM": 0.25,
            "registers per thread": 0}  # fmt: skip
    path = written(
        tmp_path / "a.json",
        event("M", name="process_name", args={"name": "python"}),
        event("M", name="process_labels", args={"labels": "CPU"}),
        event("M", name="thread_name", args={"name": "main"}),
        event("M", name="process_labels", pid=0, tid=7, args={"labels": "GPU 0"}),
        event("M", name="thread_name", pid=0, tid=7, args={"name": "stream 7"}),
        event(name="inner", cat="cpu_op", ts=1, dur=1, args={"Call stack": "a;b", "Input Dims": [[1, 2]]}),
        event(name="outer", cat="cpu_op", ts=1, dur=5),
        event(name="before", cat="cpu_op", ts=0, dur=1),
        event(name="k", cat="kernel", pid=0, tid=7, ts=4, args=args),
        event("s", id=9, cat="ac2g", ts=1), event("f", id=9, cat="ac2g", pid=0, tid=7, ts=4),
        event("C", name="memory", ts=3, args={"used": 1.5}),
        baseTimeNanoseconds=1_000_000,
    )  # fmt: skip
    viewer = Viewer(profsuite.export(path, tmp_path / "x.pftrace"))
    by_name = {viewer.names[e.name_iid]: (ts, dur, e) for ts, dur, e in viewer.slices}
    assert {name: found[:2] for name, found in by_name.items()} == {
        "inner": (1000, 1000), "outer": (1000, 5000), "before": (0, 1000), "k": (4000, 1000),
    }  # fmt: skip
    assert viewer.args(by_name["k"][2]) == {**args, "grid": "[1,2,3]"}
    assert viewer.args(by_name["inner"][2]) == {"Call stack": "a;b", "Input Dims": "[[1, 2]]"}
    assert list(viewer.flows.values()) == [[(1000, "inner"), (4000, "k")]]
    assert viewer.counters == [("memory: used", 3000, 1.5)]
    assert viewer.clocks == [(6, 1000), (1, 1_001_000)]
    device = viewer.tracks[by_name["k"][2].track_uuid]
    assert (device.name, viewer.tracks[device.parent_uuid].name) == ("stream 7", "GPU 0")
    thread = viewer.tracks[by_name["outer"][2].track_uuid]
    assert (thread.thread.pid, thread.thread.tid, thread.thread.thread_name) == (12, 12, "main")
    process = viewer.tracks[thread.parent_uuid].process
    assert (process.pid, process.process_name, list(process.process_labels)) == (12, "python", ["CPU"])


def test_overlapping_slices_go_to_a_child_track(tmp_path: Path) -> None:
    path = written(tmp_path / "a.json", event(name="a", ts=0, dur=10), event(name="b", ts=5, dur=10))
    viewer = Viewer(profsuite.export(path, tmp_path / "x.pftrace"))
    tracks = {viewer.names[e.name_iid]: e.track_uuid for _, _, e in viewer.slices}
    assert viewer.tracks[tracks["b"]].parent_uuid == tracks["a"]


def test_ranks_share_a_file(tmp_path: Path) -> None:
    paths = [
        written(tmp_path / f"rank_{rank}.json", event(name=f"of {rank}"), baseTimeNanoseconds=100 + rank)
        for rank in (0, 1)
    ]
    viewer = Viewer(profsuite.export(paths, tmp_path / "x.pftrace"))
    assert sorted((viewer.names[e.name_iid], ts) for ts, _, e in viewer.slices) == [("of 0", 1000), ("of 1", 1001)]
    assert len({e.track_uuid for _, _, e in viewer.slices}) == 2
    with pytest.raises(profsuite.TraceError, match=r"x\.pftrace: holds 2 ranks, merged for viewers"):
        profsuite.load(tmp_path / "x.pftrace")
