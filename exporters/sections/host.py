"""What the host threads did."""

from __future__ import annotations

from collections.abc import Sequence

from profsuite.analyzers.host import HostShares, ThreadBreakdown
from profsuite.analyzers.report import Report
from profsuite.exporters.document import Bar, Bars, Cell, Column, Name, Section, Table
from profsuite.exporters.names import printable
from profsuite.exporters.sections.words import HOST_PARTS, absent, share
from profsuite.exporters.units import count, duration, plural

THREADS_SHOWN = 8


def host_section(report: Report, threads: Sequence[ThreadBreakdown]) -> Section:
    """What the host threads did."""
    if not threads:
        return Section("Host time", (), (absent(report, "host activity", "ProfilerActivity.CPU, ..."),))
    first = threads[0]
    launches = f", {plural(first.num_launches, 'launch', 'launches')}" if first.num_launches else ""
    caption = f"{printable(first.thread)}: {duration(first.shares.window_ns)}{launches}"
    blocks: list[Table | Bars] = [Bars(caption, tuple(_host_bars(first.shares)))]
    if len(threads) > 1:
        rows: list[tuple[Cell, ...]] = []
        for thread in threads[1:THREADS_SHOWN]:
            busy = thread.shares.window_ns - thread.shares.unrecorded_ns
            bars = _host_bars(thread.shares, recorded=True)
            most = f"{bars[0].label} {bars[0].value}" if bars else ""
            rows.append(
                (Name(thread.thread), duration(busy), count(thread.num_slices), count(thread.num_launches), most)
            )
        titles = (Column("thread", False), Column("recorded"), Column("slices"), Column("launches"))
        blocks.append(Table("Other threads", (*titles, Column("largest part", False)), tuple(rows)))
    left = len(threads) - THREADS_SHOWN
    return Section("Host time", tuple(blocks), (f"{plural(left, 'more thread')} not shown.",) if left > 0 else ())


def _host_bars(shares: HostShares, recorded: bool = False) -> list[Bar]:
    parts = [(getattr(shares, field), label) for field, label in HOST_PARTS.items() if field != "unrecorded_ns"]
    bars = [Bar(label, duration(ns), share(ns, shares.window_ns)) for ns, label in sorted(parts, reverse=True) if ns]
    if shares.unrecorded_ns and not recorded:
        unrecorded = share(shares.unrecorded_ns, shares.window_ns)
        bars.append(Bar(HOST_PARTS["unrecorded_ns"], duration(shares.unrecorded_ns), unrecorded))
    return bars
