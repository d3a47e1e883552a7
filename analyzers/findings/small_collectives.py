"""Many collectives so small that their latency is what they cost."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from profsuite.analyzers.base import Evidence, Finding
from profsuite.analyzers.collectives import KINDS
from profsuite.analyzers.findings.wording import count, grade, ms, per_step, percent, share, somewhere, text, time

if TYPE_CHECKING:
    from profsuite.analyzers.analysis import Analysis

SMALL_BYTES = 250_000
"""What 100 Gb/s, a slow connection for a GPU, moves in 20 µs, a good latency: below it waiting for the first byte
takes longer than the rest."""

A_STEP, IN_ALL = 8, 20
"""Small collectives a step, or without steps in the window, from which they are many."""
LEAST = 0.02
"""Share of the window from which they are worth a line."""


def small_collectives(analysis: Analysis) -> tuple[Finding, ...]:
    """Fires when many small collectives are exposed for 2 % of the window.

    Of each no more counts than the shortest of its kind and size took: the rest is waiting for other ranks.

    Remedy: send more at a time.
    """
    c = analysis.collectives
    small = np.flatnonzero((c.num_bytes >= 0) & (c.num_bytes <= SMALL_BYTES))
    steps = analysis.num_steps
    if not c.on_device or len(small) < (A_STEP * steps if steps else IN_ALL):
        return ()
    cost = int(np.minimum(c.exposed_ns, c.shortest)[small].sum())
    fraction = analysis.share(cost)
    if fraction < LEAST:
        return ()
    kind = KINDS[int(np.bincount(c.kind[small]).argmax())]
    longest = small[np.argsort(-c.dur[small], kind="stable")[:5]]
    sources = c.source[small]
    source = c.sources[int(np.bincount(sources[sources >= 0]).argmax())] if (sources >= 0).any() else None
    each = int(np.median(c.num_bytes[small]))
    evidence = [
        count("small collectives", len(small), c.slice_ids[longest].tolist()),
        *((Evidence(label="a step", value=len(small) / steps, unit="count"),) if steps else ()),
        text("most of them", kind),
        Evidence(label="median size", value=each, unit="bytes"),
        time("median duration", int(np.median(c.dur[small]))),
        time("exposed", cost),
        share("share of the window", fraction),
        *per_step("exposed", analysis, cost),
    ]
    return (
        Finding(
            id="small_collectives",
            title=f"{len(small):,} collectives of at most 250 kB cost {ms(cost)} ({percent(fraction)}): mostly latency",
            severity=grade(fraction),
            evidence=tuple(evidence),
            where=somewhere(analysis, int(c.slice_ids[longest[0]]), source=source),
            remedy=(
                "Send more at a time: DDP with a larger bucket_cap_mb and gradient_as_bucket_view, fully_shard on "
                "whole blocks instead of single layers, metrics reduced in one tensor (or every n-th step), "
                "_foreach-style flattening or coalescing around own collectives."
            ),
            cost_ns=cost,
            counted_in=("exposed_communication",),
        ),
    )
