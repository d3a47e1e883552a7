"""Record the sample traces: small CPU runs of real PyTorch, and GPU jobs from the generator.

    python sample_traces/record.py            # needs torch (recorded with 2.13.0)

The recordings are real, so times differ from run to run; the facts in README.md are those of the files
in this folder, and tests/test_sample_traces.py checks them.
"""

from __future__ import annotations

import gzip
import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
GENERATOR = HERE.parent / "benchmarks" / "gen_trace.py"


def keep(source: Path, name: str) -> None:
    """Compress a trace into this folder, without the names of the machine and its folders."""
    text = source.read_text()
    text = re.sub(r'"(host_name|username|traceName)": "[^"]*"', r'"\1": "sample"', text)
    text = re.sub(r'(?<=")[^"]*/(?=(?:torch|sample_traces)/)', "", text)
    text = re.sub(r'(?<=")[^"]*/(?=(?:lib/)?python3\.\d+/)', "", text)
    json.loads(text)
    with (HERE / name).open("wb") as file, gzip.GzipFile("", "wb", 9, file, mtime=0) as packed:
        packed.write(text.encode())
    print(name, (HERE / name).stat().st_size)


def training_loop(folder: Path) -> None:
    """A small transformer trained on the CPU, with a DataLoader that is slow on purpose."""
    import time

    import torch
    from torch import nn
    from torch.profiler import ProfilerActivity, profile, schedule
    from torch.utils.data import DataLoader, Dataset

    class Slow(Dataset[tuple[torch.Tensor, torch.Tensor]]):
        def __len__(self) -> int:
            return 64

        def __getitem__(self, i: int) -> tuple[torch.Tensor, torch.Tensor]:
            time.sleep(0.001)  # decoding
            return torch.randn(16, 32), torch.randn(16, 32)

    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = nn.TransformerEncoder(nn.TransformerEncoderLayer(32, 2, 64, batch_first=True), 2)
    optimizer = torch.optim.AdamW(model.parameters())
    options = {"record_shapes": True, "profile_memory": True, "with_stack": True}
    with profile(activities=[ProfilerActivity.CPU], schedule=schedule(wait=1, warmup=1, active=3), **options) as prof:
        for batch, target in DataLoader(Slow(), batch_size=8):
            loss = nn.functional.mse_loss(model(batch), target)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            prof.step()
            if prof.step_num == 5:
                break
    prof.export_chrome_trace(str(folder / "train.json"))
    keep(folder / "train.json", "cpu_train_slow_input.json.gz")


def compiled(folder: Path) -> None:
    """A compiled function on the CPU, first call included."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    torch.manual_seed(0)
    torch.set_num_threads(1)

    @torch.compile
    def block(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.gelu(x @ w) + x

    x, w = torch.randn(256, 256), torch.randn(256, 256)
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as prof:
        for _ in range(4):
            block(x, w)
    prof.export_chrome_trace(str(folder / "compiled.json"))
    keep(folder / "compiled.json", "cpu_compiled.json.gz")


def worker(rank: int, folder: str) -> None:
    """One rank of a data-parallel job over gloo."""
    import os

    import torch
    from torch import distributed, nn
    from torch.nn.parallel import DistributedDataParallel
    from torch.profiler import ProfilerActivity, profile, schedule

    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29533"}
    torch.manual_seed(0)
    torch.set_num_threads(1)
    distributed.init_process_group("gloo", rank=rank, world_size=2)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 64)))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    plan = schedule(wait=1, warmup=1, active=3)
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True, schedule=plan) as prof:
        for _ in range(5):
            model(torch.randn(32, 64)).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
            prof.step()
    prof.export_chrome_trace(f"{folder}/rank_{rank}.json")
    distributed.destroy_process_group()


def two_ranks(folder: Path) -> None:
    """Data parallel over gloo, two processes."""
    import torch.multiprocessing

    torch.multiprocessing.spawn(worker, (str(folder),), 2)
    (HERE / "cpu_ddp_gloo").mkdir(exist_ok=True)
    for rank in range(2):
        keep(folder / f"rank_{rank}.json", f"cpu_ddp_gloo/rank_{rank}.json.gz")


def generated(folder: Path) -> None:
    """GPU jobs from the generator: one rank with everything on, four ranks of which one is slow."""
    jobs = {
        "gpu_ddp_one_rank": ["--size-mb", "1", "--layers", "2", "--cuda-sync"],
        "gpu_ddp_slow_rank": [
            "--size-mb", "0.3", "--ranks", "4", "--slow-rank", "2", "--slow-factor", "1.4", "--clock-skew-us", "200",
        ],
    }  # fmt: skip
    for name, options in jobs.items():
        out = folder / name
        subprocess.run([sys.executable, GENERATOR, *options, "--out", out], check=True, stdout=subprocess.DEVNULL)
        target = HERE / name
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir()
        shutil.copy(out / "truth.json", target)
        for path in sorted(out.glob("rank_*.json")):
            keep(path, f"{name}/{path.name}.gz")


def main() -> None:
    """Record all."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        training_loop(folder)
        compiled(folder)
        two_ranks(folder)
        generated(folder)


if __name__ == "__main__":
    main()
