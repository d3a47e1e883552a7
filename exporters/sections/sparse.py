"""Products with sparse matrices, against dense ones."""

from __future__ import annotations

from profsuite.analyzers.sparse import SparseTable
from profsuite.exporters.document import Cell, Column, Name, Section
from profsuite.exporters.sections.roofline import shapes
from profsuite.exporters.sections.words import pct, without_empty
from profsuite.exporters.units import count, duration, plural, rate


def sparse_section(table: SparseTable) -> Section | None:
    """The sparse products; None without any."""
    if not table.rows:
        return None
    rows: list[tuple[Cell, ...]] = [
        (
            Name(row.name),
            Name(shapes(row.input_dims)),
            row.layout,
            pct(row.density_pct),
            count(row.count),
            "" if row.device_ns is None else duration(row.device_ns),
            "" if row.effective_flops_per_s is None else rate(row.effective_flops_per_s, ""),
            "" if row.dense_equivalent_flops_per_s is None else rate(row.dense_equivalent_flops_per_s, ""),
            "" if row.dense_ns is None else duration(row.dense_ns),
        )
        for row in table.rows
    ]
    columns = (
        Column("op", False),
        Column("input shapes", False, optional=True),
        Column("layout", False),
        Column("density"),
        Column("calls", optional=True),
        Column("GPU time"),
        Column("FLOP/s"),
        Column("as dense", optional=True),
        Column("dense would take", optional=True),
    )
    notes = []
    bases = {row.dense_basis for row in table.rows}
    if "assumed" in bases:
        notes.append(
            "Dense products of that format do not run in this trace: they are taken to reach half of their roofline."
        )
    if any(row.density_pct is None for row in table.rows):
        notes.append(
            "Density is known where the recording has the call that built the matrix, with record_shapes=True."
        )
    caption = plural(table.num_calls, "sparse product")
    return Section("Sparse products", (without_empty(caption, columns, rows),), tuple(notes))
