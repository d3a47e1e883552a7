"""Kernels: count and time of each, how it was launched, and how many are too short to hide their launch."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from profsuite.analyzers.base import Ns, Pct

SHORT_KERNEL_NS = 10_000
"""A kernel below this is launch-bound: a launch costs the CPU about as long (docs/analyses.md)."""

KernelKind = Literal["compute", "comm", "memory"]


class LaunchShape(Struct, frozen=True, kw_only=True):
    """How a kernel was launched; null where it was not recorded."""

    grid: tuple[int, int, int] | None
    block: tuple[int, int, int] | None
    registers_per_thread: int | None
    shared_memory_bytes: int | None
    blocks_per_sm: float | None
    warps_per_sm: float | None
    occupancy_pct: float | None


class KernelRow(Struct, frozen=True, kw_only=True):
    """All runs of one kernel.  ``std_ns`` is the population's; ``device_pct`` is total / sum of all kernels' time.

    ``occupancy_pct`` is the mean over runs weighted by time, null where not recorded; ``longest`` describes the
    longest run, ``longest_slice_id`` is its row, ``num_shapes`` the number of different launches (grid, block,
    registers, shared memory).  ``top_op`` is the op that launched most of its time.
    """

    name: str
    kind: KernelKind
    count: int
    total_ns: Ns
    mean_ns: float
    min_ns: Ns
    max_ns: Ns
    std_ns: float
    device_pct: Pct | None
    short_pct: Pct
    occupancy_pct: float | None
    num_shapes: int
    longest: LaunchShape
    longest_slice_id: int
    top_op: str | None


class KernelTable(Struct, frozen=True, kw_only=True):
    """The kernels that take most time, largest total first; copies and fills are not kernels.

    ``short_pct`` is the share of kernels (by count) below 10 us, ``short_time_pct`` the same by time;
    ``from_graphs`` counts kernels that a graph launch started.
    """

    num_kernels: int
    num_names: int
    total_ns: Ns
    num_short: int
    short_pct: Pct | None
    short_time_pct: Pct | None
    from_graphs: int
    rows: tuple[KernelRow, ...]
