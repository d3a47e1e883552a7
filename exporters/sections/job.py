"""What several ranks say together: who waits for whom, their collectives and groups."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from profsuite.analyzers.job.report import JobReport, RankRow
from profsuite.analyzers.report import Report
from profsuite.exporters.document import Advice, Cell, Column, Name, Section, Table
from profsuite.exporters.names import printable
from profsuite.exporters.sections.advice import advice
from profsuite.exporters.sections.words import share_of, without_empty
from profsuite.exporters.units import count, duration, percent, plural, size

MATRIX_RANKS = 8
"""Ranks up to which the whole matrix is shown."""
RANKS_SHOWN, ROWS_SHOWN = 16, 12

ROLES = {
    "data": "data parallel",
    "sharded_data": "sharded data parallel",
    "tensor": "tensor parallel",
    "pipeline": "pipeline",
    "expert": "expert parallel",
    "context": "context parallel",
    "unknown": "unknown",
}
"""The role of a group in words."""


def job_verdict(job: JobReport | None, only: Collection[str] | None) -> str | None:
    """The job's verdict, where it was asked for and there is something that the ranks have in common."""
    if job is None or not job.num_collectives or (only is not None and "verdict" not in only):
        return None
    return printable(job.verdict)


def job_advice(job: JobReport | None, reports: Sequence[Report], only: Collection[str] | None) -> tuple[Advice, ...]:
    """The findings on the job in words, where they were asked for."""
    if job is None or (only is not None and "findings" not in only):
        return ()
    return tuple(advice(reports[0], finding) for finding in job.findings)


def job_sections(job: JobReport | None, only: Collection[str] | None) -> tuple[Section, ...]:
    """Tables on the job; none where only some sections of the reports were asked for."""
    if job is None or only is not None:
        return ()
    notes = tuple(printable(note) for note in job.notes)
    if not job.num_matched:
        return (Section("Collectives", (), notes),) if notes else ()
    blocks = [_waits(job)]
    if len(job.ranks) <= MATRIX_RANKS and any(map(any, job.wait_matrix_ns)):
        blocks.append(_matrix(job))
    sections = [Section("Who waits for whom", tuple(blocks), tuple(_waits_notes(job)))]
    tables = [_collectives(job)]
    if len(job.groups) > 1 or any(group.role != "unknown" for group in job.groups):
        tables.append(_groups(job))
    if job.redistributions:
        tables.append(_redistributions(job))
    sections.append(Section("Collectives", tuple(tables), notes))
    return tuple(sections)


def _waits(job: JobReport) -> Table:
    rows: list[tuple[Cell, ...]] = []
    columns = list(zip(*job.wait_matrix_ns, strict=True))
    shown = sorted(range(len(job.ranks)), key=lambda n: (-job.ranks[n].caused_ns, n))[:RANKS_SHOWN]
    for n in sorted(shown):
        rank = job.ranks[n]
        most = max(range(len(columns)), key=lambda i: columns[n][i])
        rows.append(
            (
                str(rank.rank),
                duration(rank.waited_ns),
                share_of(rank.exposed_wait_ns, rank.window_ns),
                str(job.ranks[most].rank) if columns[n][most] else "",
                duration(rank.caused_ns),
                count(rank.num_last),
                _offset(rank),
            )
        )
    titles = ("rank", "waited", "exposed", "most for", "others waited for it", "last at", "clock offset")
    heading = tuple(Column(title, optional=title in ("exposed", "clock offset")) for title in titles)
    caption = f"{plural(job.num_matched, 'collective')} matched; exposed: share of the rank's window"
    return without_empty(caption, heading, rows)


def _offset(rank: RankRow) -> str:
    if rank.clock_offset_ns is None:
        return "unknown"
    return ("+" if rank.clock_offset_ns > 0 else "") + duration(rank.clock_offset_ns)


def _waits_notes(job: JobReport) -> Iterable[str]:
    if len(job.ranks) > RANKS_SHOWN:
        yield f"The {RANKS_SHOWN} ranks of {len(job.ranks)} that cost the others most; --format csv has all."
    residuals = [rank.clock_residual_ns for rank in job.ranks if rank.clock_residual_ns is not None]
    if residuals:
        yield (
            f"Clocks are aligned to rank {job.reference_rank} by the ends of collectives, which agree within "
            f"{duration(max(residuals))} (median, worst rank)."
        )


def _matrix(job: JobReport) -> Table:
    columns = [Column("for rank"), *(Column(f"rank {rank.rank}") for rank in job.ranks)]
    rows = [
        (str(rank.rank), *(duration(ns) if ns else "" for ns in waits))
        for rank, waits in zip(job.ranks, job.wait_matrix_ns, strict=True)
        if any(waits)
    ]
    return Table("How long each rank (column) waited for each other (row)", tuple(columns), tuple(rows))


def _collectives(job: JobReport) -> Table:
    rows: list[tuple[Cell, ...]] = [
        (
            Name(row.kind),
            count(row.count),
            duration(row.transfer_ns / row.count),
            duration(row.exposed_ns / job.num_ranks),
            share_of(row.exposed_wait_ns, row.exposed_ns),
            "" if row.waits_for is None else str(row.waits_for),
            "" if row.num_bytes is None else size(row.num_bytes / row.count),
            "" if row.bus_gb_per_s is None else f"{row.bus_gb_per_s:,.1f} GB/s",
            "" if row.fabric_pct is None else f"{percent(row.fabric_pct)} of {row.fabric}",
            count(row.num_ranks),
            Name(row.group or ""),
        )
        for row in job.collectives[:ROWS_SHOWN]
    ]
    titles = {
        "collective": False,
        "count": True,
        "mean transfer": True,
        "exposed a rank": True,
        "of it waiting": True,
        "for rank": True,
        "mean size": True,
        "bus": True,
        "of the fabric": False,
        "ranks": True,
        "group": False,
    }
    optional = ("mean size", "bus", "of the fabric", "ranks", "group")
    caption = "Mean: of one collective; exposed a rank: in all, the mean of the ranks"
    heading = tuple(Column(title, numeric, title in optional) for title, numeric in titles.items())
    return without_empty(caption, heading, rows)


def _groups(job: JobReport) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for group in sorted(job.groups, key=lambda group: -group.num_collectives)[:ROWS_SHOWN]:
        label = group.description if group.description not in (None, "undefined") else group.name
        rows.append(
            (
                Name(label or "not named"),
                "" if group.ranks is None else _ranks(group.ranks),
                ROLES[group.role],
                Name(", ".join(group.kinds)),
                count(group.num_collectives),
            )
        )
    columns = (Column("group", False), Column("ranks", False), Column("role", False), Column("collectives", False))
    return without_empty("Process groups", (*columns, Column("count")), rows)


def _ranks(ranks: Sequence[int]) -> str:
    """``0-7``, ``0,8,16,24`` or ``0,2,4,…,62``."""
    if len(ranks) > 2 and list(ranks) == list(range(ranks[0], ranks[0] + len(ranks))):
        return f"{ranks[0]}-{ranks[-1]}"
    return ",".join(map(str, ranks if len(ranks) <= 6 else (*ranks[:3], "…", ranks[-1])))


def _redistributions(job: JobReport) -> Table:
    rows: list[tuple[Cell, ...]] = [
        (Name(row.source or "no stack recorded"), Name(row.kind), count(row.count), duration(row.exposed_ns))
        for row in job.redistributions[:ROWS_SHOWN]
    ]
    columns = (Column("line", False), Column("collective", False), Column("count"), Column("exposed"))
    return Table("Redistributed DTensors, of the rank with most", columns, tuple(rows))
