"""Memory of torch's own timeline: sums by category, no single allocations."""

from __future__ import annotations

import numpy as np

from profsuite.analyzers.base import pct
from profsuite.analyzers.memory.model import CategoryCurve, DeviceMemory, MemoryPeak, MemoryReport, MemoryShare
from profsuite.analyzers.memory.peak import curve_points, points
from profsuite.trace.memory_timeline import TORCH_CATEGORIES, MemoryTimeline


def timeline_memory(timeline: MemoryTimeline) -> MemoryReport:
    """What a timeline says of memory; the categories are torch's, at the moment of the highest sum."""
    levels = np.stack([timeline.array(name) for name in TORCH_CATEGORIES])
    ts, total = timeline.array("ts"), levels.sum(axis=0)
    devices: tuple[DeviceMemory, ...] = ()
    if len(total):
        at = int(np.argmax(total))
        shown = curve_points(total)
        peak = max(0, int(total[at]))
        held = sorted(zip(TORCH_CATEGORIES, levels[:, at].tolist(), strict=True), key=lambda pair: -pair[1])
        devices = (
            DeviceMemory(
                device_type="unknown",
                device=None,
                num_allocations=None,
                num_frees=None,
                num_frees_without_allocation=None,
                freed_without_allocation_bytes=None,
                num_unfreed=None,
                num_breaks=None,
                before_bytes=int(total[0]),
                end_bytes=int(total[-1]),
                peak=MemoryPeak(
                    ts_ns=int(ts[at]),
                    entry=None,
                    step=None,
                    allocated_bytes=peak,
                    reserved_bytes=None,
                    unseen_bytes=0,
                    by_category=tuple(
                        MemoryShare(name=name, bytes=size, count=None, pct=pct(min(size, peak), peak))
                        for name, size in held
                        if size > 0
                    ),
                    by_op=None,
                    by_module=None,
                    by_frame=None,
                    largest=(),
                ),
                peak_reserved_bytes=None,
                timeline=points(ts, total, None, shown),
                over_time=tuple(
                    CategoryCurve(category=name, bytes=tuple(held[shown].tolist()))
                    for name, held in zip(TORCH_CATEGORIES, levels, strict=True)
                    if held.any()
                ),
                lifetimes=None,
                steps=None,
                growth=None,
                fragmentation=None,
                num_retries=None,
                retries=None,
                out_of_memory=None,
            ),
        )
    return MemoryReport(
        source=timeline.source,
        kind="timeline",
        rank=None,
        devices=devices,
        notes=(
            "A memory timeline holds sums by category, without ops, modules or frames: the trace of the same run, "
            "recorded with profile_memory=True, has them.",
        ),
    )
