"""A small training run on the CPU, recorded: ``python examples/train_small.py``.

A character-level language model on text that it makes up: two transformer layers, AdamW, and a loader that has to
work for each batch.  Takes some seconds.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator

import torch
from torch import nn

import profsuite

WORDS = ("the", "kernel", "waits", "for", "loader", "and", "disk", "while", "a", "stream", "stays", "idle")


class Text(torch.utils.data.Dataset[tuple[torch.Tensor, torch.Tensor]]):
    """Sentences of random words as characters, and the same one character on."""

    def __init__(self, num_samples: int, length: int) -> None:
        self.num_samples, self.length = num_samples, length

    def __len__(self) -> int:
        return self.num_samples

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        random = torch.Generator().manual_seed(index)
        text = ""
        while len(text) <= self.length:
            text += WORDS[int(torch.randint(len(WORDS), (1,), generator=random))] + " "
        codes = torch.tensor([ord(c) for c in text[: self.length + 1]])
        return codes[:-1], codes[1:]


class Model(nn.Module):
    """Characters in, scores of the next one out."""

    def __init__(self, width: int, layers: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(128, width)
        layer = nn.TransformerEncoderLayer(width, 4, 4 * width, batch_first=True, norm_first=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of nested tensors, which norm_first does without
            self.layers = nn.TransformerEncoder(layer, layers)
        self.head = nn.Linear(width, 128)

    def forward(self, codes: torch.Tensor) -> torch.Tensor:
        """Scores, (batch, length, 128)."""
        mask = nn.Transformer.generate_square_subsequent_mask(codes.shape[1])
        scores: torch.Tensor = self.head(self.layers(self.embedding(codes), mask=mask, is_causal=True))
        return scores


def batches(
    loader: torch.utils.data.DataLoader[tuple[torch.Tensor, torch.Tensor]],
) -> Iterator[tuple[torch.Tensor, ...]]:
    """Batches without end."""
    while True:
        yield from loader


def main() -> None:
    """Train, and record the steps from the sixth on."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--output", default="runs/train_small")
    options = parser.parse_args()
    # Small matrices gain nothing from more threads, and a shared machine would lose by them.
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = Model(width=96, layers=2)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    data = batches(torch.utils.data.DataLoader(Text(256, 64), batch_size=16, shuffle=True))
    plan = profsuite.schedule(skip_first=4, warmup=1, active=options.steps - 5, repeat=1)
    with profsuite.profile(options.output, schedule=plan, memory=True) as prof:
        for step in range(options.steps):
            codes, following = next(data)
            with torch.profiler.record_function("forward"):
                loss = nn.functional.cross_entropy(model(codes).flatten(0, 1), following.flatten())
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            if step % 10 == 0:
                print(f"step {step}: loss {loss.item():.2f}")
            prof.step()
    print(f"recorded {prof.folder}")


if __name__ == "__main__":
    main()
