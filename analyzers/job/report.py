"""The report on a job: what the traces of several ranks say together.

``JOB_VERSION`` rises whenever a field changes its name, type or meaning.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
from msgspec import Struct

from profsuite.analyzers.base import Finding, Ns
from profsuite.analyzers.breakdown import TimeShares
from profsuite.analyzers.collectives import KINDS, NONE
from profsuite.analyzers.job.clocks import Clocks, align
from profsuite.analyzers.job.fabrics import BY_NAME, Fabric
from profsuite.analyzers.job.groups import GroupRow, role_of, stride_of
from profsuite.analyzers.job.matching import Matches, match
from profsuite.analyzers.job.mismatches import Mismatch, mismatches
from profsuite.analyzers.job.over_time import RanksOverTime, ranks_over_time
from profsuite.analyzers.job.summary import RankSummary
from profsuite.analyzers.job.table import CollectiveRow, collective_table, kinds_of
from profsuite.analyzers.job.waiting import Waiting, waiting
from profsuite.analyzers.ranking import distinct_rows

JOB_VERSION = 1


class RankRow(Struct, frozen=True, kw_only=True):
    """One rank among the others.

    ``clock_offset_ns`` is how far its clock is ahead of the reference rank's, null where they share no collective;
    ``clock_residual_ns`` the median deviation of the common ends from that, null for the reference.  ``waited_ns`` is
    how long it waited in collectives for later ranks, ``caused_ns`` how long the others waited for it (their sum),
    ``exposed_wait_ns`` and ``exposed_caused_ns`` what of that nothing hid.  ``num_last`` counts the collectives at
    which it arrived last.  ``compute_ns`` is null on a host.
    """

    rank: int
    source: str
    clock_offset_ns: int | None
    clock_residual_ns: Ns | None
    window_ns: Ns
    compute_ns: Ns | None
    comm_ns: Ns
    exposed_comm_ns: Ns
    exposed_wait_ns: Ns
    waited_ns: Ns
    caused_ns: Ns
    exposed_caused_ns: Ns
    num_collectives: int
    num_last: int
    mean_step_ns: float | None
    shares: TimeShares | None = None


class Redistribution(Struct, frozen=True, kw_only=True):
    """Collectives that redistributing a DTensor called, by the line of the user's code; ``source`` null without stacks.

    ``count`` and ``exposed_ns`` are those of the rank with most of them.
    """

    source: str | None
    kind: str
    count: int
    exposed_ns: Ns


class JobReport(Struct, frozen=True, kw_only=True):
    """What the traces of several ranks say together.

    ``num_collectives`` different collectives were recorded, ``num_matched`` of them by two ranks or more,
    ``num_complete`` by every rank (of those that were read) that takes part.  ``wait_matrix_ns[i][j]`` is how long
    ``ranks[j].rank`` waited for ``ranks[i].rank``.  ``straggler`` is the rank that cost the others most; null where
    nobody waited.  ``reference_rank`` is the rank whose clock the others are measured against.  ``notes`` say what
    makes numbers doubtful.  ``over_time`` is null without collectives.
    """

    schema_version: int
    num_ranks: int
    world_size: int | None
    verdict: str
    findings: tuple[Finding, ...]
    num_collectives: int
    num_matched: int
    num_complete: int
    reference_rank: int
    straggler: int | None
    ranks: tuple[RankRow, ...]
    wait_matrix_ns: tuple[tuple[int, ...], ...]
    collectives: tuple[CollectiveRow, ...]
    groups: tuple[GroupRow, ...]
    mismatches: tuple[Mismatch, ...]
    redistributions: tuple[Redistribution, ...]
    notes: tuple[str, ...]
    over_time: RanksOverTime | None = None


class Job:
    """Several ranks under analysis, sorted by rank: every table is computed once, when it is first asked for."""

    def __init__(self, summaries: Sequence[RankSummary], fabric: Fabric | None = None) -> None:
        self.summaries = tuple(sorted(summaries, key=lambda s: s.rank))
        self.fabric = fabric
        self.size = len(self.summaries)

    @cached_property
    def matches(self) -> Matches:
        """The collectives, matched."""
        return match(self.summaries)

    @cached_property
    def clocks(self) -> Clocks:
        """The clocks, aligned."""
        return align(self.summaries, self.matches)

    @cached_property
    def waits(self) -> Waiting:
        """Who waits for whom."""
        return waiting(self.summaries, self.matches, self.clocks)

    @cached_property
    def mismatches(self) -> tuple[Mismatch, ...]:
        """What the ranks do not agree on."""
        return mismatches(self.summaries, self.matches)

    @cached_property
    def collectives(self) -> tuple[CollectiveRow, ...]:
        """The collectives by kind and group."""
        return collective_table(self.summaries, self.matches, self.waits, self.fabric)

    @cached_property
    def straggler(self) -> int | None:
        """Index of the rank that cost the others most; null where nobody waited."""
        caused = self.waits.matrix.sum(axis=1)
        return int(caused.argmax()) if caused.any() else None

    @property
    def window_ns(self) -> int:
        """Sum of the ranks' windows."""
        return sum(summary.window_ns for summary in self.summaries)

    @property
    def exposed_comm_ns(self) -> int:
        """Exposed communication of all ranks."""
        return sum(summary.exposed_comm_ns for summary in self.summaries)

    def per_step_ms(self, ns: int) -> float | None:
        """A time of all ranks as the mean of a rank and step, ms; null where a rank has none (see ``Analysis``)."""
        steps = [summary.num_steps for summary in self.summaries]
        return ns / 1e6 / sum(steps) if all(steps) else None


def analyze_summaries(summaries: Sequence[RankSummary], fabric: str | None = None) -> JobReport:
    """The report on a job from the summaries of its ranks (any order, each rank once).

    ``fabric`` names what connects them (of ``fabrics.FABRICS``), where it is known.  ``ValueError`` for a fabric that
    is not listed, fewer than two ranks, or a rank that appears twice.
    """
    from profsuite.analyzers.job.findings import job_findings
    from profsuite.analyzers.job.verdict import job_verdict

    if fabric is not None and fabric not in BY_NAME:
        raise ValueError(f"no fabric {fabric!r}; there are {', '.join(BY_NAME)}")
    ranks = [summary.rank for summary in summaries]
    if len(ranks) < 2 or len(set(ranks)) < len(ranks):
        raise ValueError("a job's report needs two ranks or more, each once")
    job = Job(summaries, BY_NAME[fabric] if fabric is not None else None)
    present = job.matches.present
    taking_part = job.matches.member[job.matches.group] if len(job.matches) else present
    seen = present.sum(axis=1)
    worlds = {summary.world_size for summary in job.summaries} - {None}
    return JobReport(
        schema_version=JOB_VERSION,
        num_ranks=job.size,
        world_size=worlds.pop() if len(worlds) == 1 else None,
        verdict=job_verdict(job),
        findings=job_findings(job),
        num_collectives=len(job.matches),
        num_matched=int((seen > 1).sum()),
        num_complete=int(((seen > 1) & (present | ~taking_part).all(axis=1)).sum()),
        reference_rank=job.matches.ranks[job.clocks.reference],
        straggler=None if job.straggler is None else job.matches.ranks[job.straggler],
        ranks=_rank_rows(job),
        wait_matrix_ns=tuple(map(tuple, job.waits.matrix.tolist())),
        collectives=job.collectives,
        groups=_groups(job),
        mismatches=job.mismatches,
        redistributions=_redistributions(job),
        notes=tuple(_notes(job)),
        over_time=ranks_over_time(job.summaries, job.waits, job.clocks),
    )


def _rank_rows(job: Job) -> tuple[RankRow, ...]:
    waits, clocks = job.waits, job.clocks
    waited, caused = waits.matrix.sum(axis=0).tolist(), waits.matrix.sum(axis=1).tolist()
    exposed_waited, exposed_caused = (
        waits.exposed_matrix.sum(axis=0).tolist(),
        waits.exposed_matrix.sum(axis=1).tolist(),
    )
    num_last = np.bincount(waits.last[waits.last >= 0], minlength=job.size).tolist()
    return tuple(
        RankRow(
            rank=summary.rank,
            source=summary.source,
            clock_offset_ns=int(clocks.offset[n]) if clocks.known[n] else None,
            clock_residual_ns=int(clocks.residual[n]) if clocks.residual[n] >= 0 else None,
            window_ns=summary.window_ns,
            compute_ns=summary.compute_ns,
            comm_ns=summary.comm_ns,
            exposed_comm_ns=summary.exposed_comm_ns,
            exposed_wait_ns=exposed_waited[n],
            waited_ns=waited[n],
            caused_ns=caused[n],
            exposed_caused_ns=exposed_caused[n],
            num_collectives=len(summary.collectives),
            num_last=num_last[n],
            mean_step_ns=summary.mean_step_ns,
            shares=summary.shares,
        )
        for n, summary in enumerate(job.summaries)
    )


def _groups(job: Job) -> tuple[GroupRow, ...]:
    if not len(job.matches):
        return ()
    kinds = kinds_of(job.summaries, job.matches)
    rows = []
    for g, group in enumerate(job.matches.groups):
        own = np.flatnonzero(job.matches.group == g)
        taking_part = [job.summaries[n] for n in np.flatnonzero(job.matches.member[g]).tolist()]
        names = tuple(KINDS[k] for k in np.unique(kinds[own]).tolist())
        uses_ddp = any(s.collectives.uses_ddp for s in taking_part)
        uses_fsdp = any(s.collectives.uses_fsdp for s in taking_part)
        role, basis = role_of(group.description, names, group.pair is not None, uses_ddp, uses_fsdp)
        rows.append(
            GroupRow(
                name=group.name,
                description=group.description,
                ranks=group.ranks,
                stride=stride_of(group.ranks),
                role=role,
                basis=basis,
                kinds=names,
                num_collectives=len(own),
            )
        )
    return tuple(rows)


def _redistributions(job: Job) -> tuple[Redistribution, ...]:
    best: dict[tuple[str | None, str], tuple[int, int]] = {}
    for n, summary in enumerate(job.summaries):
        c = summary.collectives
        rows = np.flatnonzero(c.redistribution)
        first, index = distinct_rows(c.source[rows], c.kind[rows])
        for i, row in enumerate(rows[first].tolist()):
            source, kind, mine = int(c.source[row]), int(c.kind[row]), rows[index == i]
            key = (c.sources[source] if source >= 0 else None, KINDS[kind])
            found = (len(mine), int(job.waits.exposed[n][mine].sum()))
            best[key] = max(best.get(key, (0, 0)), found)
    rows_found = [Redistribution(source=s, kind=k, count=c, exposed_ns=e) for (s, k), (c, e) in best.items()]
    return tuple(sorted(rows_found, key=lambda row: (-row.exposed_ns, -row.count, row.source or "", row.kind)))


def _notes(job: Job) -> list[str]:
    notes, matches, clocks = [], job.matches, job.clocks
    if not any(len(summary.collectives) for summary in job.summaries):
        return [
            "No collective was recorded on any rank: ProfilerActivity.CUDA records NCCL's kernels, on a host without "
            "a GPU gloo's marks come with ProfilerActivity.CPU."
        ]
    if (apart := int((matches.present.sum(axis=1) < 2).sum())) > 0:
        notes.append(f"{apart:,} of {len(matches):,} collectives were seen on one rank only: nothing is said of them.")
    if (unknown := [str(r) for r, known in zip(matches.ranks, clocks.known, strict=True) if not known]) != []:
        notes.append(
            f"Rank {', '.join(unknown[:8])} shares no collective with rank {matches.ranks[clocks.reference]}: its "
            "clock is not aligned, and its waits are left out."
        )
    by_name = [g for g in matches.groups if g.name is None and g.ranks is None]
    if by_name:
        notes.append(
            "Collectives without a process group in the traces are matched by order within kind and stream, as if all "
            "ranks took part in each; current releases of torch record groups and sizes."
        )
    typical = waits_median(job)
    loose = [
        str(rank)
        for rank, residual in zip(matches.ranks, clocks.residual.tolist(), strict=True)
        if typical is not None and residual > typical / 2
    ]
    if loose:
        notes.append(
            f"The ends of the collectives of rank {', '.join(loose[:8])} agree badly with the others' (deviations "
            "above half of a typical transfer): waits below that mean nothing."
        )
    worlds = {s.world_size for s in job.summaries} - {None}
    if len(worlds) == 1 and job.size < (world := worlds.pop() or 0):
        notes.append(f"{job.size} of {world} ranks were read: who is last is only known among them.")
    return notes


def waits_median(job: Job) -> float | None:
    """Median transfer of the matched collectives, ns; null without any."""
    transfer = job.waits.transfer[job.waits.transfer != NONE]
    return float(np.median(transfer)) if len(transfer) else None
