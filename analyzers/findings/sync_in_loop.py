"""The host waits for the device inside the job (``.item()``, ``nonzero``, blocking copies); the device then idles."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from profsuite.analyzers.base import Evidence, Finding, Place
from profsuite.analyzers.findings.wording import count, grade, ms, per_step, percent, share, somewhere, text, time
from profsuite.analyzers.host_calls import INPUT, OP, PYTHON, SYNC, waits_for_values
from profsuite.analyzers.places import source_frame

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from profsuite.analyzers.analysis import Analysis

FIRES_FROM = 0.02
"""Share of the window that the device idles after such waits, from which it is a finding whatever their number."""

WARNING = 0.05


def sync_in_loop(analysis: Analysis) -> tuple[Finding, ...]:
    """Fires when waits leave the device idle for 2 % of the window, or when every step has one."""
    rows = loop_syncs(analysis)
    cost = analysis.idle_ns("sync")
    fraction, steps = analysis.share(cost), analysis.steps.count
    often = steps > 1 and len(rows) >= steps
    if analysis.main is None or not len(rows) or not (often or fraction >= FIRES_FROM):
        return ()
    callers, waited = _callers(analysis, rows)
    caller = int(callers[0])
    evidence = [
        count("waits", len(rows), rows[:5].tolist()),
        *((Evidence(label="waits", value=round(len(rows) / steps, 2), unit="per step"),) if steps else ()),
        time("the host waits", int(analysis.trace.array("slice", "dur")[rows].sum())),
        time("device idle after them", cost),
        share("share of the window", fraction),
        *per_step("device idle after them", analysis, cost),
        text("most wait in", analysis.name_of(caller), [caller]),
        time("waited there", waited),
    ]
    values = _values(analysis)
    if len(values):
        evidence.append(
            count("values read by the host (.item(), nonzero and the like)", len(values), values[:5].tolist())
        )
    if fraction >= FIRES_FROM:
        title = f"The GPU idles {ms(cost)} ({percent(fraction)} of the GPU window) after the host waited for it"
    else:
        title = f"The host waits for the GPU {len(rows)} times" + (f" in {steps} steps" if steps else "")
    return (
        Finding(
            id="sync_in_loop",
            title=title,
            severity=grade(fraction, WARNING),
            evidence=tuple(evidence),
            where=_place(analysis, caller),
            remedy=SYNC_REMEDY,
            cost_ns=cost,
        ),
    )


SYNC_REMEDY = (
    "Don't read device values on the host inside the loop: keep losses and metrics on the device and read them every "
    "N steps, replace .item(), .cpu(), nonzero and boolean indexing by masked arithmetic (torch.where), copy from "
    "pinned memory with non_blocking=True. torch.cuda.set_sync_debug_mode('warn') names each line."
)


def loop_syncs(analysis: Analysis) -> NDArray[np.int64]:
    """Host waits that device work was launched after (the profiler's own last wait does not count), longest first."""
    trace = analysis.trace
    launches = [w.launch_ids[w.launch_ids >= 0] for w in analysis.work]
    ids = np.concatenate(launches) if launches else np.zeros(0, np.int64)
    if not len(ids):
        return ids
    start = trace.array("slice", "ts")
    last = int(start[ids].max())
    rows = analysis.rows_of(SYNC)
    parent = trace.array("slice", "parent_id")[rows]
    inner = (parent >= 0) & (analysis.timelines.classes[parent] == SYNC)
    kept: NDArray[np.int64] = rows[(start[rows] < last) & ~inner]
    return kept


def _callers(analysis: Analysis, rows: NDArray[np.int64]) -> tuple[NDArray[np.int64], int]:
    """The waits of the op (or function) under which most time was waited, longest first, as its rows; that time."""
    trace, classes = analysis.trace, analysis.timelines.classes
    parent = trace.array("slice", "parent_id")
    caller = np.where(parent[rows] >= 0, parent[rows], rows).astype(np.int64)
    # The outermost op around the wait says more than the innermost: aten::item, not aten::_local_scalar_dense.
    climb = np.flatnonzero(parent[caller] >= 0)
    while len(climb):
        up = parent[caller[climb]].astype(np.int64)
        goes = (classes[up] == OP) & np.isin(classes[caller[climb]], (OP, PYTHON, INPUT, SYNC))
        climb, up = climb[goes], up[goes]
        caller[climb] = up
        climb = climb[parent[caller[climb]] >= 0]
    name = trace.array("slice", "name")[caller]
    waited = np.zeros(int(name.max()) + 1, np.int64)
    np.add.at(waited, name, trace.array("slice", "dur")[rows])
    most = int(waited.argmax())
    return caller[name == most], int(waited[most])


def _values(analysis: Analysis) -> NDArray[np.int64]:
    reads = waits_for_values(analysis.trace)[analysis.trace.array("slice", "name")]
    return np.flatnonzero(reads & (analysis.timelines.classes == OP))


def _place(analysis: Analysis, caller: int) -> Place:
    return somewhere(analysis, caller, op=analysis.name_of(caller), source=source_frame(analysis.trace, caller))
