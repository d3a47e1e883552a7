"""A loop on Hugging Face Accelerate under profsuite.

python examples/accelerate_loop.py [folder]
accelerate launch examples/accelerate_loop.py [folder]
torchrun --nproc-per-node 2 examples/accelerate_loop.py [folder]
"""

from __future__ import annotations

import sys

import torch
from accelerate import Accelerator

import profsuite


def main(path: str) -> None:
    accelerator = Accelerator(cpu=not torch.cuda.is_available())
    data = torch.utils.data.TensorDataset(torch.randn(64, 16), torch.randn(64, 1))
    model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 1))
    optimizer = torch.optim.AdamW(model.parameters())
    loader = torch.utils.data.DataLoader(data, batch_size=8)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)

    # Every process records itself: one folder, one rank each.
    with profsuite.profile(path, schedule="2:6") as prof:
        for inputs, targets in loader:
            loss = torch.nn.functional.mse_loss(model(inputs), targets)
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
            prof.step()

    if accelerator.is_main_process:
        print(prof.folder)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "runs/accelerate")
