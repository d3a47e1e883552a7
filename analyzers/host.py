"""Host breakdown: what each thread of the process did; the parts sum to the window exactly."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from profsuite.analyzers.base import Ns
from profsuite.analyzers.host_calls import CLASSES
from profsuite.analyzers.host_timeline import HostTimelines, Timeline, host_timelines
from profsuite.analyzers.places import is_first_thread, thread_label

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from profsuite.trace.intervals import IntervalSet
    from profsuite.trace.model import Trace


class HostShares(Struct, frozen=True, kw_only=True):
    """How a thread spent a window; the parts sum to ``window_ns`` exactly.

    ``sync_ns`` waits for the device and blocking copies; ``launch_ns`` other runtime and driver calls;
    ``allocator_ns`` device memory calls (cudaMalloc, cudaFree); ``input_ns`` everything inside the data loader's
    ``__next__``; ``compile_ns`` inside Dynamo, Inductor or Triton compilation; ``gc_ns`` Python's garbage
    collector; ``op_ns`` the ops' own time (dispatch on GPU jobs, the computation itself on CPU jobs);
    ``python_ns`` Python frames and annotations; ``unrecorded_ns`` no slice at all.
    """

    window_ns: Ns
    sync_ns: Ns
    launch_ns: Ns
    allocator_ns: Ns
    input_ns: Ns
    compile_ns: Ns
    gc_ns: Ns
    op_ns: Ns
    python_ns: Ns
    unrecorded_ns: Ns


class StepHostShares(Struct, frozen=True, kw_only=True):
    """How a thread spent one step, from the step's start to its end on the host."""

    number: int
    truncated: bool
    shares: HostShares


class ThreadBreakdown(Struct, frozen=True, kw_only=True):
    """One thread over the host window; ``num_launches`` counts the calls that started device work."""

    track_id: int
    thread: str
    num_slices: int
    num_launches: int
    shares: HostShares
    steps: tuple[StepHostShares, ...]


class HostBreakdown(Struct, frozen=True, kw_only=True):
    """All host threads, the main one first: see ``main_first``; of threads that launch nothing the one with most time.

    The window runs from the first host slice's start to the last one's end; null in a trace without host slices.
    Of a recording with a schedule, only what it recorded: ``start_ns`` is the first window's, ``window_ns`` their sum.
    ``steps`` are given for the first thread only.
    """

    start_ns: Ns | None
    window_ns: Ns | None
    threads: tuple[ThreadBreakdown, ...]


def host(trace: Trace, timelines: HostTimelines | None = None) -> HostBreakdown:
    """What every host thread did over the host window, and what the first one did in each step.

    Definitions: docs/analyses.md, "Host breakdown".  ``timelines`` saves computing them again.
    """
    timelines = host_timelines(trace) if timelines is None else timelines
    lines = list(timelines.threads.values())
    if not lines:
        return HostBreakdown(start_ns=None, window_ns=None, threads=())
    windows = timelines.windows
    launches, first = num_launches(trace), main_first(trace)
    lines.sort(key=lambda line: (*first[line.track_id], int(line.time[0]) - int(line.time[-1]), line.track_id))
    threads = tuple(
        ThreadBreakdown(
            track_id=line.track_id,
            thread=thread_label(trace, line.track_id),
            num_slices=line.num_slices,
            num_launches=int(launches[line.track_id]),
            shares=_whole(line, windows),
            steps=_steps(trace, line) if number == 0 else (),
        )
        for number, line in enumerate(lines)
    )
    return HostBreakdown(start_ns=int(windows[0][0]), window_ns=threads[0].shares.window_ns, threads=threads)


def num_launches(trace: Trace) -> NDArray[np.int64]:
    """How many calls of each track started device work; a call that started many kernels counts once."""
    launch = np.concatenate([trace.array(table, "launch_id") for table in ("kernel", "memcpy")])
    called = np.zeros(trace.num_rows("slice"), bool)
    called[launch[launch >= 0]] = True
    return np.bincount(trace.array("slice", "track_id")[called], minlength=trace.num_rows("track"))


def main_first(trace: Trace) -> list[tuple[int, int, int]]:
    """A key for each track by which the main one comes first: by steps, being the process's first thread, launches.

    A backward thread may launch more than the thread whose passes it runs, so the process's first one needs only a
    third of the most.
    """
    launches, steps = num_launches(trace), num_steps(trace)
    most = int(launches.max()) if len(launches) else 0
    first = np.array([is_first_thread(track) for track in trace.tracks.to_pylist()], bool)
    leads = first & (launches > 0) & (3 * launches >= most)
    return list(zip((-steps).tolist(), (-leads.astype(np.int64)).tolist(), (-launches).tolist(), strict=True))


def num_steps(trace: Trace) -> NDArray[np.int64]:
    """How many steps each track marks; the backward of a step may launch more, on a thread of its own."""
    marks = trace.array("slice", "track_id")[trace.array("step", "slice_id")]
    return np.bincount(marks, minlength=trace.num_rows("track"))


def _steps(trace: Trace, line: Timeline) -> tuple[StepHostShares, ...]:
    start, dur = trace.array("step", "ts"), trace.array("step", "dur")
    order = np.argsort(start, kind="stable")
    number, truncated = trace.array("step", "number")[order].tolist(), trace.array("step", "truncated")[order].tolist()
    shares = _shares(line, start[order], (start + dur)[order])
    return tuple(
        StepHostShares(number=n, truncated=bool(t), shares=s) for n, t, s in zip(number, truncated, shares, strict=True)
    )


def _whole(line: Timeline, windows: IntervalSet) -> HostShares:
    """All windows as one."""
    lengths = (windows[1] - windows[0]).sum(keepdims=True)
    return _rows(lengths, line.shares(*windows).sum(axis=0, keepdims=True))[0]


def _shares(line: Timeline, start: NDArray[np.int64], end: NDArray[np.int64]) -> list[HostShares]:
    return _rows(end - start, line.shares(start, end))


def _rows(windows: NDArray[np.int64], shares: NDArray[np.int64]) -> list[HostShares]:
    # Times lie within 2^63 of 0, so a time between two of them fits 64 bits only without a sign.
    return [
        HostShares(window_ns=window, **{f"{name}_ns": ns for name, ns in zip(CLASSES, row, strict=True)})
        for window, row in zip(windows.view(np.uint64).tolist(), shares.view(np.uint64).tolist(), strict=True)
    ]
