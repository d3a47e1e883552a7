"""The execution trace: against torch's own observer, and what MLCommons' Chakra demands of its input."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import profsuite
from profsuite.exporters.chakra_inputs import inputs_json
from profsuite.trace.model import Trace

SHARED = Path(__file__).parents[4] / "shared" / "traces"
ATTRS = {
    "rf_id": "uint64", "fw_parent": "uint64", "seq_id": "int64", "scope": "uint64", "tid": "uint64", "fw_tid": "uint64",
    "op_schema": "string", "kernel_backend": "string", "kernel_file": "string", "tensor_range": "string",
}  # fmt: skip
PROCESS, THREAD = ("[pytorch|profiler|execution_trace|process]", "[pytorch|profiler|execution_trace|thread]")

Node = dict[str, Any]


def written(trace: Trace | Path, folder: Path) -> list[Node]:
    """The nodes of a file, after what every reader of these files takes for granted."""
    found = json.loads(profsuite.export(trace, folder / "x.chakra.json").read_bytes())
    assert found["schema"] == "1.1.1-chakra.0.0.4"
    assert isinstance(found["time"], str)
    assert all(type(found[key]) is int and found[key] >= 0 for key in ("pid", "start_ts", "finish_ts"))
    nodes = found["nodes"]
    assert [node["id"] for node in nodes] == list(range(1, len(nodes) + 1))
    assert nodes[0]["name"] == PROCESS
    assert nodes[0]["ctrl_deps"] == 1
    for node in nodes:
        assert node["id"] == 1 or 1 <= node["ctrl_deps"] < node["id"]
        assert {name: kind for name, kind in kinds(node).items() if name in ATTRS} == ATTRS
        for side in ("inputs", "outputs"):
            values, shapes, types = (node[side][key] for key in ("values", "shapes", "types"))
            assert len(values) == len(shapes) == len(types)
            assert len(node[side]["strides"]) in (0, len(values))
            for value, kind in zip(values, types, strict=True):
                if kind.startswith("Tensor("):
                    assert [type(part) for part in value] == [int, int, int, int, int, str]
    return nodes


def kinds(node: Node) -> dict[str, str]:
    return {attr["name"]: attr["type"] for attr in node["attrs"]}


def attrs(node: Node) -> dict[str, Any]:
    return {attr["name"]: attr["value"] for attr in node["attrs"]}


def ops(nodes: list[Node]) -> list[Node]:
    """All but process and threads, in the order of their ids."""
    return [node for node in sorted(nodes, key=lambda node: node["id"]) if node["name"] not in (PROCESS, THREAD)]


@pytest.fixture(scope="module")
def train() -> Callable[[], None]:
    """A training step on the CPU."""
    torch = pytest.importorskip("torch", reason="needs torch")
    net = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

    def step() -> None:
        out = net(torch.ones(4, 8))
        torch.cat([out, out.to(torch.float64)]).sum().backward()
        optimizer.step()
        optimizer.zero_grad()

    step()
    return step


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory, train: Callable[[], None]) -> tuple[list[Node], Path]:
    """The same run by torch's execution trace observer (its nodes) and by its profiler (a file)."""
    torch, profiler = pytest.importorskip("torch"), pytest.importorskip("torch.profiler")
    folder = tmp_path_factory.mktemp("et")
    observer = profiler.ExecutionTraceObserver().register_callback(str(folder / "et.json"))
    with (
        profiler.profile(
            activities=[profiler.ProfilerActivity.CPU], record_shapes=True, execution_trace_observer=observer
        ) as prof,
        torch.autograd.profiler.record_function("## a span ##"),
    ):
        train()
    prof.export_chrome_trace(str(folder / "kineto.json"))
    return json.loads((folder / "et.json").read_text())["nodes"], folder / "kineto.json"


def test_the_same_ops_as_the_observer(recorded: tuple[list[Node], Path], tmp_path: Path) -> None:
    theirs, ours = ops(recorded[0]), ops(written(recorded[1], tmp_path))
    assert [node["name"] for node in ours] == [node["name"] for node in theirs]
    assert len(ours) > 60
    place = [{node["id"]: number for number, node in enumerate(nodes)} for nodes in (theirs, ours)]
    assert [place[1].get(node["ctrl_deps"]) for node in ours] == [place[0].get(node["ctrl_deps"]) for node in theirs]
    for mine, other in zip(ours, theirs, strict=True):
        found, wanted = attrs(mine), attrs(other)
        for name in ("rf_id", "seq_id", "scope", "tid", "kernel_backend", "kernel_file", "tensor_range"):
            assert found[name] == wanted[name], (mine["name"], name)
        if wanted["seq_id"] >= 0:  # the profiler says no forward thread of what has no sequence number
            assert found["fw_tid"] == wanted["fw_tid"]
            assert place[1].get(found["fw_parent"]) == place[0].get(wanted["fw_parent"])


def test_the_same_inputs_as_the_observer(recorded: tuple[list[Node], Path], tmp_path: Path) -> None:
    theirs, ours = ops(recorded[0]), ops(written(recorded[1], tmp_path))
    seen = set()
    for mine, other in zip(ours, theirs, strict=True):
        names = ("values", "shapes", "types", "strides")
        found, wanted = ([node["inputs"][name] for name in names] for node in (mine, other))
        assert len(found[0]) == len(wanted[0]), mine["name"]
        for value, shape, kind, stride, *told in zip(*found, *wanted, strict=True):
            if kind == "Unknown":
                assert told[2] in ("None", "Device", "Generator"), mine["name"]
                continue
            assert kind == told[2].replace("Tensor(float)", "Tensor").replace("Tensor(double)", "Tensor") or (
                kind == told[2] and not kind.startswith("GenericList[Tensor")
            )
            assert (shape, stride) == (told[1], told[3])
            if kind.startswith("Tensor"):
                assert (value[:3], value[3:5], value[5]) == ([0, 0, 0], told[0][3:5], "")
            elif not kind.startswith("GenericList[Tensor"):
                assert value == told[0]
            seen.add(kind)
    assert {"Tensor(float)", "Tensor(double)", "Int", "Double", "Bool", "GenericList[Tensor,Tensor]"} <= seen


def test_a_recording_of_the_collector(
    recorded: tuple[list[Node], Path], train: Callable[[], None], tmp_path: Path
) -> None:
    with profsuite.profile(tmp_path / "run", engine="kineto", channels=()) as prof:
        train()
    theirs = [node for node in ops(recorded[0]) if node["name"] != "## a span ##"]
    ours = ops(json.loads(prof.export(tmp_path / "x.chakra.json").read_bytes())["nodes"])
    assert [node["name"] for node in ours] == [node["name"] for node in theirs]
    for name in ("scope", "tid"):
        assert [attrs(node)[name] for node in ours] == [attrs(node)[name] for node in theirs]
    told = [
        [each for each, kind in zip(*(node["inputs"][key] for key in ("shapes", "types")), strict=True)
         if kind.startswith("Tensor(")]
        for node in (*ours, *theirs)
    ]  # fmt: skip
    assert told[: len(ours)] == told[len(ours) :]


@pytest.mark.skipif(not SHARED.exists(), reason="the real traces are not here: ../shared/traces")
@pytest.mark.parametrize("name", ["a100_nccl_metadata", "h100_bert_small", "rtx2080ti_linear"])
def test_device_work_is_below_its_op(name: str, tmp_path: Path) -> None:
    trace = profsuite.load(SHARED / f"{name}.json.gz", cache=False)
    nodes = written(trace, tmp_path)
    by_id = {node["id"]: node for node in nodes}
    work = [node for node in nodes if "cat" in node]
    tables = trace.kernels.to_pylist() + trace.table("memcpy").to_pylist()
    assert len(work) == len(tables) > 0
    row = trace.slices.to_pylist()
    known = sorted((row[t["slice_id"]]["name"], row[t["op_id"]]["name"]) for t in tables if t["op_id"] is not None)
    told = sorted((node["name"], by_id[node["ctrl_deps"]]["name"]) for node in work if node["ctrl_deps"] != 1)
    assert set(known) <= set(told)
    assert sum(round(node["inclusive_dur"] * 1000) for node in work) == sum(row[t["slice_id"]]["dur"] for t in tables)
    for node in work:
        assert node["ph"] == "X"
        assert node["exclusive_dur"] == node["inclusive_dur"]
        if node["ctrl_deps"] != 1:
            parent = by_id[node["ctrl_deps"]]
            assert node["inputs"] == parent["inputs"]
            assert attrs(node)["rf_id"] == attrs(parent)["rf_id"]


@pytest.mark.skipif(not SHARED.exists(), reason="the real traces are not here: ../shared/traces")
def test_collectives(tmp_path: Path) -> None:
    trace = profsuite.load(SHARED / "a100_nccl_metadata.json.gz", cache=False)
    nodes = written(trace, tmp_path)
    told = [row for row in trace.table("collective").to_pylist() if row["collective_name"]]
    found = [attrs(node) for node in nodes if "collective_name" in attrs(node)]
    assert len(found) >= len(told) > 0
    assert {a["collective_name"] for a in found} == {row["collective_name"] for row in told}
    assert {a["in_msg_nelems"] for a in found} == {row["in_nelems"] for row in told}
    assert {a.get("pg_name") for a in found} == {row["group_name"] for row in told}


def test_a_backward_op_on_another_thread(
    make: Callable[..., Trace], piece: Callable[..., dict[str, Any]], tmp_path: Path
) -> None:
    trace = make([
        piece("cpu_op", "other", 0, 5, tid=3),
        piece("user_annotation", "step", 10, 100, tid=1),
        piece("python_function", "f", 10, 90, tid=1),
        piece("cpu_op", "aten::mm", 12, 20, tid=1, **{"Sequence number": 4, "Fwd thread id": 0}),
        piece("cpu_op", "autograd::engine::evaluate_function: MmBackward0", 50, 30, tid=2,
              **{"Sequence number": 4}),
        piece("cpu_op", "MmBackward0", 51, 25, tid=2, **{"Sequence number": 4, "Fwd thread id": 7}),
        piece("cpu_op", "late", 120, 5, tid=2, **{"Sequence number": 5, "Fwd thread id": 7}),
    ])  # fmt: skip
    nodes = written(trace, tmp_path)
    names = [node["name"] for node in nodes]
    assert names == [
        PROCESS, THREAD, "other", THREAD, "step", "aten::mm", THREAD,
        "autograd::engine::evaluate_function: MmBackward0", "MmBackward0", "late",
    ]  # fmt: skip
    assert [node["ctrl_deps"] for node in nodes] == [1, 1, 2, 1, 4, 5, 1, 7, 8, 7]
    found = [attrs(node) for node in nodes]
    assert [a["tid"] for a in found] == [0, 1, 1, 7, 7, 7, 2, 2, 2, 2]
    assert [a["fw_tid"] for a in found] == [0] * 8 + [7, 7]
    assert [a["fw_parent"] for a in found] == [0] * 8 + [5, 4]  # in the step; beyond it, in the thread
    assert [a["scope"] for a in found] == [7, 7, 0, 7, 7, 0, 7, 0, 1, 1]
    assert [node.get("exclusive_dur") for node in nodes] == [None, None, 5, None, 80, 20, None, 5, 25, 5]


def test_inputs_that_say_nothing() -> None:
    nothing = {"values": [], "shapes": [], "types": [], "strides": []}
    assert json.loads(inputs_json(None, None, None, None)) == nothing
    assert json.loads(inputs_json("[[1]]", "{", "3", '"x"')) == nothing
    assert json.loads(inputs_json("[" * 5000, '["float"]', None, None)) == {
        "values": ["<Unknown>"], "shapes": [[]], "types": ["Unknown"], "strides": [],
    }  # fmt: skip
    found = json.loads(
        inputs_json(
            '[[2, 3], [], [[2], [3]], [], [1.5]]',
            '["c10::BFloat16", "Scalar", "TensorList", "ScalarList", "float", ""]',
            None,
            '["", "1e400", "", "[1., nan, cpu]", "", "x"]',
        )
    )  # fmt: skip
    assert found["types"] == [
        "Tensor(c10::BFloat16)", "Double", "GenericList[Tensor,Tensor]", "Unknown", "Unknown", "Unknown",
    ]  # fmt: skip
    assert found["values"][:3] == [[0, 0, 0, 6, 2, ""], "1e400", [[0, 0, 0, 2, 0, ""], [0, 0, 0, 3, 0, ""]]]
    undefined = json.loads(inputs_json("[[4]]", '["", "float"]', "[[1]]", '["", ""]'))
    assert undefined["types"] == ["Unknown", "Tensor(float)"]


def test_nothing_and_hostile_names(
    make: Callable[..., Trace], piece: Callable[..., dict[str, Any]], tmp_path: Path, hostile_name: str
) -> None:
    assert [node["name"] for node in written(make([]), tmp_path)] == [PROCESS]
    number = {"Fwd thread id": 2**62, "Sequence number": 1}
    trace = make([piece("cpu_op", hostile_name, 1, 2, **number), piece("kernel", hostile_name, 1, 2, tid=7, pid=0)])
    nodes = written(trace, tmp_path)
    assert [node["name"] for node in nodes] == [PROCESS, THREAD, hostile_name, hostile_name]
    assert [node["ctrl_deps"] for node in nodes] == [1, 1, 2, 1]  # nobody knows who launched it
    packed = profsuite.export(trace, tmp_path / "x.chakra.json.gz")
    assert len(json.loads(gzip.decompress(packed.read_bytes()))["nodes"]) == 4
