"""``Trace``: the columns of one recording, and how to get at them."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa

from profsuite.trace.columns import nulls, to_numpy
from profsuite.trace.schema import BY_NAME

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    from profsuite.trace.flows import Flows


@dataclass(frozen=True, slots=True)
class TraceInfo:
    """Where a trace came from and what its header says; null where the file does not say."""

    source: str
    reader: str
    num_events: int
    num_bytes: int
    rank: int | None = None
    world_size: int | None = None
    backend: str | None = None
    base_time_ns: int | None = None
    devices: tuple[dict[str, Any], ...] = field(default=())
    selection: str | None = None

    def to_json(self) -> dict[str, Any]:
        """A plain dict for JSON; ``TraceInfo(**d)`` is the inverse but for the tuple of devices."""
        return asdict(self)


@dataclass(frozen=True)
class Trace:
    """One recording (one process, one rank) as Arrow tables; see ``profsuite.trace.schema``.

    ``trace.slices.to_pandas()`` gives a DataFrame; ``trace.array("slice", "ts")`` a numpy array.
    Tables are never changed after construction.
    """

    tables: dict[str, pa.Table]
    info: TraceInfo
    _cache: dict[tuple[str, str], Any] = field(default_factory=dict, repr=False, compare=False)

    def __repr__(self) -> str:
        info, counts = self.info, ("slice", "kernel", "step")
        rows = ", ".join(f"{self.num_rows(t):,} {t}{'' if self.num_rows(t) == 1 else 's'}" for t in counts)
        rank = "" if info.rank is None else f"rank {info.rank}, "
        return f"<Trace {info.source!r}: {rank}{info.num_events:,} events, {rows}>"

    def table(self, name: str) -> pa.Table:
        """The table called ``name``; ``KeyError`` if the schema has none of that name."""
        if name not in BY_NAME:
            raise KeyError(f"no table {name!r}; there are {', '.join(BY_NAME)}")
        return self.tables[name]

    @property
    def slices(self) -> pa.Table:
        """Everything with a duration, one row each; see the ``slice`` table."""
        return self.table("slice")

    @property
    def tracks(self) -> pa.Table:
        """Threads and streams; see the ``track`` table."""
        return self.table("track")

    @property
    def ops(self) -> pa.Table:
        """Operators' arguments; see the ``op`` table."""
        return self.table("op")

    @property
    def kernels(self) -> pa.Table:
        """Kernels; see the ``kernel`` table."""
        return self.table("kernel")

    @property
    def steps(self) -> pa.Table:
        """Training steps; see the ``step`` table."""
        return self.table("step")

    @property
    def health(self) -> pa.Table:
        """What the file lacked or got wrong; see the ``health`` table."""
        return self.table("health")

    def num_rows(self, table: str) -> int:
        """Rows of a table."""
        return int(self.table(table).num_rows)

    def array(self, table: str, column: str, null: float | None = None) -> NDArray[Any]:
        """A column as a numpy array, of its stored dtype; text columns give their int32 codes.

        Nulls become ``null``; by default -1 for codes and int32, the smallest int64 for int64, NaN for
        float64.  The array must not be written to.
        """
        key = (table, column if null is None else f"{column}\0{null}")
        if key not in self._cache:
            spec = BY_NAME[table].column(column)
            chunked = self.table(table).column(column)
            if not chunked.num_chunks:
                values: Any = pa.nulls(0, chunked.type)  # combine_chunks would import pandas to make none
            else:
                values = chunked.combine_chunks() if chunked.num_chunks > 1 else chunked.chunk(0)
            if isinstance(values, pa.ChunkedArray):  # pyarrow before 16
                values = pa.concat_arrays(values.chunks)
            if isinstance(values, pa.DictionaryArray):
                values = values.indices
            array, absent = to_numpy(values), nulls(values)
            if absent is not None:
                if null is None:
                    null = {"text": -1, "int32": -1, "int64": -(2**63), "float64": float("nan"), "bool": 0}[spec.dtype]
                array = np.where(absent, np.array(null, array.dtype), array)
            self._cache[key] = array
        return cast("NDArray[Any]", self._cache[key])

    def words(self, table: str, column: str) -> list[str]:
        """The values that a text column's codes index."""
        key = (table, f"{column}\0words")
        if key not in self._cache:
            chunked = self.table(table).column(column).unify_dictionaries()
            self._cache[key] = cast("Any", chunked.chunk(0)).dictionary.to_pylist() if chunked.num_chunks else []
        return cast("list[str]", self._cache[key])

    @cached_property
    def end(self) -> NDArray[np.int64]:
        """ts + dur of every slice, ns."""
        return cast("NDArray[np.int64]", self.array("slice", "ts") + self.array("slice", "dur"))

    @cached_property
    def roles(self) -> NDArray[np.int8]:
        """What each slice is, by its category: a ``classes.Role`` a row of ``slice``."""
        from profsuite.trace.classes import slice_roles

        return slice_roles(self)

    @cached_property
    def track_order(self) -> NDArray[np.int64]:
        """Rows of ``slice`` by (track, ts, longer first, row): each slice after those around it."""
        from profsuite.trace.nesting import track_order

        return track_order(self.array("slice", "track_id"), self.array("slice", "ts"), self.array("slice", "dur"))

    def flows(self) -> Flows:
        """The arrows between slices: flow ends in pairs, each bound to its slice."""
        key = ("flow", "\0pairs")
        if key not in self._cache:
            from profsuite.trace.flows import pair_flows

            self._cache[key] = pair_flows(self)
        return cast("Flows", self._cache[key])

    def to_pandas(self, table: str) -> pd.DataFrame:
        """A table as a DataFrame; its index is the row number, nullable ints are pandas' ``Int64``."""
        import pandas as pd

        mapping = {pa.int64(): pd.Int64Dtype(), pa.int32(): pd.Int32Dtype(), pa.bool_(): pd.BooleanDtype()}
        return self.table(table).to_pandas(types_mapper=mapping.get)

    def metadata(self, key: str) -> Any:
        """The parsed value of a top-level key of the file, None if it has none (or it is not JSON)."""
        table = self.table("metadata")
        scopes, keys = table.column("scope").to_pylist(), table.column("key").to_pylist()
        for row in range(len(keys)):
            if scopes[row] == "file" and keys[row] == key:
                try:
                    return json.loads(table.column("value")[row].as_py())
                except (ValueError, RecursionError):
                    return None
        return None

    def save(self, path: str | Path) -> Path:
        """Write the run folder (one Arrow IPC file a table and ``trace.json``); returns its path."""
        from profsuite.trace.store import save

        return save(self, Path(path))

    @classmethod
    def open(cls, path: str | Path) -> Trace:
        """Read a run folder; ``TraceError`` if it is none, or of another schema version."""
        from profsuite.trace.store import open_folder

        return open_folder(Path(path))
