"""The device waits for the CPU: its next work was launched only after it had run out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from profsuite.analyzers.base import Finding
from profsuite.analyzers.findings.wording import (
    count,
    grade,
    most,
    ms,
    per_step,
    percent,
    share,
    somewhere,
    text,
    time,
    whole,
)
from profsuite.analyzers.host_calls import OP
from profsuite.analyzers.places import source_frame
from profsuite.trace.classes import Role

if TYPE_CHECKING:
    from profsuite.analyzers.analysis import Analysis
    from profsuite.analyzers.idle import Cause, Gap

FIRES_FROM = 0.1
"""Share of the window; below it, the first launches of each step explain most of it."""


def host_bound(analysis: Analysis) -> tuple[Finding, ...]:
    """Fires when the device idles for a late CPU for 10 % of the window.

    Remedy: CUDA graphs, torch.compile, a larger batch.
    """
    cost = analysis.idle_ns("host")
    fraction = analysis.share(cost)
    if analysis.main is None or fraction < FIRES_FROM:
        return ()
    idle = analysis.idle[analysis.main]
    launches = sum(thread.num_launches for thread in analysis.host.threads)
    kernels = analysis.kernels
    evidence = [
        time(
            "device idle while the CPU is late", cost, [g.next_slice_id for g in idle.top_gaps if g.cause == "host"][:5]
        ),
        share("share of the window", fraction),
        *per_step("lost to a late CPU", analysis, cost),
        time("of it in Python and unrecorded", idle.host.python_ns),
        time("of it in op dispatch", idle.host.op_ns),
        time("of it in launch calls and launch latency", idle.host.launch_ns),
        count("launch calls", launches),
    ]
    gap = next((g for g in idle.top_gaps if g.cause == "host"), None)
    if gap is not None:
        evidence += [
            time("the longest such gap", gap.dur_ns, [gap.next_slice_id]),
            time(f"it begins after the start of the {whole(analysis)} by", gap.start_ns - analysis.start_ns),
            text("what follows it", gap.next_op or gap.next_name, [gap.next_slice_id]),
        ]
        source = _source(analysis, gap)
        if source:
            evidence.append(text("launched from", source))
    if kernels.num_kernels:
        evidence.append(time("mean kernel", round(kernels.total_ns / kernels.num_kernels)))
    return (
        Finding(
            id="host_bound",
            title=f"The GPU idles {ms(cost)} ({percent(fraction)} of the GPU window) because the CPU launches too late",
            severity=grade(fraction),
            evidence=tuple(evidence),
            where=somewhere(analysis),
            remedy=host_remedy(analysis),
            cost_ns=cost,
        ),
    )


def _source(analysis: Analysis, gap: Gap) -> str | None:
    """The line of the user's code that launched what ended a gap; null without stacks."""
    assert analysis.main is not None
    work = analysis.work[analysis.main]
    launch = int(work.launch_ids[work.ids == gap.next_slice_id][0])
    return source_frame(analysis.trace, launch) if launch >= 0 else None


def lone_gap(analysis: Analysis, cause: Cause) -> Gap | None:
    """The one gap of the main device that makes at least half of the idle time of its cause, of several; else null."""
    assert analysis.main is not None
    idle = analysis.idle[analysis.main]
    gap = next((g for g in idle.top_gaps if g.cause == cause), None)
    several = any(row.cause == cause and row.num_gaps > 1 for row in idle.causes)
    return gap if gap is not None and several and 2 * gap.dur_ns >= analysis.idle_ns(cause) else None


def host_remedy(analysis: Analysis) -> str:
    """What to do about a CPU that launches too late, by where it spends the gaps."""
    assert analysis.main is not None
    gap, gaps, split = lone_gap(analysis, "host"), analysis.gaps, analysis.idle[analysis.main].host
    parts = {"python": split.python_ns, "op": split.op_ns, "launch": split.launch_ns}
    first, of = "", "it"
    if gap is not None and gaps is not None:
        what = gap.next_op or "work without a recorded op"
        first = f"One gap alone, before {what}, makes {ms(gap.dur_ns)}: if that is start-up, profile after warm-up. "
        of = "the rest"
        own = gaps.split[gaps.start == gap.start_ns][0].tolist()
        parts = {name: ns - less for (name, ns), less in zip(parts.items(), own, strict=True)}
    common = (
        "Launch less: CUDA graphs (torch.compile(mode='reduce-overhead') or torch.cuda.graph) replay the whole step "
        "with one call, torch.compile fuses small ops, a larger batch gives each launch more work. The profiler itself "
        "slows every op and call, most of all with stacks and shapes: compare the step time without it."
    )
    largest = max(parts, key=lambda name: parts[name])
    part = most(parts[largest], sum(parts.values())).capitalize()
    if largest == "python" and not cpu_recorded(analysis):
        return (
            f"{first}{part} of {of} lies between launch calls, and what the CPU did there was not recorded: record "
            f"with ProfilerActivity.CPU. {common}"
        )
    if largest == "python":
        stacks = analysis.trace.num_rows("python_call") > 0
        where = "" if stacks else " Record with with_stack=True to see which Python code."
        return f"{first}{part} of {of} is Python between the ops. {common}{where}"
    if largest == "op":
        more = "Use fused or foreach optimizers (fused=True) and fused layers."
        return f"{first}{part} of {of} is op dispatch. {common} {more}"
    return f"{first}{part} of {of} is launching itself. {common}"


def cpu_recorded(analysis: Analysis) -> bool:
    """Whether there are ops or Python frames: else nobody knows what the CPU did between its launch calls."""
    return bool((analysis.timelines.classes == OP).any() or (analysis.trace.roles == Role.PYTHON).any())
