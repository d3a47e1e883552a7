"""Copies and fills that nothing hides, but for copies to the device that are findings of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from profsuite.analyzers.base import Finding
from profsuite.analyzers.findings.blocking_h2d import blocking_h2d
from profsuite.analyzers.findings.copies import blocking_copies, on_compute_stream, pageable_copies
from profsuite.analyzers.findings.pageable_h2d import pageable_h2d
from profsuite.analyzers.findings.wording import grade, ms, per_step, percent, share, somewhere, text, time
from profsuite.analyzers.ranking import longest_names
from profsuite.analyzers.waits import copies_to_device
from profsuite.trace.classes import WORK_KINDS

if TYPE_CHECKING:
    from profsuite.analyzers.analysis import Analysis

FIRES_FROM = 0.03


def exposed_memcpy(analysis: Analysis) -> tuple[Finding, ...]:
    """Fires when copies and fills are exposed for 3 % of the window, without those of other findings.

    Those are ``pageable_h2d`` and ``blocking_h2d``, where they fire.

    Remedy: fewer copies and fills; copies to the host into pinned memory, read later.
    """
    device = analysis.device
    if analysis.main is None or device is None:
        return ()
    work = analysis.work[analysis.main]
    own, cost = work.kind == WORK_KINDS.index("memory"), device.shares.exposed_memcpy_ns
    for rule, copies in ((pageable_h2d, pageable_copies), (blocking_h2d, blocking_copies)):
        if rule(analysis):
            told = copies(analysis)
            own, cost = own & ~told.own, cost - told.exposed_ns
    fraction = analysis.share(cost)
    if fraction < FIRES_FROM:
        return ()
    top = longest_names(analysis.trace, work.ids[own])[0]
    # With a stream of its own a copy to the device is prefetched already, but too late.
    to_device = copies_to_device(analysis.trace)[analysis.trace.array("slice", "name")[top.slice_ids[0]]]
    ahead = bool(to_device) and not on_compute_stream(analysis, own)
    evidence = [
        time("exposed copies and fills", cost),
        share("share of the window", fraction),
        *per_step("exposed copies and fills", analysis, cost),
        text("longest", top.name, top.slice_ids),
        time("its total", top.total_ns),
    ]
    return (
        Finding(
            id="exposed_memcpy",
            title=f"Exposed copies and fills take {ms(cost)} ({percent(fraction)} of the GPU window)",
            severity=grade(fraction, FIRES_FROM),
            evidence=tuple(evidence),
            where=somewhere(analysis),
            remedy=_EARLIER if ahead else memcpy_remedy(top.name),
            cost_ns=cost,
        ),
    )


_EARLIER = (
    "These copies have a stream of their own already: start them earlier, one batch more ahead, so that computation "
    "covers them; check that they come from pinned memory, and that no event makes them wait."
)


def memcpy_remedy(name: str) -> str:
    """What to do about the kind of copy that takes most time."""
    lower = name.lower()
    if "pageable" in lower:
        return (
            "Copy from pinned memory (pin_memory=True in the DataLoader, tensor.pin_memory()) with non_blocking=True, "
            "and prefetch the next batch on another stream: a pageable copy is staged and blocks the host."
        )
    if "htod" in lower or "host_to_device" in lower:
        return "Prefetch the next batch on another stream with non_blocking=True while this one computes."
    if "dtoh" in lower or "device_to_host" in lower:
        return "Copy less to the host, into pinned memory with non_blocking=True, and read it later."
    if "memset" in lower or "fillbuffer" in lower:
        return "Fill less: zero_grad(set_to_none=True), torch.empty instead of torch.zeros where all is overwritten."
    return "Avoid copies on the device: .contiguous(), .clone(), cat and layout changes; torch.compile removes many."
