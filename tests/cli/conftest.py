"""Tiny traces, and the program in a process of its own."""

from __future__ import annotations

import inspect
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

Run = Callable[..., "subprocess.CompletedProcess[str]"]

HOSTILE = "\x1b[31mevil\x07 <script>alert(1)</script> [red]x[/red] \u202e`|"


def events(hostile: bool = False) -> list[dict[str, Any]]:
    """Two steps: an op launches a kernel of 400 us on stream 7, then a wait of 600 us."""
    found: list[dict[str, Any]] = []
    for step in (1, 2):
        start = step * 1000
        name = HOSTILE if hostile else "gemm"
        found += [
            _slice("user_annotation", f"ProfilerStep#{step}", 1, 1, start, 1000),
            _slice("cpu_op", "aten::mm", 1, 1, start + 10, 50, {"External id": step}),
            _slice(
                "cuda_runtime", "cudaLaunchKernel", 1, 1, start + 20, 10, {"correlation": step, "External id": step}
            ),
            _slice("kernel", name, 0, 7, start + 40, 400, {"device": 0, "stream": 7, "correlation": step}),
            _slice("cuda_runtime", "cudaDeviceSynchronize", 1, 1, start + 100, 800, {"correlation": 100 + step}),
        ]
    return found


def _slice(
    cat: str, name: str, pid: int, tid: int, ts: int, dur: int, args: dict[str, Any] | None = None
) -> dict[str, Any]:
    return {"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": dur, "args": args or {}}


def document(rank: int | None = None, hostile: bool = False) -> str:
    """A whole trace file."""
    head: dict[str, Any] = {"schemaVersion": 1}
    if rank is not None:
        head["distributedInfo"] = {"backend": "nccl", "rank": rank, "world_size": 2}
    return json.dumps(head | {"traceEvents": events(hostile)})


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    path = tmp_path / "trace.json"
    path.write_text(document(), encoding="utf-8")
    return path


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    path = tmp_path / "hostile.json"
    path.write_text(document(hostile=True), encoding="utf-8")
    return path


@pytest.fixture
def ranks(tmp_path: Path) -> Path:
    folder = tmp_path / "ranks"
    folder.mkdir()
    for rank in (0, 1):
        (folder / f"rank_{rank}.json").write_text(document(rank), encoding="utf-8")
    return folder


@pytest.fixture
def faulty(tmp_path: Path) -> Path:
    """One event of which nothing can be read, between good ones."""
    path = tmp_path / "faulty.json"
    good = [json.dumps(event) for event in events()]
    path.write_text(
        '{"traceEvents": [' + ",\n".join([*good[:3], '{"ph": "X", ###', *good[3:]]) + "]}", encoding="utf-8"
    )
    return path


def runner(**options: Any) -> CliRunner:
    """click's runner with stdout and stderr apart; before 8.2 it has to be told."""
    if "mix_stderr" in inspect.signature(CliRunner).parameters:
        options["mix_stderr"] = False
    return CliRunner(**options)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home folder, and no setting of the user's."""
    for name in ("NO_COLOR", "COLUMNS", "TERM", "XDG_CACHE_HOME", "PROFSUITE_CACHE", "PROFSUITE_DEBUG"):
        monkeypatch.delenv(name, raising=False)
    folder = tmp_path / "home"
    folder.mkdir()
    monkeypatch.setenv("HOME", str(folder))
    return folder


@pytest.fixture
def run(home: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs ``profsuite`` in this process; ``stdin`` is bytes, ``env`` is added."""
    from profsuite.cli.app import app

    def call(*args: object, stdin: bytes | None = None, env: dict[str, str] | None = None) -> Any:
        done = runner(env=env).invoke(app, [str(arg) for arg in args], input=stdin, prog_name="profsuite")
        return subprocess.CompletedProcess(args, done.exit_code, done.stdout, done.stderr)

    return call


@pytest.fixture
def run_process(home: Path) -> Run:
    """The same in a process of its own."""

    def call(*args: object, stdin: bytes | None = None, env: dict[str, str] | None = None) -> Any:
        done = subprocess.run(
            [sys.executable, "-c", "from profsuite.cli import main; main()", *map(str, args)],
            input=stdin,
            capture_output=True,
            env=dict(os.environ) | (env or {}),
            timeout=60,
        )
        return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())

    return call
