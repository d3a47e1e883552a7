"""What a trace lacks or got wrong, found from its tables; docs/health.md lists every kind.

Each check is one function from a trace to remarks.  A remark's count is the number of events that
it concerns; what the whole file lacks concerns all of its events.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from profsuite.trace.classes import Role
from profsuite.trace.intervals import group_order, running_max
from profsuite.trace.marks import RANKS
from profsuite.trace.readers.raw import Remark, first_place

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from profsuite.trace.model import Trace

OUTLIER_WINDOWS: Final = 10
OUTLIER_FLOOR_NS: Final = 60 * 10**9
"""A slice is a clock outlier if it starts more than ten interquartile ranges, and a minute, off the quartiles."""


def inspect(trace: Trace) -> list[Remark]:
    """The remarks on a trace whose other tables are complete, in the order of docs/health.md."""
    remarks = [remark for check in CHECKS for remark in check(trace)]
    return _of_xla(trace, remarks) if any(_XLA_PROCESS.match(name) for name in _processes(trace)) else remarks


_XLA_PROCESS: Final = re.compile(r"/(?:host|device):\S")
_XLA_LACKS: Final = frozenset({"no_device_properties", "no_shapes", "no_stacks"})
"""What XLA's profiler never records, on request or else."""
_XLA_WORDS: Final = {
    "no_rank": "The file does not say which process recorded it; hosts that profile into one log folder are "
    "numbered by name.",
    "no_steps": "No training steps are marked, so nothing is given per step. Put each step of the loop into "
    'jax.profiler.StepTraceAnnotation("train", step_num=n).',
    "no_kernels": "No instruction of XLA was recorded, so no device time is counted.",
}


def _processes(trace: Trace) -> list[str]:
    return list(trace.words("track", "process_name"))


def _of_xla(trace: Trace, remarks: list[Remark]) -> list[Remark]:
    """The remarks that make sense on an XLA profile, in its terms; on the CPU nothing is launched."""
    launches = bool((trace.roles == Role.LAUNCH).any())
    return [
        replace(remark, message=_XLA_WORDS.get(remark.kind, remark.message))
        for remark in remarks
        if remark.kind not in _XLA_LACKS and (launches or remark.kind != "no_launch")
    ]


def overlapping(trace: Trace) -> list[Remark]:
    """Device work that starts while earlier work on the same track still runs."""
    rows = _device_work(trace)
    late = _overlapped(trace, trace.array("slice", "track_id")[rows], rows)
    message = (
        f"{_many(late, 'kernel or copy', 'kernels or copies')} began before earlier work on the same stream had ended; "
        "busy time is the union, so it counts once."
    )
    return _some("overlapping", trace, rows[late], message)


def out_of_order(trace: Trace) -> list[Remark]:
    """Host slices that begin inside an earlier slice of their thread and end after it."""
    both = crossing(trace)
    message = (
        f"{_many(both, 'host slice', 'host slices')} began inside an earlier one of its thread but ended after it; "
        "they count as its siblings, and time that both cover counts for both."
    )
    return _some("out_of_order", trace, both, message)


def crossing(trace: Trace) -> NDArray[np.int64]:
    """Rows of ``slice``: the host slices that begin inside an earlier slice of their thread and end after it."""
    on_host = np.array([kind == "host" for kind in trace.tracks.column("kind").to_pylist()], bool)
    track, parent = trace.array("slice", "track_id"), trace.array("slice", "parent_id")
    suspects = _crowded_children(parent, trace.array("slice", "dur"), trace.array("slice", "self_dur"))
    roots = np.flatnonzero(parent < 0)
    found = []
    for rows, group in ((suspects, parent[suspects]), (roots, track[roots])):
        hosted = on_host[track[rows]] if len(on_host) else np.zeros(0, bool)
        rows, group = rows[hosted], group[hosted]
        found.append(rows[_overlapped(trace, group, rows)])
    return np.concatenate(found).astype(np.int64)


def no_launch(trace: Trace) -> list[Remark]:
    """Device work whose launch call is not in the file."""
    rows = _device_work(trace)
    launch = np.concatenate((trace.array("kernel", "launch_id"), trace.array("memcpy", "launch_id")))
    lost = rows[launch < 0]
    message = (
        f"{_many(lost, 'kernel or copy has', 'kernels or copies have')} no launch call in the file (launched before "
        "the recording began, or with runtime calls not recorded); their ops are unknown unless an external id "
        "tells, and their steps go by time."
    )
    return _some("no_launch", trace, lost, message)


def no_kernels(trace: Trace) -> list[Remark]:
    """Launch calls, or slices on device tracks, but no device work."""
    if trace.num_rows("kernel") or trace.num_rows("memcpy"):
        return []
    calls = np.flatnonzero(trace.roles == Role.LAUNCH)
    on_device = np.array([kind == "device" for kind in trace.tracks.column("kind").to_pylist()], bool)
    track = trace.array("slice", "track_id")
    unknown = np.flatnonzero(on_device[track]) if len(track) else track
    if len(unknown):
        message = (
            f"{_many(unknown, 'slice lies', 'slices lie')} on device tracks, but none is filed as a kernel, copy or "
            "fill, so no device time is counted."
        )
        return _some("no_kernels", trace, unknown, message)
    message = (
        f"{_many(calls, 'runtime call', 'runtime calls')}, but no kernel or copy: device activity was not recorded. "
        "Pass activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA], and let no other tool hold the device's tracer."
    )
    return _some("no_kernels", trace, calls, message)


def clock_outlier(trace: Trace) -> list[Remark]:
    """Device work before its own launch; slices far outside of the time of all others."""
    rows = _device_work(trace)
    launch = np.concatenate((trace.array("kernel", "launch_id"), trace.array("memcpy", "launch_id")))
    ts = trace.array("slice", "ts")
    early = rows[(launch >= 0) & (ts[rows] < ts[launch])] if len(rows) else rows
    gap = int((ts[launch] - ts[rows])[(launch >= 0)].max()) if len(early) else 0
    message = (
        f"{_many(early, 'kernel or copy', 'kernels or copies')} began before the launch call did, by up to "
        f"{gap:,} ns: the clocks of host and device differ, so launch delays are uncertain by that much."
    )
    remarks = _some("clock_outlier", trace, early, message)
    if len(ts) >= 4:
        quarters = np.partition(ts, (len(ts) // 4, 3 * len(ts) // 4))
        low, high = int(quarters[len(ts) // 4]), int(quarters[3 * len(ts) // 4])
        reach = max(OUTLIER_WINDOWS * (high - low), OUTLIER_FLOOR_NS)
        outside = np.zeros(len(ts), bool)
        if int(ts.min()) < low - reach:
            outside |= ts < low - reach
        if int(ts.max()) > high + reach:
            outside |= ts > high + reach
        far = np.flatnonzero(outside)
        message = (
            f"{_many(far, 'slice starts', 'slices start')} far outside of the time of all others (more than "
            f"{reach / 1e9:,.0f} s off the middle half): another clock, or damaged; windows with them are too long."
        )
        remarks += _some("clock_outlier", trace, far, message)
    return remarks


def several_ranks(trace: Trace) -> list[Remark]:
    """Several ranks in one file, as profsuite merges them for viewers."""
    ranks = trace.metadata(RANKS)
    if not isinstance(ranks, list) or len(ranks) < 2:
        return []
    return _whole(
        "several_ranks",
        trace,
        f"The file holds {len(ranks)} ranks, merged for viewers. Steps and host time of one would count for the "
        "others, so it is not analysed: take the folder that it was made from.",
    )


def no_rank(trace: Trace) -> list[Remark]:
    """Neither the header nor the file's name tells the rank."""
    if trace.info.rank is not None or several_ranks(trace):
        return []
    return _whole(
        "no_rank",
        trace,
        "The file does not say which rank recorded it; comparing ranks needs that. torch.profiler writes it when "
        "torch.distributed is initialised before the profiler starts; a file named rank_N tells it too.",
    )


def no_device_properties(trace: Trace) -> list[Remark]:
    """Device work, but no deviceProperties in the header."""
    if trace.info.devices or not (trace.num_rows("kernel") or trace.num_rows("memcpy")):
        return []
    return _whole(
        "no_device_properties",
        trace,
        "The file does not describe its devices (deviceProperties), so no peak rates are known. "
        "torch.profiler writes them from torch 1.9 on.",
    )


def no_steps(trace: Trace) -> list[Remark]:
    """No step marks."""
    if trace.num_rows("step") or not trace.num_rows("slice"):
        return []
    return _whole(
        "no_steps",
        trace,
        "No training steps are marked, so nothing is given per step. Call prof.step() after each step of the "
        "loop (torch.profiler then records ProfilerStep#N).",
    )


def no_shapes(trace: Trace) -> list[Remark]:
    """Ops, but no input shapes."""
    ops = np.flatnonzero(trace.roles == Role.OP)
    if trace.num_rows("op") and trace.table("op").column("input_dims").null_count < trace.num_rows("op"):
        return []
    message = (
        f"{_many(ops, 'op was', 'ops were')} recorded without input shapes, so FLOPs, bytes and rooflines are "
        "unknown. Pass record_shapes=True to torch.profiler.profile."
    )
    return _some("no_shapes", trace, ops, message)


def no_stacks(trace: Trace) -> list[Remark]:
    """Ops, but neither call stacks nor Python calls."""
    ops = np.flatnonzero(trace.roles == Role.OP)
    if bool((trace.roles == Role.PYTHON).any()):
        return []
    if trace.num_rows("op") and trace.table("op").column("call_stack").null_count < trace.num_rows("op"):
        return []
    message = (
        f"{_many(ops, 'op was', 'ops were')} recorded without Python stacks, so nothing is traced back to source "
        "lines. Pass with_stack=True to torch.profiler.profile."
    )
    return _some("no_stacks", trace, ops, message)


CHECKS: Final[tuple[Callable[[Trace], list[Remark]], ...]] = (
    overlapping,
    out_of_order,
    no_launch,
    no_kernels,
    clock_outlier,
    several_ranks,
    no_rank,
    no_device_properties,
    no_steps,
    no_shapes,
    no_stacks,
)
"""Every check on tables; a reader's own remarks come before theirs."""


def _device_work(trace: Trace) -> NDArray[np.int32]:
    """Rows of ``slice`` of the kernel and then the memcpy table."""
    return np.concatenate((trace.array("kernel", "slice_id"), trace.array("memcpy", "slice_id")))


def _crowded_children(parent: NDArray[np.int32], dur: NDArray[np.int64], own: NDArray[np.int64]) -> NDArray[np.intp]:
    """The children (rows of ``slice``) of all slices whose children overlap each other."""
    # Children that do not overlap last as long together as what they cover of their parent; others longer.
    # So where the sums over all parents agree, each parent's do.
    with np.errstate(over="ignore"):  # spans of centuries: all sums are modulo 2**64
        own_sum = np.sum(dur) - np.sum(own)
    if np.sum(dur, where=parent >= 0) == own_sum:
        return np.zeros(0, np.intp)
    together = np.bincount(parent + np.int32(1), weights=dur, minlength=len(dur) + 1)[1:]
    crowded = np.append(together != dur - own, False)  # the last: no parent
    return np.flatnonzero(crowded[parent])


def _overlapped(trace: Trace, group: NDArray[Any], rows: NDArray[Any]) -> NDArray[np.bool_]:
    """Which of n rows of ``slice`` start while an earlier one of their group still runs (bool[n])."""
    late = np.zeros(len(rows), bool)
    if len(rows) < 2:
        return late
    start = trace.array("slice", "ts")[rows]
    end = start + trace.array("slice", "dur")[rows]
    order = group_order(group, start)
    group, start, end = group[order], start[order], end[order]
    new = np.concatenate(([True], group[1:] != group[:-1]))
    reached = running_max(end, np.flatnonzero(new))
    sorted_late = np.concatenate(([False], (start[1:] < reached[:-1]) & ~new[1:]))
    late[order] = sorted_late
    return late


def _many(rows: NDArray[Any], one: str, more: str) -> str:
    count = int(rows.sum()) if rows.dtype == bool else len(rows)
    return f"{count:,} {one if count == 1 else more}"


def _some(kind: str, trace: Trace, rows: NDArray[Any], message: str) -> list[Remark]:
    """A remark on rows of ``slice``, if there are any."""
    if not len(rows):
        return []
    return [Remark(kind, len(rows), first_place(trace.array("slice", "byte_offset")[rows]), message)]


def _whole(kind: str, trace: Trace, message: str) -> list[Remark]:
    """A remark on the whole file."""
    return [Remark(kind, trace.info.num_events, None, message)]
