"""The job waits for its input: the device idles, or the CPU job stands, while the loader fetches."""

from __future__ import annotations

from typing import TYPE_CHECKING

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
    whole,
)
from profsuite.analyzers.host_calls import INPUT

if TYPE_CHECKING:
    from profsuite.analyzers.analysis import Analysis

NO_WORKERS = "_SingleProcessDataLoaderIter"
"""In the name of the loader's wait where ``num_workers=0``."""


def input_bound(analysis: Analysis) -> tuple[Finding, ...]:
    """Fires from 5 % of the window: device idle for input, or on CPU jobs the main thread inside the loader.

    Remedy: more loader workers, prefetching, pinned memory; cheaper transforms.
    """
    cost = input_wait_ns(analysis)
    fraction = analysis.share(cost)
    if fraction < WARNING:
        return ()
    rows = analysis.rows_of(INPUT)
    parent = analysis.trace.array("slice", "parent_id")[rows]
    waits = rows[(parent < 0) | (analysis.timelines.classes[parent] != INPUT)]
    longest = int(waits[0])
    dur = analysis.trace.array("slice", "dur")
    evidence = [share("share of the window", fraction), *per_step("lost to input", analysis, cost)]
    if analysis.device:
        idle = analysis.device.shares.idle_ns
        evidence = [time("device idle for input", cost), share("share of the idle time", cost / idle), *evidence]
        title = f"The GPU idles {ms(cost)} ({percent(fraction)} of the GPU window) for input"
    else:
        evidence = [time("main thread waits for input", cost), *evidence]
        title = f"The main thread waits {ms(cost)} ({percent(fraction)} of the {whole(analysis)}) for input"
    evidence += [
        count("waits", len(waits)),
        time("longest wait", int(dur[longest]), waits[:5].tolist()),
        text("waits in", analysis.name_of(longest)),
    ]
    return (
        Finding(
            id="input_bound",
            title=title,
            severity=grade(fraction),
            evidence=tuple(evidence),
            where=somewhere(analysis, longest),
            remedy=input_remedy(analysis),
            cost_ns=cost,
        ),
    )


def input_wait_ns(analysis: Analysis) -> int:
    """Time lost to input in the window: idle time of the main device, on CPU jobs time of the main thread, ns."""
    if analysis.device:
        return analysis.idle_ns("input")
    threads = analysis.host.threads
    return threads[0].shares.input_ns if threads else 0


def loads_without_workers(analysis: Analysis) -> bool:
    """Whether the loader works in the training process (``num_workers=0``)."""
    rows = analysis.rows_of(INPUT)
    return bool(len(rows)) and NO_WORKERS in analysis.name_of(int(rows[0]))


def input_remedy(analysis: Analysis) -> str:
    """What to do about a loader that is too slow, by how it works."""
    if loads_without_workers(analysis):
        return (
            "The DataLoader works in the training process. Give it workers (num_workers=4 or more, up to the cores "
            "of this rank), with persistent_workers=True and pin_memory=True, and copy with non_blocking=True."
        )
    return (
        "The loader's workers don't keep up. Raise num_workers (up to the cores of this rank) or prefetch_factor; if "
        "the cores are busy already, make the transforms cheaper (decode on the GPU, cache or pre-process the data "
        "set); if they wait, look at the storage."
    )
