"""Where a job hangs, as text."""

from __future__ import annotations

from collections.abc import Iterable

from profsuite.analyzers.hang import HangReport, StuckGroup
from profsuite.exporters.document import Cell, Column, Name, Section, Table
from profsuite.exporters.names import printable
from profsuite.exporters.sections.words import without_empty
from profsuite.exporters.units import plural

REASONS = {
    "not_joined": "some ranks have not called it",
    "mismatch": "the ranks do not call the same",
    "incomplete": "all ranks have called it",
}
"""Why a group hangs, in words."""


def hang_title(report: HangReport) -> str:
    """``Dumps of 4 ranks``."""
    return f"Dumps of {plural(len(report.ranks), 'rank')}"


def hang_sections(report: HangReport) -> Iterable[Section]:
    """The groups that hang, sends and receives that are not complete, and where each rank is."""
    for group in report.stuck:
        notes = []
        if group.detail is not None:
            notes.append(printable(group.detail))
        if group.no_dump:
            notes.append(f"No dump of rank {', '.join(map(str, group.no_dump[:16]))}.")
        if not group.is_root:
            notes.append("Its missing ranks wait in another group.")
        yield Section(_title(group), (_states(group),), tuple(notes))
    if report.pending:
        rows: list[tuple[Cell, ...]] = [
            (str(row.rank), Name(row.name), Name(row.group), printable(row.state), Name(row.source or ""))
            for row in report.pending[:20]
        ]
        titles = {"rank": True, "operation": False, "group": False, "state": False, "called at": False}
        columns = tuple(Column(title, numeric) for title, numeric in titles.items())
        yield Section("Sends and receives", (without_empty("Not complete", columns, rows),))
    calls: list[tuple[Cell, ...]] = [
        (
            str(row.rank),
            Name(f"{row.name} #{row.sequence}"),
            Name(row.group),
            "complete" if row.completed else "not complete",
            Name(row.source or ""),
        )
        for row in report.last_calls
    ]
    if calls:
        titles = {"rank": True, "last call": False, "group": False, "state": False, "called at": False}
        columns = tuple(Column(title, numeric) for title, numeric in titles.items())
        yield Section("Where each rank is", (without_empty("The last call of each rank", columns, calls),))


def _title(group: StuckGroup) -> str:
    label = printable(group.description or group.name)
    return f"Group {label}: {printable(group.collective)} #{group.sequence}"


def _states(group: StuckGroup) -> Table:
    rows: list[tuple[Cell, ...]] = [
        (
            str(state.rank),
            "yes" if state.joined else "NO",
            "" if state.last_completed is None else f"#{state.last_completed}",
            "" if state.last_called is None else f"#{state.last_called}",
            Name("" if state.waits_in is None else f"{state.name} #{state.waits_in}"),
            printable(state.state or ""),
            Name(state.source or ""),
        )
        for state in group.ranks
    ]
    columns = (
        Column("rank"),
        Column("called it", False),
        Column("completed"),
        Column("called"),
        Column("waits in", False),
        Column("state", False),
        Column("called at", False),
    )
    return without_empty(REASONS[group.why], columns, rows)
