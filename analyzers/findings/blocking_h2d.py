"""Copies to the device that the host waits for, or that stand in the way of the kernels on their stream."""

from __future__ import annotations

from typing import TYPE_CHECKING

from profsuite.analyzers.base import Finding
from profsuite.analyzers.findings.copies import blocking_copies
from profsuite.analyzers.findings.device_time import longest_of
from profsuite.analyzers.findings.host_waits import host_waits
from profsuite.analyzers.findings.wording import (
    bytes_moved,
    count,
    grade,
    ms,
    per_step,
    percent,
    share,
    somewhere,
    time,
)
from profsuite.analyzers.places import source_frame
from profsuite.analyzers.waits import Wait

if TYPE_CHECKING:
    from profsuite.analyzers.analysis import Analysis

FIRES_FROM = 0.03


def blocking_h2d(analysis: Analysis) -> tuple[Finding, ...]:
    """Fires when copies on the compute stream run exposed, or blocking ones leave the device idle, 3 % of the window.

    Pageable copies are a finding of their own (``pageable_h2d``).

    Remedy: prefetch on a stream of its own with non_blocking=True.
    """
    if analysis.main is None:
        return ()
    copies, waits = blocking_copies(analysis), host_waits(analysis, [Wait.FROM_HOST])
    cost = copies.exposed_ns + waits.idle_ns
    fraction = analysis.share(cost)
    if fraction < FIRES_FROM:
        return ()
    trace, work = analysis.trace, analysis.work[analysis.main]
    rows = longest_of(analysis, copies.own)
    row = rows[0] if rows else int(waits.rows[0])
    launch = int(work.launch_ids[work.ids == row][0]) if rows else row
    return (
        Finding(
            id="blocking_h2d",
            title=f"Copies to the GPU that nothing overlaps cost {ms(cost)} ({percent(fraction)} of the GPU window)",
            severity=grade(fraction),
            evidence=(
                count("copies on the compute stream", int(copies.own.sum()), rows),
                *bytes_moved(analysis, copies.own),
                time("exposed on the device", copies.exposed_ns),
                count("copies that the host waited for", analysis.waits.number(waits.rows), waits.rows[:5].tolist()),
                time("device idle after those", waits.idle_ns),
                share("share of the window", fraction),
                *per_step("lost to them", analysis, cost),
            ),
            where=somewhere(
                analysis,
                launch if launch >= 0 else row,
                op=analysis.op_of(launch),
                source=source_frame(trace, launch) if launch >= 0 else None,
            ),
            remedy=(
                "Copy the next batch on another stream while this one computes: non_blocking=True from pinned memory "
                "inside torch.cuda.stream(copy_stream), then current_stream().wait_stream(copy_stream) and "
                "tensor.record_stream."
            ),
            cost_ns=cost,
        ),
    )
