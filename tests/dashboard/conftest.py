"""Tiny traces, and the application asked without a network."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path

import pytest

from profsuite.trace.assemble import assemble
from profsuite.trace.load import load
from profsuite.trace.readers.fallback import read_chunks

if find_spec("dash") is None:  # pip install 'profsuite[dashboard]'
    collect_ignore_glob = ["test_*.py"]
else:
    from profsuite.dashboard.app import create
    from profsuite.dashboard.catalog import Catalog
    from profsuite.dashboard.guard import Guard
    from profsuite.dashboard.store import Session

HOSTILE = "<img src=x onerror=\"document.title='hacked'\"></script><script>document.title='hacked'</script>"


def _slice(name, ts, dur, cat="cpu_op", pid=100, tid=1, **args):
    """One slice; times in microseconds."""
    return {"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": dur, "args": args}


def _job(name="gemm", steps=3):
    """Steps of 1 ms: an op launches a kernel of 400 us, then the host waits for it; memory is counted."""
    found = []
    for step in range(steps):
        at = 1000 * step
        found += [
            _slice(f"ProfilerStep#{step}", at, 1000, "user_annotation"),
            _slice("aten::mm", at + 10, 50, **{"External id": step + 1}),
            _slice("cudaLaunchKernel", at + 20, 10, "cuda_runtime", correlation=step + 1, **{"External id": step + 1}),
            _slice(name, at + 40, 400, "kernel", 0, 7, device=0, stream=7, correlation=step + 1),
            _slice("cudaDeviceSynchronize", at + 100, 400, "cuda_runtime", correlation=100 + step),
            {"ph": "C", "name": "memory", "pid": 0, "tid": 0, "ts": at, "args": {"bytes": 10 * step}},
        ]
    return found


def _write(path, events, **header):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({**header, "traceEvents": events}))
    return path


@pytest.fixture(scope="session")
def slice_():
    """A function that makes one slice."""
    return _slice


@pytest.fixture(scope="session")
def job():
    """A function that makes the events of a small job."""
    return _job


@pytest.fixture(scope="session")
def hostile():
    """A name that tries to become an element."""
    return HOSTILE


@pytest.fixture(scope="session")
def make_trace():
    """A function from events to a ``Trace``, without a file."""
    return lambda events: assemble(read_chunks([json.dumps({"traceEvents": events}).encode()]), "trace", "fallback")


@pytest.fixture
def folder(tmp_path) -> Path:
    """A folder with one trace, and a secret beside it."""
    _write(tmp_path / "runs" / "job.json", _job())
    (tmp_path / "secret.json").write_text('{"traceEvents": [], "secret": 1}')
    return tmp_path / "runs"


@pytest.fixture
def open_session(tmp_path):
    """A function from events to the ``Session`` of their trace."""

    def make(events, **header):
        path = _write(tmp_path / f"trace{len(list(tmp_path.iterdir()))}.json", events, **header)
        entry = next(iter(Catalog([path]).entries.values()))
        return Session(entry, load(path, cache=False))

    return make


@pytest.fixture
def client(folder):
    """The application over ``folder``, on loopback without a token."""
    return create([folder]).server.test_client()


@pytest.fixture
def guarded(folder):
    """A function from a ``Guard`` to a client of the application under it."""
    return lambda guard=None: create([folder], guard or Guard()).server.test_client()
