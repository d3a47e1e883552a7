"""The job's verdict: whether one rank holds the others back, or communication does, in one or two sentences."""

from __future__ import annotations

from typing import TYPE_CHECKING

from profsuite.analyzers.findings.wording import WARNING, most, ms, percent

if TYPE_CHECKING:
    from profsuite.analyzers.job.report import Job


SMALLEST_REASON = 0.2
"""Share of what each other rank waits from which a difference is named as its reason."""


def job_verdict(job: Job) -> str:
    """What holds the ranks back together; what holds each back by itself is in its own report."""
    if not any(len(summary.collectives) for summary in job.summaries):
        return "No collective was recorded, so nothing can be said of the ranks together: see each rank's own verdict."
    if not job.waits.matrix.any() and job.straggler is None and not (job.waits.transfer > 0).any():
        return "The ranks share no collective, so nothing can be said of them together: see each rank's own verdict."
    exposed, waited = job.exposed_comm_ns, int(job.waits.exposed_matrix.sum())
    fraction = exposed / job.window_ns if job.window_ns else 0.0
    if fraction < WARNING:
        return (
            f"Communication hardly matters: nothing hides it for {percent(fraction)} of the ranks' time "
            f"({ms(exposed / job.size)} a rank)."
        )
    opening = (
        f"Exposed communication takes {percent(fraction)} of the ranks' time{_per_step(job, exposed)}: "
        f"{percent(waited / exposed)} of it is waiting for later ranks"
    )
    blame = blamed(job)
    if blame is not None and waited >= exposed / 2:
        caused = job.waits.matrix.sum(axis=1)
        part = most(int(caused[blame]), int(caused.sum()))
        return f"{opening}, {part} of it for rank {job.summaries[blame].rank}. {_why(job, blame)}"
    if waited >= exposed / 2:
        return f"{opening}, now for one, now for another: even out the ranks' work (batch sizes, input, pauses)."
    slow = job.collectives[0]
    group = f" in group {slow.group}" if slow.group else ""
    part = most(slow.exposed_ns - slow.exposed_wait_ns, exposed - waited)
    return (
        f"{opening}, the rest is transfer, {part} of it {slow.kind}{group}: overlap it with computation, send less, or "
        "use larger messages."
    )


def blamed(job: Job) -> int | None:
    """Index of the rank that costs the others clearly more than its share; null where none does.

    It causes 40 % of all waiting and is last at 40 % of the collectives, and at least twice its even share of both;
    of two ranks 75 %, of three 67 %.  So a single pause makes no straggler.
    """
    caused, last = job.waits.matrix.sum(axis=1), job.waits.last
    if job.straggler is None:
        return None
    much = min(0.75, max(0.4, 2 / job.size))
    share_of_waiting = caused[job.straggler] / caused.sum()
    share_of_times = (last == job.straggler).sum() / (last >= 0).sum()
    return job.straggler if min(share_of_waiting, share_of_times) >= much else None


def reasons(job: Job, n: int) -> list[tuple[str, float, float]]:
    """In what a rank exceeds the others: (what, its own ns, the median of the others), the largest difference first."""
    mine, others = job.summaries[n], [s for i, s in enumerate(job.summaries) if i != n]
    found = []
    if mine.compute_ns is not None:
        found.append(("computation", float(mine.compute_ns), _median([float(s.compute_ns or 0) for s in others])))
    words = {
        "input": "waiting for input",
        "host": "launching late",
        "sync": "host synchronisation",
        "gc": "garbage collection",
        "compile": "compilation",
        "allocator": "memory allocation",
    }
    for cause, what in words.items():
        own = float(mine.late_ns.get(cause, 0))
        found.append((what, own, _median([float(s.late_ns.get(cause, 0)) for s in others])))
    return sorted((f for f in found if f[1] > f[2]), key=lambda f: f[2] - f[1])


def _median(values: list[float]) -> float:
    values = sorted(values)
    middle = len(values) // 2
    return values[middle] if len(values) % 2 else (values[middle - 1] + values[middle]) / 2


def _why(job: Job, n: int) -> str:
    rank, found = job.summaries[n].rank, reasons(job, n)
    each = int(job.waits.matrix[n].sum()) / (job.size - 1)
    if not found or found[0][1] - found[0][2] < SMALLEST_REASON * each:
        return f"Nothing in its trace sets it clearly apart: compare the report of rank {rank} with another's."
    what, own, theirs = found[0]
    return f"Its {what} takes {ms(own)}, on the others {ms(theirs)}: look at rank {rank} and its machine first."


def _per_step(job: Job, ns: int) -> str:
    value = job.per_step_ms(ns)
    return "" if value is None else f" ({ms(value * 1e6)} a step and rank)"
