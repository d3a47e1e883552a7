"""What following a finding's remedy would save: the edit that each remedy amounts to, replayed.

A remedy that is no edit of the recording (find out why steps differ, record more) has none, and its saving is null.
Each edit removes the obstacle altogether: the saving is what its complete removal would give.  Where the remedy is
known to leave a part of it (an optimizer's arithmetic), the edit leaves that part.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from profsuite.analyzers.findings.single_tensor_optimizer import update_edit
from profsuite.analyzers.whatif.edits import Edit

if TYPE_CHECKING:
    from profsuite.analyzers.analysis import Analysis
    from profsuite.analyzers.base import Finding

EDITS: Final[dict[str, Edit]] = {
    "input_bound": Edit(no_input_wait=True),
    "host_bound": Edit(graphs=True),
    "idle_between_graph_launches": Edit(graphs=True),
    "item_in_loop": Edit(no_sync=True),
    "sync_in_loop": Edit(no_sync=True),
    "exposed_communication": Edit(no_comm=True),
    "host_communication": Edit(no_comm=True),
    "exposed_memcpy": Edit(scales=(("memcpy", 0.0),)),
    "small_kernels": Edit(no_launch_overhead=True),
    "allocator_calls": Edit(scales=(("allocator", 0.0),)),
    "compile_in_steps": Edit(scales=(("compile", 0.0),)),
    "garbage_collection": Edit(scales=(("gc", 0.0),)),
    "optimizer_zero_grad": Edit(scales=(("Optimizer.zero_grad#*", 0.0), ("host:Optimizer.zero_grad#*", 0.0))),
}
"""A finding's id, and the edit that its remedy amounts to."""


def with_saving(analysis: Analysis, finding: Finding) -> Finding:
    """The finding with its ``saving_ms_per_step``: null without steps, or where its remedy is no edit."""
    edit = update_edit(analysis) if finding.id == "single_tensor_optimizer" else EDITS.get(finding.id)
    if edit is None or finding.saving_ms_per_step is not None or _removes_more(analysis, finding):
        return finding
    return replace(finding, saving_ms_per_step=analysis.saving_ms_per_step(edit))


def _removes_more(analysis: Analysis, finding: Finding) -> bool:
    """Whether the edit would remove what other findings tell too: waits of other kinds, copies of other kinds."""
    if finding.id in ("item_in_loop", "sync_in_loop"):
        return finding.cost_ns != analysis.idle_ns("sync")
    if finding.id == "exposed_memcpy":
        return analysis.device is not None and finding.cost_ns != analysis.device.shares.exposed_memcpy_ns
    return False
