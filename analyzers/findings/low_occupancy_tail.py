"""Launches do not fill the device: their last wave of blocks, or their only one, leaves multiprocessors idle."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from profsuite.analyzers.base import Evidence, Finding
from profsuite.analyzers.findings.kernel_share import FIRES_FROM, kernel_share
from profsuite.analyzers.findings.wording import count, grade, percent, share, somewhere, text, time
from profsuite.analyzers.ranking import sum_by_group

if TYPE_CHECKING:
    from profsuite.analyzers.analysis import Analysis


def low_occupancy_tail(analysis: Analysis) -> tuple[Finding, ...]:
    """Fires when unfilled last waves of kernels of 10 µs or more waste 5 % of the window.

    Waves = blocks / (multiprocessors x blocks that one holds); what is lost is kernel time x (1 - waves / ceil(waves)).

    Remedy: larger launches, sizes that fill whole waves, max-autotune.
    """
    work = analysis.device_costs
    waves = analysis.waves
    lost = waves.lost
    ns = int(lost.sum())
    fraction = kernel_share(analysis, ns)
    if fraction < FIRES_FROM:
        return ()
    names, words = (
        analysis.trace.array("slice", "name")[work.ids].astype(np.int64),
        analysis.trace.words("slice", "name"),
    )
    by_name = sum_by_group(names, lost.astype(np.int64), len(words))
    worst = int(by_name.argmax())
    runs = np.flatnonzero((names == worst) & (lost > 0))
    longest = [int(work.ids[run]) for run in runs[np.argsort(-lost[runs], kind="stable")[:5]]]
    below = float(np.average(waves.waves[runs], weights=work.dur[runs]))
    return (
        Finding(
            id="low_occupancy_tail",
            title=f"Launches that do not fill the GPU waste up to {percent(fraction)} of the window",
            severity=grade(fraction),
            evidence=(
                time("lost in unfilled last waves", ns, longest),
                share("share of the window", fraction),
                count("kernels concerned", int((lost > 0).sum())),
                text("the largest part in", str(words[worst]), longest[:1]),
                time("its part", int(by_name[worst])),
                Evidence(label="its mean number of waves", value=below),
            ),
            where=somewhere(analysis, longest[0]),
            remedy=_FEW if below < 1 else _TAIL,
            cost_ns=ns,
            counted_in=("far_from_roofline", "no_tensor_cores", "unfused_attention"),
        ),
    )


_FEW = (
    "The launch has fewer blocks than the GPU holds at once: give it more work (a larger batch, longer sequences), let "
    "torch.compile with max-autotune choose smaller tiles or split k, or run independent kernels side by side."
)
_TAIL = (
    "The last wave is not full: choose sizes whose number of tiles is a multiple of what the GPU holds at once, or "
    "let torch.compile with max-autotune choose tiles and persistent kernels."
)
