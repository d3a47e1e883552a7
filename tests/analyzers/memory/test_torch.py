"""Memory of real recordings, held to torch's own account and to a replay in plain Python."""

from __future__ import annotations

import pytest

from profsuite.analyzers.memory.trace import trace_memory
from profsuite.trace.load import load

torch = pytest.importorskip("torch")


def transformer(accumulate=False):
    """A small transformer with its optimizer, after one step: optimizer state is there, and gradients to add to."""
    torch.manual_seed(0)
    nn = torch.nn

    class Block(nn.Module):
        def __init__(self, width, heads):
            super().__init__()
            self.before, self.after = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
            self.heads = heads

        def forward(self, x):
            batch, length, width = x.shape
            qkv = self.qkv(self.before(x)).view(batch, length, 3, self.heads, width // self.heads)
            q, k, v = qkv.permute(2, 0, 3, 1, 4)
            scores = (q @ k.transpose(-1, -2) / (width // self.heads) ** 0.5).softmax(-1)
            x = x + self.out((scores @ v).transpose(1, 2).reshape(batch, length, width))
            return x + self.down(nn.functional.gelu(self.up(self.after(x))))

    class Transformer(nn.Module):
        def __init__(self, words=256, width=64, depth=2):
            super().__init__()
            self.embed = nn.Embedding(words, width)
            self.blocks = nn.ModuleList(Block(width, 4) for _ in range(depth))
            self.head = nn.Linear(width, words)

        def forward(self, x):
            x = self.embed(x)
            for block in self.blocks:
                x = block(x)
            return self.head(x)

    model = Transformer()
    optimizer = torch.optim.AdamW(model.parameters())
    step(model, optimizer, 2, zero=not accumulate)
    return model, optimizer


def step(model, optimizer, batch, zero=True):
    x = torch.randint(0, 256, (batch, 32))
    torch.nn.functional.cross_entropy(model(x).flatten(0, 1), x.flatten()).backward()
    optimizer.step()
    if zero:
        optimizer.zero_grad()


@pytest.fixture(scope="module")
def kineto(tmp_path_factory):
    """A trace that torch.profiler wrote, two steps with stacks."""
    from torch.profiler import profile, schedule

    path = tmp_path_factory.mktemp("kineto") / "trace.json"
    model, optimizer = transformer()
    with profile(
        profile_memory=True, with_stack=True, with_modules=True, record_shapes=True,
        schedule=schedule(wait=0, warmup=1, active=2, repeat=1),
        on_trace_ready=lambda prof: prof.export_chrome_trace(str(path)),
    ) as prof:  # fmt: skip
        for _ in range(3):
            step(model, optimizer, 2)
            prof.step()
    return load(path, cache=False)


@pytest.fixture(scope="module", params=[False, True], ids=["fresh", "accumulated"])
def recorded(request, tmp_path_factory):
    """A step that the collector recorded, with gradients made in it or added to those of a step before."""
    import profsuite

    model, optimizer = transformer(request.param)
    with profsuite.profile(tmp_path_factory.mktemp("run") / "r", memory=True, channels=()) as prof:
        step(model, optimizer, 8)
        prof.step()
    return request.param, profsuite.load(prof.folder)


def replay(trace):
    """The peak and the last level, from a dictionary of what is alive, in bytes."""
    rows = trace.table("memory_event").sort_by("ts").to_pylist()
    alive, level, peak = {}, 0, 0
    for row in rows:
        if row["bytes"] > 0:
            level += row["bytes"] - alive.pop(row["address"], 0)
            alive[row["address"]] = row["bytes"]
        elif (taken := alive.pop(row["address"], None)) is not None:
            assert taken == -row["bytes"]
            level -= taken
        peak = max(peak, level)
    return peak, level


def test_the_sum_of_the_allocations_is_torch_s_total(kineto):
    rows = kineto.table("memory_event").sort_by("ts").to_pylist()
    (device,) = trace_memory(kineto).devices
    assert device.num_breaks == 0
    counted = rows[0]["total_allocated_bytes"] - rows[0]["bytes"]
    assert counted + sum(row["bytes"] for row in rows) == rows[-1]["total_allocated_bytes"] == device.end_bytes
    assert device.peak.allocated_bytes == max(row["total_allocated_bytes"] for row in rows)


def test_the_peak_is_that_of_a_replay(kineto):
    (device,) = trace_memory(kineto).devices
    peak, end = replay(kineto)
    assert (device.peak.allocated_bytes - device.before_bytes, device.end_bytes - device.before_bytes) == (peak, end)
    assert device.peak.unseen_bytes == device.before_bytes
    for by in (device.peak.by_op, device.peak.by_module, device.peak.by_frame):
        assert sum(share.bytes for share in by) == peak


def test_modules_and_lines_are_those_of_the_program(kineto):
    (device,) = trace_memory(kineto, top=50).devices
    modules = {share.name for share in device.peak.by_module}
    assert any(name and name.startswith("Linear_") for name in modules)
    assert any(share.name and "test_torch.py(" in share.name for share in device.peak.by_frame)


def test_categories_are_those_of_torch_s_memory_tracker(recorded):
    """Of what MemTracker tells apart by hooks on modules, optimizer and autograd, within 2 % at the peak."""
    mem_tracker = pytest.importorskip("torch.distributed._tools.mem_tracker")
    accumulate, trace = recorded
    model, optimizer = transformer(accumulate)
    tracker = mem_tracker.MemTracker()
    tracker.track_external(model, optimizer)
    with tracker:
        step(model, optimizer, 8)
    told = {str(kind): size for kind, size in tracker.get_tracker_snapshot("peak")[torch.device("cpu")].items()}
    told = {key.rpartition(".")[2].rstrip(">").lower(): value for key, value in told.items()}

    (device,) = trace_memory(trace).devices
    peak = {share.name: share.bytes for share in device.peak.by_category}
    assert device.peak.allocated_bytes == pytest.approx(told["total"], rel=0.02)
    for ours, theirs in {
        "parameter": "param",
        "optimizer_state": "opt",
        "gradient": "grad",
        "activation": "act",
    }.items():
        assert peak.get(ours, 0) == pytest.approx(told[theirs], rel=0.02, abs=4096), ours
    assert all(told[kind] > 0 for kind in ("param", "opt", "act"))
    assert (told["grad"] > 0) == accumulate
