"""GPU time breakdown: compute, exposed communication, exposed memory copies, idle; they sum to the window."""

from __future__ import annotations

from msgspec import Struct

from profsuite.analyzers.base import Ns, Pct


class TimeShares(Struct, frozen=True, kw_only=True):
    """How a device spent a window; the four of the first line sum to ``window_ns`` exactly.

    compute = union(compute); exposed_comm = union(comm) - what compute covers; exposed_memcpy = union(copies and
    fills) - what compute or comm covers; idle = window - union(all).  ``busy_ns`` = window - idle.  ``comm_ns`` is
    union(comm), ``overlapped_comm_ns`` what compute covers of it, ``overlap_pct`` their ratio, null without
    communication.  ``busy_pct`` is null in an empty window.
    """

    compute_ns: Ns
    exposed_comm_ns: Ns
    exposed_memcpy_ns: Ns
    idle_ns: Ns
    window_ns: Ns
    busy_ns: Ns
    comm_ns: Ns
    overlapped_comm_ns: Ns
    memcpy_ns: Ns
    busy_pct: Pct | None
    overlap_pct: Pct | None


class StepShares(Struct, frozen=True, kw_only=True):
    """How a device spent one step, from ``start_ns`` (file's clock) for ``shares.window_ns``.

    A step holds a device from when it has begun on the host and the earlier steps' work is done, until it has
    ended on the host and its own work is done.
    """

    number: int
    start_ns: Ns
    truncated: bool
    shares: TimeShares


class DeviceBreakdown(Struct, frozen=True, kw_only=True):
    """How one device spent the whole recording, first device start to last device end, and each step.

    ``device`` is null where the file does not say which.
    """

    device: int | None
    start_ns: Ns
    num_compute: int
    num_comm: int
    num_memcpy: int
    num_streams: int
    shares: TimeShares
    steps: tuple[StepShares, ...]
