"""What is said of memory: the values that every source of it (trace, snapshot, raw timeline) is turned into."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from profsuite.analyzers.base import Finding, Ns, Pct

CATEGORIES = (
    "parameter",
    "gradient",
    "optimizer_state",
    "activation",
    "temporary",
    "input",
    "autograd_detail",
    "unknown",
)
"""What memory holds, by code; ``autograd_detail`` is only known to torch's own memory timeline."""

PARAMETER, GRADIENT, OPTIMIZER_STATE, ACTIVATION, TEMPORARY, INPUT, AUTOGRAD_DETAIL, UNKNOWN = range(8)


class MemoryShare(Struct, frozen=True, kw_only=True):
    """What is alive at a moment under one name; ``name`` is null for what was recorded without one.

    ``count`` is null where the source has only sums.
    """

    name: str | None
    bytes: int
    count: int | None
    pct: Pct | None


class LiveAllocation(Struct, frozen=True, kw_only=True):
    """One allocation: size, category, where it was made, from when to when it lived.

    ``step`` and ``end_step`` are the steps that it was made and freed in; ``start_ns`` is null where it was made
    before the recording or without a time, ``end_ns`` where its end was not recorded.  ``removing_saves_bytes`` is how
    much lower the peak of its step (of the recording, where there are no steps) would be without it.
    """

    bytes: int
    category: str
    name: str | None
    op: str | None
    module: str | None
    frame: str | None
    step: int | None
    end_step: int | None
    start_ns: Ns | None
    end_ns: Ns | None
    removing_saves_bytes: int


class MemoryPeak(Struct, frozen=True, kw_only=True):
    """The moment of most allocated memory, and what was alive then, by four groupings that each sum to it.

    ``ts_ns`` is null where the source has no times; ``entry`` is the row of a snapshot's history.  ``by_module`` and
    ``by_frame`` are null where neither was recorded, ``by_op`` where there are no ops.  ``unseen_bytes`` is the part
    that no allocation in the source explains.
    """

    ts_ns: Ns | None
    entry: int | None
    step: int | None
    allocated_bytes: int
    reserved_bytes: int | None
    unseen_bytes: int
    by_category: tuple[MemoryShare, ...]
    by_op: tuple[MemoryShare, ...] | None
    by_module: tuple[MemoryShare, ...] | None
    by_frame: tuple[MemoryShare, ...] | None
    largest: tuple[LiveAllocation, ...]


class MemoryPoint(Struct, frozen=True, kw_only=True):
    """A point of the curves; of each stretch of events the highest, so that no peak is lost.

    ``entry`` is the row of a snapshot's history, null for other sources.
    """

    ts_ns: Ns | None
    allocated_bytes: int
    reserved_bytes: int | None
    entry: int | None = None


class CategoryCurve(Struct, frozen=True, kw_only=True):
    """Bytes of one category alive at each point of the ``timeline``."""

    category: str
    bytes: tuple[int, ...]


class CategoryLifetime(Struct, frozen=True, kw_only=True):
    """How long the allocations of one category live; times only of those of which both ends were recorded."""

    category: str
    count: int
    bytes: int
    num_ended: int
    median_ns: Ns | None
    max_ns: Ns | None


class StepMemory(Struct, frozen=True, kw_only=True):
    """One step: most bytes allocated within it, and those alive when it ended."""

    number: int
    peak_bytes: int
    end_bytes: int
    truncated: bool


class MemoryGrowth(Struct, frozen=True, kw_only=True):
    """Bytes alive at the ends of consecutive complete steps, the first one (warm-up) left out.

    ``monotone`` where every end is above the one before.  ``bytes_per_step`` is the median difference.  The
    groupings are of what was allocated after the first end, outlived the end of a step, and is alive at the last.
    """

    first_step: int
    last_step: int
    num_steps: int
    bytes_per_step: int
    total_bytes: int
    monotone: bool
    by_op: tuple[MemoryShare, ...] | None
    by_module: tuple[MemoryShare, ...] | None
    by_frame: tuple[MemoryShare, ...] | None


class SegmentMemory(Struct, frozen=True, kw_only=True):
    """One segment; ``fragmentation_pct`` = 1 - largest free block / free, null where nothing is free."""

    address: int
    kind: str | None
    pool: str | None
    expandable: bool | None
    total_bytes: int
    free_bytes: int
    largest_free_bytes: int
    num_blocks: int
    fragmentation_pct: Pct | None


class Fragmentation(Struct, frozen=True, kw_only=True):
    """The allocator's cache when the snapshot was made.

    ``free_bytes`` is reserved, and in no use: of it ``releasable_bytes`` lie in segments that are wholly free (what
    ``empty_cache`` gives back), ``split_bytes`` beside blocks in use.  ``rounding_bytes`` is in use without having
    been asked for.  ``fragmentation_pct`` = 1 - largest free block / free.  ``segments`` are those with most free.
    """

    reserved_bytes: int
    allocated_bytes: int
    pending_bytes: int
    free_bytes: int
    largest_free_bytes: int
    num_free_blocks: int
    releasable_bytes: int
    split_bytes: int
    rounding_bytes: int | None
    num_segments: int
    fragmentation_pct: Pct | None
    segments: tuple[SegmentMemory, ...]


class AllocatorRetry(Struct, frozen=True, kw_only=True):
    """The driver had no memory: cached segments were given back for one allocation.

    ``freed_bytes`` in ``num_segments``; ``wanted_bytes`` is the segment that was then taken, null where even that
    failed.
    """

    entry: int
    ts_ns: Ns | None
    num_segments: int
    freed_bytes: int
    wanted_bytes: int | None
    frame: str | None


class OutOfMemory(Struct, frozen=True, kw_only=True):
    """An allocation that failed: its size and stack (innermost first), and what there was at that moment.

    ``device_free_bytes`` is what the driver had, ``cached_bytes`` what the allocator had reserved and not in use.
    """

    entry: int
    ts_ns: Ns | None
    bytes: int
    device_free_bytes: int | None
    allocated_bytes: int
    reserved_bytes: int
    cached_bytes: int
    stack: tuple[str, ...]


class DeviceMemory(Struct, frozen=True, kw_only=True):
    """The memory of one device.

    Frees without an allocation were allocated before the recording: they are counted, and their memory is in the
    curve from its start.  ``num_unfreed`` allocations have no recorded free.  ``num_breaks`` counts events after
    which the recorder's own total differs from the total before plus the event (null without totals): memory that it
    did not report.  What a source cannot tell is null: steps and growth of snapshots, fragmentation, retries and
    failures of traces, all but sums of raw timelines.  ``over_time`` (null for snapshots, which know no categories)
    sums to ``allocated_bytes`` of each point, but where the recorder's total is below what it reported as allocated.
    ``deltas_only`` marks a trace whose events have neither addresses nor totals: every number of bytes is then above
    what was allocated when the recording began (or above the least that this can have been, where more was freed than
    allocated), allocations are not joined to their frees, and what rests on that is null.
    """

    device_type: str
    device: int | None
    num_allocations: int | None
    num_frees: int | None
    num_frees_without_allocation: int | None
    freed_without_allocation_bytes: int | None
    num_unfreed: int | None
    num_breaks: int | None
    before_bytes: int | None
    end_bytes: int
    peak: MemoryPeak
    peak_reserved_bytes: int | None
    timeline: tuple[MemoryPoint, ...]
    lifetimes: tuple[CategoryLifetime, ...] | None
    steps: tuple[StepMemory, ...] | None
    growth: MemoryGrowth | None
    fragmentation: Fragmentation | None
    num_retries: int | None
    retries: tuple[AllocatorRetry, ...] | None
    out_of_memory: tuple[OutOfMemory, ...] | None
    over_time: tuple[CategoryCurve, ...] | None = None
    deltas_only: bool = False


class LargestBatch(Struct, frozen=True, kw_only=True):
    """What would fit: a line through the peaks of two batch sizes.

    ``fixed_bytes`` does not depend on the batch.  ``batch`` is the largest whole batch whose predicted peak is at
    most the capacity, null where memory does not grow with the batch; 0 where not even one sample fits.
    """

    batch_small: int
    batch_big: int
    peak_small_bytes: int
    peak_big_bytes: int
    capacity_bytes: int
    bytes_per_sample: float
    fixed_bytes: int
    batch: int | None


class MemoryReport(Struct, frozen=True, kw_only=True):
    """All that one recording says of memory; ``notes`` say what it lacks and how to record it."""

    source: str
    kind: Literal["trace", "snapshot", "timeline"]
    rank: int | None
    devices: tuple[DeviceMemory, ...]
    notes: tuple[str, ...]
    findings: tuple[Finding, ...] | None = None
    largest_batch: LargestBatch | None = None

    @property
    def main(self) -> DeviceMemory | None:
        """The device to speak of first: the accelerator with the highest peak, else the CPU; null without any."""
        return max(self.devices, key=lambda d: (d.device_type != "CPU", d.peak.allocated_bytes), default=None)
