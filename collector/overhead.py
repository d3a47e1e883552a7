"""What recording costs an event, measured in the run itself, after it."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any, Final

ROUNDS: Final = 9
WIDTH: Final = 16


def event_cost_ns(start: Callable[[], Any], stop: Callable[[], int]) -> float:
    """ns that an event takes longer while ``start`` … ``stop`` records: the median of rounds, at least 0.

    ``stop`` gives the number of events that were recorded.  A round is a small training step on the CPU, forward,
    backward and update, of some hundred events: a loop of one op would stay in the processor's caches, and cost a
    fraction of what ops cost in training.  Takes some tens of milliseconds, draws no random numbers, and touches no
    gradient of the program's.
    """
    import torch

    with torch.enable_grad():
        step = _step(torch)

        def timed() -> int:
            # Time of this thread's processor: others on the machine do not count.
            begin = time.thread_time_ns()
            step()
            return time.thread_time_ns() - begin

        timed()
        bare = [timed() for _ in range(ROUNDS)]
        start()
        try:
            timed()  # the first events pay for memory
            recorded = [timed() for _ in range(ROUNDS)]
        finally:
            num = stop()
        bare += [timed() for _ in range(ROUNDS)]
    if not num:
        return 0.0
    added = statistics.median(recorded) - statistics.median(bare)
    return max(0.0, added / (num / (ROUNDS + 1)))


def _step(torch: Any) -> Callable[[], None]:
    """A step of two layers with attention, of ops as models have them; its tensors are its own."""
    functional = torch.nn.functional
    options = {"dtype": torch.float32, "device": "cpu"}

    def make(*shape: int) -> Any:
        size = torch.Size(shape).numel()
        return torch.linspace(-0.1, 0.1, size, **options).reshape(shape)

    layers = [[make(3 * WIDTH, WIDTH), make(3 * WIDTH), make(WIDTH, WIDTH), make(WIDTH), make(WIDTH)] for _ in range(2)]
    parameters = [parameter.requires_grad_() for layer in layers for parameter in layer]
    moments = [torch.zeros_like(parameter) for parameter in parameters]
    batch = make(2, 4, WIDTH)

    def step() -> None:
        x = batch
        for joint, bias, weight, shift, scale in layers:
            query, key, value = functional.linear(x, joint, bias).chunk(3, dim=-1)
            weights = torch.softmax(torch.bmm(query, key.transpose(1, 2)) / 4, dim=-1)
            y = functional.linear(torch.bmm(weights, value), weight, shift)
            x = functional.layer_norm(x + functional.gelu(y), (WIDTH,), scale)
        gradients = torch.autograd.grad(x.square().mean(), parameters)
        with torch.no_grad():
            for parameter, gradient, moment in zip(parameters, gradients, moments, strict=True):
                moment.mul_(0.9).add_(gradient, alpha=0.1)
                parameter.addcdiv_(moment, moment.abs().sqrt().add_(1e-3), value=-1e-6)

    return step
