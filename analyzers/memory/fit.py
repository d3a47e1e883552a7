"""What would fit: the largest batch for a capacity, from the peaks of two batch sizes."""

from __future__ import annotations

from profsuite.analyzers.memory.model import DeviceMemory, LargestBatch, MemoryReport


def largest_batch(
    report_small: MemoryReport,
    report_big: MemoryReport,
    batch_small: int,
    batch_big: int,
    capacity_bytes: int,
) -> LargestBatch:
    """The largest batch that fits, where peak memory is a line in the batch size.

    Of each report the highest peak of a complete step of the main device counts, the whole recording's where it has
    no steps.  Exact in whole bytes: peak(b) = peak_small + (b - batch_small) (peak_big - peak_small) / (batch_big -
    batch_small).  The caching allocator's rounding and fragmentation come on top: leave it some room.
    ``ValueError`` for batch sizes or a capacity that are not positive, equal batch sizes, reports without memory or
    of different devices.
    """
    if batch_small < 1 or batch_big < 1 or capacity_bytes < 1:
        raise ValueError("batch sizes and capacity must be positive")
    if batch_small == batch_big:
        raise ValueError("the two batch sizes must differ")
    if batch_small > batch_big:
        report_small, report_big = report_big, report_small
        batch_small, batch_big = batch_big, batch_small
    small, big = report_small.main, report_big.main
    if small is None or big is None:
        raise ValueError("both recordings must have memory events")
    if small.deltas_only or big.deltas_only:
        raise ValueError("both recordings must have totals of memory: changes alone do not tell what was there before")
    if small.device_type != big.device_type:
        raise ValueError(f"the recordings are of different devices ({small.device_type} and {big.device_type})")
    low, high = step_peak(small), step_peak(big)
    rise, run = high - low, batch_big - batch_small
    batch = None
    if rise > 0:
        # (capacity - low) / slope, rounded down: in integers, so that a batch that just fits is not lost.
        batch = max(0, batch_small + (capacity_bytes - low) * run // rise)
    return LargestBatch(
        batch_small=batch_small,
        batch_big=batch_big,
        peak_small_bytes=low,
        peak_big_bytes=high,
        capacity_bytes=capacity_bytes,
        bytes_per_sample=rise / run,
        fixed_bytes=round(low - batch_small * rise / run),
        batch=batch,
    )


def step_peak(device: DeviceMemory) -> int:
    """The highest peak of a complete step, bytes; the peak of the recording where there is none."""
    peaks = [step.peak_bytes for step in device.steps or () if not step.truncated]
    return max(peaks, default=device.peak.allocated_bytes)
