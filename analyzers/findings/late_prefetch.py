"""All-gathers that are launched only when their result is needed, although computation ran before."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from profsuite.analyzers.base import Finding
from profsuite.analyzers.collectives import KINDS, NONE
from profsuite.analyzers.findings.wording import count, grade, ms, per_step, percent, share, somewhere, time
from profsuite.trace.intervals import covered

if TYPE_CHECKING:
    from profsuite.analyzers.analysis import Analysis

PROMPT_NS = 20_000
"""A kernel that starts within this time of its launch was waited for by its stream, not the other way round."""
LEAST, FEWEST = 0.02, 3
"""Share of the window, and number of all-gathers, from which it is worth a line."""


def late_prefetch(analysis: Analysis) -> tuple[Finding, ...]:
    """Fires when all-gathers that start once they are launched are exposed, and an earlier launch had hidden them.

    What counts of each is the exposed part of its transfer (the shortest of its size), at most the computation that
    ran before it while its stream was free.

    Remedy: launch the next block's all-gather before this block's computation.
    """
    c = analysis.collectives
    prompt = (c.kind == KINDS.index("all_gather")) & (c.launched != NONE)
    prompt[prompt] = c.start[prompt] - c.launched[prompt] <= PROMPT_NS
    if not c.on_device or not prompt.any():
        return ()
    transfer = np.minimum(c.exposed_ns, c.shortest)
    free_from = np.maximum(np.where(c.previous_end == NONE, analysis.start_ns, c.previous_end), c.start - transfer)
    hidden = np.where(prompt, np.minimum(transfer, covered(free_from, c.start, c.compute)), 0)
    rows = np.flatnonzero(hidden > 0)
    cost = int(hidden.sum())
    fraction = analysis.share(cost)
    if len(rows) < FEWEST or fraction < LEAST:
        return ()
    longest = rows[np.argsort(-hidden[rows], kind="stable")[:5]]
    sources = c.source[rows]
    source = c.sources[int(np.bincount(sources[sources >= 0]).argmax())] if (sources >= 0).any() else None
    evidence = [
        count("all-gathers launched late", len(rows), c.slice_ids[longest].tolist()),
        count("of all all-gathers", int((c.kind == KINDS.index("all_gather")).sum())),
        time("an earlier launch had hidden", cost),
        share("share of the window", fraction),
        *per_step("an earlier launch had hidden", analysis, cost),
    ]
    return (
        Finding(
            id="late_prefetch",
            title=f"All-gathers are launched too late: {ms(cost)} ({percent(fraction)}) could lie behind computation",
            severity=grade(fraction),
            evidence=tuple(evidence),
            where=somewhere(analysis, int(c.slice_ids[longest[0]]), source=source),
            remedy=(
                "Launch the next block's all-gather before this block's computation: with fully_shard, "
                "set_modules_to_forward_prefetch and set_modules_to_backward_prefetch, or unshard(async_op=True); "
                "with FSDP1, forward_prefetch=True and BackwardPrefetch.BACKWARD_PRE. If the CPU is behind anyway, "
                "launch less: torch.compile, larger batches. It costs the memory of one more block."
            ),
            cost_ns=cost,
            counted_in=("exposed_communication",),
        ),
    )
