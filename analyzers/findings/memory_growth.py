"""Memory that is alive grows from step to step."""

from __future__ import annotations

from typing import TYPE_CHECKING

from profsuite.analyzers.base import Evidence, Finding, Place
from profsuite.analyzers.findings.wording import bytes_of, memory, text

if TYPE_CHECKING:
    from profsuite.analyzers.findings.wording import WithMemory
    from profsuite.analyzers.memory.model import DeviceMemory

FIRES_FROM = 0.001
"""Growth a step, as a share of the peak: below it lies what lists of losses and the like keep."""
CRITICAL_FROM = 0.02


def memory_growth(analysis: WithMemory) -> tuple[Finding, ...]:
    """Fires when bytes alive at the ends of steps rise from every step to the next, by 0.1 % of the peak a step.

    Remedy: keep no tensors of past steps (losses as ``item()``, cleared lists, no ``retain_graph``).
    """
    return tuple(found for device in memory(analysis) if (found := _of(analysis, device)) is not None)


def _of(analysis: WithMemory, device: DeviceMemory) -> Finding | None:
    growth = device.growth
    if growth is None or not growth.monotone:
        return None
    share = growth.bytes_per_step / max(1, device.peak.allocated_bytes)
    if share < FIRES_FROM:
        return None
    evidence = [
        Evidence(label="growth", value=growth.bytes_per_step, unit="bytes"),
        Evidence(label="steps that end higher than the one before", value=growth.num_steps - 1, unit="count"),
        Evidence(label="grown in all", value=growth.total_bytes, unit="bytes"),
        Evidence(label="peak", value=device.peak.allocated_bytes, unit="bytes"),
    ]
    op, frame = (next((s.name for s in by or () if s.name), None) for by in (growth.by_op, growth.by_frame))
    if op:
        evidence.append(text("most of what stays was allocated by", op))
    return Finding(
        id="memory_growth",
        title=(
            f"Memory alive at the end of a step grows by {bytes_of(growth.bytes_per_step)} a step, in every step from "
            f"{growth.first_step} to {growth.last_step}"
        ),
        severity="critical" if share >= CRITICAL_FROM else "warning",
        evidence=tuple(evidence),
        where=Place(
            rank=analysis.memory.rank if analysis.memory else None,
            device=device.device,
            step=growth.first_step,
            op=op,
            source=frame,
        ),
        remedy=(
            "Something keeps tensors of past steps: add losses to a running total as loss.item() or loss.detach(), "
            "clear lists and caches of outputs, and don't pass retain_graph=True."
        ),
    )
