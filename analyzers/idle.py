"""Idle time, attributed: every gap of a device gets one cause, and the causes sum to the idle time."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from profsuite.analyzers.base import Ns, Pct

Cause = Literal[
    "compile",
    "gc",
    "allocator",
    "input",
    "sync",
    "host",
    "dependency",
    "queue",
    "collective_wait",
    "unknown",
]


class IdleCause(Struct, frozen=True, kw_only=True):
    """The gaps of one cause: their total, their number, and the total as a share of the device's idle time."""

    cause: Cause
    total_ns: Ns
    num_gaps: int
    idle_pct: Pct | None


class HostSplit(Struct, frozen=True, kw_only=True):
    """What the launching thread did in the gaps of cause ``host``; sums to them exactly.

    ``launch_ns`` is time in runtime and driver calls, and from the launch call's end to the device's start;
    ``op_ns`` the ops' own dispatch; ``python_ns`` everything else (Python, and what was not recorded).
    """

    python_ns: Ns
    op_ns: Ns
    launch_ns: Ns


class Gap(Struct, frozen=True, kw_only=True):
    """One gap of a device: when (file's clock), how long, why, and what ended it.

    ``next_slice_id`` is the row of the kernel or copy that ended it, ``next_op`` the op that launched it,
    ``blamed`` the call that the cause names (the sync, the loader, the cudaMalloc).
    """

    start_ns: Ns
    dur_ns: Ns
    cause: Cause
    next_slice_id: int
    next_name: str
    next_op: str | None
    blamed: str | None
    stream: int | None
    thread: str | None
    step: int | None


class IdleBreakdown(Struct, frozen=True, kw_only=True):
    """All gaps of one device; ``causes`` are those that occur, largest first, ``top_gaps`` the longest gaps."""

    device: int | None
    idle_ns: Ns
    num_gaps: int
    causes: tuple[IdleCause, ...]
    host: HostSplit
    top_gaps: tuple[Gap, ...]
