"""Kineto's windows as columns: read in place, through JSON, and against what torch itself says."""

import collections
import json
import sys
import threading
from pathlib import Path

import pytest

from profsuite.collector.config import Config
from profsuite.collector.recording import COLUMNS as RECORDED
from profsuite.collector.recording import merge
from profsuite.collector.window import Window, extract, read_json, since_epoch, through_json, to_raw
from profsuite.trace.assemble import assemble
from profsuite.trace.schema import TABLES

torch = pytest.importorskip("torch", reason="torch is not installed")

COLUMNS_NOT_CARRIED = {
    "byte_offset": "there is no file",
    "event_index": "Kineto numbers events when it writes them",
    "flow_id_text": "only for ids that are no numbers",
}


@pytest.fixture(scope="module")
def extension():
    from profsuite.collector import build

    try:
        return build.load("extract", wait=True)
    except build.BuildError as error:
        pytest.skip(f"the extractor cannot be built: {error}")


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = torch.nn.Linear(8, 8), torch.nn.Linear(8, 8, dtype=torch.float64)

    def forward(self, x):
        y = torch.cat([self.a(x), self.a(x)]).relu()
        z = self.b(y.double()).to(torch.bfloat16)
        return torch.nn.functional.dropout(z, 0.25).float().view(-1, 4).sum()


@pytest.fixture(scope="module")
def train():
    net = Net()
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3, betas=(0.8, 0.9))

    def step():
        with torch.autograd.profiler.record_function("my [own] part"):
            loss = net(torch.ones(4, 8))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    step()
    return step


def window(train, **settings):
    session = Window(Config(**settings))
    session.prepare()
    session.start()
    train()
    return session.stop().result


def rows(trace, table):
    """The rows of a table as dicts, with rows of other tables replaced by what they are, in an order of their own."""
    slices = trace.slices.select(["ts", "dur", "name"]).to_pylist()
    tracks = [(row["pid"], row["tid"]) for row in trace.tracks.to_pylist()]
    spec = next(t for t in TABLES if t.name == table)
    out = []
    for row in trace.table(table).to_pylist():
        for column in spec.columns:
            value = row[column.name]
            if column.unit == "row of slice" and value is not None:
                row[column.name] = tuple(slices[value].values())
            elif column.unit == "row of track" and value is not None:
                row[column.name] = tracks[value]
            elif column.name in COLUMNS_NOT_CARRIED:
                del row[column.name]
        if row.get("category") != "Trace":
            out.append(row)
    return sorted(out, key=repr)


ODD = '\x01\x1f\u2028\U0001f600 "a" \\ b\n'

ALL = {"memory": True, "stacks": True, "modules": True}


@pytest.mark.parametrize("settings", [ALL, {"memory": True}, {"shapes": False}, {"all_threads": True}])
def test_the_same_tables_as_through_json(train, extension, tmp_path, settings):
    result = window(train, **settings)
    ours = assemble(extract(result, extension), "x", "collector")
    as_json = assemble(extract(result, extension, all_as_json=True), "x", "collector")
    result.save(str(tmp_path / "w.json"))
    theirs = assemble(since_epoch(read_json(tmp_path / "w.json")), "x", "collector")
    for table in ("slice", "op", "python_call", "memory_event", "flow", "step", "kernel", "collective"):
        expected = rows(theirs, table)
        for found in (rows(ours, table), rows(as_json, table)):
            assert len(found) == len(expected), table
            for a, b in zip(found, expected, strict=True):
                assert a == b, table
    assert bool(settings.get("stacks")) == bool(ours.num_rows("python_call"))
    assert bool(settings.get("memory")) == bool(ours.num_rows("memory_event"))
    assert ours.num_rows("flow")
    used = {row["track_id"] for row in ours.slices.to_pylist()}
    names = {
        (row["tid"], row["thread_name"], row["process_name"], row["process_label"], row["kind"])
        for i, row in enumerate(ours.tracks.to_pylist())
        if i in used
    }
    assert names <= {
        (row["tid"], row["thread_name"], row["process_name"], row["process_label"], row["kind"])
        for row in theirs.tracks.to_pylist()
    }


@pytest.mark.parametrize("settings", [ALL, {"memory": True}, {}])
def test_the_same_inputs_taken_early(extension, settings):
    """What ``enable`` takes out of the ops while Kineto ends is what they have where it is not used."""

    def record(extension):
        torch.manual_seed(0)
        net = Net()
        optimizer = torch.optim.AdamW(net.parameters())
        session = Window(Config(**settings), extension)
        session.start()
        net(torch.ones(4, 8)).backward()
        optimizer.step()
        torch.ones(2, 3).to_sparse().coalesce()
        torch.cat([torch.ones(2), torch.ones(3)])
        torch.nn.functional.pad(torch.ones(2, 2), [1, 2, 3, 4], value=0.5)
        torch.ones(3).sum(dtype=torch.float64)
        return session.stop()

    taken = record(extension)
    assert taken.early is not None
    result = taken.ending.result()
    assert not any(event.dtypes() for event in result.events())  # they are gone, and so is their memory
    early = to_raw(extension.extract(result, early=taken.early))
    plain = extract(record(None).result, extension)
    columns = [name for name, _, pool in RECORDED["op"] if pool in ("shape", "types", "concrete")]

    def inputs(raw):
        spec = {name: pool for name, _, pool in RECORDED["op"]}
        words = {pool: [*raw.pools[pool].to_pylist(), None] for pool in ("shape", "types", "concrete", "name")}
        names = raw.groups["slice"]["name"][raw.groups["op"]["row"]]
        values = [[words[spec[c]][code] for code in raw.groups["op"][c]] for c in columns]
        return list(zip([words["name"][code] for code in names], *values, strict=True))

    assert len(columns) == 5
    assert inputs(early) == inputs(plain)
    assert sum(row[1] is not None for row in inputs(early)) > 100


def test_the_json_of_a_window_has_its_inputs(train, extension, tmp_path):
    session = Window(Config(json=True), extension)
    session.start()
    train()
    taken = session.stop()
    taken.json_path = tmp_path / "window.json"
    taken.raw()
    events = json.loads(taken.json_path.read_text())["traceEvents"]
    assert any(event.get("args", {}).get("Input Dims") for event in events)


def test_times_are_since_the_epoch(train, extension):
    import time

    before = time.time_ns()
    result = window(train)
    after = time.time_ns()
    ts = extract(result, extension).groups["slice"]["ts"]
    assert before - 10_000_000 < ts.min()
    assert ts.max() < after + 10_000_000


def test_op_times_and_counts_are_those_of_key_averages(train, extension):
    from torch.autograd import profiler

    session = Window(Config(memory=True))
    session.start()
    inner: profiler.profile = session._session
    for _ in range(3):
        train()
    result = session.stop().result
    averages = {row.key: row for row in inner.key_averages()}
    trace = assemble(extract(result, extension), "x", "collector")
    count, total, own = collections.Counter(), collections.Counter(), collections.Counter()
    slices = trace.slices.to_pylist()
    children = collections.Counter(row["parent_id"] for row in slices)
    for row in slices:
        above = row["parent_id"]
        if above is not None and slices[above]["name"] == row["name"] and children[above] == 1:
            # torch takes an op that only calls itself (another overload) for one with it.
            own[row["name"]] += row["self_dur"]
            continue
        count[row["name"]] += 1
        total[row["name"]] += row["dur"]
        own[row["name"]] += row["self_dur"]
    # torch hides the calls of its own profiler, and counts allocations as events.
    expected = {name for name in averages if name != "[memory]"}
    assert expected == set(count) - {name for name in count if name.startswith("profiler::")}
    for name in expected:
        row = averages[name]
        assert count[name] == row.count, name
        # torch rounds each event to a tenth of a microsecond at most; a ns a call is a clock's tick.
        assert total[name] / 1e3 == pytest.approx(row.cpu_time_total, abs=0.002 * row.count), name
        assert own[name] / 1e3 == pytest.approx(row.self_cpu_time_total, abs=0.002 * row.count + 0.01), name


def test_allocations_are_those_of_the_event_tree(train, extension):
    result = window(train, memory=True, stacks=True)

    def walk(nodes):
        for node in nodes:
            yield node
            yield from walk(node.children)

    theirs = [
        (node.start_time_ns, fields.ptr, fields.alloc_size, fields.total_allocated)
        for node in walk(result.experimental_event_tree())
        if type(fields := node.typed[1]).__name__ == "_ExtraFields_Allocation"
    ]
    raw = extract(result, extension)
    memory = raw.groups["memory"]
    ours = list(zip(*(memory[name].tolist() for name in ("ts", "address", "bytes", "allocated")), strict=True))
    assert len(ours) > 20
    assert sorted(ours) == sorted(theirs)
    assert sum(row[2] for row in ours) == sum(row[2] for row in theirs)


def test_the_events_are_freed(train, extension):
    result = window(train)
    assert len(result.events()) > 10
    extension.release(result)
    assert not result.events()
    assert not result.experimental_event_tree()


def test_odd_names_stay_what_they_are(extension):
    """Kineto's own JSON writes "unknown" for a name that is not all printable ASCII."""

    def odd():
        with torch.autograd.profiler.record_function(ODD):
            torch.ones(1)

    result = window(odd)
    trace = assemble(extract(result, extension), "x", "collector")
    assert ODD in trace.words("slice", "name")
    trace = assemble(extract(result, extension, all_as_json=True), "x", "collector")
    assert ODD in trace.words("slice", "name")


def test_without_the_extension(train, tmp_path):
    result = window(train, memory=True)
    raw = through_json(result)
    assert dict(raw.header)["baseTimeNanoseconds"] == "0"
    trace = assemble(merge([raw]), "x", "collector")
    assert trace.num_rows("op") > 20
    assert trace.num_rows("memory_event") > 20
    assert trace.info.base_time_ns == 0
    assert not list(Path(tmp_path).iterdir())


def test_a_prepared_window_that_never_starts():
    from torch.autograd import profiler

    session = Window(Config())
    session.prepare()
    session.abandon()
    session.abandon()
    assert not profiler._is_profiler_enabled
    assert len(window(lambda: torch.ones(3) + 1).events()) > 0


def test_the_end_of_a_window_on_another_thread(train, extension):
    """Same ops, and free for the next session at once."""
    from torch.autograd import profiler

    counts = []
    for _ in range(3):
        session = Window(Config(memory=True), extension)
        session.start()
        train()
        taken = session.stop()
        assert taken.ending is not None
        assert not torch.autograd._profiler_enabled()
        train()  # belongs to no window
        following = Window(Config(), extension)
        following.start()
        torch.ones(3)
        raw = taken.raw()
        assert following.stop().raw().num_events >= 2
        counts.append((len(raw.groups["op"]["row"]), len(raw.groups["memory"]["ts"])))
    assert not profiler._is_profiler_enabled
    plain = window(train, memory=True)
    raw = extract(plain, extension)
    assert set(counts) == {(len(raw.groups["op"]["row"]), len(raw.groups["memory"]["ts"]))}
    session = Window(Config(all_threads=True), extension)
    session.start()
    assert session.stop().ending is None


def test_the_process_group_is_the_one_at_the_end_of_the_window(train, extension, monkeypatch):
    """The columns are read later, when a script may have destroyed it."""
    info = {"backend": "gloo", "rank": 1, "world_size": 2}
    monkeypatch.setattr("profsuite.collector.window.distributed_info", lambda: info)
    window = Window(Config(), extension)
    window.start()
    train()
    taken = window.stop()
    monkeypatch.setattr("profsuite.collector.window.distributed_info", lambda: None)
    assert json.loads(dict(taken.raw().header)["distributedInfo"]) == info


def test_the_end_of_a_window_with_stacks_on_another_thread(train, extension):
    """The calls of the window and no later ones, though the tracer is stopped on the other thread."""

    def inside():
        train()

    def outside():
        train()

    session = Window(Config(stacks=True), extension)
    for _ in range(3):
        session.prepare()
        session.start()
        inside()
        taken = session.stop()
        assert sys.getprofile() is None
        outside()
        assert taken.ending is not None
        raw = taken.raw()
        names = raw.pools["name"].to_pylist()
        slices = raw.groups["slice"]
        called = [names[code] for code in slices["name"][raw.groups["python"]["row"]]]
        assert sum(name.endswith("): inside") for name in called) == 1
        assert not any(name.endswith("): outside") for name in called)
        # Every call began in the window, and the open ones end with it.
        last = (slices["ts"] + slices["dur"]).max()
        waiting = next(i for i, name in enumerate(called) if "wait_untraced" in name)
        row = raw.groups["python"]["row"][waiting]
        assert slices["ts"][row] + slices["dur"][row] == last
    plain = to_counts(extract(window(inside, stacks=True), extension))
    ours = to_counts(raw)
    own = ("window.py", "profiler.py", "_thread", "built-in", "importlib")
    assert {k: v for k, v in ours.items() if not any(word in k for word in own)} == {
        k: v for k, v in plain.items() if not any(word in k for word in own)
    }


def to_counts(raw):
    """How often each name occurs among the calls of Python."""
    names = raw.pools["name"].to_pylist()
    return collections.Counter(names[code] for code in raw.groups["slice"]["name"][raw.groups["python"]["row"]])


def test_threads_have_tracks(train, extension):
    def both():
        train()
        thread = threading.Thread(target=train)
        thread.start()
        thread.join()

    trace = assemble(extract(window(both, all_threads=True), extension), "x", "collector")
    assert trace.num_rows("track") == 2
    assert {row["kind"] for row in trace.tracks.to_pylist()} == {"host"}


@pytest.mark.filterwarnings("ignore:Sparse .* tensor support is in beta:UserWarning")
def test_layouts_of_sparse_inputs(extension):
    """As the tensors themselves say, for the ops that take them; null where all are strided."""
    dense = torch.ones(4, 4)
    coo, csr = dense.to_sparse(), dense.to_sparse_csr()
    bsr = dense.to_sparse_bsr((2, 2))

    def ops():
        torch.mm(coo, dense)
        torch.mm(csr, dense)
        torch.mm(dense, dense)
        torch.cat([coo, coo])
        bsr.to_dense()

    result = window(ops)
    found = {}
    trace = assemble(extract(result, extension), "x", "collector")
    names = trace.words("slice", "name")
    for row in trace.table("op").to_pylist():
        name = names[trace.array("slice", "name")[row["slice_id"]]]
        found.setdefault(name, []).append(None if row["input_layouts"] is None else json.loads(row["input_layouts"]))

    def layout(tensor):
        return str(tensor.layout).removeprefix("torch.")

    first = [[layout(coo), layout(dense)], [layout(csr), layout(dense)], None]
    assert [layouts for layouts in found["aten::mm"] if layouts is None or len(layouts) == 2][:3] == first
    assert found["aten::cat"][0] == [[layout(coo)] * 2, None]
    assert found["aten::to_dense"][0][0] == layout(bsr) == "sparse_bsr"
    assert set(map(type, found["aten::to_dense"][0][1:])) == {type(None)}
    # Kineto's JSON does not say it.
    trace = assemble(extract(result, extension, all_as_json=True), "x", "collector")
    assert trace.table("op").column("input_layouts").null_count == trace.num_rows("op") > 5
