"""``Snapshot``: what a caching allocator held and did, as Arrow tables.

Segments are memory that the allocator took from the driver, blocks are pieces of them, entries are the history of
what the allocator did.  Conventions are those of ``profsuite.trace.schema``: row number is identity, absent is null.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from profsuite.trace.columns import nulls, to_numpy
from profsuite.trace.schema import Column, Table

if TYPE_CHECKING:
    from numpy.typing import NDArray


def _null(name: str, dtype: Any, unit: str, doc: str) -> Column:
    return Column(name, dtype, unit, doc, nullable=True)


_STACK = _null("stack_id", "int32", "row of stack", "Where it was asked for; null where stacks were not recorded.")

SNAPSHOT_TABLES: tuple[Table, ...] = (
    Table(
        "segment",
        "Memory that the allocator took from the driver, and caches.",
        (
            Column("device", "int32", "", "Device ordinal."),
            Column("address", "int64", "", "Where it begins."),
            Column("total_bytes", "int64", "bytes", "Its size: these sum to the reserved memory."),
            _null("allocated_bytes", "int64", "bytes", "In use, rounded to the allocator's block sizes."),
            _null("active_bytes", "int64", "bytes", "In use, or freed and still waited for by another stream."),
            _null("requested_bytes", "int64", "bytes", "In use, as asked for."),
            _null("stream", "int64", "", "Stream that it serves."),
            _null("kind", "text", "", "small or large."),
            _null("pool", "text", "", "Id of the private pool (CUDA graphs), as written; 0,0 for the common one."),
            _null("expandable", "bool", "", "Whether it grows by mapping (expandable_segments)."),
            _STACK,
        ),
    ),
    Table(
        "block",
        "A piece of a segment, in the order of addresses.",
        (
            Column("segment_id", "int32", "row of segment", "The segment that it is a piece of."),
            Column("address", "int64", "", "Where it begins."),
            Column("bytes", "int64", "bytes", "Its size."),
            _null("requested_bytes", "int64", "bytes", "As asked for; the rest is rounding."),
            Column("state", "text", "", "active_allocated, active_pending_free (or active_awaiting_free), inactive."),
            _STACK,
        ),
    ),
    Table(
        "entry",
        "One thing that the allocator of a device did, in its order.",
        (
            Column("device", "int32", "", "Device ordinal."),
            Column("action", "text", "", "alloc, free_requested, free_completed, segment_alloc, segment_free, oom, …"),
            _null("address", "int64", "", "Address; null for oom and snapshot."),
            _null("bytes", "int64", "bytes", "Size, as asked for; of a segment, as taken."),
            _null("stream", "int64", "", "Stream."),
            _null("ts", "int64", "ns", "When, on the recorder's clock."),
            _null("device_free_bytes", "int64", "bytes", "On oom: what the driver still had."),
            _null("pool", "text", "", "Id of the private pool, as written."),
            _null("user_metadata", "text", "", "What the program had set as metadata."),
            _null("compile_context", "text", "", "What was compiled at the time."),
            _STACK,
        ),
    ),
    Table(
        "stack",
        "A Python (and C++) call stack: its innermost frame, and the stack of the caller.",
        (
            Column("frame_id", "int32", "row of frame", "The innermost frame."),
            _null("parent_id", "int32", "row of stack", "The stack without that frame; null for the outermost."),
        ),
    ),
    Table(
        "frame",
        "A line of source in a call stack.",
        (
            Column("name", "text", "", "Function."),
            Column("file", "text", "", "Source file."),
            _null("line", "int64", "", "Line."),
        ),
    ),
    Table(
        "annotation",
        "A mark of the program (record_function) beside the history.",
        (
            _null("ts", "int64", "ns", "When, on the recorder's clock."),
            _null("device", "int32", "", "Device ordinal."),
            _null("name", "text", "", "Name."),
            _null("stage", "text", "", "START or END."),
        ),
    ),
)

SNAPSHOT_BY_NAME: dict[str, Table] = {table.name: table for table in SNAPSHOT_TABLES}


@dataclass(frozen=True)
class Snapshot:
    """One snapshot file as Arrow tables (see ``SNAPSHOT_TABLES``); never changed after construction.

    ``settings`` are the allocator's settings as written, empty where the file has none; ``fault`` says what of a file
    that breaks off is missing, None if it is whole.
    """

    source: str
    num_bytes: int
    tables: dict[str, pa.Table]
    settings: dict[str, str] = field(default_factory=dict)
    fault: str | None = None
    _cache: dict[tuple[str, str], Any] = field(default_factory=dict, repr=False, compare=False)

    def __repr__(self) -> str:
        counts = ", ".join(f"{self.num_rows(name):,} {name}" for name in ("segment", "block", "entry", "stack"))
        return f"<Snapshot {self.source!r}: {counts}>"

    def table(self, name: str) -> pa.Table:
        """The table called ``name``; ``KeyError`` if there is none."""
        return self.tables[name]

    def num_rows(self, table: str) -> int:
        """Rows of a table."""
        return int(self.tables[table].num_rows)

    def array(self, table: str, column: str) -> NDArray[Any]:
        """A column as a numpy array; text gives int32 codes; nulls are -1, in int64 the smallest."""
        key = (table, column)
        if key not in self._cache:
            values: Any = self.tables[table].column(column)
            values = values.chunk(0) if values.num_chunks else pa.nulls(0, values.type)
            if isinstance(values, pa.DictionaryArray):
                values = values.indices
            array, absent = to_numpy(values), nulls(values)
            if absent is not None:
                null = {"int32": -1, "int64": -(2**63), "bool": 0}[str(array.dtype)]
                array = np.where(absent, np.array(null, array.dtype), array)
            self._cache[key] = array
        return self._cache[key]  # type: ignore[no-any-return]

    def words(self, table: str, column: str) -> list[str]:
        """The values that a text column's codes index."""
        column_: Any = self.tables[table].column(column)
        return list(column_.chunk(0).dictionary.to_pylist()) if column_.num_chunks else []

    def frames_of(self, stack: int) -> list[str]:
        """The frames of a stack as ``file(line): function``, the innermost first; none of -1."""
        frame, parent = self.array("stack", "frame_id"), self.array("stack", "parent_id")
        found = []
        while stack >= 0:
            found.append(self.frame_text(int(frame[stack])))
            stack = int(parent[stack])
        return found

    def frame_text(self, frame: int) -> str:
        """A frame as ``file(line): function``, as Kineto writes them."""
        name, file = (self._word("frame", column, frame) for column in ("name", "file"))
        line = int(self.array("frame", "line")[frame])
        return f"{file}({line}): {name}" if line >= 0 else f"{file}: {name}"

    def _word(self, table: str, column: str, row: int) -> str:
        key = (table, f"{column}\0words")
        if key not in self._cache:
            self._cache[key] = self.words(table, column)
        return str(self._cache[key][self.array(table, column)[row]])
