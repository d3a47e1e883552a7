"""Copies from pageable memory to the device: staged by the driver, and blocking however they are asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from profsuite.analyzers.base import Finding
from profsuite.analyzers.findings.copies import pageable_copies
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
from profsuite.trace.intervals import union_length

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from profsuite.analyzers.analysis import Analysis

FIRES_FROM = 0.02


def pageable_h2d(analysis: Analysis) -> tuple[Finding, ...]:
    """Fires when such copies run exposed, or leave the device idle after them, for 2 % of the window.

    Remedy: pinned memory with non_blocking=True; small tensors made on the device.
    """
    if analysis.main is None:
        return ()
    copies, waits = pageable_copies(analysis), host_waits(analysis, [Wait.FROM_PAGEABLE])
    cost = copies.exposed_ns + waits.idle_ns
    fraction = analysis.share(cost)
    if fraction < FIRES_FROM:
        return ()
    trace, work = analysis.trace, analysis.work[analysis.main]
    rows = longest_of(analysis, copies.own)
    row = rows[0] if rows else int(waits.rows[0])
    launch = int(work.launch_ids[work.ids == row][0]) if rows else row
    start, end = trace.array("slice", "ts"), trace.end
    return (
        Finding(
            id="pageable_h2d",
            title=(
                f"Copies from pageable memory cost {ms(cost)} ({percent(fraction)} of the GPU window): they run alone "
                "and block the host"
            ),
            severity=grade(fraction),
            evidence=(
                count("copies", int(copies.own.sum()), rows),
                *bytes_moved(analysis, copies.own),
                time("exposed on the device", copies.exposed_ns),
                time("device idle after them", waits.idle_ns),
                share("share of the window", fraction),
                *per_step("lost to them", analysis, cost),
                time(
                    "the host waits in them", union_length(start[waits.rows], end[waits.rows]), waits.rows[:5].tolist()
                ),
            ),
            where=somewhere(
                analysis,
                launch if launch >= 0 else row,
                op=analysis.op_of(launch),
                source=source_frame(trace, launch) if launch >= 0 else None,
            ),
            remedy=_remedy(analysis, copies.own),
            cost_ns=cost,
        ),
    )


SMALL = 64 * 1024
"""Bytes a copy, on average, below which it carries no batch."""


def _remedy(analysis: Analysis, own: NDArray[np.bool_]) -> str:
    moved = sum(evidence.value for evidence in bytes_moved(analysis, own) if isinstance(evidence.value, int))
    if 0 < moved < SMALL * int(own.sum()):
        return (
            "These copies are small, and each holds the host until the GPU has it. Create such tensors on the GPU "
            "(device='cuda'), pass single numbers as Python scalars, keep index tensors on the GPU, or collect the "
            "values of a step in one pinned tensor that is copied with non_blocking=True."
        )
    return (
        "Copy from pinned memory (pin_memory=True in the DataLoader, tensor.pin_memory()) with non_blocking=True, and "
        "prefetch the next batch on another stream."
    )
