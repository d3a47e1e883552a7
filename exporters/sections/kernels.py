"""The kernels that take most time."""

from __future__ import annotations

from profsuite.analyzers.kernels import KernelTable
from profsuite.exporters.document import Cell, Column, Name, Section
from profsuite.exporters.sections.words import pct, without_empty
from profsuite.exporters.units import count, duration, percent, plural


def kernels_section(table: KernelTable) -> Section:
    """The kernels that take most time."""
    if not table.rows:
        return Section("Top kernels", (), ("No kernels in this trace.",))
    rows: list[tuple[Cell, ...]] = []
    for row in table.rows:
        occupancy = "" if row.occupancy_pct is None else percent(row.occupancy_pct)
        numbers = (count(row.count), duration(row.total_ns), pct(row.device_pct), duration(row.mean_ns), occupancy)
        rows.append((Name(row.name), *numbers, Name(row.top_op or "")))
    columns = (
        Column("kernel", False),
        Column("runs"),
        Column("time"),
        Column("share"),
        Column("mean", optional=True),
        Column("occupancy", optional=True),
        Column("launched by", False, optional=True),
    )
    caption = f"{plural(table.num_kernels, 'kernel')} of {plural(table.num_names, 'name')}, {duration(table.total_ns)}"
    notes = []
    if table.num_short and table.short_pct is not None and table.short_time_pct is not None:
        notes.append(
            f"{count(table.num_short)} kernels ({percent(table.short_pct)}, {percent(table.short_time_pct)} of kernel "
            "time) run for less than 10 µs, about as long as a launch takes."
        )
    if table.from_graphs:
        notes.append(f"{count(table.from_graphs)} kernels were started by graph launches.")
    if all(row.occupancy_pct is None for row in table.rows):
        notes.append("Occupancy was not recorded.")
    return Section("Top kernels", (without_empty(caption, columns, rows),), tuple(notes))
