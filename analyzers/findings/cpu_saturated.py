"""The machine's processors are all busy while the device, or the training process, waits for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from profsuite.analyzers.base import Evidence, Finding
from profsuite.analyzers.findings.input_bound import input_wait_ns
from profsuite.analyzers.findings.wording import count, percent, share, somewhere, time

if TYPE_CHECKING:
    from profsuite.analyzers.analysis import Analysis

BUSY_PCT = 90.0
MIN_SAMPLES = 5
WAITS = 0.1
"""Share of the window that is lost to a late CPU or to input, from which the processors matter."""


def cpu_saturated(analysis: Analysis) -> tuple[Finding, ...]:
    """Fires when all cores are 90 % busy on average, and 10 % of the window is lost to a late CPU or to input.

    From the collector's ``CPU`` counter, at least five samples.

    Remedy: fewer threads and workers a rank, cheaper work, ranks bound to cores.
    """
    times, busy = analysis.samples("CPU", "system_pct")
    busy = np.clip(busy, 0, 100)
    lost = analysis.idle_ns("host") + input_wait_ns(analysis)
    if len(times) < MIN_SAMPLES or busy.mean() < BUSY_PCT or analysis.share(lost) < WAITS:
        return ()
    evidence = [
        share("all cores busy, mean", float(busy.mean()) / 100),
        share("all cores busy, most", float(busy.max()) / 100),
        count("samples", len(times)),
        time("lost to a late CPU or to input", lost),
        share("share of the window", analysis.share(lost)),
    ]
    own, threads = analysis.samples("CPU", "process_pct")[1], analysis.samples("CPU", "threads")[1]
    if len(own):
        evidence.append(Evidence(label="of it this process", value=float(own.mean()) / 100, unit="cores"))
    if len(threads):
        evidence.append(Evidence(label="threads of this process, most", value=float(threads.max())))
    return (
        Finding(
            id="cpu_saturated",
            title=f"The machine's cores are {percent(float(busy.mean()) / 100)} busy, and the job waits for them",
            severity="warning",
            evidence=tuple(evidence),
            where=somewhere(analysis),
            remedy=(
                "More workers or threads won't help: make the work cheaper, or use fewer. Give each rank its share of "
                "the cores (OMP_NUM_THREADS, torch.set_num_threads, num_workers; torch's default is every core for "
                "each process), bind ranks to cores, and look at what else runs on the machine."
            ),
            cost_ns=None,
        ),
    )
