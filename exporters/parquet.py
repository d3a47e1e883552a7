"""Parquet: one file a table, with the row number as the column ``id``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyarrow import parquet

if TYPE_CHECKING:
    from profsuite.exporters.source import Source
    from profsuite.exporters.target import Target


@dataclass(frozen=True, slots=True)
class Parquet:
    """The format."""

    name: str = "parquet"
    suffix: str = ""
    carries: str = "Every table and column, one file a table."
    compresses: bool = False
    merges: bool = False

    def write(self, source: Source, target: Target) -> str:
        """Write every table into the folder."""
        trace = source.trace()
        for name, table in trace.tables.items():
            parquet.write_table(with_id(table), target.path / f"{name}.parquet", compression="zstd")
        rows = sum(table.num_rows for table in trace.tables.values())
        return f"{len(trace.tables)} tables, {rows:,} rows"


def with_id(table: pa.Table) -> pa.Table:
    """The table with its row number as the first column, ``id``."""
    return table.add_column(0, "id", pa.array(np.arange(table.num_rows, dtype=np.int64)))


FORMAT = Parquet()
