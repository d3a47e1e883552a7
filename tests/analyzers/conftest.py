"""Tiny traces, written by hand in microseconds, and the real ones."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from profsuite.analyzers.analysis import Analysis
from profsuite.analyzers.findings import findings
from profsuite.trace.load import load

SHARED = Path(__file__).parents[3] / "shared"
TRACES = SHARED / "traces"


class Job:
    """A trace under construction; every method adds one event, times are in microseconds."""

    def __init__(self, folder):
        self.folder = folder
        self.events = []
        self.header = {}

    def slice(self, category, name, ts, dur, tid=1, pid=100, **args):
        self.events.append(
            {"ph": "X", "cat": category, "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": dur, "args": args}
        )
        return self

    def op(self, name, ts, dur, tid=1, **args):
        return self.slice("cpu_op", name, ts, dur, tid, **args)

    @staticmethod
    def shapes(*inputs):
        """What record_shapes=True records of inputs (dtype, *sizes), scalars as text, None where absent."""
        tensors = [each if isinstance(each, tuple) else None for each in inputs]
        scalars = {str: "Scalar", type(None): ""}
        return {
            "Input Dims": [[] if each is None else list(each[1:]) for each in tensors],
            "Input type": [scalars[type(each)] if not isinstance(each, tuple) else each[0] for each in inputs],
            "Concrete Inputs": [each if isinstance(each, str) else "" for each in inputs],
        }

    def mm(self, m, k, n, dtype="c10::BFloat16"):
        """The args of a product of m x k by k x n."""
        return self.shapes((dtype, m, k), (dtype, k, n))

    def python(self, name, ts, dur, tid=1):
        return self.slice("python_function", name, ts, dur, tid)

    def mark(self, name, ts, dur, tid=1):
        return self.slice("user_annotation", name, ts, dur, tid)

    def step(self, number, ts, dur):
        return self.mark(f"ProfilerStep#{number}", ts, dur)

    def call(self, name, ts, dur, correlation=None, tid=1):
        args = {} if correlation is None else {"correlation": correlation}
        return self.slice("cuda_runtime", name, ts, dur, tid, **args)

    def launch(self, ts, dur, correlation, tid=1):
        return self.call("cudaLaunchKernel", ts, dur, correlation, tid)

    def kernel(self, ts, dur, correlation=0, name="gemm", stream=7, device=0, **args):
        return self.slice(
            "kernel", name, ts, dur, stream, device, device=device, stream=stream, correlation=correlation, **args
        )

    def memcpy(self, ts, dur, correlation=0, name="Memcpy HtoD (Pinned -> Device)", stream=7, device=0, **args):
        return self.slice(
            "gpu_memcpy", name, ts, dur, stream, device, device=device, stream=stream, correlation=correlation, **args
        )

    def memory(self, ts, num_bytes, address, total=None, reserved=0, tid=1, device=None):
        args = {"Bytes": num_bytes, "Addr": address, "Total Reserved": reserved}
        args |= {"Device Type": 0, "Device Id": -1} if device is None else {"Device Type": 1, "Device Id": device}
        if total is not None:
            args["Total Allocated"] = total
        event = {"ph": "i", "cat": "cpu_instant_event", "s": "t", "name": "[memory]", "pid": 100, "tid": tid}
        self.events.append(event | {"ts": ts, "args": args})
        return self

    def busy(self, pieces=4, one_in=1):
        """A device that is never idle from 100 us on, 50 us a piece: launches far ahead."""
        for i in range(pieces * one_in):
            self.launch(i, 1, 1 + i).kernel(100 + 50 // one_in * i, 50 // one_in, 1 + i)
        return self

    def trace(self):
        path = self.folder / f"job{len(list(self.folder.iterdir()))}.json"
        path.write_text(json.dumps({**self.header, "traceEvents": self.events}))
        return load(path, cache=False)


@pytest.fixture
def found():
    """A function that gives a trace's finding of one kind, None without."""
    return lambda trace, kind: next((f for f in findings(Analysis(trace)) if f.id == kind), None)


@pytest.fixture
def value():
    """A function from a finding and a label to that evidence's value."""
    return lambda finding, label: next(e.value for e in finding.evidence if e.label == label)


@pytest.fixture
def job(tmp_path):
    """An empty ``Job``."""
    return Job(tmp_path)


@pytest.fixture(scope="session")
def real_trace():
    """A function from the name of a real file to its ``Trace``; skips where the files are absent."""
    loaded = {}

    def get(name, reader="auto"):
        if not (TRACES / name).exists():
            pytest.skip(f"the real traces are not here: {TRACES / name}")
        if (name, reader) not in loaded:
            loaded[name, reader] = load(TRACES / name, cache=False, reader=reader)
        return loaded[name, reader]

    return get
