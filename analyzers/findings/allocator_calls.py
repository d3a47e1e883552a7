"""Device memory is allocated or freed through the driver while the job runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from profsuite.analyzers.base import Finding
from profsuite.analyzers.findings.wording import count, grade, ms, percent, share, somewhere, text, time
from profsuite.analyzers.host_calls import ALLOCATOR
from profsuite.analyzers.ranking import longest_names

if TYPE_CHECKING:
    from profsuite.analyzers.analysis import Analysis

FIRES_FROM = 0.02


def allocator_calls(analysis: Analysis) -> tuple[Finding, ...]:
    """Fires when such calls leave the device idle, or hold a launching thread, for 2 % of the window.

    Remedy: profile after warm-up; expandable_segments:True, stable shapes, no empty_cache().
    """
    if analysis.main is None:
        return ()
    idle = analysis.idle_ns("allocator")
    held = max((t.shares.allocator_ns for t in analysis.host.threads if t.num_launches), default=0)
    of_host = held / analysis.host.window_ns if analysis.host.window_ns else 0.0
    fraction = max(analysis.share(idle), of_host)
    rows = analysis.rows_of(ALLOCATOR)
    if fraction < FIRES_FROM or not len(rows):
        return ()
    top = longest_names(analysis.trace, rows)[0]
    longest = int(rows[0])
    return (
        Finding(
            id="allocator_calls",
            title=(
                f"The GPU idles {ms(idle)} ({percent(fraction)} of the GPU window) while the driver allocates or frees "
                "memory"
                if analysis.share(idle) >= of_host
                else f"Device memory calls hold the launching thread for {ms(held)} ({percent(fraction)} of the "
                "recording)"
            ),
            severity=grade(fraction, FIRES_FROM),
            evidence=(
                time("device idle for them", idle),
                time("launching thread inside them", held),
                share("share of the window", fraction),
                count("calls", len(rows), rows[:5].tolist()),
                text("longest", top.name, top.slice_ids),
                time("its total", top.total_ns),
            ),
            where=somewhere(analysis, longest),
            remedy=(
                "The caching allocator went to the driver; the first such call also sets up the device. Profile after "
                "warm-up; if it goes on, set "
                "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, keep shapes stable, leave head-room in memory, and "
                "don't call torch.cuda.empty_cache() in the loop."
            ),
            cost_ns=idle or None,  # what merely holds the thread costs nothing that was measured
        ),
    )
