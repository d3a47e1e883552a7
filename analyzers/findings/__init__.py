"""The kinds of findings, one file each; ``findings`` runs them all and sorts what they find."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from msgspec.structs import replace

from profsuite.analyzers.base import SEVERITIES, Finding
from profsuite.analyzers.findings.allocator_calls import allocator_calls
from profsuite.analyzers.findings.allocator_retries import allocator_retries
from profsuite.analyzers.findings.anomaly_mode import anomaly_mode
from profsuite.analyzers.findings.blocking_h2d import blocking_h2d
from profsuite.analyzers.findings.compile_in_steps import compile_in_steps
from profsuite.analyzers.findings.cpu_only import cpu_only
from profsuite.analyzers.findings.cpu_saturated import cpu_saturated
from profsuite.analyzers.findings.cudnn_autotuning import cudnn_autotuning
from profsuite.analyzers.findings.dtype_conversions import dtype_conversions
from profsuite.analyzers.findings.exposed_communication import exposed_communication
from profsuite.analyzers.findings.exposed_memcpy import exposed_memcpy
from profsuite.analyzers.findings.far_from_roofline import far_from_roofline
from profsuite.analyzers.findings.garbage_collection import garbage_collection
from profsuite.analyzers.findings.graph_breaks import graph_breaks
from profsuite.analyzers.findings.host_bound import host_bound
from profsuite.analyzers.findings.host_communication import host_communication
from profsuite.analyzers.findings.host_copies import host_copies
from profsuite.analyzers.findings.host_round_trips import host_round_trips
from profsuite.analyzers.findings.idle_between_graph_launches import idle_between_graph_launches
from profsuite.analyzers.findings.input_bound import input_bound
from profsuite.analyzers.findings.item_in_loop import item_in_loop
from profsuite.analyzers.findings.kernel_bound import kernel_bound
from profsuite.analyzers.findings.late_prefetch import late_prefetch
from profsuite.analyzers.findings.layout_transposes import layout_transposes
from profsuite.analyzers.findings.low_memory_use import low_memory_use
from profsuite.analyzers.findings.low_occupancy_tail import low_occupancy_tail
from profsuite.analyzers.findings.memory_fragmentation import memory_fragmentation
from profsuite.analyzers.findings.memory_growth import memory_growth
from profsuite.analyzers.findings.memory_peak_transient import memory_peak_transient
from profsuite.analyzers.findings.module_loading import module_loading
from profsuite.analyzers.findings.no_device_work import no_device_work
from profsuite.analyzers.findings.no_tensor_cores import no_tensor_cores
from profsuite.analyzers.findings.optimizer_zero_grad import optimizer_zero_grad
from profsuite.analyzers.findings.out_of_memory import out_of_memory
from profsuite.analyzers.findings.pageable_h2d import pageable_h2d
from profsuite.analyzers.findings.profiler_overhead import profiler_overhead
from profsuite.analyzers.findings.recompiles import recompiles
from profsuite.analyzers.findings.recompute_cost import recompute_cost
from profsuite.analyzers.findings.savings import with_saving
from profsuite.analyzers.findings.serialised_streams import serialised_streams
from profsuite.analyzers.findings.single_tensor_optimizer import single_tensor_optimizer
from profsuite.analyzers.findings.small_collectives import small_collectives
from profsuite.analyzers.findings.small_kernels import small_kernels
from profsuite.analyzers.findings.sorted_gradients import sorted_gradients
from profsuite.analyzers.findings.sparse_slower_than_dense import sparse_slower_than_dense
from profsuite.analyzers.findings.step_outliers import step_outliers
from profsuite.analyzers.findings.stream_waits import stream_waits
from profsuite.analyzers.findings.sync_in_loop import sync_in_loop
from profsuite.analyzers.findings.throttling import throttling
from profsuite.analyzers.findings.trace_health import trace_health
from profsuite.analyzers.findings.unfused_attention import unfused_attention
from profsuite.analyzers.findings.unfused_pointwise import unfused_pointwise
from profsuite.analyzers.findings.wording import WithMemory
from profsuite.analyzers.findings.worker_startup import worker_startup

if TYPE_CHECKING:
    from collections.abc import Callable

    from profsuite.analyzers.analysis import Analysis
    from profsuite.analyzers.memory.model import MemoryReport

NOISE = 0.005
"""Share of the window below which a loss isn't worth a line."""


class Rule(Protocol):
    """A kind of finding: looks at one trace and returns what it finds, nothing if it does not apply."""

    def __call__(self, analysis: Analysis, /) -> tuple[Finding, ...]:
        """What it finds in this trace."""
        ...


class MemoryRule(Protocol):
    """A kind of finding that looks at memory alone."""

    def __call__(self, analysis: WithMemory, /) -> tuple[Finding, ...]:
        """What it finds."""
        ...


@dataclass(frozen=True)
class _MemoryAlone:
    """Memory without a trace."""

    memory: MemoryReport


MEMORY_RULES: tuple[MemoryRule, ...] = (
    out_of_memory,
    memory_growth,
    allocator_retries,
    memory_fragmentation,
    memory_peak_transient,
)
"""Every kind that memory alone tells."""

RULES: tuple[Rule, ...] = (
    input_bound,
    worker_startup,
    host_copies,
    host_bound,
    cpu_saturated,
    anomaly_mode,
    item_in_loop,
    sync_in_loop,
    host_round_trips,
    pageable_h2d,
    blocking_h2d,
    exposed_memcpy,
    exposed_communication,
    late_prefetch,
    small_collectives,
    kernel_bound,
    single_tensor_optimizer,
    optimizer_zero_grad,
    unfused_pointwise,
    small_kernels,
    no_tensor_cores,
    unfused_attention,
    far_from_roofline,
    low_occupancy_tail,
    dtype_conversions,
    layout_transposes,
    sparse_slower_than_dense,
    idle_between_graph_launches,
    sorted_gradients,
    recompute_cost,
    low_memory_use,
    stream_waits,
    serialised_streams,
    allocator_calls,
    compile_in_steps,
    recompiles,
    graph_breaks,
    cudnn_autotuning,
    module_loading,
    garbage_collection,
    step_outliers,
    *MEMORY_RULES,
    throttling,
    profiler_overhead,
    host_communication,
    cpu_only,
    no_device_work,
    trace_health,
)
"""Every kind, in the order in which equals are listed."""


def findings(analysis: Analysis) -> tuple[Finding, ...]:
    """All findings: gravest first, then by what they are worth: what they save by replay, or cost, if that is less.

    What costs less than ``NOISE`` of the window is none.  Where there is too little to judge, what it costs is told
    but not graded.
    """
    found = [finding for rule in RULES for finding in rule(analysis)]
    found = [finding for finding in found if finding.cost_ns is None or analysis.share(finding.cost_ns) >= NOISE]
    seen = {finding.id for finding in found}
    found = [replace(f, counted_in=tuple(kind for kind in f.counted_in if kind in seen)) for f in found]
    found = [with_saving(analysis, finding) for finding in found]
    if analysis.too_little:
        found = [finding if finding.cost_ns is None else replace(finding, severity="info") for finding in found]
    return _sorted(found, lambda finding: _worth(analysis, finding))


def memory_findings(report: MemoryReport) -> tuple[Finding, ...]:
    """What memory alone tells, in the same order."""
    return _sorted([finding for rule in MEMORY_RULES for finding in rule(_MemoryAlone(report))], lambda _: 0.0)


def _sorted(found: list[Finding], worth: Callable[[Finding], float]) -> tuple[Finding, ...]:
    return tuple(sorted(found, key=lambda f: (SEVERITIES.index(f.severity), -worth(f), -(f.cost_ns or 0))))


def _worth(analysis: Analysis, finding: Finding) -> float:
    """What a finding is sure to be worth, ns: what its remedy saves by replay, but no more than was seen lost."""
    cost = finding.cost_ns
    if finding.saving_ms_per_step is None:
        return cost or 0
    saving = finding.saving_ms_per_step * 1e6 * analysis.num_steps
    return saving if cost is None else min(saving, cost)
