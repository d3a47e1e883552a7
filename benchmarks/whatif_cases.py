"""Changes that people make to training programs: the step before, the step after, and the edit that stands for it.

Each function makes a ``Change``.  A factor is the time of a part alone, after over before; ``Part`` holds the two.
Parts of the model are annotated in the program before, as its owner would have to do; ops go by their own names.
"""

from __future__ import annotations

import functools
import gc
import os
import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from time import perf_counter_ns
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset

import profsuite

Step = Callable[[], object]


@dataclass(frozen=True, slots=True)
class Part:
    """What a pattern of an edit names, alone: one call before the change, one after it.

    ``meanwhile`` comes before each call after the change, and is not timed.  A call that returns an integer says by
    itself how long it took, ns.
    """

    before: Step
    after: Step
    meanwhile: Step | None = None


@dataclass(frozen=True, slots=True)
class Change:
    """One step of the program, before and after.

    The edit is ``flags`` (of ``profsuite.analyzers.whatif.edits.Edit``), ``removed`` patterns, and the ``parts``
    whose factors are measured.  ``crowded``: threads of the program's own share the cores, so a thread that waits
    for one is not disturbed.
    """

    before: Step
    after: Step
    removed: tuple[str, ...] = ()
    parts: dict[str, Part] = field(default_factory=dict)
    flags: dict[str, bool] = field(default_factory=dict)
    crowded: bool = False


def twice(make: Callable[[], nn.Module]) -> tuple[nn.Module, nn.Module]:
    """Two modules with the same parameters."""
    torch.manual_seed(0)
    first = make()
    second = make()
    second.load_state_dict(first.state_dict())
    return first, second


def training(
    model: nn.Module, optimizer: torch.optim.Optimizer, inputs: Tensor, keep: bool = False, last: Step | None = None
) -> Step:
    """An ordinary step; ``last`` runs after the optimizer's; ``keep`` keeps gradients as zeros."""

    def step() -> None:
        optimizer.zero_grad(set_to_none=not keep)
        model(inputs).square().mean().backward()
        optimizer.step()
        if last is not None:
            last()

    return step


def there_and_back(
    part: Callable[..., Tensor], *inputs: Tensor, parameters: Iterator[nn.Parameter] | None = None
) -> Callable[[], int]:
    """The time of forward and backward of a part alone, each with caches as cold as the rest of a step leaves them."""
    leaves = [tensor.detach().requires_grad_() for tensor in inputs]
    weights = list(parameters or ())
    gradient = torch.ones_like(part(*leaves)) / 1000
    others = torch.zeros(2 << 20)  # 8 MB

    def step() -> int:
        for tensor in (*leaves, *weights):
            tensor.grad = None
        others.sum()
        start = perf_counter_ns()
        result = part(*leaves)
        took = perf_counter_ns() - start
        others.sum()
        start = perf_counter_ns()
        result.backward(gradient)
        return took + perf_counter_ns() - start

    return step


def with_gradients(model: nn.Module) -> nn.Module:
    """A copy of a model's shapes whose parameters all have a gradient."""
    for parameter in model.parameters():
        parameter.grad = torch.full_like(parameter, 1e-4)
    return model


# ---------------------------------------------------------------- one process
def encoder() -> nn.Module:
    layer = nn.TransformerEncoderLayer(64, 4, 128, dropout=0.0, batch_first=True)
    return nn.TransformerEncoder(layer, 10, enable_nested_tensor=False)


def optimizer_case(**after: bool) -> Change:
    models, alone = twice(encoder), twice(encoder)
    inputs = torch.randn(2, 32, 64)
    kinds: tuple[dict[str, bool], dict[str, bool]] = ({"foreach": False}, after)
    steps = [
        training(m, torch.optim.Adam(m.parameters(), **kind), inputs) for m, kind in zip(models, kinds, strict=True)
    ]
    only = [torch.optim.Adam(with_gradients(m).parameters(), **kind).step for m, kind in zip(alone, kinds, strict=True)]
    return Change(*steps, parts={"host:Optimizer.step#Adam.step": Part(*only)})


def foreach_optimizer() -> Change:
    """Adam(foreach=False) becomes foreach=True."""
    return optimizer_case(foreach=True)


def fused_optimizer() -> Change:
    """Adam(foreach=False) becomes fused=True."""
    return optimizer_case(fused=True)


def written_attention(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    scores = query @ key.transpose(-1, -2) / query.shape[-1] ** 0.5
    return torch.softmax(scores, -1) @ value


def attend(attention: Callable[[Tensor, Tensor, Tensor], Tensor], projected: Tensor, heads: int = 4) -> Tensor:
    """From queries, keys and values side by side to the heads' results side by side."""
    batch, length, size = projected.shape
    query, key, value = projected.view(batch, length, 3, heads, -1).permute(2, 0, 3, 1, 4).unbind(0)
    return attention(query, key, value).transpose(1, 2).reshape(batch, length, size // 3)


class Block(nn.Module):
    """Attention and a perceptron, residual."""

    def __init__(self, attention: Callable[[Tensor, Tensor, Tensor], Tensor], size: int = 128) -> None:
        super().__init__()
        self.attention = attention
        self.project, self.out = nn.Linear(size, 3 * size), nn.Linear(size, size)
        self.mlp = nn.Sequential(nn.Linear(size, 2 * size), nn.GELU(), nn.Linear(2 * size, size))

    def forward(self, x: Tensor) -> Tensor:
        projected = self.project(x)
        with profsuite.annotate("attention"):
            mixed = attend(self.attention, projected)
        x = x + self.out(mixed)
        return x + self.mlp(x)


def fused_attention() -> Change:
    """softmax(QK^T)V written out becomes scaled_dot_product_attention; what the two do to strides is part of it."""
    kinds = (written_attention, functional.scaled_dot_product_attention)
    models = [twice(lambda kind=kind: nn.Sequential(Block(kind), Block(kind)))[0] for kind in kinds]
    inputs = torch.randn(2, 256, 128)
    steps = [training(m, torch.optim.SGD(m.parameters(), 1e-3), inputs) for m in models]
    projected = torch.randn(2, 256, 3 * 128)
    parts = [there_and_back(functools.partial(attend, kind), projected) for kind in kinds]
    return Change(*steps, parts={"both:attention": Part(*parts)})


class Perceptron(nn.Module):
    """Layers around a part whose width changes."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(256, 256), nn.Linear(256, 256)
        self.mlp = nn.Sequential(nn.Linear(256, width), nn.ReLU(), nn.Linear(width, 256))

    def forward(self, x: Tensor) -> Tensor:
        x = functional.relu(self.first(x))
        with profsuite.annotate("mlp"):
            x = self.mlp(x)
        return self.last(x)  # type: ignore[no-any-return]


def narrower_mlp() -> Change:
    """The hidden layer of a perceptron from 1024 to 512."""
    inputs = torch.randn(256, 256)
    steps, parts, updates = [], [], []
    for width in (1024, 512):
        model = Perceptron(width)
        steps.append(training(model, torch.optim.SGD(model.parameters(), 1e-3, momentum=0.9), inputs))
        part = Perceptron(width).mlp
        parts.append(there_and_back(part, torch.randn(256, 256), parameters=part.parameters()))
        updates.append(torch.optim.SGD(with_gradients(Perceptron(width)).parameters(), 1e-3, momentum=0.9).step)
    return Change(*steps, parts={"both:mlp": Part(*parts), "host:Optimizer.step#SGD.step": Part(*updates)})


class Convolutions(nn.Module):
    """A stem, two convolutions whose width changes, a head."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.stem, self.head = nn.Conv2d(3, 32, 3, padding=1), nn.Linear(32, 10)
        self.body = nn.Sequential(
            nn.Conv2d(32, width, 3, padding=1), nn.ReLU(), nn.Conv2d(width, 32, 3, padding=1), nn.ReLU()
        )

    def forward(self, x: Tensor) -> Tensor:
        x = functional.relu(self.stem(x))
        with profsuite.annotate("body"):
            x = self.body(x)
        return self.head(x.mean((2, 3)))  # type: ignore[no-any-return]


def narrower_convolutions() -> Change:
    """The channels between two convolutions from 64 to 32."""
    inputs = torch.randn(8, 3, 32, 32)
    steps, parts = [], []
    for width in (64, 32):
        model = Convolutions(width)
        steps.append(training(model, torch.optim.SGD(model.parameters(), 1e-3), inputs))
        part = Convolutions(width).body
        parts.append(there_and_back(part, torch.randn(8, 32, 32, 32), parameters=part.parameters()))
    return Change(*steps, parts={"both:body": Part(*parts)})


class Images(Dataset[Tensor]):
    """Noise, costly to prepare."""

    def __len__(self) -> int:
        return 1_000_000

    def __getitem__(self, index: int) -> Tensor:
        image = torch.rand(3, 64, 64)
        for _ in range(2):
            image = functional.interpolate(image[None], scale_factor=1.1, mode="bilinear")[0][:, :64, :64]
            image = (image - image.mean()) / image.std()
        return image


def on_other_cores(mine: set[int], _worker: int) -> None:
    torch.set_num_threads(1)
    if mine and len(mine) < (os.cpu_count() or 1):
        os.sched_setaffinity(0, set(range(os.cpu_count() or 1)) - mine)


def loader_worker() -> Change:
    """DataLoader(num_workers=0) becomes num_workers=1, on another core.

    Batches go by files of shared memory: by file descriptors, torch's default, the worker has to answer for each, and
    takes its time while it prepares the next.
    """
    mine = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set()
    torch.multiprocessing.set_sharing_strategy("file_system")
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(3, 24, 3, stride=2),
        nn.ReLU(),
        nn.Conv2d(24, 32, 3, stride=2),
        nn.ReLU(),
        nn.Flatten(1),
        nn.LazyLinear(10),
    )
    optimizer = torch.optim.SGD(model.parameters(), 1e-4)
    options: tuple[dict[str, Any], ...] = (
        {},
        {"num_workers": 1, "worker_init_fn": functools.partial(on_other_cores, mine)},
    )

    def step_of(batches: Iterator[Tensor]) -> Step:
        def step() -> None:
            use(next(batches))

        return step

    def use(batch: Tensor) -> None:
        optimizer.zero_grad()
        model(batch).square().mean().backward()
        optimizer.step()

    def loaders() -> list[Iterator[Tensor]]:
        return [iter(DataLoader(Images(), batch_size=32, **option)) for option in options]

    image = torch.rand(32, 3, 64, 64)
    used = []
    for _ in range(10):
        start = perf_counter_ns()
        use(image)
        used.append(perf_counter_ns() - start)
    rest = statistics.median(used)

    def meanwhile() -> None:
        """As long as the rest of a step takes, the main thread keeps its core."""
        until = perf_counter_ns() + rest
        while perf_counter_ns() < until:
            pass

    alone = [functools.partial(next, batches) for batches in loaders()]
    return Change(
        *map(step_of, loaders()),
        parts={"input": Part(alone[0], alone[1], meanwhile=meanwhile)},
        crowded=True,
    )


def no_norms() -> Change:
    """Every gradient's norm is no longer brought to Python by .item()."""
    models = twice(encoder)
    inputs = torch.randn(2, 32, 64)
    log: dict[int, float] = {}

    def norms() -> None:
        with profsuite.annotate("norms"):
            for number, parameter in enumerate(models[0].parameters()):
                assert parameter.grad is not None
                log[number] = parameter.grad.norm().item() / (parameter.norm().item() + 1e-6)

    optimizers = [torch.optim.SGD(m.parameters(), 1e-3, foreach=True) for m in models]
    return Change(
        training(models[0], optimizers[0], inputs, last=norms),
        training(models[1], optimizers[1], inputs),
        removed=("host:norms",),
    )


def wide() -> nn.Module:
    return nn.Sequential(*(nn.Linear(640, 640) for _ in range(12)))


def gradients_to_none() -> Change:
    """zero_grad(set_to_none=False) becomes True: no filling of 20 MB with zeros, no adding to them."""
    models = twice(wide)
    inputs = torch.randn(16, 640)
    steps = [
        training(m, torch.optim.SGD(m.parameters(), 1e-4), inputs, keep=keep)
        for m, keep in zip(models, (True, False), strict=True)
    ]
    alone = with_gradients(wide())
    zeros = torch.optim.SGD(alone.parameters(), 1e-4)
    return Change(
        *steps,
        removed=("host:torch::autograd::AccumulateGrad",),
        parts={
            "host:Optimizer.zero_grad#SGD.zero_grad": Part(
                lambda: zeros.zero_grad(set_to_none=False),
                torch.optim.SGD(wide().parameters(), 1e-4).zero_grad,
            )
        },
    )


def no_collection() -> Change:
    """gc.collect() is no longer called in every step."""
    models = twice(encoder)
    inputs = torch.randn(2, 32, 64)
    samples: list[Any] = []
    steps = [
        training(m, torch.optim.SGD(m.parameters(), 1e-3), inputs, last=last)
        for m, last in zip(models, (lambda: gc.collect() and len(samples), None), strict=True)
    ]
    steps[1]()  # imports what it needs
    gc.collect()
    gc.freeze()  # a heap of samples, not of torch's modules
    samples += [{"text": [number]} for number in range(30_000)]
    return Change(*steps, removed=("gc",))


class Converting(nn.Module):
    """Layers of which each takes a detour through float64."""

    def __init__(self, convert: bool) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(128, 128) for _ in range(8))
        self.convert = convert

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = functional.relu(layer(x))
            if self.convert:
                x = x.double().float()
        return x


def no_conversions() -> Change:
    """Activations no longer go to float64 and back."""
    torch.manual_seed(0)
    inputs = torch.randn(1024, 128)
    models = [Converting(convert) for convert in (True, False)]
    return Change(
        *(training(m, torch.optim.SGD(m.parameters(), 1e-3), inputs) for m in models), removed=("both:aten::to",)
    )


# ---------------------------------------------------------------- two ranks
def layers(count: int) -> nn.Module:
    return nn.Sequential(*(m for _ in range(count) for m in (nn.Linear(128, 128), nn.ReLU())))


def larger_buckets() -> Change:
    """DistributedDataParallel(bucket_cap_mb=0.05) becomes 25, over Gloo."""
    inputs = torch.randn(32, 128)
    models = [
        DistributedDataParallel(m, bucket_cap_mb=cap)
        for m, cap in zip(twice(lambda: layers(32)), (0.05, 25), strict=True)
    ]
    steps = [training(m, torch.optim.SGD(m.parameters(), 1e-3, foreach=True), inputs) for m in models]
    for step in steps:
        for _ in range(3):  # the second builds the buckets anew
            step()

    def reduce(model: DistributedDataParallel) -> Step:
        sizes = str(model._get_ddp_logging_data()["rebuilt_bucket_sizes"]).split(",")
        buckets = [torch.zeros(int(size) // 4) for size in sizes]

        def step() -> None:
            for work in [dist.all_reduce(bucket, async_op=True) for bucket in buckets]:
                work.wait()

        return step

    return Change(*steps, parts={"comm": Part(*(reduce(m) for m in models))}, crowded=True)


def no_metric_reduction() -> Change:
    """A per-class metric is no longer summed over the ranks, and waited for, in every step."""
    models = twice(lambda: layers(24))
    inputs = torch.randn(256, 128)
    metric = torch.zeros(250_000)

    def reduce() -> float:
        with profsuite.annotate("metric"):
            dist.all_reduce(metric, async_op=True).wait()
            return metric[0].item()

    optimizers = [torch.optim.SGD(m.parameters(), 1e-3, foreach=True) for m in models]
    return Change(
        training(models[0], optimizers[0], inputs, last=reduce),
        training(models[1], optimizers[1], inputs),
        removed=("host:metric",),
        flags={"no_comm": True},
        crowded=True,
    )


CHANGES: dict[str, Callable[[], Change]] = {
    "foreach optimizer": foreach_optimizer,
    "fused optimizer": fused_optimizer,
    "fused attention": fused_attention,
    "half the width, MLP": narrower_mlp,
    "half the channels, conv": narrower_convolutions,
    "a loader worker": loader_worker,
    "no norms by .item()": no_norms,
    "gradients set to None": gradients_to_none,
    "no gc.collect()": no_collection,
    "no detour by float64": no_conversions,
    "larger DDP buckets": larger_buckets,
    "no metric all-reduce": no_metric_reduction,
}
RANKS = {"larger DDP buckets": 2, "no metric all-reduce": 2}
"""Changes of jobs with more than one rank."""
