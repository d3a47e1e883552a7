"""The report: what every analyzer found in one trace, as one value that renderers and JSON print.

The JSON schema is ``msgspec.json.schema(Report)``; ``REPORT_VERSION`` rises whenever a field changes its name,
type or meaning.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from profsuite.analyzers.analysis import Analysis
from profsuite.analyzers.attention import AttentionTable
from profsuite.analyzers.base import Finding, Ns
from profsuite.analyzers.breakdown import DeviceBreakdown
from profsuite.analyzers.compile_time import CompileTime
from profsuite.analyzers.findings import findings
from profsuite.analyzers.host import HostBreakdown
from profsuite.analyzers.idle import IdleBreakdown
from profsuite.analyzers.kernels import KernelTable
from profsuite.analyzers.memory.model import MemoryReport
from profsuite.analyzers.ops import OpTable
from profsuite.analyzers.roofline import Roofline
from profsuite.analyzers.sparse import SparseTable
from profsuite.analyzers.steps import StepSummary
from profsuite.analyzers.verdict import verdict
from profsuite.analyzers.whatif.scenarios import Replays
from profsuite.trace.model import Trace
from profsuite.trace.select import selected_time

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping


REPORT_VERSION = 1

SECTIONS = (
    "verdict", "findings", "breakdown", "idle", "host", "steps", "compilation", "whatif", "ops", "kernels", "roofline",
    "attention", "sparse", "memory", "health",
)  # fmt: skip
"""What ``only`` may name; a section that was not asked for is null in the report."""


class DeviceFacts(Struct, frozen=True, kw_only=True):
    """One device as the file's header describes it; null where it does not say."""

    ordinal: int | None
    name: str | None
    memory_bytes: int | None
    num_sms: int | None


class TraceFacts(Struct, frozen=True, kw_only=True):
    """What was read: sizes, the time it spans, the devices.

    ``duration_ns`` is from the first slice's start to the last one's end, host and device, of a selected time within
    it; null in a trace without slices.  ``reader`` is ``c`` or ``python``; ``selection`` is what was loaded of the
    file, in words.
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
    work.  ``memory`` is null in a trace without memory events, ``compilation`` in one without torch.compile's marks.
    A section that was not asked for is null.
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
    compilation: CompileTime | None = None
    whatif: Replays | None = None
    ops: OpTable | None
    kernels: KernelTable | None
    roofline: Roofline | None
    attention: AttentionTable | None
    sparse: SparseTable | None
    memory: MemoryReport | None = None
    health: tuple[HealthRow, ...] | None


def analyze(
    trace: Trace,
    top: int = 10,
    only: Collection[str] | None = None,
    peak: Mapping[str, float] | None = None,
) -> Report:
    """Everything that can be said of one trace; lists hold ``top`` rows.

    ``only`` names the sections wanted (of ``SECTIONS``; all by default): the others are null, and not computed
    unless a wanted one needs them.  ``peak`` gives the device's peaks where they are not known or not right, as
    ``{"bf16": 989e12, "bandwidth": 3.35e12}`` (FLOP/s, bytes a second).  ``ValueError`` for a section that does not
    exist, or ``top`` below 1.
    """
    unknown = sorted(set(only or ()) - set(SECTIONS))
    if unknown:
        raise ValueError(f"no section {unknown[0]!r}; there are {', '.join(SECTIONS)}")
    if not isinstance(trace, Trace):
        raise TypeError(f"analyze takes a Trace, not {type(trace).__name__}; read the file first: profsuite.load(path)")
    if top < 1:
        raise ValueError(f"top must be at least 1, not {top}")
    return report_of(Analysis(trace, top, peak), only)


def report_of(analysis: Analysis, only: Collection[str] | None = None) -> Report:
    """The report on an analysis; the sections in ``only``, all by default."""
    trace, wanted = analysis.trace, set(SECTIONS if only is None else only)
    if trace.num_rows("slice") >= MANY_SLICES:
        _ahead(analysis, wanted)
    return Report(
        schema_version=REPORT_VERSION,
        source=trace.info.source,
        rank=trace.info.rank,
        trace=trace_facts(trace),
        verdict=verdict(analysis) if "verdict" in wanted else None,
        findings=findings(analysis) if "findings" in wanted else None,
        breakdown=analysis.breakdown if "breakdown" in wanted else None,
        idle=analysis.idle if "idle" in wanted else None,
        host=analysis.host if "host" in wanted else None,
        steps=analysis.steps if "steps" in wanted else None,
        compilation=analysis.compilation if "compilation" in wanted else None,
        whatif=analysis.replays if "whatif" in wanted else None,
        ops=analysis.ops if "ops" in wanted else None,
        kernels=analysis.kernels if "kernels" in wanted else None,
        roofline=analysis.roofline if "roofline" in wanted else None,
        attention=analysis.attention if "attention" in wanted else None,
        sparse=analysis.sparse if "sparse" in wanted else None,
        memory=analysis.memory if "memory" in wanted else None,
        health=tuple(HealthRow(**row) for row in trace.health.to_pylist()) if "health" in wanted else None,
    )


MANY_SLICES = 200_000
"""From this many slices on a second thread is worth its start."""


def _ahead(analysis: Analysis, wanted: set[str]) -> None:
    """Compute the replays, and then the memory, in another thread, while this one computes what does not need them.

    What both need is computed first.  What goes wrong there goes wrong again, and is raised, where the value is used.
    """
    parts = [name for name, section in (("replays", "whatif"), ("memory", "memory")) if section in wanted]
    if not parts:
        return
    for name in ("work", "timelines", "host"):
        getattr(analysis, name)

    def compute() -> None:
        with suppress(Exception):
            for name in parts:
                getattr(analysis, name)

    thread = threading.Thread(target=compute, name="profsuite-replay", daemon=True)
    thread.start()
    for name in ("breakdown", "idle", "steps", "ops", "kernels", "roofline", "attention", "sparse"):
        if name in wanted or "findings" in wanted:
            getattr(analysis, name)
    thread.join()


def trace_facts(trace: Trace) -> TraceFacts:
    """Sizes, span and devices of a trace."""
    info, start = trace.info, trace.array("slice", "ts")
    return TraceFacts(
        num_events=info.num_events,
        num_slices=len(start),
        num_bytes=info.num_bytes,
        duration_ns=_duration(trace) if len(start) else None,
        reader=info.reader,
        world_size=info.world_size,
        backend=info.backend,
        devices=tuple(_device(row) for row in info.devices),
        selection=info.selection,
    )


def _duration(trace: Trace) -> int:
    begin, end = int(trace.array("slice", "ts").min()), int(trace.end.max())
    chosen = selected_time(trace)
    return end - begin if chosen is None else min(end, chosen[1]) - max(begin, chosen[0])


def _device(row: dict[str, Any]) -> DeviceFacts:
    return DeviceFacts(
        ordinal=_whole(row.get("id")),
        name=str(row["name"]) if row.get("name") else None,
        memory_bytes=_whole(row.get("totalGlobalMem")),
        num_sms=_whole(row.get("numSms")),
    )


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
