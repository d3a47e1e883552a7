"""A job of two steps with all that an exporter can meet, written by hand; times in microseconds."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from profsuite.trace.load import load
from profsuite.trace.model import Trace

HOSTILE = '=cmd|"x"; \\ {a="b"}\n<script>alert(1)</script>\x1b[31m é'
"""What a name may hold: a formula, quotes, separators, a line end, markup, a control character."""


def event(cat: str, name: str, ts: float, dur: float, tid: int = 1, pid: int = 100, **args: Any) -> dict[str, Any]:
    return {"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": dur, "args": args}


def memory(
    ts: float, address: int, size: int, total: int, tid: int = 1, device: int = 0, kind: int = 1
) -> dict[str, Any]:
    args = {
        "Addr": address, "Bytes": size, "Total Allocated": total, "Total Reserved": 4096,
        "Device Type": kind, "Device Id": device if kind else -1,
    }  # fmt: skip
    return {
        "ph": "i",
        "cat": "cpu_instant_event",
        "name": "[memory]",
        "s": "t",
        "pid": 100,
        "tid": tid,
        "ts": ts,
        "args": args,
    }


def counter(ts: float, name: str, **args: float) -> dict[str, Any]:
    return {"ph": "C", "name": name, "pid": 100, "ts": ts, "args": args}


def events() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = [
        {"ph": "M", "name": "thread_name", "pid": 100, "tid": 1, "args": {"name": "main; thread"}},
        {"ph": "M", "name": "process_name", "pid": 100, "tid": 0, "args": {"name": "python"}},
    ]
    for step in (0, 1):
        at = 1000 + 1000 * step
        found += [
            event("user_annotation", f"ProfilerStep#{step + 3}", at, 900),
            event("python_function", "train.py(88): step", at + 10, 800),
            event("cpu_op", "aten::mm", at + 20, 100, **{"Input Dims": [[2, 3], [3, 2]]}),
            event("cuda_runtime", "cudaLaunchKernel", at + 40, 10.5, correlation=2 * step + 1),
            event("cpu_op", HOSTILE, at + 200, 50),
            event("cuda_runtime", "cudaLaunchKernel", at + 210, 10, correlation=2 * step + 2),
            event("kernel", "gemm", at + 60, 300, 7, 0, device=0, stream=7, correlation=2 * step + 1),
            event(
                "kernel", "ncclDevKernel_AllReduce_Sum_f32", at + 340, 100, 9, 0,
                device=0, stream=9, correlation=2 * step + 2,
            ),
            memory(at + 30, 0x7F00 + 512 * step, 512, 512 * (step + 1)),
            memory(at + 205, 0x9000, 1024, 512 * (step + 1) + 1024),
            memory(at + 240, 0x9000, -1024, 512 * (step + 1)),
            memory(at + 850, 0x100, 64, 64 * (step + 1), kind=0),
            counter(at + 100, "GPU 0 utilization", gpu_pct=40 + step),
        ]  # fmt: skip
    found += [
        event("cpu_op", "worker", 1100, 200, 2),
        event("cpu_op", "overlapping", 1250, 100, 2),  # ends after what it starts in
        event("kernel", "orphan", 3000, 5, 7, 0, device=0, stream=7),
    ]
    return found


def document(rank: int = 0, more: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    return {
        "schemaVersion": 1,
        "distributedInfo": {"backend": "nccl", "rank": rank, "world_size": 2},
        "baseTimeNanoseconds": 1_700_000_000_000_000_000,
        "deviceProperties": [{"id": 0, "name": "NVIDIA H100", "totalGlobalMem": 85_000_000_000, "numSms": 132}],
        "traceEvents": events() + (more or []),
    }


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The job's file."""
    file = tmp_path / "job.json"
    file.write_text(json.dumps(document()), encoding="utf-8")
    return file


@pytest.fixture
def trace(path: Path) -> Trace:
    """The job."""
    return load(path, cache=False)


@pytest.fixture
def make(tmp_path: Path) -> Callable[[list[dict[str, Any]]], Trace]:
    """A function from events to a trace."""

    def build(found: list[dict[str, Any]]) -> Trace:
        file = tmp_path / "made.json"
        file.write_text(json.dumps({"traceEvents": found}), encoding="utf-8")
        return load(file, cache=False)

    return build


@pytest.fixture
def piece() -> Callable[..., dict[str, Any]]:
    """A function that makes a complete event."""
    return event


@pytest.fixture
def hostile_name() -> str:
    """A name in the job that may hurt a reader."""
    return HOSTILE


@pytest.fixture
def memory_event() -> Callable[..., dict[str, Any]]:
    """A function that makes an allocation or a free."""
    return memory
