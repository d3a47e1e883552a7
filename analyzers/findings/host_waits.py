"""The host's waits of some kinds, what the device loses to them, and the words that their findings share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from profsuite.analyzers.base import Evidence, Finding, Place
from profsuite.analyzers.findings.wording import count, grade, ms, per_step, percent, share, somewhere, text, time
from profsuite.analyzers.host_calls import INPUT, OP, PYTHON, SYNC
from profsuite.analyzers.places import source_frame
from profsuite.trace.intervals import union_length

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from numpy.typing import NDArray

    from profsuite.analyzers.analysis import Analysis
    from profsuite.analyzers.waits import Wait

FIRES_FROM = 0.02
"""Share of the window that the device idles after such waits, from which it is a finding whatever their number."""

WARNING = 0.05


@dataclass(frozen=True)
class HostWaits:
    """Waits of some kinds: rows of ``slice``, the longest first; idle time of the main device that follows them, ns."""

    rows: NDArray[np.int64]
    idle_ns: int


def host_waits(analysis: Analysis, kinds: Collection[Wait]) -> HostWaits:
    """The waits of some kinds that device work was launched after, and the gaps of cause ``sync`` they end in."""
    of_kind = np.isin(analysis.waits.kind, [int(kind) for kind in kinds])
    gaps = analysis.gaps
    after = None if gaps is None else (gaps.wait >= 0) & of_kind[np.maximum(gaps.wait, 0)]
    rows = loop_syncs(analysis)
    return HostWaits(rows[of_kind[rows]], 0 if gaps is None else int(gaps.dur[after].sum()))


def matters(analysis: Analysis, waits: HostWaits) -> bool:
    """Whether they cost 2 % of the window, or every step has one."""
    steps = analysis.num_steps
    often = steps > 1 and analysis.waits.number(waits.rows) >= steps
    return bool(len(waits.rows)) and (often or analysis.share(waits.idle_ns) >= FIRES_FROM)


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


def waits_finding(
    analysis: Analysis,
    waits: HostWaits,
    *,
    kind: str,
    idle: str,
    often: str,
    more: Sequence[Evidence],
    remedy: Callable[[str], str],
) -> Finding:
    """The finding on waits that matter; ``idle`` ends the title where the device idles, ``often`` begins it elsewhere.

    ``remedy`` is given the name of the op (or call) under which most time was waited.
    """
    cost, steps = waits.idle_ns, analysis.num_steps
    fraction, rows = analysis.share(cost), waits.rows
    number = analysis.waits.number(rows)
    callers, waited = _callers(analysis, rows)
    caller = int(callers[0])
    start, end = analysis.trace.array("slice", "ts"), analysis.trace.end
    evidence = [
        count("waits", number, rows[:5].tolist()),
        *((Evidence(label="waits", value=number / steps, unit="per step"),) if steps else ()),
        time("the host waits", union_length(start[rows], end[rows])),
        time("device idle after them", cost),
        share("share of the window", fraction),
        *per_step("device idle after them", analysis, cost),
        text("most wait in", analysis.name_of(caller), callers[:5].tolist()),
        time("waited there", waited),
        *more,
    ]
    if fraction >= FIRES_FROM:
        title = f"The GPU idles {ms(cost)} ({percent(fraction)} of the GPU window) {idle}"
    else:
        title = f"{often} {number} times" + (f" in {steps} steps" if steps else "")
    return Finding(
        id=kind,
        title=title,
        severity=grade(fraction, WARNING),
        evidence=tuple(evidence),
        where=_place(analysis, caller),
        remedy=remedy(analysis.name_of(caller)),
        cost_ns=cost,
    )


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


def _place(analysis: Analysis, caller: int) -> Place:
    return somewhere(analysis, caller, op=analysis.name_of(caller), source=source_frame(analysis.trace, caller))
