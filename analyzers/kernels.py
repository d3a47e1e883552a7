"""Kernels: count and time of each, how it was launched, and how many are too short to hide their launch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np
from msgspec import Struct

from profsuite.analyzers.base import Ns, Pct, pct
from profsuite.analyzers.histogram import Histogram, histogram
from profsuite.analyzers.host_calls import launches_graphs
from profsuite.analyzers.ranking import numbered, sum_by_group

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from profsuite.trace.model import Trace

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
    registers, shared memory).  ``top_op`` is the op that launched most of its time.  ``durations`` are of the runs.
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
    durations: Histogram | None = None


class KernelTable(Struct, frozen=True, kw_only=True):
    """The kernels that take most time, largest total first; copies and fills are not kernels.

    ``short_pct`` is the share of kernels (by count) below 10 µs, ``short_time_pct`` the same by time;
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


def kernels(trace: Trace, top: int = 10) -> KernelTable:
    """The ``top`` kernels by total time, per name, and what is true of all; definitions: docs/analyses.md."""
    rows = trace.array("kernel", "slice_id")
    if not len(rows):
        return KernelTable(
            num_kernels=0,
            num_names=0,
            total_ns=0,
            num_short=0,
            short_pct=None,
            short_time_pct=None,
            from_graphs=0,
            rows=(),
        )
    dur = trace.array("slice", "dur")[rows]
    code = trace.array("slice", "name")[rows]
    totals = sum_by_group(code, dur, len(trace.words("slice", "name")))
    counts = np.bincount(code, minlength=len(totals))
    total = int(dur.sum())
    short = dur < SHORT_KERNEL_NS
    largest = np.lexsort((-counts, -totals))[: min(top, int((counts > 0).sum()))]
    largest = largest[counts[largest] > 0]
    order = np.argsort(code, kind="stable")
    first = np.searchsorted(code[order], largest, "left")
    last = np.searchsorted(code[order], largest, "right")
    return KernelTable(
        num_kernels=len(rows),
        num_names=int((counts > 0).sum()),
        total_ns=total,
        num_short=int(short.sum()),
        short_pct=pct(int(short.sum()), len(rows)),
        short_time_pct=pct(int(dur[short].sum()), total),
        from_graphs=_from_graphs(trace),
        rows=tuple(_row(trace, order[a:b], total) for a, b in zip(first.tolist(), last.tolist(), strict=True)),
    )


def _from_graphs(trace: Trace) -> int:
    """Kernels whose launch is a graph launch, or that carry a graph's id (recorders write one or the other)."""
    launch = trace.array("kernel", "launch_id")
    graphed = trace.array("kernel", "graph_id", null=0) > 0
    names = trace.array("slice", "name")[launch]
    graphed |= (launch >= 0) & launches_graphs(trace)[names]
    return int(graphed.sum())


def _impossible(occupancy: Any, warps_per_sm: Any) -> Any:
    """Where the recorder wrote 0 % because it could not compute the occupancy.

    Kineto asks NVIDIA's calculator, which refuses launches with more shared memory than a block may have by default,
    and writes 0.  A warp on every multiprocessor is at least 1 of 64, which rounds to 2 %.
    """
    return (occupancy == 0) & (warps_per_sm >= 1)


def _row(trace: Trace, runs: NDArray[np.int64], total: int) -> KernelRow:
    """One row from the runs (rows of ``kernel``) of one name."""
    ids = trace.array("kernel", "slice_id")[runs]
    dur = trace.array("slice", "dur")[ids]
    own = int(dur.sum())
    longest = int(dur.argmax())
    occupancy = trace.array("kernel", "occupancy_pct")[runs]
    known = ~np.isnan(occupancy) & ~_impossible(occupancy, trace.array("kernel", "warps_per_sm")[runs])
    weight = dur[known] if dur[known].any() else np.ones(int(known.sum()))
    ops = trace.array("kernel", "op_id")[runs]
    has_op = ops >= 0
    op_names = trace.array("slice", "name")[ops[has_op]]
    op_time = sum_by_group(op_names, dur[has_op], len(trace.words("slice", "name")))
    shape = np.zeros(len(runs), np.int64)
    for column in _SHAPE:
        values = trace.array("kernel", column, null=-1)[runs]
        values = values - values.min()
        shape = numbered(shape * (int(values.max()) + 1) + values)
    return KernelRow(
        name=trace.words("slice", "name")[trace.array("slice", "name")[ids[0]]],
        kind=cast("KernelKind", trace.words("kernel", "kind")[trace.array("kernel", "kind")[runs[0]]]),
        count=len(runs),
        total_ns=own,
        mean_ns=float(dur.mean()),
        min_ns=int(dur.min()),
        max_ns=int(dur.max()),
        std_ns=float(dur.std()),
        device_pct=pct(own, total),
        short_pct=100.0 * float((dur < SHORT_KERNEL_NS).mean()),
        occupancy_pct=float(np.average(occupancy[known], weights=weight)) if known.any() else None,
        num_shapes=int(shape.max()) + 1,
        longest=_launch(trace.kernels.slice(int(runs[longest]), 1).to_pylist()[0]),
        longest_slice_id=int(ids[longest]),
        top_op=trace.words("slice", "name")[int(op_time.argmax())] if has_op.any() else None,
        durations=histogram(dur),
    )


_SHAPE = (
    "grid_x",
    "grid_y",
    "grid_z",
    "block_x",
    "block_y",
    "block_z",
    "registers_per_thread",
    "shared_memory_bytes",
)


def _launch(row: dict[str, Any]) -> LaunchShape:
    grid, block = ([row[f"{what}_{axis}"] for axis in "xyz"] for what in ("grid", "block"))
    return LaunchShape(
        grid=None if None in grid else (grid[0], grid[1], grid[2]),
        block=None if None in block else (block[0], block[1], block[2]),
        registers_per_thread=row["registers_per_thread"],
        shared_memory_bytes=row["shared_memory_bytes"],
        blocks_per_sm=row["blocks_per_sm"],
        warps_per_sm=row["warps_per_sm"],
        occupancy_pct=None if _impossible(row["occupancy_pct"], row["warps_per_sm"] or 0) else row["occupancy_pct"],
    )
