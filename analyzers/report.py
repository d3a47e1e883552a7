"""The report: what every analyzer found in one trace, as one value that renderers and JSON print.

The JSON schema is ``msgspec.json.schema(Report)``; ``REPORT_VERSION`` rises whenever a field changes its name,
type or meaning.
"""

from __future__ import annotations

from msgspec import Struct

from profsuite.analyzers.base import Finding, Ns
from profsuite.analyzers.breakdown import DeviceBreakdown
from profsuite.analyzers.host import HostBreakdown
from profsuite.analyzers.idle import IdleBreakdown
from profsuite.analyzers.kernels import KernelTable
from profsuite.analyzers.ops import OpTable
from profsuite.analyzers.steps import StepSummary

REPORT_VERSION = 1

SECTIONS = ("verdict", "findings", "breakdown", "idle", "host", "steps", "ops", "kernels", "health")
"""What ``only`` may name; a section that was not asked for is null in the report."""


class DeviceFacts(Struct, frozen=True, kw_only=True):
    """One device as the file's header describes it; null where it does not say."""

    ordinal: int | None
    name: str | None
    memory_bytes: int | None
    num_sms: int | None


class TraceFacts(Struct, frozen=True, kw_only=True):
    """What was read: sizes, the time it spans, the devices.

    ``duration_ns`` is from the first slice's start to the last one's end, host and device; null in a trace
    without slices.  ``reader`` is ``c`` or ``python``; ``selection`` is what was loaded of the file, in words.
    """

    num_events: int
    num_slices: int
    num_bytes: int
    duration_ns: Ns | None
    reader: str
    world_size: int | None
    backend: str | None
    devices: tuple[DeviceFacts, ...]
    selection: str | None


class HealthRow(Struct, frozen=True, kw_only=True):
    """One kind of fault or lack in the file, as the reader reported it."""

    kind: str
    count: int
    byte_offset: int | None
    message: str


class Report(Struct, frozen=True, kw_only=True):
    """Everything found in one trace.

    ``verdict`` is one or two plain sentences: what holds the job back, its numbers, what to do.  ``findings`` are
    sorted: gravest first, then by cost.  ``breakdown`` and ``idle`` have one row a device, empty without device
    work.  A section that was not asked for is null.
    """

    schema_version: int
    source: str
    rank: int | None
    trace: TraceFacts
    verdict: str | None
    findings: tuple[Finding, ...] | None
    breakdown: tuple[DeviceBreakdown, ...] | None
    idle: tuple[IdleBreakdown, ...] | None
    host: HostBreakdown | None
    steps: StepSummary | None
    ops: OpTable | None
    kernels: KernelTable | None
    health: tuple[HealthRow, ...] | None
