import json
import os

import pyarrow as pa
import pytest

import profsuite
from profsuite.errors import TraceError
from profsuite.trace.schema import SCHEMA_VERSION


@pytest.fixture
def run_folder(make_trace, tmp_path):
    events = [
        {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 2, "ts": 1, "dur": 9},
        {
            "ph": "X",
            "cat": "cpu_op",
            "name": "aten::addmm",
            "pid": 1,
            "tid": 2,
            "ts": 2,
            "dur": 3,
            "args": {"Sequence number": 4},
        },
    ]
    return make_trace(events, deviceProperties=[{"id": 0, "name": "X"}]).save(tmp_path / "run")


def rewrite(folder, table, change):
    path = folder / f"{table}.arrow"
    with pa.OSFile(str(path)) as source:
        columns = change(pa.ipc.open_file(source).read_all())
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, columns.schema) as writer:
        writer.write_table(columns)


def test_round_trip(make_trace, run_folder):
    trace = profsuite.Trace.open(run_folder)
    assert trace.slices.select(["ts", "dur", "parent_id", "depth", "self_dur"]).to_pylist() == [
        {"ts": 1000, "dur": 9000, "parent_id": None, "depth": 0, "self_dur": 6000},
        {"ts": 2000, "dur": 3000, "parent_id": 0, "depth": 1, "self_dur": 3000},
    ]
    assert trace.info.devices == ({"id": 0, "name": "X"},)
    again = profsuite.Trace.open(trace.save(run_folder.parent / "again"))
    assert again.info == trace.info
    assert all(again.table(name).equals(trace.table(name)) for name in trace.tables)


def test_saving_over_a_run_folder_replaces_it_but_over_nothing_else(run_folder, tmp_path):
    trace = profsuite.Trace.open(run_folder)
    trace.save(run_folder)
    assert profsuite.Trace.open(run_folder).num_rows("slice") == 2
    other = tmp_path / "mine"
    other.mkdir()
    (other / "thesis.txt").write_text("precious")
    with pytest.raises(TraceError, match="cannot be written"):
        trace.save(other)
    assert (other / "thesis.txt").read_text() == "precious"
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["mine", "run"]


def test_a_trace_that_is_named_as_the_manifest_is_no_run_folder(make_trace, tmp_path):
    trace = tmp_path / "trace.json"
    trace.write_text('{"traceEvents": [{"ph": "X", "name": "a", "pid": 1, "tid": 1, "ts": 1, "dur": 2}]}')
    assert profsuite.load(tmp_path).num_rows("slice") == 1
    assert [file.path for file in profsuite.find_ranks(tmp_path)] == [str(trace)]
    with pytest.raises(TraceError):
        make_trace([]).save(tmp_path)
    assert trace.is_file()


def test_another_version_says_so(run_folder):
    manifest = json.loads((run_folder / "trace.json").read_text())
    (run_folder / "trace.json").write_text(json.dumps(manifest | {"schema_version": 0}))
    with pytest.raises(TraceError, match=f"version 0, this profsuite reads versions 2 to {SCHEMA_VERSION}; convert"):
        profsuite.Trace.open(run_folder)


def test_a_folder_of_version_2_lacks_what_came_later(make_trace, run_folder):
    trace = profsuite.Trace.open(run_folder)
    rewrite(run_folder, "op", lambda table: table.drop_columns(["input_layouts"]))
    (run_folder / "tensor.arrow").unlink()
    manifest = json.loads((run_folder / "trace.json").read_text())
    del manifest["rows"]["tensor"]
    (run_folder / "trace.json").write_text(json.dumps(manifest | {"schema_version": 2}))
    old = profsuite.Trace.open(run_folder)
    assert all(old.table(name).equals(trace.table(name)) for name in trace.tables)
    assert old.num_rows("tensor") == 0
    assert old.table("op").column("input_layouts").null_count == old.num_rows("op")
    (run_folder / "trace.json").write_text(json.dumps(manifest | {"schema_version": 3}))
    with pytest.raises(TraceError, match=r"op\.arrow is not the table"):
        profsuite.Trace.open(run_folder)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": "other"}', "[" * 100_000])
def test_a_damaged_manifest_is_one_line(run_folder, text):
    (run_folder / "trace.json").write_text(text)
    with pytest.raises(TraceError) as caught:
        profsuite.Trace.open(run_folder)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "value"),
    [("devices", [1]), ("devices", {"a": []}), ("selection", 5), ("rank", "x"), ("num_events", 1.5), ("source", None)],
)
def test_a_manifest_of_odd_types_is_refused(run_folder, name, value):
    path = run_folder / "trace.json"
    manifest = json.loads(path.read_text())
    manifest["info"][name] = value
    path.write_text(json.dumps(manifest))
    with pytest.raises(TraceError, match=f"damaged.*{name}"):
        profsuite.load(run_folder)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes of POSIX")
def test_a_pipe_in_place_of_a_table_is_not_waited_for(run_folder):
    (run_folder / "slice.arrow").unlink()
    os.mkfifo(run_folder / "slice.arrow")
    with pytest.raises(TraceError, match=r"slice.arrow is missing or damaged"):
        profsuite.load(run_folder)


def test_what_is_no_run_folder(tmp_path):
    with pytest.raises(TraceError, match=r"is no run folder: it has no trace\.json"):
        profsuite.Trace.open(tmp_path)


def test_rows_that_point_outside_are_refused(run_folder):
    def point_outside(table):
        at = table.schema.get_field_index("parent_id")
        return table.set_column(at, table.schema.field(at), pa.array([None, 7], pa.int32()))

    rewrite(run_folder, "slice", point_outside)
    with pytest.raises(TraceError, match=r"slice\.parent_id points outside slice"):
        profsuite.Trace.open(run_folder)


def test_missing_rows_and_columns_are_refused(run_folder):
    rewrite(run_folder, "slice", lambda table: table.slice(0, 1))
    with pytest.raises(TraceError, match="not the table 'slice'"):
        profsuite.Trace.open(run_folder)
    rewrite(run_folder, "slice", lambda table: table.drop_columns(["dur"]))
    with pytest.raises(TraceError, match="not the table 'slice'"):
        profsuite.Trace.open(run_folder)


def test_dictionary_codes_outside_their_dictionary_are_refused(run_folder):
    def bad_codes(table):
        at = table.schema.get_field_index("name")
        names = pa.DictionaryArray.from_arrays(pa.array([0, 99], pa.int32()), pa.array(["a"]), safe=False)
        return table.set_column(at, table.schema.field(at), names)

    rewrite(run_folder, "slice", bad_codes)
    with pytest.raises(TraceError, match="damaged"):
        profsuite.Trace.open(run_folder)


def test_a_cut_off_table_is_refused(run_folder):
    path = run_folder / "slice.arrow"
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(TraceError, match=r"slice\.arrow is missing or damaged"):
        profsuite.Trace.open(run_folder)
