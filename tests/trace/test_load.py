import gzip
import io
import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import profsuite
from profsuite.errors import ProfsuiteError, SelectionError, TraceError
from profsuite.trace import cache, spill
from profsuite.trace import load as loading
from profsuite.trace.readers import native
from profsuite.trace.select import busy_until

READERS = ["python", pytest.param("c", marks=pytest.mark.skipif(native.MISSING is not None, reason="no C scanner"))]


def event(name, ts, dur, cat="cpu_op", tid=2, **args):
    return {"ph": "X", "cat": cat, "name": name, "pid": 1, "tid": tid, "ts": ts, "dur": dur, "args": args}


def job(steps=4):
    """Steps of 100 us; each launches a kernel that runs 90 us after its launch, in part past the step's end."""
    events = []
    for i in range(steps):
        t = 1000 + 100 * i
        events += [
            event(f"ProfilerStep#{i + 5}", t, 100, "user_annotation"),
            event("aten::mm", t + 10, 20),
            event("cudaLaunchKernel", t + 12, 5, "cuda_runtime", correlation=i + 1),
            event("gemm", t + 90, 40, "kernel", tid=7, correlation=i + 1, device=0, stream=7),
            {"ph": "i", "cat": "x", "name": "mark", "pid": 1, "tid": 2, "ts": t + 1, "s": "t"},
        ]
    return {"schemaVersion": 1, "distributedInfo": {"rank": 3, "world_size": 8}, "traceEvents": events}


@pytest.fixture
def trace_file(tmp_path):
    path = tmp_path / "job.json"
    path.write_text(json.dumps(job()))
    return path


@pytest.fixture
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("PROFSUITE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(cache, "MIN_BYTES", 0)
    return tmp_path / "cache"


class Counting:
    """A function that counts its calls."""

    def __init__(self, function):
        self.function, self.calls = function, 0

    def __call__(self, *args):
        self.calls += 1
        return self.function(*args)


def settle():
    """Wait until nothing is being written to the cache."""
    for thread in threading.enumerate():
        if thread.name == "profsuite-cache":
            thread.join()


def names(trace):
    return trace.slices.column("name").to_pylist()


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("packed", [False, True])
def test_a_file_plain_and_gzipped(trace_file, reader, packed):
    path = trace_file
    if packed:
        path = trace_file.with_suffix(".json.gz")
        path.write_bytes(gzip.compress(trace_file.read_bytes()))
    trace = profsuite.load(path, cache=False, reader=reader)
    assert trace.info.rank == 3
    assert trace.info.world_size == 8
    assert trace.info.reader == reader
    assert trace.info.num_bytes == trace_file.stat().st_size
    assert names(trace)[:4] == ["ProfilerStep#5", "aten::mm", "cudaLaunchKernel", "gemm"]
    assert trace.array("slice", "ts")[:2].tolist() == [1_000_000, 1_010_000]
    assert trace.kernels.column("launch_id").to_pylist() == [2, 6, 10, 14]


def test_gzip_of_several_members_and_padding(trace_file):
    data = trace_file.read_bytes()
    path = trace_file.with_suffix(".gz")
    path.write_bytes(gzip.compress(data[:500]) + gzip.compress(data[500:]) + b"\0" * 64)
    trace = profsuite.load(path, cache=False)
    assert trace.num_rows("slice") == 16
    assert "truncated" not in trace.health.column("kind").to_pylist()


def test_gzip_cut_off_keeps_what_was_there(trace_file):
    path = trace_file.with_suffix(".gz")
    path.write_bytes(gzip.compress(os.urandom(0) + trace_file.read_bytes())[:-30])
    trace = profsuite.load(path, cache=False)
    remark = next(row for row in trace.health.to_pylist() if row["kind"] == "truncated")
    assert "gzip stream ends early" in remark["message"]
    assert trace.num_rows("slice") > 0


def test_gzip_that_expands_without_end_stops_at_the_limit(tmp_path):
    path = tmp_path / "bomb.json.gz"
    start = json.dumps(job())[:-2].encode() + b", "
    path.write_bytes(gzip.compress(start + b" " * 50_000_000))
    trace = profsuite.load(path, cache=False, max_unpacked=5_000_000)
    assert trace.num_rows("slice") == 16
    remark = next(row for row in trace.health.to_pylist() if row["kind"] == "truncated")
    assert "--max-unpacked raises the limit" in remark["message"]


def test_standard_input(trace_file, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(trace_file.read_bytes())))
    assert profsuite.load("-").num_rows("slice") == 16


def test_fsspec_url(trace_file):
    import fsspec

    with fsspec.open("memory://jobs/rank_3.json", "wb") as file:
        file.write(trace_file.read_bytes())
    assert profsuite.load("memory://jobs/rank_3.json").num_rows("slice") == 16
    with pytest.raises(TraceError, match="no such file"):
        profsuite.load("memory://jobs/rank_4.json")
    with pytest.raises(ProfsuiteError, match="nosuchprotocol"):
        profsuite.load("nosuchprotocol://x/y.json")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"   ", "is empty"),
        (b"hello", "does not start with"),
        (b'{"nodes": []}', "no traceEvents"),
        (b"PK\x03\x04....", "zip"),
        (b"\x80\x04K\x01.", "pickle"),
    ],
)
@pytest.mark.parametrize("reader", READERS)
def test_what_is_no_trace_is_one_line(tmp_path, content, message, reader):
    path = tmp_path / "x.json"
    path.write_bytes(content)
    with pytest.raises(TraceError, match=message) as caught:
        profsuite.load(path, reader=reader)
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("max_memory", [None, 1])
@pytest.mark.parametrize("content", ['[{"file": "a.json", "tags": [1, 2]}]', "[[-1, 1, 512, 7], [-1, 1, 512, 7]]"])
@pytest.mark.parametrize("reader", READERS)
def test_json_of_which_nothing_is_an_event_is_no_trace(tmp_path, own_cache, reader, content, max_memory):
    path = tmp_path / "x.json"
    path.write_text(content)
    with pytest.raises(TraceError, match=r"x\.json: is no trace: none of its elements is a trace event"):
        profsuite.load(path, reader=reader, max_memory=max_memory)
    path.write_text('{"traceEvents": []}')
    assert profsuite.load(path, reader=reader).health.column("kind").to_pylist()[0] == "empty"
    path.write_text('[{"ph": "Q", "ts": 1}, {"nonsense": 1}]')
    assert profsuite.load(path, reader=reader).num_rows("slice") == 0


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_utf_16_is_named(tmp_path, encoding):
    path = tmp_path / "trace.json"
    path.write_bytes(json.dumps(job(1)).encode(encoding))
    with pytest.raises(TraceError, match="UTF-16; save it as UTF-8"):
        profsuite.load(path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes of POSIX")
def test_a_pipe_in_a_folder_is_passed_over(tmp_path):
    os.mkfifo(tmp_path / "rank_0.json")
    with pytest.raises(TraceError, match="holds no trace"):
        profsuite.find_ranks(tmp_path)
    (tmp_path / "rank_1.json").write_text(json.dumps(job(1)))
    assert [file.rank for file in profsuite.find_ranks(tmp_path)] == [1]


def test_missing_file_and_folder(tmp_path):
    with pytest.raises(TraceError, match="no such file"):
        profsuite.load(tmp_path / "none.json")
    with pytest.raises(TraceError, match="holds no trace"):
        profsuite.load(tmp_path)


def test_steps_take_their_kernels_along(trace_file):
    trace = profsuite.load(trace_file, steps=(6, 8), cache=False)
    step = ["aten::mm", "cudaLaunchKernel", "gemm"]
    assert names(trace) == ["ProfilerStep#6", *step, "ProfilerStep#7", *step]
    assert trace.info.selection == "steps 6 to 7"
    assert trace.kernels.column("slice_id").to_pylist() == [3, 7]
    assert trace.kernels.column("launch_id").to_pylist() == [2, 6]
    assert trace.kernels.column("op_id").to_pylist() == [1, 5]
    assert trace.slices.column("parent_id").to_pylist() == [None, 0, 1, None, None, 4, 5, None]
    assert trace.slices.column("step_id").to_pylist() == [0] * 4 + [1] * 4
    assert trace.steps.column("number").to_pylist() == [6, 7]
    assert trace.num_rows("instant") == 2


def test_time_keeps_what_overlaps(trace_file):
    trace = profsuite.load(trace_file, time=(110_000, 112_000), cache=False)
    # 1,110 to 1,112 us: the second step and its op have begun, the first kernel (1,090 to 1,130) still runs
    assert names(trace) == ["gemm", "ProfilerStep#6", "aten::mm"]
    assert trace.kernels.column("launch_id").to_pylist() == [None]


def test_empty_selections_say_what_there_is(trace_file):
    with pytest.raises(SelectionError, match="it has 5 to 8"):
        profsuite.load(trace_file, steps=(1, 3), cache=False)
    with pytest.raises(SelectionError, match=r"nothing lies in that time; the trace is 0\.430 ms long"):
        profsuite.load(trace_file, time=(10**9, None), cache=False)


@pytest.mark.parametrize("reader", READERS)
def test_streamed_through_the_disk_equals_in_memory(trace_file, own_cache, reader, monkeypatch):
    monkeypatch.setattr(loading, "BYTES_PER_BYTE", 10**9)
    whole = profsuite.load(trace_file, cache=False, reader=reader)
    for options in ({"steps": (6, 8)}, {"time": (110_000, 250_000)}, {}):
        expected = profsuite.load(trace_file, cache=False, reader=reader, **options) if options else whole
        part = profsuite.load(trace_file, cache=False, reader=reader, max_memory=loading.BASE_BYTES + 10**6, **options)
        for table in whole.tables:
            if table == "health":
                continue
            columns = [
                c for c in whole.table(table).column_names if c not in ("depth", "self_dur", "launch_id", "op_id")
            ]
            left, right = part.table(table).select(columns), expected.table(table).select(columns)
            assert left.to_pylist() == right.to_pylist(), (options, table)
    assert [entry.suffix for entry in own_cache.iterdir()] == [".spill"]


def test_work_of_an_earlier_step_is_not_a_selected_ones_however_it_is_read(tmp_path, own_cache, monkeypatch):
    """The device lags by more than a step: it runs the kernel of step 6 during step 7, at 1200 to 1290."""
    content = job()
    for place, kernel in enumerate(e for e in content["traceEvents"] if e.get("cat") == "kernel"):
        kernel |= {"ts": 1100 + 100 * place, "dur": 90}
    path = tmp_path / "lagging.json"
    path.write_text(json.dumps(content))
    monkeypatch.setattr(loading, "BYTES_PER_BYTE", 10**9)
    for max_memory in (None, loading.BASE_BYTES + 10**6):
        trace = profsuite.load(path, cache=False, steps=(7, 8), max_memory=max_memory)
        assert [row["ts"] for row in trace.slices.to_pylist() if row["category"] == "kernel"] == [1_300_000]
        assert busy_until(trace) == {0: 1_290_000}


def test_max_memory_loads_as_many_steps_as_fit(trace_file, own_cache, monkeypatch):
    monkeypatch.setattr(loading, "BYTES_PER_BYTE", 10**9)
    monkeypatch.setattr(loading, "BYTES_PER_SLICE", 100_000)
    room = loading.BASE_BYTES + 9 * 100_000  # nine slices: two steps of four, and not a third
    trace = profsuite.load(trace_file, max_memory=room)
    assert trace.steps.column("number").to_pylist() == [5, 6]
    assert trace.info.selection == "steps 5 to 6 of 4 (what fits --max-memory; choose others with --steps)"
    assert len(trace.kernels) == 2
    with pytest.raises(SelectionError, match="one step needs about"):
        profsuite.load(trace_file, max_memory=loading.BASE_BYTES + 10**5)


def test_what_was_streamed_before_is_used_checked_and_pruned(trace_file, own_cache, monkeypatch):
    monkeypatch.setattr(loading, "BYTES_PER_BYTE", 10**9)
    monkeypatch.setattr(loading.spill, "write", counting := Counting(loading.spill.write))
    for _ in range(2):
        assert profsuite.load(trace_file, max_memory=10**9).num_rows("slice") == 16
    assert counting.calls == 1
    (folder,) = own_cache.iterdir()
    (folder / "slice.arrow").write_bytes(b"ARROW1")
    assert profsuite.load(trace_file, max_memory=10**9).num_rows("slice") == 16
    assert counting.calls == 2
    assert cache.used_bytes() > 0
    cache.prune(0)
    assert list(own_cache.iterdir()) == []


def test_what_another_process_streamed_meanwhile_stays_as_it_is(trace_file, own_cache, monkeypatch):
    written, first = spill.write, []

    def slow(*args):
        if not first:
            first.append(True)
            first.append(profsuite.load(trace_file, max_memory=10**9))  # the other one, that is faster
            (folder,) = own_cache.glob("*.spill")
            first.append((folder, folder.stat().st_ino))
        written(*args)

    monkeypatch.setattr(loading, "BYTES_PER_BYTE", 10**9)
    monkeypatch.setattr(spill, "write", slow)
    assert profsuite.load(trace_file, max_memory=10**9).slices.equals(first[1].slices)
    folder, number = first[2]
    assert folder.stat().st_ino == number
    assert [entry.name for entry in own_cache.iterdir()] == [folder.name]


def test_cache_is_used_checked_and_replaced(trace_file, own_cache):
    first = profsuite.load(trace_file)
    settle()
    folders = list(own_cache.iterdir())
    assert len(folders) == 1
    again = profsuite.load(trace_file)
    assert all(again.table(t).equals(first.table(t)) for t in first.tables)
    # proof that it was the cache: it names its file's number of events, changed here
    manifest = folders[0] / "trace.json"
    manifest.write_text(manifest.read_text().replace('"num_events": 20', '"num_events": 21'))
    assert profsuite.load(trace_file).info.num_events == 21
    assert profsuite.load(trace_file, cache=False).info.num_events == 20
    # a damaged table is read from the file again, and the cache removed
    (folders[0] / "slice.arrow").write_bytes(b"ARROW1")
    assert profsuite.load(trace_file).info.num_events == 20
    settle()
    # a changed file is another key
    trace_file.write_text(json.dumps(job(2)))
    assert profsuite.load(trace_file).num_rows("slice") == 8


def test_cache_is_pruned_from_the_least_recently_used(own_cache, trace_file):
    trace = profsuite.load(trace_file, cache=False)
    for i in range(3):
        cache.keep(trace, ("x", i)).join()
        os.utime(cache.folder_for(("x", i)), (1000 + i, 1000 + i))
    one = cache.used_bytes() // 3
    cache.prune(2 * one + 100)
    assert [cache.folder_for(("x", i)).exists() for i in range(3)] == [False, True, True]


@pytest.mark.parametrize("limit", ["nan", "inf", "1e400", "much"])
def test_a_cache_limit_that_is_no_number_is_the_usual_one(own_cache, trace_file, monkeypatch, limit):
    monkeypatch.setenv("PROFSUITE_CACHE_GB", limit)
    profsuite.load(trace_file)
    cache.settle()
    cache.prune()
    assert len(list(own_cache.iterdir())) == 1


def test_an_unwritable_cache_is_no_matter(trace_file, monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("PROFSUITE_CACHE", str(tmp_path / "file" / "cache"))
    monkeypatch.setattr(cache, "MIN_BYTES", 0)
    assert profsuite.load(trace_file).num_rows("slice") == 16


def test_find_ranks(tmp_path):
    (tmp_path / "b").mkdir()
    for name, rank in (("rank_1.json", None), ("b/x.pt.trace.json", 7), ("worker0.json", 5)):
        data = job(1)
        data["distributedInfo"] = {"rank": rank}
        (tmp_path / name).write_text(json.dumps(data))
    (tmp_path / "truth.json").write_text('{"args": {}}')
    (tmp_path / "note.txt").write_text("no trace")
    found = profsuite.find_ranks(tmp_path)
    assert [(f.rank, Path(f.path).name) for f in found] == [
        (0, "worker0.json"), (1, "rank_1.json"), (7, "x.pt.trace.json"),
    ]  # fmt: skip
    assert [f.rank for f in profsuite.find_ranks(tmp_path, [7, 0])] == [0, 7]
    with pytest.raises(SelectionError, match=r"no rank 2 \(ranks: 0, 1, 7\)"):
        profsuite.find_ranks(tmp_path, [2])
    with pytest.raises(TraceError, match="holds 3 traces"):
        profsuite.load(tmp_path)


def test_separate_runs():
    def runs(*files):
        return loading.separate_runs([loading.RankFile(rank, path) for rank, path in files])

    assert runs((0, "runs/b/rank_0"), (0, "runs/a/rank_0"), (1, "runs/a/rank_1")) == ["runs/a", "runs/b"]
    assert runs((0, "a/rank_0.json"), (0, "rank_0.json")) == [".", "a"]
    assert runs((0, "s3://b/x/rank_0.json"), (0, "s3://b/y/rank_0.json")) == ["s3://b/x", "s3://b/y"]
    assert runs((0, "node0/rank_0.json"), (1, "node1/rank_1.json")) == []  # a job's
    assert runs((0, "a/rank_0.1.json"), (0, "a/rank_0.2.json")) == []  # of one folder
    assert runs((None, "a/t.json"), (None, "b/t.json")) == []


def test_find_ranks_keeps_what_is_named_as_a_trace_and_broken(tmp_path):
    whole = json.dumps(job(1)).encode()
    packed = gzip.compress(whole)
    for name, content in {
        "worker0.json.gz": packed,
        "worker1.json.gz": b"",
        "worker2.json.gz": packed[:15],
        "worker3.json": b'{"schem',
        "host_7.pt.trace.json": b"",
        "rank_4.json.gz": b"\x1f\x8bgarbage",
        "rank_5_args.json": b'{"lr": 0.1}',  # JSON of another kind
        "config.json": b"",
    }.items():
        (tmp_path / name).write_bytes(content)
    found = {Path(f.path).name: f.rank for f in profsuite.find_ranks(tmp_path)}
    expected = {f"worker{rank}.json{'' if rank == 3 else '.gz'}": rank for rank in range(4)}
    assert found == expected | {"rank_4.json.gz": 4, "host_7.pt.trace.json": None}
    for name in found.keys() - {"worker0.json.gz"}:
        with pytest.raises(TraceError, match=name):
            profsuite.load(tmp_path / name)


def test_a_trace_says_what_it_is_and_what_tables_it_has(trace_file):
    trace = profsuite.load(trace_file, cache=False)
    assert repr(trace) == f"<Trace '{trace_file}': rank 3, 20 events, 16 slices, 4 kernels, 4 steps>"
    for ask in (trace.table, trace.to_pandas):
        with pytest.raises(KeyError, match="no table 'nope'; there are slice, "):
            ask("nope")


def test_progress_reaches_the_end(trace_file):
    seen = []
    profsuite.load(trace_file, cache=False, reader="python", progress=lambda done, total: seen.append((done, total)))
    assert seen[-1] == (trace_file.stat().st_size, trace_file.stat().st_size)


def test_without_the_extension_the_python_reader_is_used(trace_file, monkeypatch):
    monkeypatch.setattr(native, "MISSING", "not built")
    assert profsuite.load(trace_file, cache=False).info.reader == "python"
    with pytest.raises(ProfsuiteError, match="C scanner is not built"):
        profsuite.load(trace_file, cache=False, reader="c")


def test_the_interpreter_waits_for_the_cache(trace_file, tmp_path):
    code = (
        f"import profsuite; from profsuite.trace import cache; cache.MIN_BYTES = 0; profsuite.load({str(trace_file)!r})"
    )
    env = os.environ | {"PROFSUITE_CACHE": str(tmp_path / "kept")}
    subprocess.run([sys.executable, "-c", code], env=env, check=True)
    assert [entry.is_dir() for entry in (tmp_path / "kept").iterdir()] == [True]


def test_zstd_is_read_as_gzip_is(tmp_path):
    import pyarrow as pa

    path = tmp_path / "rank_3.json.zst"
    with pa.CompressedOutputStream(str(path), "zstd") as packed:
        packed.write(b'{"traceEvents": [' + b",".join(
            b'{"ph": "X", "name": "n%d", "pid": 1, "tid": 1, "ts": %d, "dur": 1}' % (i, i) for i in range(20_000)
        ) + b"]}")  # fmt: skip
    assert profsuite.load(path).num_rows("slice") == 20_000
    assert [(f.rank, f.path) for f in profsuite.find_ranks(tmp_path)] == [(3, str(path))]
    whole = path.read_bytes()
    path.write_bytes(whole + b"no frame")
    most = profsuite.load(path)
    assert 19_800 < most.num_rows("slice") <= 20_000  # but for the last 4 KiB
    assert "zstd stream is damaged" in " ".join(most.health.column("message").to_pylist())
    path.write_bytes(whole[:-5000])
    part = profsuite.load(path)
    assert 0 < part.num_rows("slice") < 20_000
    assert "zstd stream is damaged" in " ".join(part.health.column("message").to_pylist())
    path.write_bytes(b"\x28\xb5\x2f\xfd no frame")
    with pytest.raises(profsuite.TraceError, match="zstd"):
        profsuite.load(path)
    limited = tmp_path / "bomb.json.zst"
    with pa.CompressedOutputStream(str(limited), "zstd") as packed:
        packed.write(b'{"traceEvents": [' + b" " * 5_000_000)
    stopped = profsuite.load(limited, max_unpacked=2_000_000)
    assert "--max-unpacked" in " ".join(stopped.health.column("message").to_pylist())
