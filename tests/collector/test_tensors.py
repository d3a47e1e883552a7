"""Roles of tensors, against the tensors themselves."""

import gc
import json
import subprocess
import sys
import weakref

import pytest

import profsuite
from profsuite.collector.config import ProfsuiteWarning

torch = pytest.importorskip("torch", reason="torch is not installed")

DEEP = {"engine": "kineto", "channels": ()}


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(8, 16)
        self.norm = torch.nn.LayerNorm(16)
        self.scale = torch.nn.Parameter(torch.ones(3))

    def forward(self, x):
        return self.norm(self.first(x)).sum() * self.scale.sum()


@pytest.fixture
def net():
    return torch.nn.Sequential(Block(), torch.nn.Identity())


def adam(net):
    return torch.optim.AdamW(net.parameters(), foreach=False)


def train(net, optimizer):
    net(torch.ones(4, 8)).backward()
    optimizer.step()


def rows(prof, role=None):
    found = prof.trace.table("tensor").to_pylist()
    return found if role is None else [row for row in found if row["role"] == role]


def storage(tensor):
    return tensor.untyped_storage().data_ptr(), tensor.untyped_storage().nbytes()


def places(rows):
    return {(row["address"], row["bytes"]) for row in rows}


def test_roles_addresses_and_bytes_are_those_of_the_tensors(tmp_path, net):
    optimizer = adam(net)
    with profsuite.profile(tmp_path / "run", memory=True, **DEEP) as prof:
        train(net, optimizer)
    expected = {(name, *storage(p)) for name, p in net.named_parameters()}
    assert {(row["name"], row["address"], row["bytes"]) for row in rows(prof, "parameter")} == expected
    expected = {(name, *storage(p.grad)) for name, p in net.named_parameters()}
    assert {(row["name"], row["address"], row["bytes"]) for row in rows(prof, "gradient")} == expected
    state = [(key, *storage(t)) for values in optimizer.state.values() for key, t in values.items()]
    found = [(row["name"], row["address"], row["bytes"]) for row in rows(prof, "optimizer_state")]
    assert sorted(found) == sorted(state)
    assert {row["name"] for row in rows(prof, "optimizer_state")} == {"step", "exp_avg", "exp_avg_sq"}
    assert {row["module"] for row in rows(prof, "optimizer_state")} == {"AdamW"}
    assert {row["name"]: row["module"] for row in rows(prof, "parameter")} == {
        "0.first.weight": "Linear", "0.first.bias": "Linear", "0.norm.weight": "LayerNorm", "0.norm.bias": "LayerNorm",
        "0.scale": "Block",
    }  # fmt: skip
    assert {(row["device_type"], row["device"]) for row in rows(prof)} == {(0, None)}
    assert not [note for note in prof.notes if "roles" in note]


def test_they_are_among_the_allocations(tmp_path):
    """Each gradient lies in memory that was allocated in the window, and was seen while it was."""
    with profsuite.profile(tmp_path / "run", memory=True, **DEEP) as prof:
        net = Block()
        optimizer = adam(net)
        for _ in range(3):
            train(net, optimizer)
            optimizer.zero_grad()
            prof.step()
    events = prof.trace.table("memory_event").to_pylist()
    assert len(rows(prof, "gradient")) == 3 * 5
    assert len(rows(prof, "parameter")) == 5
    assert len(rows(prof, "optimizer_state")) == 15
    for row in rows(prof):
        at = [e for e in events if e["address"] == row["address"] and e["ts"] <= row["ts"]]
        assert at, row
        assert at[-1]["bytes"] == row["bytes"], row
        if row["role"] == "gradient":
            assert any(e["address"] == row["address"] and e["ts"] > row["ts"] and e["bytes"] < 0 for e in events)


def test_a_row_where_it_is_seen_and_again_where_it_has_moved(tmp_path, net):
    optimizer = adam(net)
    scale = net[0].scale
    plan = profsuite.schedule(wait=1, active=1, repeat=2)
    with profsuite.profile(tmp_path / "run", memory=True, schedule=plan, **DEEP) as prof:
        for step in range(4):
            train(net, optimizer)
            if step == 2:
                kept = scale.data
                scale.data = torch.zeros(5)[:3]
            prof.step()
    assert kept is not None
    seen = [(row["address"], row["bytes"]) for row in rows(prof, "parameter") if row["name"] == "0.scale"]
    assert seen == [storage(kept), storage(scale)]
    assert seen[1][1] == 20  # of the whole storage
    assert len(rows(prof, "parameter")) == 6
    # Gradients stay where they are here (nobody sets them to None), and are rows of each step all the same.
    assert places(rows(prof, "gradient")) == {storage(p.grad) for p in net.parameters()}
    steps = prof.trace.steps.to_pylist()
    assert [s["number"] for s in steps] == [1, 3]
    for step in steps:
        inside = [r for r in rows(prof, "gradient") if step["ts"] <= r["ts"] < step["ts"] + step["dur"]]
        assert len(inside) == 5


def test_a_module_gives_names_where_nothing_is_trained(tmp_path, net):
    with profsuite.profile(tmp_path / "run", engine="recorder", module=net, channels=()) as prof, torch.no_grad():
        net(torch.ones(4, 8))
    assert {(row["name"], row["address"]) for row in rows(prof)} == {
        (name, p.untyped_storage().data_ptr()) for name, p in net.named_parameters()
    }
    assert {row["role"] for row in rows(prof)} == {"parameter"}


def test_an_optimizer_that_is_given(tmp_path, net):
    optimizer = adam(net)
    train(net, optimizer)
    with profsuite.profile(tmp_path / "run", optimizer=[optimizer], **DEEP) as prof:
        net(torch.ones(4, 8)).backward()
    assert len(rows(prof, "optimizer_state")) == 15
    assert len(rows(prof, "parameter")) == 5
    assert places(rows(prof, "gradient")) == {storage(p.grad) for p in net.parameters()}


def test_names_of_an_optimizer_made_of_named_parameters(tmp_path):
    weight = torch.nn.Parameter(torch.ones(4))
    try:
        optimizer = torch.optim.SGD([("layer.weight", weight)], lr=0.1, momentum=0.9)
    except (TypeError, ValueError):
        pytest.skip("this torch takes no names")
    with profsuite.profile(tmp_path / "run", memory=True, **DEEP) as prof:
        weight.sum().backward()
        optimizer.step()
    assert [(row["role"], row["name"], row["module"]) for row in rows(prof)] == [
        ("parameter", "layer.weight", None),
        ("gradient", "layer.weight", None),
        ("optimizer_state", "momentum_buffer", "SGD"),
    ]


def test_state_in_lists(tmp_path):
    weight = torch.nn.Parameter(torch.ones(4))
    optimizer = torch.optim.LBFGS([weight], lr=0.1, max_iter=3, history_size=2)

    def loss():
        optimizer.zero_grad()
        value = (weight**4).sum()
        value.backward()
        return value

    with profsuite.profile(tmp_path / "run", memory=True, **DEEP) as prof:
        optimizer.step(loss)
    state = optimizer.state[weight]
    expected = {storage(t) for v in state.values() for t in (v if isinstance(v, list) else [v]) if torch.is_tensor(t)}
    assert len(expected) > 3
    assert places(rows(prof, "optimizer_state")) == expected


def test_tensors_without_a_storage(tmp_path):
    table = torch.nn.Embedding(10, 4, sparse=True)
    optimizer = torch.optim.SparseAdam(table.parameters())
    with profsuite.profile(tmp_path / "run", memory=True, **DEEP) as prof:
        table(torch.tensor([1, 2])).sum().backward()
        optimizer.step()
    assert [(row["address"], row["bytes"], row["name"]) for row in rows(prof, "gradient")] == [(None, None, "weight")]
    assert places(rows(prof, "parameter")) == {storage(table.weight)}


def test_nothing_is_asked_for_nothing_is_done(tmp_path, net):
    from torch.optim import optimizer as module

    before = dict(module._global_optimizer_post_hooks)
    optimizer = adam(net)
    with profsuite.profile(tmp_path / "run", **DEEP) as prof:
        assert module._global_optimizer_post_hooks == before
        train(net, optimizer)
    assert rows(prof) == []
    with profsuite.profile(tmp_path / "run", memory=True, **DEEP) as prof:
        assert len(module._global_optimizer_post_hooks) == len(before) + 1
        train(net, optimizer)
    assert module._global_optimizer_post_hooks == before


def test_nothing_is_kept_alive(tmp_path):
    net = Block()
    optimizer = adam(net)
    with profsuite.profile(tmp_path / "run", memory=True, module=net, optimizer=optimizer, **DEEP) as prof:
        train(net, optimizer)
        gone = [weakref.ref(thing) for thing in (net, optimizer, net.scale, net.first)]
        del net, optimizer
        gc.collect()
        assert [reference() for reference in gone] == [None] * 4
        train(other := Block(), adam(other))
    assert len(rows(prof, "parameter")) == 10


def test_the_walk_records_no_ops(tmp_path, net):
    optimizer = adam(net)
    train(net, optimizer)
    optimizer.zero_grad()
    names = []
    for settings in ({}, {"module": net, "optimizer": optimizer}):
        with profsuite.profile(tmp_path / "run", **DEEP, **settings) as prof:
            train(net, optimizer)
            optimizer.zero_grad()
        names.append(sorted(row["name"] for row in prof.trace.slices.to_pylist()))
    assert len(names[0]) > 50
    assert names[0] == names[1]


def test_a_strange_optimizer_costs_its_rows_not_the_training(tmp_path):
    class Odd(torch.optim.SGD):
        @property
        def state(self):
            raise KeyError("mine")

        @state.setter
        def state(self, value):
            self.__dict__["hidden"] = value

    weight = torch.nn.Parameter(torch.ones(4))
    optimizer = Odd([weight], lr=0.1)
    with profsuite.profile(tmp_path / "run", memory=True, **DEEP) as prof:
        for _ in range(3):
            weight.sum().backward()
            optimizer.step()
    assert any("roles of tensors are incomplete: KeyError" in note for note in prof.notes)
    assert prof.trace.num_rows("slice") > 10


@pytest.mark.filterwarnings("ignore:.*script_method.*is deprecated:DeprecationWarning")
def test_a_compiled_step_breaks_no_graph(tmp_path):
    """As many graphs with the hook as without."""
    import torch._dynamo

    graphs = []

    def backend(graph, inputs):
        graphs.append(graph)
        return graph.forward

    def run(record):
        torch._dynamo.reset()
        graphs.clear()
        net = torch.nn.Linear(4, 4)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

        @torch.compile(backend=backend)
        def step():
            optimizer.step()

        with record:
            for _ in range(3):
                net(torch.ones(2, 4)).sum().backward()
                step()
        return len(graphs)

    from contextlib import nullcontext

    without = run(nullcontext())
    assert without >= 1
    assert run(profsuite.profile(tmp_path / "run", memory=True, **DEEP)) == without


def test_a_forked_child_notes_nothing(tmp_path, net):
    import os

    optimizer = adam(net)
    with profsuite.profile(tmp_path / "run", memory=True, **DEEP) as prof:
        train(net, optimizer)
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                before = len(prof._roles._found)
                with torch.no_grad():
                    for p in net.parameters():
                        p.grad = torch.ones_like(p)
                optimizer.step()
                code = int(len(prof._roles._found) != before)
            finally:
                os._exit(code)
        assert os.waitpid(pid, 0) == (pid, 0)


def test_ignored_with_the_recorder(tmp_path, net):
    with pytest.warns(ProfsuiteWarning, match="memory=True is ignored"):
        prof = profsuite.profile(tmp_path / "run", memory=True, engine="recorder", channels=())
    with prof:
        train(net, adam(net))
    assert rows(prof) == []


def test_they_stay_known_in_a_part_of_the_trace(tmp_path, net):
    optimizer = adam(net)
    with profsuite.profile(tmp_path / "run", memory=True, **DEEP) as prof:
        for _ in range(4):
            train(net, optimizer)
            prof.step()
    part = profsuite.load(tmp_path / "run", steps=(2, 3))
    found = part.table("tensor").to_pylist()
    assert len([row for row in found if row["role"] == "parameter"]) == 5
    assert len([row for row in found if row["role"] == "gradient"]) == 15
    assert len(rows(prof, "gradient")) == 20


SHARDED = """
import json, sys, torch, torch.distributed as dist, profsuite
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
rank, path, out = int(sys.argv[1]), sys.argv[2], sys.argv[3]
dist.init_process_group("gloo", init_method="file://" + path, rank=rank, world_size=2)
net = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Linear(8, 2))
for layer in (*net, net):
    fully_shard(layer, mesh=init_device_mesh("cpu", (2,)))
optimizer = torch.optim.AdamW(net.parameters(), foreach=False)
with profsuite.profile(out, engine="kineto", channels=(), memory=True, rank=rank) as prof:
    net(torch.ones(4, 8)).sum().backward()
    optimizer.step()
expected = [[name, p.to_local().untyped_storage().data_ptr(), p.to_local().untyped_storage().nbytes()]
            for name, p in net.named_parameters()]
print(json.dumps([expected, prof.trace.table("tensor").to_pylist()]))
dist.barrier()
dist.destroy_process_group()
"""


@pytest.mark.skipif(not torch.distributed.is_available(), reason="torch without distributed")
def test_shards_are_what_a_rank_holds(tmp_path):
    command = [sys.executable, "-W", "ignore", "-c", SHARDED]
    ranks = [
        subprocess.Popen([*command, str(rank), str(tmp_path / "store"), str(tmp_path / "run")], stdout=subprocess.PIPE)
        for rank in range(2)
    ]
    for process in ranks:
        expected, found = json.loads(process.communicate(timeout=300)[0].splitlines()[-1])
        seen = [[row["name"], row["address"], row["bytes"]] for row in found if row["role"] == "parameter"]
        assert sorted(seen) == sorted(expected)
        assert len([row for row in found if row["role"] == "gradient"]) == 4
        assert len([row for row in found if row["name"] == "exp_avg"]) == 4
