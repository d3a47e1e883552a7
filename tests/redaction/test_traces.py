"""Traces: names of kernels and ops stay, time adds up, ranks stay apart, opting out loses no time."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import profsuite
from profsuite.analyzers.report import analyze
from profsuite.errors import TraceError
from profsuite.trace.classes import Role
from profsuite.trace.load import load, stream
from profsuite.trace.model import Trace
from profsuite.trace.redaction.redactor import Redactor
from profsuite.trace.redaction.settings import Level, Redaction
from profsuite.trace.redaction.tables import redact, redact_snapshot, redact_spill, redact_trace
from profsuite.trace.schema import BY_NAME, TABLES

SHARED = Path(__file__).parents[2].parent / "shared" / "traces"
NAMED = (Role.OP, Role.KERNEL, Role.MEMCPY, Role.MEMSET, Role.LAUNCH)
"""What has the names of kernels and ops."""


def shared_traces() -> list[Path]:
    return sorted((*SHARED.rglob("*.json"), *SHARED.rglob("*.json.gz"))) if SHARED.is_dir() else []


def renamed(before: Trace, after: Trace) -> tuple[int, set[tuple[str, str]]]:
    """How many names kernels and ops have, and those that are other ones afterwards."""
    rows = np.isin(before.roles, NAMED)
    both = np.stack([trace.array("slice", "name")[rows] for trace in (before, after)], axis=1)
    old, new = (trace.words("slice", "name") for trace in (before, after))
    pairs = {(old[a], new[b]) for a, b in np.unique(both, axis=0).tolist()}
    return len({name for name, _ in pairs}), {pair for pair in pairs if pair[0] != pair[1]}


@pytest.mark.skipif(not SHARED.is_dir(), reason="the shared traces are not here")
def test_no_kernel_or_op_of_a_real_trace_is_renamed() -> None:
    num_traces = num_names = 0
    for path in shared_traces():
        try:
            trace = load(path, cache=False)
        except TraceError:
            continue  # no trace, but a list of them and the like
        for level in Level:
            count, changed = renamed(trace, redact_trace(trace, Redactor(Redaction(level))))
            assert changed == set(), (path.name, level)
        num_traces, num_names = num_traces + 1, num_names + count
    assert num_traces >= 30
    assert num_names >= 4000


def same_but_texts(before: Trace, after: Trace) -> None:
    for spec in TABLES:
        assert after.table(spec.name).schema == spec.arrow_schema()
        for column in spec.columns:
            old, new = (trace.table(spec.name).column(column.name) for trace in (before, after))
            if column.dtype == "text":
                assert new.is_null().to_pylist() == old.is_null().to_pylist(), (spec.name, column.name)
            else:
                assert new.to_pylist() == old.to_pylist(), (spec.name, column.name)


def test_nothing_but_texts_changes(planted_trace: Trace) -> None:
    same_but_texts(planted_trace, redact(planted_trace))
    same_but_texts(planted_trace, redact(planted_trace, "high"))


def test_a_report_says_the_same_of_a_redacted_trace(planted_trace: Trace) -> None:
    before, after = analyze(planted_trace), analyze(redact(planted_trace))
    assert after.breakdown == before.breakdown
    assert after.steps == before.steps
    assert [finding.id for finding in after.findings or ()] == [finding.id for finding in before.findings or ()]


def test_the_raw_columns_are_redacted_like_the_tables(planted: Path) -> None:
    whole = redact(load(planted, cache=False))
    with stream(planted) as spill:
        found = redact_spill(spill, Redactor(Redaction()))
        names = set(found.pools["name"].to_pylist())
        header = dict(found.manifest["header"])
    assert names == {
        *whole.words("slice", "name"), *whole.words("counter", "name"), *whole.words("instant", "name"),
        *whole.words("flow", "name"),
    }  # fmt: skip
    assert json.loads(header["user"]).startswith("user-")
    assert whole.metadata("user").startswith("user-")
    assert whole.metadata("hostname").startswith("host-")


def test_hosts_of_ranks_stay_apart_with_a_key(planted: Path) -> None:
    text = planted.read_text(encoding="utf-8")
    hosts = set()
    for name in ("gpu-hgx-0001", "gpu-hgx-0002", "gpu-hgx-0001"):
        planted.write_text(text.replace("gpu-hgx-0418", name), encoding="utf-8")
        hosts.add(redact(load(planted, cache=False), key=b"job").metadata("peer")["host"])
    assert len(hosts) == 2


def test_what_a_file_is_called(planted: Path, tmp_path: Path) -> None:
    assert "quintavalle" not in redact(load(planted, cache=False)).info.source
    ranked = tmp_path / "quintavalle_rank3.json"
    ranked.write_text(planted.read_text(encoding="utf-8"), encoding="utf-8")
    high = redact(load(ranked, cache=False), "high").info.source
    assert "rank3" in high
    assert "quintavalle" not in high


def test_the_highest_level_hides_what_a_project_is_named_by(tmp_path: Path) -> None:
    head = {
        "experiment": {"name": "moonshot", "lr": 0.1, "steps": "100"},
        "traceName": "moonshot.json",
        "distributedInfo": {"backend": "nccl", "rank": 3},
    }
    events = [
        {"ph": "M", "name": "thread_name", "pid": 100, "tid": 1, "args": {"name": "thread 1 (moonshot)"}},
        {"ph": "M", "name": "process_name", "pid": 100, "tid": 1, "args": {"name": "python3"}},
        event("python_function", "src/moonshot.py(3): moonshot_loss", 0, 100),
        event("python_function", "torch/nn/modules/linear.py(3): forward", 1, 90),
        event("python_function", "nn.Module: MoonshotBlock_2", 2, 80),
        event("python_function", "nn.Module: Linear_2", 3, 70),
        event("user_annotation", "moonshot phase", 4, 60),
        event("user_annotation", "Optimizer.step#Adam.step", 5, 50),
        event("cpu_op", "aten::mm", 6, 40, **{"Concrete Inputs": ["", "1e-05", "moonshot", "[1, 2]"]}),
    ]
    path = tmp_path / "moonshot_rank3.json"
    path.write_text(json.dumps({**head, "traceEvents": events}), encoding="utf-8")
    found = redact(load(path, cache=False), "high")
    assert found.words("slice", "name") == [
        "file-1.py(3): function-1", "torch/nn/modules/linear.py(3): forward", "nn.Module: module-1_2",
        "nn.Module: Linear_2", "annotation-1", "Optimizer.step#Adam.step", "aten::mm",
    ]  # fmt: skip
    assert found.table("op").column("concrete_inputs").to_pylist() == ['["", "1e-05", "text-1", "[1, 2]"]']
    assert found.metadata("experiment") == {"name": "text-1", "lr": 0.1, "steps": "100"}
    assert found.metadata("distributedInfo") == {"backend": "nccl", "rank": 3}
    with stream(path) as spill:
        raw = redact_spill(spill, Redactor(Redaction(Level.HIGH)))
        said = repr((raw.manifest, raw.source, [pool.to_pylist() for pool in raw.pools.values()]))
    for text in (said, repr([table.to_pydict() for table in found.tables.values()]), repr(found.info)):
        assert "moonshot" not in text.lower()
        assert "backend" not in text or "nccl" in text


# ---------------------------------------------------------------- opting out
def event(cat: str, name: str, ts: float, dur: float, tid: int = 1, pid: int = 100, **args: Any) -> dict[str, Any]:
    return {"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": dur, "args": args}


@pytest.fixture
def make(tmp_path: Path) -> Callable[[list[dict[str, Any]]], Trace]:
    def build(events: list[dict[str, Any]]) -> Trace:
        file = tmp_path / "made.json"
        file.write_text(json.dumps({"traceEvents": events}), encoding="utf-8")
        return load(file, cache=False)

    return build


def nested() -> list[dict[str, Any]]:
    """A step of 1000 us: a function around a secret one around a secret annotation around an op with a kernel."""
    return [
        event("user_annotation", "ProfilerStep#1", 0, 1000),
        event("python_function", "train.py(1): main", 10, 900, **{"Python id": 1}),
        event(
            "python_function", "/home/me/mymodule/secret_a.py(2): run", 100, 500,
            **{"Python id": 2, "Python parent id": 1},
        ),
        event("user_annotation", "mymodule.secret_phase", 150, 300),
        event("python_function", "train.py(9): inner", 200, 200, **{"Python id": 3, "Python parent id": 2}),
        event(
            "cpu_op", "aten::mm", 210, 100,
            **{"External id": 7, "Call stack": "train.py(9): inner;mymodule/secret_a.py(2): run;train.py(1): main"},
        ),
        event("cuda_runtime", "cudaLaunchKernel", 220, 20, correlation=5, **{"External id": 7}),
        event("cpu_op", "mymodule::secret_op", 700, 100),
        event("cuda_runtime", "cudaLaunchKernel", 710, 20, correlation=6),
        event("kernel", "gemm", 300, 400, 7, 0, device=0, stream=7, correlation=5),
        event("kernel", "mymodule_secret_kernel", 800, 100, 7, 0, device=0, stream=7, correlation=6),
        {"ph": "i", "s": "t", "name": "mymodule.secret_mark", "pid": 100, "tid": 1, "ts": 5, "cat": "x"},
    ]  # fmt: skip


def test_what_is_opted_out_goes_and_its_time_stays(make: Callable[[list[dict[str, Any]]], Trace]) -> None:
    before = make(nested())
    redactor = Redactor(Redaction(None, opt_out=("mymodule.secret*", "mymodule_secret*")))
    after = redact_trace(before, redactor)
    rows = after.table("slice").to_pylist()
    assert [(row["name"], row["parent_id"], row["depth"], row["self_dur"]) for row in rows] == [
        ("ProfilerStep#1", None, 0, 100_000),
        ("train.py(1): main", 0, 1, 680_000),  # 400 of its own, and 300 and 80 of what went
        ("train.py(9): inner", 1, 2, 100_000),
        ("aten::mm", 2, 3, 80_000),
        ("cudaLaunchKernel", 3, 4, 20_000),
        ("cudaLaunchKernel", 1, 2, 20_000),
        ("gemm", None, 0, 400_000),
        ("opted-out-1", None, 0, 100_000),
    ]
    host = after.array("slice", "track_id") == 1 - after.array("slice", "track_id")[-1]
    assert after.array("slice", "self_dur")[host].sum() == 1_000_000, "the thread's time adds up"
    assert [row["op_id"] for row in after.table("kernel").to_pylist()] == [3, None]
    assert [row["launch_id"] for row in after.table("kernel").to_pylist()] == [4, 5]
    assert [row["python_parent_id"] for row in after.table("python_call").to_pylist()] == [None, 1]
    assert after.table("op").column("call_stack").to_pylist() == ["train.py(9): inner;train.py(1): main"]
    assert after.num_rows("instant") == 0
    assert redactor.report.removed == {"slice": 3, "python_call": 1, "instant": 1}
    assert "secret" not in repr([table.to_pydict() for table in after.tables.values()])
    assert analyze(after).breakdown == analyze(before).breakdown
    for name, table in after.tables.items():
        assert table.schema == BY_NAME[name].arrow_schema()


@pytest.mark.parametrize(
    ("glob", "gone"),
    [
        ("mymodule", {"/home/me/mymodule/secret_a.py(2): run", "mymodule.secret_phase", "mymodule::secret_op"}),
        ("secret_a.run", {"/home/me/mymodule/secret_a.py(2): run"}),
        ("*.secret_p*", {"mymodule.secret_phase"}),
        ("secret", set()),
        ("ProfilerStep*", set()),
        ("main", {"train.py(1): main"}),
    ],
)
def test_a_glob_names_whole_parts(make: Callable[[list[dict[str, Any]]], Trace], glob: str, gone: set[str]) -> None:
    before = make(nested())
    after = redact_trace(before, Redactor(Redaction(None, opt_out=(glob,))))
    names = [{row["name"] for row in trace.table("slice").to_pylist()} for trace in (before, after)]
    assert names[0] - names[1] == gone


def test_nothing_opted_out_leaves_as_a_word_that_no_row_has(
    make: Callable[[list[dict[str, Any]]], Trace], tmp_path: Path
) -> None:
    trace = redact(make(nested()), opt_out=("mymodule*", "*secret*"))
    for name in ("job.arrow", "job.json", "job.pftrace"):
        target = profsuite.export(trace, tmp_path / name, {"job.arrow": "arrow"}.get(name))
        files = list(target.iterdir()) if target.is_dir() else [target]
        assert not [file for file in files if b"secret" in file.read_bytes()]


def test_calls_in_a_circle_end(make: Callable[[list[dict[str, Any]]], Trace]) -> None:
    events = [
        event("python_function", f"m.py({i}): secret{i}", 10 * i, 5, **{"Python id": i, "Python parent id": 3 - i})
        for i in (1, 2)
    ]
    events.append(event("python_function", "m.py(9): f", 100, 5, **{"Python id": 3, "Python parent id": 1}))
    after = redact_trace(make(events), Redactor(Redaction(None, opt_out=("secret*",))))
    assert after.table("python_call").column("python_parent_id").to_pylist() == [None]


# ---------------------------------------------------------------- snapshots
def test_a_snapshot_of_the_allocator(tmp_path: Path) -> None:
    from profsuite.trace.readers.snapshot import read_snapshot

    frames = [{"name": "step", "filename": "/home/quintavalle/falcon/train.py", "line": 8}]
    block = {"size": 512, "requested_size": 512, "address": 4096, "state": "active_allocated", "frames": frames}
    segment = {
        "device": 0, "address": 4096, "total_size": 2 << 20, "allocated_size": 512, "active_size": 512, "stream": 0,
        "segment_type": "small", "blocks": [block],
    }  # fmt: skip
    path = tmp_path / "quintavalle.pickle"
    path.write_bytes(pickle.dumps({"segments": [segment], "device_traces": [[]]}))
    snapshot = read_snapshot(str(path))
    found = redact_snapshot(snapshot, Redactor(Redaction()))
    assert found.frames_of(0) == ["path-1/train.py(8): step"]
    assert found.array("block", "bytes").tolist() == snapshot.array("block", "bytes").tolist()
    assert "quintavalle" not in found.source
