"""Record a small GPU workload with one engine and write what it saw as JSON: ``ENGINE WORKLOAD OUT [DEVICE]``.

A process of its own for each engine, since CUPTI serves one client a process.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from pathlib import Path

import torch

import profsuite
from profsuite.trace.assemble import assemble


def bf16_loop(device):
    """Five training steps of a small network."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(512, 1024), torch.nn.GELU(), torch.nn.Linear(1024, 512))
    model = model.to(device, torch.bfloat16)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    batch = torch.randn(256, 512, device=device, dtype=torch.bfloat16)
    host = torch.randn(256, 512, pin_memory=device == "cuda")

    def run():
        for _ in range(5):
            batch.copy_(host, non_blocking=True)
            model(batch).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()

    return run


def cuda_graph(device):
    """Twenty replays of a captured graph."""
    x = torch.randn(1024, 1024, device=device, dtype=torch.bfloat16)

    def step():
        y = x @ x
        for _ in range(8):
            y = torch.relu(y) + 0.5
        return y.sum()

    if device == "cpu":
        return step
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()

    def run():
        for _ in range(20):
            graph.replay()

    return run


def triton_kernel(device):
    """A Triton kernel, launched through the driver API."""
    import triton
    import triton.language as tl

    @triton.jit
    def scale_kernel(x, out, n, BLOCK: tl.constexpr):
        at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        inside = at < n
        tl.store(out + at, tl.load(x + at, mask=inside) * 3.0, mask=inside)

    x = torch.randn(1 << 20, device=device)
    out = torch.empty_like(x)

    def run():
        for _ in range(25):
            scale_kernel[(triton.cdiv(x.numel(), 1024),)](x, out, x.numel(), BLOCK=1024)

    return run


def record_kineto(run, device, folder):
    activities = [torch.profiler.ProfilerActivity.CPU]
    activities += [torch.profiler.ProfilerActivity.CUDA] if device == "cuda" else []
    with torch.profiler.profile(activities=activities) as prof:
        run()
    path = folder / "kineto.json"
    prof.export_chrome_trace(str(path))
    return profsuite.load(path), []


def record_cupti(run, device, folder):
    from profsuite.collector.cupti.engine import CuptiEngine

    engine = CuptiEngine()
    engine.start()
    run()
    raw = engine.stop()
    return assemble(raw, "session", "cupti"), engine.problems


def main():
    engine, workload, out, device = (*sys.argv[1:], "cuda")[:4]
    run = {"bf16_loop": bf16_loop, "cuda_graph": cuda_graph, "triton_kernel": triton_kernel}[workload](device)
    for _ in range(3):  # choices of algorithms and lazily loaded modules are made before
        run()
    if device == "cuda":
        torch.cuda.synchronize()
    record = {"kineto": record_kineto, "cupti": record_cupti}[engine]
    trace, problems = record(run, device, Path(out).parent)
    slices, kernel = trace.table("slice").to_pydict(), trace.table("kernel").to_pydict()
    durations = defaultdict(list)
    for row in kernel["slice_id"]:
        durations[slices["name"][row]].append(slices["dur"][row])
    found = {
        "problems": problems,
        "durations": durations,
        "unlaunched": sum(launch is None for launch in kernel["launch_id"]),
        "of_graphs": sum(node is not None for node in kernel["graph_node_id"]),
        "registers": sorted({r for r in kernel["registers_per_thread"] if r is not None}),
        "copies": sorted(slices["name"][row] for row in trace.table("memcpy").column("slice_id").to_pylist()),
        "launches": sorted(
            name
            for name, category in zip(slices["name"], slices["category"], strict=True)
            if category in ("cuda_runtime", "cuda_driver") and "Launch" in name
        ),
    }
    Path(out).write_text(json.dumps(found))


if __name__ == "__main__":
    main()
