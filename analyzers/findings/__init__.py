"""The kinds of findings, one file each; ``findings`` runs them all and sorts what they find."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from msgspec.structs import replace

from profsuite.analyzers.base import SEVERITIES, Finding
from profsuite.analyzers.findings.allocator_calls import allocator_calls
from profsuite.analyzers.findings.compile_in_steps import compile_in_steps
from profsuite.analyzers.findings.cpu_only import cpu_only
from profsuite.analyzers.findings.dtype_conversions import dtype_conversions
from profsuite.analyzers.findings.exposed_communication import exposed_communication
from profsuite.analyzers.findings.exposed_memcpy import exposed_memcpy
from profsuite.analyzers.findings.far_from_roofline import far_from_roofline
from profsuite.analyzers.findings.garbage_collection import garbage_collection
from profsuite.analyzers.findings.host_bound import host_bound
from profsuite.analyzers.findings.host_communication import host_communication
from profsuite.analyzers.findings.input_bound import input_bound
from profsuite.analyzers.findings.kernel_bound import kernel_bound
from profsuite.analyzers.findings.layout_transposes import layout_transposes
from profsuite.analyzers.findings.low_occupancy_tail import low_occupancy_tail
from profsuite.analyzers.findings.no_device_work import no_device_work
from profsuite.analyzers.findings.no_tensor_cores import no_tensor_cores
from profsuite.analyzers.findings.small_kernels import small_kernels
from profsuite.analyzers.findings.sparse_slower_than_dense import sparse_slower_than_dense
from profsuite.analyzers.findings.step_outliers import step_outliers
from profsuite.analyzers.findings.stream_waits import stream_waits
from profsuite.analyzers.findings.sync_in_loop import sync_in_loop
from profsuite.analyzers.findings.trace_health import trace_health
from profsuite.analyzers.findings.unfused_attention import unfused_attention

if TYPE_CHECKING:
    from profsuite.analyzers.analysis import Analysis

NOISE = 0.005
"""Share of the window below which a loss isn't worth a line."""


class Rule(Protocol):
    """A kind of finding: looks at one trace and returns what it finds, nothing if it does not apply."""

    def __call__(self, analysis: Analysis, /) -> tuple[Finding, ...]:
        """What it finds in this trace."""
        ...


RULES: tuple[Rule, ...] = (
    input_bound,
    host_bound,
    sync_in_loop,
    exposed_communication,
    exposed_memcpy,
    kernel_bound,
    small_kernels,
    no_tensor_cores,
    unfused_attention,
    far_from_roofline,
    low_occupancy_tail,
    dtype_conversions,
    layout_transposes,
    sparse_slower_than_dense,
    stream_waits,
    allocator_calls,
    compile_in_steps,
    garbage_collection,
    step_outliers,
    host_communication,
    cpu_only,
    no_device_work,
    trace_health,
)
"""Every kind, in the order in which equals are listed."""


def findings(analysis: Analysis) -> tuple[Finding, ...]:
    """All findings: gravest first, then by what they save (where replayed), then by what they cost.

    What costs less than ``NOISE`` of the window is none.  Where there is too little to judge, what it costs is told
    but not graded.
    """
    found = [finding for rule in RULES for finding in rule(analysis)]
    found = [finding for finding in found if finding.cost_ns is None or analysis.share(finding.cost_ns) >= NOISE]
    if analysis.too_little:
        found = [finding if finding.cost_ns is None else replace(finding, severity="info") for finding in found]
    return tuple(
        sorted(found, key=lambda f: (SEVERITIES.index(f.severity), -(f.saving_ms_per_step or 0), -(f.cost_ns or 0)))
    )
