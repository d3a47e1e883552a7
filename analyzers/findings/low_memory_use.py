"""The device is underused, and most of its memory is free: the batch can grow."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from profsuite.analyzers.base import Evidence, Finding
from profsuite.analyzers.findings.wording import percent, share, somewhere, time

if TYPE_CHECKING:
    from profsuite.analyzers.analysis import Analysis

FIRES_BELOW = 0.3
"""Share of the device's memory that the job reserves at most."""

STARVED = 0.2
"""Share of the window that the device idles for a late CPU, from which more work a launch helps."""


@dataclass(frozen=True)
class MemoryPeak:
    """The most that the allocator had reserved on the main device, of what the device has; bytes."""

    reserved_bytes: int
    capacity_bytes: int

    @property
    def fraction(self) -> float:
        """Reserved of capacity."""
        return self.reserved_bytes / self.capacity_bytes


def low_memory_use(analysis: Analysis) -> tuple[Finding, ...]:
    """Fires when at most 30 % of the memory is reserved while the device idles 20 % of the window for a late CPU.

    Needs memory events with totals (``profile_memory=True``), steps, and the device's capacity in the file's header.

    Remedy: a larger batch.
    """
    peak, idle = memory_peak(analysis), analysis.idle_ns("host")
    if peak is None or not analysis.steps.count or analysis.too_little:
        return ()
    if peak.fraction >= FIRES_BELOW or analysis.share(idle) < STARVED:
        return ()
    return (
        Finding(
            id="low_memory_use",
            title=f"The job reserves {percent(peak.fraction)} of the GPU's memory, and the GPU waits for launches",
            severity="info",
            evidence=(
                Evidence(label="reserved at most", value=peak.reserved_bytes, unit="bytes"),
                Evidence(label="memory of the GPU", value=peak.capacity_bytes, unit="bytes"),
                time("device idle while the CPU is late", idle),
                share("share of the window", analysis.share(idle)),
            ),
            where=somewhere(analysis),
            remedy=(
                "Use a larger batch (with the learning rate scaled to it): each launch then does more work for the "
                "same dispatch. For inference, batch requests."
            ),
            cost_ns=None,
        ),
    )


def memory_peak(analysis: Analysis) -> MemoryPeak | None:
    """The peak on the main device; null where the file has no totals or no capacity."""
    trace, device = analysis.trace, analysis.device
    if device is None:
        return None
    ordinal = 0 if device.device is None else device.device
    facts = next((row for row in trace.info.devices if row.get("id") == ordinal), {})
    capacity = facts.get("totalGlobalMem")
    reserved = trace.array("memory_event", "total_reserved_bytes")
    of = (trace.array("memory_event", "device") == ordinal) & (trace.array("memory_event", "device_type") > 0)
    top = int(reserved[of].max(initial=-1)) if len(reserved) else -1
    if not isinstance(capacity, int) or isinstance(capacity, bool) or capacity <= 0 or not 0 < top <= capacity:
        return None
    return MemoryPeak(top, capacity)
