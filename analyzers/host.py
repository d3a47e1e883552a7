"""Host breakdown: what each thread of the process did; the parts sum to the window exactly."""

from __future__ import annotations

from msgspec import Struct

from profsuite.analyzers.base import Ns


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
    """All host threads, the one that launched most device work (else recorded most time) first.

    The window runs from the first host slice's start to the last one's end; null in a trace without host slices.
    ``steps`` are given for the first thread only.
    """

    start_ns: Ns | None
    window_ns: Ns | None
    threads: tuple[ThreadBreakdown, ...]
