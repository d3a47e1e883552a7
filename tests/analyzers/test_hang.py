"""Where a job hangs: real dumps of two ranks on gloo, and what NCCL's look like."""

from __future__ import annotations

import json
import pickle
import pickletools
import subprocess
import sys

import pytest

from profsuite.analyzers.hang import hang
from profsuite.errors import TraceError
from profsuite.trace.readers import plain_pickle
from profsuite.trace.readers.flight import FILE, find_dumps, read_flight

PROGRAM = """
import json, os, pickle, sys, time
import torch, torch.distributed as dist, torch.multiprocessing as mp

def work(rank, folder):
    os.environ["TORCH_FR_BUFFER_SIZE"] = "2000"
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=2)
    pair = dist.new_group([0, 1], group_desc="pair")
    dist.all_reduce(torch.ones(8))
    dist.all_reduce(torch.ones(5), group=pair)
    hung = dist.all_reduce(torch.ones(9), async_op=True) if rank == 0 else None
    waits = 1 if rank == 0 else 0
    while True:  # gloo tells the recorder a little later that a collective has ended
        dump = torch._C._distributed_c10d._dump_fr_trace()
        if sum(not entry["retired"] for entry in pickle.loads(dump)["entries"]) <= waits:
            break
        time.sleep(0.01)
    with open(f"{folder}/fr_trace_rank_{rank}", "wb") as file:
        file.write(dump)
    os.makedirs(f"{folder}/run/rank_{rank}")
    with open(f"{folder}/run/rank_{rank}/flight_recorder.json", "w") as file:
        json.dump(pickle.loads(dump), file)
    if rank == 1:
        while not os.path.exists(f"{folder}/run/rank_0/flight_recorder.json"):
            time.sleep(0.01)  # what rank 0 waits for must not come before its dump
        dist.all_reduce(torch.ones(9))
    else:
        hung.wait()
    dist.barrier()
    dist.destroy_process_group()

if __name__ == "__main__":
    mp.spawn(work, (sys.argv[1],), nprocs=2)
"""


@pytest.fixture(scope="module")
def dumps(tmp_path_factory):
    """Dumps of two ranks of which rank 1 has not called the last collective, as torch pickles them and as JSON."""
    torch = pytest.importorskip("torch", reason="torch is not installed")
    if not torch.distributed.is_available():
        pytest.skip("torch without distributed")
    folder = tmp_path_factory.mktemp("dumps")
    script = folder / "program.py"
    script.write_text(PROGRAM)
    subprocess.run([sys.executable, script, folder], check=True, timeout=120)
    return folder


@pytest.mark.parametrize("form", ["pickle", "json"])
def test_real_dumps(dumps, form):
    folder = dumps if form == "pickle" else dumps / "run"
    names = [n for n in find_dumps(folder) if form == "json" or not n.endswith(FILE)]
    report = hang([read_flight(name) for name in names])
    assert report.ranks == (0, 1)
    (group,) = report.stuck
    assert (group.description, group.sequence, group.collective) == ("default_pg", 2, "all_reduce")
    assert (group.why, group.missing, group.is_root) == ("not_joined", (1,), True)
    assert [(s.rank, s.last_called, s.last_completed, s.waits_in, s.joined) for s in group.ranks] == [
        (0, 2, 1, 2, True),
        (1, 1, 1, None, False),
    ]
    assert group.ranks[0].source.endswith("program.py(11): work")
    assert report.verdict.startswith("Rank 0 waits in all_reduce #2 of group default_pg")
    assert "for rank 1, which has not called it (last called there: #1)" in report.verdict
    assert [(c.rank, c.group, c.sequence, c.completed) for c in report.last_calls] == [
        (0, "default_pg", 2, False),
        (1, "pair", 1, True),
    ]


def test_a_real_pickle_equals_what_python_reads(dumps):
    data = (dumps / "fr_trace_rank_0").read_bytes()
    assert plain_pickle.loads(data) == pickle.loads(data)


# ---------------------------------------------------------------- as NCCL leaves them
RANKS = {"0": "[0, 1, 2, 3]", "1": "[0, 1]", "2": "[2, 3]"}


def entry(group, seq, state="completed", name="all_reduce", **more):
    return {
        "process_group": (group, {"0": "default_pg", "1": "tp", "2": "tp2"}[group]),
        "pg_id": int(group),
        "collective_seq_id": seq,
        "p2p_seq_id": 0,
        "is_p2p": False,
        "profiling_name": f"nccl:{name}",
        "state": state,
        "retired": state == "completed",
        "input_sizes": [[8]],
        "input_dtypes": ["Float"],
        "output_sizes": [[8]],
        "output_dtypes": ["Float"],
        "frames": [{"name": "step", "filename": "train.py", "line": 10 * seq}],
    } | more


@pytest.fixture
def hung(tmp_path):
    """A function from the entries of each rank to the report on their dumps."""

    def report(*ranks):
        found = []
        for rank, entries in enumerate(ranks):
            if entries is None:
                continue
            path = tmp_path / f"nccl_trace_rank_{rank}"
            config = {name: {"name": name, "desc": "", "ranks": members} for name, members in RANKS.items()}
            path.write_bytes(pickle.dumps({"version": "2.10", "pg_config": config, "entries": entries}, 2))
            found.append(read_flight(path))
        return hang(found)

    return report


def test_nothing_hangs(hung):
    report = hung(*[[entry("0", 1), entry("0", 2)]] * 4)
    assert report.stuck == ()
    assert report.verdict == "Nothing hangs: every collective in the dumps is complete."


def test_all_have_called_it(hung):
    report = hung(*[[entry("0", 1), entry("0", 2, "started")]] * 4)
    assert (report.stuck[0].why, report.stuck[0].missing) == ("incomplete", ())
    assert "all ranks have called it" in report.verdict


def test_a_rank_without_a_dump(hung):
    report = hung(*[[entry("0", 1), entry("0", 2, "started")]] * 3, None)
    assert (report.stuck[0].why, report.stuck[0].no_dump) == ("incomplete", (3,))
    assert "there is no dump of rank 3" in report.verdict


def test_the_rank_at_the_root_is_named(hung):
    # 0, 1, 2 wait for 3 in the world's group; 3 waits for 2 in tp2, where 2 has called nothing: it waits for 3
    world = [entry("0", 1), entry("0", 2, "scheduled")]
    report = hung(world, world, world, [entry("0", 1), entry("2", 1, "scheduled")])
    assert {(g.name, g.missing, g.is_root) for g in report.stuck} == {("0", (3,), False), ("2", (2,), False)}
    assert report.verdict.startswith("A deadlock")


def test_a_chain_leads_to_its_end(hung):
    # 0 and 1 wait for 2 and 3 in the world's group; 2 waits for 3 in tp2; 3 waits nowhere
    world = [entry("0", 1), entry("0", 2, "scheduled")]
    late = [entry("0", 1), entry("2", 1, "started")]
    report = hung(world, world, late, [entry("0", 1)])
    assert report.stuck[0].name == "2"
    assert (report.stuck[0].is_root, report.stuck[0].missing) == (True, (3,))
    assert (report.stuck[1].is_root, report.stuck[1].missing) == (False, (2, 3))
    assert "Rank 2 waits in all_reduce #1 of group tp2" in report.verdict
    assert "for rank 3" in report.verdict


@pytest.mark.parametrize(
    ("odd", "detail"),
    [
        ({"name": "broadcast"}, "rank 0, 2, 3: all_reduce; rank 1: broadcast"),
        ({"input_dtypes": ["Half"]}, "rank 0, 2, 3: Float -> Float; rank 1: Half -> Float"),
        ({"input_sizes": [[9]]}, "rank 0, 2, 3: [8] -> [8]; rank 1: [9] -> [8]"),
    ],
)
def test_ranks_that_call_something_else(hung, odd, detail):
    same = [entry("0", 1), entry("0", 2, "started")]
    report = hung(same, [entry("0", 1), entry("0", 2, "started", **odd)], same, same)
    assert (report.stuck[0].why, report.stuck[0].detail) == ("mismatch", detail)
    assert detail in report.verdict


def test_sends_that_nobody_receives(hung):
    done = [entry("0", 1)]
    send = entry("0", 1, "started", "send 0->1", is_p2p=True, p2p_seq_id=4)
    report = hung([*done, send], done, done, done)
    assert [(p.rank, p.name, p.sequence, p.source) for p in report.pending] == [
        (0, "send 0->1", 4, "train.py(10): step"),
    ]
    assert "1 sends or receives are not" in report.verdict


def test_what_the_ring_has_forgotten(hung, tmp_path):
    path = tmp_path / "fr_trace_rank_7"
    status = {"0": {"last_enqueued_collective": 90, "last_completed_collective": 88, "last_started_collective": -1}}
    path.write_bytes(pickle.dumps({"entries": [entry("0", 90, "started")], "pg_status": status}, 2))
    dump = read_flight(path)
    assert (dump.rank, dump.last_called, dump.last_completed) == (7, {"0": 90}, {"0": 88})


def test_each_rank_once(hung, tmp_path):
    hung([entry("0", 1)])
    dump = read_flight(tmp_path / "nccl_trace_rank_0")
    with pytest.raises(ValueError, match="different ranks"):
        hang([dump, dump])


# ---------------------------------------------------------------- hostile files
class Evil:
    def __reduce__(self):
        return (exec, ("raise SystemExit(99)",))


def test_nothing_in_a_pickle_is_called(tmp_path):
    path = tmp_path / "fr_trace_rank_0"
    path.write_bytes(pickle.dumps({"entries": [Evil()]}))
    with pytest.raises(TraceError, match="more than plain data"):
        read_flight(path)


@pytest.mark.parametrize("protocol", range(6))
def test_plain_data_of_every_protocol(protocol):
    value = {
        "a": [1, -2, 2**70, 3.5, None, True, False, "x" * 300, ("t",), (1, 2), (1, 2, 3), (1, 2, 3, 4), ()],
        "b": {},
    }
    value["c"] = value["a"]
    assert plain_pickle.loads(pickle.dumps(value, protocol)) == value


@pytest.mark.parametrize("cut", range(1, 60, 7))
def test_a_damaged_pickle_is_an_error(cut):
    data = pickle.dumps({"entries": [{"a": 1, "b": (1, 2), "c": ["x"]}]}, 2)
    with pytest.raises(TraceError):
        plain_pickle.loads(data[:-cut] if cut < len(data) else b"")


def test_a_huge_memo_index_takes_no_memory():
    import tracemalloc

    data = b"\x80\x02]r\xff\xff\xff\x7f."  # LONG_BINPUT 2147483647
    assert [op.name for op, _, _ in pickletools.genops(data)][2] == "LONG_BINPUT"
    tracemalloc.start()
    assert plain_pickle.loads(data) == []
    assert tracemalloc.get_traced_memory()[1] < 1_000_000
    tracemalloc.stop()


def test_keys_that_would_never_be_hashed():
    bomb = b"\x80\x02}()" + b"q\x00h\x00\x86" * 60 + b"K\x01s."  # a pair of pairs of pairs ...
    with pytest.raises(TraceError, match="tuple as a key"):
        plain_pickle.loads(bomb)


def test_nested_without_end(tmp_path):
    path = tmp_path / "fr_trace_rank_0"
    nested = b"".join(b"]" for _ in range(100_000)) + b"".join(b"a" for _ in range(99_999))
    path.write_bytes(b"\x80\x02}(X\x07\x00\x00\x00entries](" + b"}(X\x0d\x00\x00\x00process_group" + nested
                     + b"X\x11\x00\x00\x00collective_seq_idK\x01ueu.")  # fmt: skip
    dump = read_flight(path)
    assert dump.entries[0].group == "?"


@pytest.mark.parametrize("text", ["", "{", "[]", '{"entries": 5}', '{"entries": [1]}', "no dump"])
def test_what_is_no_dump(tmp_path, text):
    path = tmp_path / "fr_trace_rank_0"
    path.write_text(text)
    with pytest.raises(TraceError, match="fr_trace_rank_0: "):
        read_flight(path)


def test_dumps_are_found_by_their_names(tmp_path):
    (tmp_path / "rank_3").mkdir()
    wanted = [tmp_path / "nccl_trace_rank_0", tmp_path / "rank_1", tmp_path / "rank_3" / FILE]
    for path in (*wanted, tmp_path / "rank_0.json", tmp_path / "notes.txt"):
        path.write_text(json.dumps({"entries": []}))
    assert find_dumps(tmp_path) == [str(path) for path in wanted]
    assert [read_flight(path).rank for path in wanted] == [0, 1, 3]
    (tmp_path / "empty").mkdir()
    with pytest.raises(TraceError, match="no dump"):
        find_dumps(tmp_path / "empty")
