"""The ops that matter most."""

from __future__ import annotations

from collections.abc import Sequence

from profsuite.analyzers.ops import OpRow, OpTable
from profsuite.analyzers.report import Report
from profsuite.exporters.document import Cell, Column, Name, Section, Table
from profsuite.exporters.sections.words import SORTED_BY, absent, pct, without_empty
from profsuite.exporters.units import count, duration, plural


def ops_section(report: Report, table: OpTable) -> Section:
    """The ops that take most time, and by their shapes."""
    if not table.rows:
        return Section("Top ops", (), (absent(report, "ops", "ProfilerActivity.CPU, ..."),))
    order = SORTED_BY.get(table.sorted_by, table.sorted_by)
    caption = f"{plural(table.num_ops, 'op')}, {plural(table.num_calls, 'call')}; by {order}"
    blocks = [_op_table(caption, table.rows, shapes=False)]
    if table.by_shape:
        blocks.append(_op_table("By input shapes", table.by_shape, shapes=True))
    notes = []
    if table.unattributed_device_ns:
        notes.append(f"{duration(table.unattributed_device_ns)} of device work was launched by no recorded op.")
    return Section("Top ops", tuple(blocks), tuple(notes))


def _op_table(caption: str, ops: Sequence[OpRow], shapes: bool) -> Table:
    rows: list[tuple[Cell, ...]] = []
    device = any(op.device_total_ns for op in ops)
    for op in ops:
        cells: list[Cell] = [Name(op.name), Name(op.input_dims or ""), count(op.count)]
        cells += [duration(op.host_self_ns), pct(op.host_self_pct), duration(op.host_total_ns)]
        if device:
            cells += [duration(op.device_self_ns), pct(op.device_self_pct), duration(op.device_total_ns)]
        rows.append(tuple(cells) if device else (*cells, "", "", ""))
    columns = (
        Column("op", False),
        Column("input shapes", False),
        Column("calls"),
        Column("host self"),
        Column("share", optional=device),
        Column("host total", optional=device),
        Column("GPU self"),
        Column("of GPU"),
        Column("GPU total", optional=True),
    )
    return without_empty(caption, columns, rows, detail=shapes)
