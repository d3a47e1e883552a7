"""One allocation that lives for a moment makes the peak."""

from __future__ import annotations

from typing import TYPE_CHECKING

from profsuite.analyzers.base import Evidence, Finding, Place
from profsuite.analyzers.findings.wording import bytes_of, memory, percent, text

if TYPE_CHECKING:
    from profsuite.analyzers.findings.wording import WithMemory
    from profsuite.analyzers.memory.model import DeviceMemory, LiveAllocation

FIRES_FROM = 0.1
"""Share of the peak that goes away without the allocation."""
WARNING_FROM = 0.25

LASTING = ("parameter", "gradient", "optimizer_state", "input")


def memory_peak_transient(analysis: WithMemory) -> tuple[Finding, ...]:
    """Fires when the peak would be 10 % lower without one allocation that is made and freed within a step.

    Without steps: that is made and freed within the op that it was made for.

    Remedy: don't hold it whole (chunked or fused loss, fused attention), work in place or in 16 bits.
    """
    return tuple(found for device in memory(analysis) if (found := _of(analysis, device)) is not None)


def _of(analysis: WithMemory, device: DeviceMemory) -> Finding | None:
    peak = device.peak
    passing = [one for one in peak.largest if _passes(device, one)]
    if not passing or not peak.allocated_bytes:
        return None
    one = max(passing, key=lambda each: each.removing_saves_bytes)
    share = one.removing_saves_bytes / peak.allocated_bytes
    if share < FIRES_FROM or one.start_ns is None or one.end_ns is None:
        return None
    evidence = [
        Evidence(label="the allocation", value=one.bytes, unit="bytes"),
        Evidence(label="the peak", value=peak.allocated_bytes, unit="bytes"),
        Evidence(label="the peak without it", value=peak.allocated_bytes - one.removing_saves_bytes, unit="bytes"),
        Evidence(label="it lives for", value=one.end_ns - one.start_ns, unit="ns"),
        text("category", one.category),
    ]
    if one.module:
        evidence.append(text("module", one.module))
    return Finding(
        id="memory_peak_transient",
        title=(
            f"One short-lived allocation of {bytes_of(one.bytes)} makes the peak: without it "
            f"{bytes_of(peak.allocated_bytes)} would be {percent(share)} less"
        ),
        severity="warning" if share >= WARNING_FROM else "info",
        evidence=tuple(evidence),
        where=Place(
            rank=analysis.memory.rank if analysis.memory else None,
            device=device.device,
            step=one.step,
            start_ns=one.start_ns,
            end_ns=one.end_ns,
            op=one.op,
            source=one.frame,
        ),
        remedy=(
            "Don't hold it whole: compute the loss over chunks of the logits (or with a fused linear cross entropy), "
            "use scaled_dot_product_attention instead of a softmax over all scores, work in place or in 16 bits."
        ),
    )


def _passes(device: DeviceMemory, one: LiveAllocation) -> bool:
    """Whether it is known to come and go within a step."""
    if one.category in LASTING or one.start_ns is None or one.end_ns is None:
        return False
    if one.category == "temporary":
        return True
    return device.steps is not None and one.step is not None and one.end_step == one.step
