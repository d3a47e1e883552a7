#!/usr/bin/env python3
"""What share of an optimizer's steps on the CPU remains with fused=True: the factors of the finding on such optimizers.

Prints, for every optimizer with a fused update on CPUs and its usual settings, the processor time of a step with
fused=True over that of one with foreach=False: the median step of each, the two in turn, for models of many small
parameters up to few large ones.  The largest of an optimizer's is what analyzers/findings/savings.py takes.
"""

from __future__ import annotations

import argparse
import statistics
import time
from typing import Any

import torch
from torch import nn

SIZES = ((64, 60), (256, 30), (512, 16), (1024, 6), (2048, 2))
"""Width of square linear layers, and how many of them."""
SETTINGS: dict[str, tuple[dict[str, Any], ...]] = {
    "Adam": ({}, {"weight_decay": 0.01}, {"amsgrad": True}),
    "AdamW": ({}, {"amsgrad": True}),
    "SGD": ({}, {"momentum": 0.9}, {"momentum": 0.9, "weight_decay": 0.01}, {"momentum": 0.9, "nesterov": True}),
    "Adagrad": ({}, {"weight_decay": 0.01}),
}
SETTLE = 3


def stepping(kind: str, width: int, layers: int, **settings: Any) -> torch.optim.Optimizer:
    """An optimizer whose parameters have gradients."""
    model = nn.Sequential(*(nn.Linear(width, width) for _ in range(layers)))
    for parameter in model.parameters():
        parameter.grad = torch.randn_like(parameter)
    optimizer: torch.optim.Optimizer = getattr(torch.optim, kind)(model.parameters(), lr=1e-4, **settings)
    return optimizer


def share(kind: str, width: int, layers: int, steps: int, settings: dict[str, Any]) -> tuple[float, float]:
    """ms of a step one by one, and the share of it that a fused step takes."""
    sides = [stepping(kind, width, layers, **settings, **how) for how in ({"foreach": False}, {"fused": True})]
    took: tuple[list[int], list[int]] = ([], [])
    for number in range(SETTLE + steps):
        for optimizer, times in zip(sides, took, strict=True):
            begin = time.thread_time_ns()
            optimizer.step()
            if number >= SETTLE:
                times.append(time.thread_time_ns() - begin)
    before, after = (statistics.median(times) for times in took)
    return before / 1e6, after / before


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--steps", type=int, default=21, help="steps of each that count")
    steps = parser.parse_args().steps
    torch.set_num_threads(1)
    print(f"{'optimizer':<46}{'layers':<14}{'one by one, ms':>15}{'fused, share':>14}")
    for kind, variants in SETTINGS.items():
        found = []
        for settings in variants:
            for width, layers in SIZES:
                before, left = share(kind, width, layers, steps, settings)
                found.append(left)
                name = f"{kind}({', '.join(f'{key}={value}' for key, value in settings.items())})"
                print(f"{name:<46}{f'{layers} of {width}':<14}{before:>15.3f}{left:>14.2f}", flush=True)
        print(f"{kind:<60}{'least to most':>15}{f'{min(found):.2f} to {max(found):.2f}':>14}")


if __name__ == "__main__":
    main()
