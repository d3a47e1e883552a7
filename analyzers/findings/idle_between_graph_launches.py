"""The device idles between CUDA graphs: the next one is launched only after the last one has ended."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from profsuite.analyzers.base import Finding
from profsuite.analyzers.findings.wording import (
    WARNING,
    count,
    grade,
    ms,
    per_step,
    percent,
    share,
    somewhere,
    text,
    time,
)
from profsuite.analyzers.host_calls import launches_graphs
from profsuite.analyzers.idle import CAUSES
from profsuite.analyzers.places import source_frame

if TYPE_CHECKING:
    from profsuite.analyzers.analysis import Analysis


def idle_between_graph_launches(analysis: Analysis) -> tuple[Finding, ...]:
    """Fires when gaps from one graph launch's work to another's, for a late CPU, make 5 % of the window.

    Remedy: launch the next graph before the last one ends; capture more into one graph.
    """
    gaps = analysis.gaps
    if gaps is None or analysis.main is None:
        return ()
    trace, work = analysis.trace, analysis.work[analysis.main]
    is_graph = launches_graphs(trace)[trace.array("slice", "name")]
    launch = work.launch_ids
    graphed = (launch >= 0) & is_graph[np.maximum(launch, 0)]
    after = np.maximum(gaps.follows, 0)
    before = work.last[np.maximum(after - 1, 0)]
    between = (gaps.follows > 0) & graphed[after] & graphed[before] & (launch[after] != launch[before])
    between &= gaps.cause == CAUSES.index("host")
    at = np.flatnonzero(between)
    at = at[np.argsort(-gaps.dur[at], kind="stable")]
    cost = int(gaps.dur[at].sum())
    fraction = analysis.share(cost)
    if fraction < WARNING:
        return ()
    longest = int(launch[after[at[0]]])
    return (
        Finding(
            id="idle_between_graph_launches",
            title=f"The GPU idles {ms(cost)} ({percent(fraction)} of the GPU window) between CUDA graphs",
            severity=grade(fraction),
            evidence=(
                time("idle between graphs", cost, work.ids[after[at[:5]]].tolist()),
                share("share of the window", fraction),
                *per_step("idle between graphs", analysis, cost),
                count("such gaps", len(at)),
                time("longest", int(gaps.dur[at[0]])),
                count("graph launches", len(np.unique(launch[graphed]))),
                text("launched by", analysis.name_of(longest), [longest]),
            ),
            where=somewhere(analysis, longest, op=analysis.op_of(longest), source=source_frame(trace, longest)),
            remedy=(
                "Launch the next graph before the last one ends: prepare its inputs earlier or inside the graph, read "
                "results later (no .item() between replays), and capture more into one graph."
            ),
            cost_ns=cost,
            counted_in=("host_bound",),
        ),
    )
