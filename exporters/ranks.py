"""Several traces side by side: the ranks of a job, or files that are no ranks of one job."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from itertools import takewhile

from msgspec import Struct

from profsuite.analyzers.report import Report
from profsuite.exporters.document import Cell, Column, Name, Table
from profsuite.exporters.names import printable
from profsuite.exporters.sections.words import DEVICE_PARTS, without_empty
from profsuite.exporters.units import duration, percent, plural


class Unreadable(Struct, frozen=True, kw_only=True):
    """A trace of the job that could not be read: its rank where the name tells it, its file, and why."""

    rank: int | None
    source: str
    error: str


def ranks_title(reports: Sequence[Report], unreadable: Sequence[Unreadable] = ()) -> str:
    """``8 ranks``, or ``2 traces`` where they are not ranks of one job."""
    noun = "trace" if _by_file(reports, unreadable) else "rank"
    title = plural(len(reports) + len(unreadable), noun)
    return f"{title}, {len(unreadable)} of them unreadable" if unreadable else title


def ranks_table(reports: Sequence[Report], unreadable: Sequence[Unreadable] = ()) -> Table:
    """The traces that could be read: one row a device of a rank, or one a rank that used no device.

    Where ranks do not tell the traces apart, their files' names do, or as much of their paths as tells them apart.
    """
    rows: list[tuple[Cell, ...]] = []
    by_file, names = _by_file(reports, unreadable), _names(reports, unreadable)
    for report in reports:
        rank = "" if report.rank is None else str(report.rank)
        file = Name(names[report.source] if by_file else "")
        step = "" if report.steps is None or report.steps.mean_ns is None else duration(report.steps.mean_ns)
        for device in report.breakdown or (None,):
            ordinal = "" if device is None or device.device is None else str(device.device)
            cells: list[Cell] = [file, rank, ordinal, step]
            if device is None:
                cells += [""] * 6
            else:
                shares = device.shares
                window = shares.window_ns
                cells += [duration(window), "" if shares.busy_pct is None else percent(shares.busy_pct)]
                cells += [percent(100 * getattr(shares, p) / window) if window > 0 else "" for p in DEVICE_PARTS]
            rows.append(tuple(cells))
    titles = ("rank", "device", "step mean", "window", "busy", "compute", "comm", "copies", "idle")
    columns = [Column(title, optional=title in ("step mean", "window", "copies")) for title in titles]
    caption = "Shares of each rank's window; comm and copies: the exposed part"
    return without_empty(caption, (Column("file", False), *columns), rows)


def rank_lines(
    reports: Sequence[Report], unreadable: Sequence[Unreadable] = (), only: Collection[str] | None = None
) -> list[tuple[str, str]]:
    """For each trace its rank or file, and a line on it: what holds it back, or why it cannot be read.

    Where ``only`` asks for nothing but verdicts, each is given whole, else without its numbers and remedy.
    """
    by_file, names = _by_file(reports, unreadable), _names(reports, unreadable)
    found: list[tuple[int | None, str, str]] = []
    for report in reports:
        text = report.verdict or (report.findings[0].title if report.findings else "")
        if not is_overview(only):
            text = re.split(r"(?<=[^0-9])[:.] ", text, maxsplit=1)[0].rstrip(".")
        if text and (only is None or {"verdict", "findings"} & set(only)):
            found.append((report.rank, report.source, text))
    found += [(each.rank, each.source, f"unreadable ({each.error})") for each in unreadable]
    found.sort(key=lambda line: (line[0] is None, line[0] or 0))
    return [
        (printable(names[source] if by_file or rank is None else f"rank {rank}"), printable(text))
        for rank, source, text in found
    ]


def is_overview(only: Collection[str] | None) -> bool:
    """Whether a line a rank says all that was asked for."""
    return only is not None and set(only) == {"verdict"}


def costliest(reports: Sequence[Report]) -> Report:
    """The report whose findings cost most; the first one where none has a cost."""
    return max(reports, key=lambda report: sum(finding.cost_ns or 0 for finding in report.findings or ()))


def chosen(
    reports: Sequence[Report],
    unreadable: Sequence[Unreadable] = (),
    only: Collection[str] | None = None,
    full: bool = False,
) -> tuple[Sequence[Report], str | None]:
    """Which reports to print whole, and where that is not all of them, how to see the others."""
    if is_overview(only):
        return (), None
    if full or len(reports) == 1:
        return reports, None
    by_file = _by_file(reports, unreadable)
    others = "--full shows all" if by_file else "--rank N shows another, --full all"
    one = costliest(reports)
    name = printable(_names(reports, unreadable)[one.source]) if by_file else f"rank {one.rank}"
    return (one,), f"Below: {name}, whose findings cost most; {others}."


def _by_file(reports: Sequence[Report], unreadable: Sequence[Unreadable]) -> bool:
    ranks = [report.rank for report in reports] + [each.rank for each in unreadable]
    return None in ranks or len(set(ranks)) < len(ranks)


def _names(reports: Sequence[Report], unreadable: Sequence[Unreadable]) -> dict[str, str]:
    """What to call each source: its file's name, or where two have the same one, the path below what all share.

    The last folder that all share is kept, and the name that all have is left out where it is a rank's part of a run:
    ``runs/exp1`` and ``runs/exp2``.
    """
    sources = dict.fromkeys([report.source for report in reports] + [each.source for each in unreadable])
    parts = {source: re.split(r"[/\\]+", source.rstrip("/\\")) for source in sources}
    if len({path[-1] for path in parts.values()}) == len(parts):
        return {source: path[-1] for source, path in parts.items()}
    folders = zip(*(path[:-1] for path in parts.values()), strict=False)
    shared = sum(1 for _ in takewhile(lambda level: len(set(level)) == 1, folders))
    ends = {path[-1] for path in parts.values()}
    cut = -1 if len(ends) == 1 and re.fullmatch(r"rank_\d+", ends.pop()) else None
    return {source: "/".join(path[max(0, shared - 1) : cut]) or path[-1] for source, path in parts.items()}
