"""Building a raw trace from columns, and merging several."""

import numpy as np
import pytest

from profsuite.collector.recording import RawBuilder, empty, merge
from profsuite.trace.assemble import assemble
from profsuite.trace.readers.fields import NULL_INT64
from profsuite.trace.readers.raw import Remark


def one(names, tid, start=1000, op=False):
    build = RawBuilder()
    track = build.track(7, tid)
    first = build.append(
        "slice",
        {
            "ts": start + 10 * np.arange(len(names)),
            "dur": 5,
            "track": track,
            "name": build.codes("name", names),
            "category": build.code("category", "cpu_op"),
        },
    )
    assert first == 0
    if op:
        build.append("op", {"row": np.arange(len(names)), "dims": build.code("shape", "[[2]]")})
    build.add_metadata(track, "thread_name", "name", f"thread {tid}")
    build.header["baseTimeNanoseconds"] = "0"
    return build.build()


def rows(trace, table="slice"):
    return trace.table(table).to_pylist()


def test_a_trace_of_columns():
    trace = assemble(one(["a", "b"], 1, op=True), "memory", "collector", rank=0)
    assert [(r["name"], r["ts"], r["dur"], r["byte_offset"]) for r in rows(trace)] == [
        ("a", 1000, 5, None),
        ("b", 1010, 5, None),
    ]
    assert [r["input_dims"] for r in rows(trace, "op")] == ["[[2]]", "[[2]]"]
    assert rows(trace, "track")[0]["thread_name"] == "thread 1"
    assert trace.info.base_time_ns == 0
    assert trace.info.num_events == 2


def test_rows_one_by_one_keep_their_order():
    build = RawBuilder()
    track = build.track(1, 1)
    assert build.add("counter", ts=1, track=track, name="cpu", series="pct", value=1.5) == 0
    assert build.append("counter", {"ts": [2, 3], "track": track, "name": build.code("name", "cpu"), "value": 2.0}) == 1
    assert build.add("counter", ts=4, track=track, name="cpu", series=None, value=None) == 3
    raw = build.build()
    assert raw.groups["counter"]["ts"].tolist() == [1, 2, 3, 4]
    assert raw.groups["counter"]["series"].tolist() == [0, -1, -1, -1]
    assert np.isnan(raw.groups["counter"]["value"][3])
    assert raw.groups["counter"]["offset"].tolist() == [NULL_INT64] * 4
    assert raw.num_events == 4


def test_what_does_not_fit_is_refused():
    build = RawBuilder()
    with pytest.raises(ValueError, match="no column 'nome'"):
        build.append("slice", {"nome": [1]})
    with pytest.raises(ValueError, match="no column 'nome'"):
        build.add("slice", nome=1)
    with pytest.raises(ValueError, match="different lengths"):
        build.append("slice", {"ts": [1, 2], "dur": [1]})


def test_merge_renumbers():
    a, b = one(["x", "y"], 1, op=True), one(["z", "x"], 2, start=5000, op=True)
    merged = merge([a, b])
    trace = assemble(merged, "memory", "collector")
    tids = [r["tid"] for r in rows(trace, "track")]
    assert [(r["name"], tids[r["track_id"]]) for r in rows(trace)] == [("x", "1"), ("y", "1"), ("z", "2"), ("x", "2")]
    assert [r["slice_id"] for r in rows(trace, "op")] == [0, 1, 2, 3]
    assert merged.pools["name"].to_pylist() == ["x", "y", "z"]
    assert trace.info.num_events == 4


def test_merge_keeps_nulls_metadata_once_and_adds_remarks():
    a, b = one(["x"], 1), one([None], 1)
    a.remarks.append(Remark("dropped", 2, None, "lost"))
    b.remarks.append(Remark("dropped", 3, None, "lost"))
    merged = merge([a, b])
    assert merged.groups["slice"]["name"].tolist() == [0, -1]
    assert len(merged.groups["meta"]["name"]) == 1
    assert [(r.kind, r.count) for r in merged.remarks] == [("dropped", 5)]
    assert a.remarks[0].count == 2
    assert merged.header == [("baseTimeNanoseconds", "0")]


def test_nothing():
    assert merge([empty(), empty()]).num_events == 0
    assert assemble(merge([]), "memory", "collector").num_rows("slice") == 0
