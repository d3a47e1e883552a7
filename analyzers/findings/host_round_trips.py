"""An op takes its data to the host and back: part of it runs on the CPU."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from profsuite.analyzers.base import Finding
from profsuite.analyzers.enclosing import enclosing, outermost
from profsuite.analyzers.findings.marked_time import host_marks
from profsuite.analyzers.findings.wording import count, grade, ms, per_step, percent, share, somewhere, text, time
from profsuite.analyzers.places import source_frame
from profsuite.analyzers.ranking import longest_names
from profsuite.analyzers.waits import copies_to_device, copies_to_host
from profsuite.trace.classes import WORK_KINDS
from profsuite.trace.intervals import clip, merge, subtract_length

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from profsuite.analyzers.analysis import Analysis

FIRES_FROM = 0.01
MIN_BYTES = 4096
"""Smaller copies carry sizes and pointers, not data."""


def host_round_trips(analysis: Analysis) -> tuple[Finding, ...]:
    """Fires when ops that copy data to the host and then back leave the device without compute 1 % of the window.

    Remedy: another algorithm or backend, batched calls, or once outside of the loop.
    """
    rows = round_trips(analysis)
    if not len(rows) or analysis.main is None:
        return ()
    trace, work = analysis.trace, analysis.work[analysis.main]
    computes = work.kind != WORK_KINDS.index("memory")
    held = clip(merge(trace.array("slice", "ts")[rows], trace.end[rows]), *work.window)
    cost = subtract_length(held, merge(work.start[computes], work.end[computes]))
    fraction = analysis.share(cost)
    if fraction < FIRES_FROM:
        return ()
    top = longest_names(trace, rows)[0]
    return (
        Finding(
            id="host_round_trips",
            title=f"{top.name} goes through the CPU: {ms(cost)} ({percent(fraction)} of the GPU window)",
            severity=grade(fraction),
            evidence=(
                count("ops that copy to the host and back", len(rows), rows[:5].tolist()),
                text("longest", top.name, top.slice_ids),
                count("its calls", top.count),
                time("its total", top.total_ns),
                time("without compute during them", cost),
                share("share of the window", fraction),
                *per_step("without compute", analysis, cost),
            ),
            where=somewhere(analysis, top.slice_ids[0], op=top.name, source=source_frame(trace, top.slice_ids[0])),
            remedy=(
                "The op has no kernel for this device, or its library works on both: use another algorithm or backend "
                "(torch.backends.cuda.preferred_linalg_library), batch many small calls into one, or do it once "
                "outside of the loop."
            ),
            cost_ns=cost,
            counted_in=("host_bound", "item_in_loop", "exposed_memcpy", "pageable_h2d", "blocking_h2d"),
        ),
    )


def round_trips(analysis: Analysis) -> NDArray[np.int64]:
    """Outermost aten ops in which a copy of data to the host is followed by one to the device, longest first."""
    trace = analysis.trace
    none = np.zeros(0, np.int64)
    if not trace.num_rows("memcpy"):
        return none
    launch, moved = trace.array("memcpy", "launch_id"), trace.array("memcpy", "bytes")
    name = trace.array("slice", "name")[trace.array("memcpy", "slice_id")]
    known = (launch >= 0) & (moved >= MIN_BYTES)
    to_host = launch[known & copies_to_host(trace)[name]].astype(np.int64)
    back = launch[known & copies_to_device(trace)[name]].astype(np.int64)
    if not len(to_host) or not len(back):
        return none
    roots = np.zeros(trace.num_rows("slice"), bool)
    roots[outermost(trace, host_marks(analysis, r"^aten::"))] = True
    root = enclosing(trace, roots)
    start = trace.array("slice", "ts")
    first, last = np.full(len(root), 2**62), np.full(len(root), -(2**62))
    np.minimum.at(first, root[to_host][root[to_host] >= 0], start[to_host][root[to_host] >= 0])
    np.maximum.at(last, root[back][root[back] >= 0], start[back][root[back] >= 0])
    rows = np.flatnonzero(last > first)
    return rows[np.argsort(-trace.array("slice", "dur")[rows], kind="stable")]
