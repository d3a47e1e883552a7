"""A job without any device: its ops are its work."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from profsuite.analyzers.base import Finding
from profsuite.analyzers.findings.wording import WARNING, count, ms, percent, share, somewhere, text, time
from profsuite.trace.classes import ON_DEVICE, Role, slice_roles

if TYPE_CHECKING:
    from profsuite.analyzers.analysis import Analysis
    from profsuite.analyzers.ops import OpRow


def cpu_only(analysis: Analysis) -> tuple[Finding, ...]:
    """Fires when the recording has ops, no device work, and no sign that a device was there.

    Remedy: where a GPU was expected, check why there is none; else start with the largest op.
    """
    if not is_cpu_only(analysis) or not analysis.ops.rows:
        return ()
    top, thread = analysis.ops.rows[0], analysis.host.threads[0]
    matters = op_matters(analysis)
    in_ops = thread.shares.op_ns
    own = top.host_self_ns
    total = sum(t.shares.op_ns for t in analysis.host.threads)
    return (
        Finding(
            id="cpu_only",
            title=(
                f"The job runs on the CPU alone; {top.name} takes {part_of_time(top, 'its')}"
                if matters
                else f"The job runs on the CPU alone, and its ops are not what takes the time ({ms(total)} in all)"
            ),
            severity="info",
            evidence=(
                time("ops on the main thread", in_ops),
                share("share of its window", in_ops / thread.shares.window_ns),
                time("ops on all threads", total),
                count("calls of ops", analysis.ops.num_calls),
                text("largest op", top.name),
                time("its own time", own),
                count("its calls", top.count),
            ),
            where=somewhere(analysis, op=top.name if matters else None),
            remedy=(
                "Where a GPU was expected, check torch.cuda.is_available() and the profiler's activities. "
                + (
                    f"For a CPU job: start with {top.name} ({percent((top.host_self_pct or 0) / 100)} of all ops' own "
                    "time); torch.compile, bf16 on CPUs with AMX, and torch.set_num_threads are the usual levers."
                    if matters
                    else "For a CPU job: look at what runs between the ops."
                )
            ),
            cost_ns=None,
        ),
    )


def part_of_time(top: OpRow, whose: str) -> str:
    """What the op with most time of its own takes of all ops' time, in words; only what is above half is most."""
    part = (top.host_self_pct or 0.0) / 100
    most = "most" if part > 0.5 else "the largest share"
    return f"{most} of {whose} ops' time ({percent(part)}, {ms(top.host_self_ns)})"


def op_matters(analysis: Analysis) -> bool:
    """Whether the op with most time of its own takes enough of the window to be worth advice."""
    rows = analysis.ops.rows
    return bool(rows) and analysis.share(rows[0].host_self_ns) >= WARNING


def is_cpu_only(analysis: Analysis) -> bool:
    """Whether nothing in the recording speaks of a device: no work, no runtime calls, no device tracks."""
    trace = analysis.trace
    if analysis.work or trace.info.devices:
        return False
    kinds = trace.words("track", "kind")
    if any(kinds[k] == "device" for k in trace.array("track", "kind").tolist()):
        return False
    return not np.isin(slice_roles(trace), (Role.LAUNCH, *ON_DEVICE)).any()
