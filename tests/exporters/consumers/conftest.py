"""Other tools that read what is exported, each in an interpreter of its own: their requirements exclude one another.

``make consumers`` installs them below ``build/consumers``; traceinsight is also what the benchmarks compare with.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
SHARED = ROOT.parent / "shared" / "traces"
PYTHON = "Scripts/python.exe" if os.name == "nt" else "bin/python"

Ask = Callable[..., Any]


@cache
def interpreter(module: str) -> str | None:
    """The first Python that has a module, None if none has."""
    folders = [*sorted((ROOT / "build" / "consumers").glob("*")), ROOT / "build" / "bench" / "peer"]
    for python in [*(str(folder / PYTHON) for folder in folders), sys.executable]:
        found = f"import importlib.util as u, sys; sys.exit(u.find_spec({module!r}) is None)"
        if Path(python).exists() and subprocess.run([python, "-c", found], check=False).returncode == 0:
            return python
    return None


@pytest.fixture
def ask() -> Ask:
    """A function that runs a program where a module is installed; returns what its last line says as JSON."""

    def run(module: str, program: str, *arguments: object) -> Any:
        python = interpreter(module)
        if python is None:
            pytest.skip(f"{module} is not installed: make consumers")
        done = subprocess.run(
            [python, "-W", "ignore", "-c", program, *map(str, arguments)], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr[-2000:]
        return json.loads(done.stdout.rstrip().rpartition("\n")[2])

    return run


@pytest.fixture
def real() -> Callable[[str], Path]:
    """A function from a name to a real trace; skips where it is not here."""

    def find(name: str) -> Path:
        path = SHARED / f"{name}.json.gz"
        if not path.exists():
            pytest.skip("the real traces are not here: ../shared/traces")
        return path

    return find
