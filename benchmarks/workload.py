"""The training that window.py and its children record: steps of a small transformer, all of them alike."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import torch


def training(layers: int) -> Callable[[], None]:
    """One step: forward, backward, AdamW; it has run once."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(64, 4, 128, batch_first=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = torch.nn.TransformerEncoder(layer, layers)
    optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
    batch = torch.randn(2, 16, 64)

    def step() -> None:
        model(batch).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()

    step()
    return step
