"""A trace as batches of raw columns: what every streaming exporter reads, from the disk or from tables.

Groups and columns are those of ``readers.fields.GROUPS``; a text column is a ``Text`` (codes and pool), a grid
is three columns.  Slices have durations, tracks are those of the trace.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from profsuite.trace.classes import Role
from profsuite.trace.columns import Text, strings
from profsuite.trace.header import read_header
from profsuite.trace.marks import find_marks
from profsuite.trace.readers.fields import GROUPS, NULL_INT64
from profsuite.trace.readers.raw import RawTrace
from profsuite.trace.spans import close_spans
from profsuite.trace.spill import BATCH_ROWS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from profsuite.trace.model import Trace, TraceInfo
    from profsuite.trace.spill import Spill

Columns = dict[str, "NDArray[Any] | Text"]

_POOL = {(group, name): pool for group, fields in GROUPS.items() for name, _, pool in fields if pool}
_NO_TRIGGER = {"op": ("record_function", 0), "collective": ("group_size", 0), "sync": ("record_correlation", 0)}
"""A value that says "none" and makes the reader keep a row that has nothing else."""


class Batches(Protocol):
    """One trace: ``tracks`` are (pid, tid), ``header`` the file's own top-level keys as JSON text."""

    @property
    def tracks(self) -> list[tuple[str, str]]:
        """(pid, tid) of every track, "" where absent."""

    @property
    def header(self) -> list[tuple[str, str]]:
        """Top-level keys of the file and their JSON text."""

    @property
    def info(self) -> TraceInfo:
        """What is known of the whole recording."""

    def num_rows(self, group: str) -> int:
        """Rows of a group."""

    def batches(self, group: str, names: tuple[str, ...] | None = None) -> Iterator[Columns]:
        """The columns of a group, batch by batch, in the file's order; ``row`` counts the trace's slices.

        ``names`` are those that are wanted; there may be more.
        """


@dataclass(frozen=True)
class SpillBatches:
    """The batches that a reader left on the disk."""

    spill: Spill

    @cached_property
    def _marks(self) -> Any:
        return find_marks(self.spill.manifest["header"], self._file_tracks)

    @cached_property
    def _file_tracks(self) -> list[tuple[str, str]]:
        return [(pid, tid) for pid, tid in self.spill.manifest["tracks"]]

    @property
    def tracks(self) -> list[tuple[str, str]]:
        """See ``Batches``."""
        return self._marks.tracks if self._marks else self._file_tracks

    @cached_property
    def header(self) -> list[tuple[str, str]]:
        """See ``Batches``."""
        header = [(key, value) for key, value in self.spill.manifest["header"]]
        return self._marks.header(header) if self._marks else header

    @cached_property
    def info(self) -> TraceInfo:
        """See ``Batches``."""
        manifest = self.spill.manifest
        header = [(key, value) for key, value in manifest["header"]]
        raw = RawTrace({}, {}, [], header, int(manifest["num_events"]), int(manifest["num_bytes"]))
        info = read_header(raw, self.spill.source, "c", None, None)
        if self._marks is None:
            return info
        num_events = max(0, raw.num_events - self._marks.num_added)
        return replace(info, num_events=num_events, selection=self._marks.selection)

    def num_rows(self, group: str) -> int:
        """See ``Batches``."""
        return int(self.spill.manifest["rows"][group])

    @cached_property
    def _durations(self) -> NDArray[np.int64] | None:
        """Durations of all slices where there are spans that begin and end by events of their own, else None."""
        wanted = ("ts", "dur", "track", "offset")
        if not self.num_rows("end") and not any(
            bool((batch["dur"] == NULL_INT64).any()) for batch in self.spill.batches("slice", ("dur",))
        ):
            return None

        def whole(group: str, names: tuple[str, ...]) -> dict[str, NDArray[Any]]:
            parts = list(self.spill.batches(group, names))
            return {name: np.concatenate([part[name] for part in parts]) for name in names}

        return close_spans(whole("slice", wanted), whole("end", ("ts", "track", "offset")))[0]

    def batches(self, group: str, names: tuple[str, ...] | None = None) -> Iterator[Columns]:
        """See ``Batches``."""
        first = 0
        wanted = None if names is None else dict.fromkeys((*names, "track") if "ts" in names else names)
        for batch in self.spill.batches(group, wanted):
            columns = self._marks.part(group, batch) if self._marks else batch
            num = len(next(iter(columns.values())))
            if group == "slice" and "dur" in columns and self._durations is not None:
                columns = {**columns, "dur": self._durations[first : first + num]}
            first += num
            yield {
                name: Text(values, self.spill.pools[_POOL[group, name]]) if (group, name) in _POOL else values
                for name, values in columns.items()
            }


@dataclass(frozen=True)
class TableBatches:
    """The batches of a trace's tables: the raw columns that ``assemble`` makes these tables of."""

    trace: Trace

    @property
    def info(self) -> TraceInfo:
        """See ``Batches``."""
        return self.trace.info

    @cached_property
    def tracks(self) -> list[tuple[str, str]]:
        """See ``Batches``."""
        table = self.trace.table("track")
        return _pairs(table, "pid", "tid")

    @cached_property
    def _is_header(self) -> NDArray[np.bool_]:
        words = self.trace.words("metadata", "scope")
        is_file = np.array([word == "file" for word in words], bool)
        scopes = self.trace.array("metadata", "scope")
        without = self.trace.array("metadata", "track_id") < 0
        return is_file[scopes] & without if len(words) else np.zeros(len(scopes), bool)

    @cached_property
    def header(self) -> list[tuple[str, str]]:
        """See ``Batches``."""
        rows = self.trace.table("metadata").filter(pa.array(self._is_header))
        return _pairs(rows, "key", "value")

    def num_rows(self, group: str) -> int:
        """See ``Batches``."""
        columns = self._columns(group)
        return _length(columns) if columns else 0

    def batches(self, group: str, names: tuple[str, ...] | None = None) -> Iterator[Columns]:
        """See ``Batches``."""
        columns = self._columns(group)
        for first in range(0, _length(columns), BATCH_ROWS) if columns else ():
            rows = slice(first, first + BATCH_ROWS)
            yield {name: _take(values, rows) for name, values in columns.items()}

    def _columns(self, group: str) -> Columns:
        if group in ("end", "rocprof"):
            return {}
        return cast("Columns", getattr(self, f"_{group}"))

    def _taken(self, table: str, **names: str) -> Columns:
        """Raw columns by their names in a table."""
        columns: Columns = {}
        for raw, name in names.items():
            array = self.trace.array(table, name)
            if self.trace.table(table).schema.field(name).type == pa.dictionary(pa.int32(), pa.string()):
                columns[raw] = Text(array, strings(self.trace.words(table, name)))
            else:
                columns[raw] = array
        return columns

    @cached_property
    def _slice(self) -> Columns:
        return self._taken(
            "slice", ts="ts", dur="dur", track="track_id", name="name", category="category",
            correlation="correlation_id", external="external_id", offset="byte_offset",
        )  # fmt: skip

    @cached_property
    def _flow(self) -> Columns:
        columns = self._taken(
            "flow", ts="ts", track="track_id", name="name", category="category", id="flow_id",
            id_text="flow_id_text", offset="byte_offset",
        )  # fmt: skip
        letters = np.array([ord(word) for word in self.trace.words("flow", "phase")], np.int8)
        codes = self.trace.array("flow", "phase")
        return {**columns, "phase": letters[codes] if len(letters) else np.zeros(len(codes), np.int8)}

    @cached_property
    def _counter(self) -> Columns:
        return self._taken(
            "counter", ts="ts", track="track_id", name="name", series="series", value="value", offset="byte_offset"
        )

    @cached_property
    def _instant(self) -> Columns:
        return self._taken("instant", ts="ts", track="track_id", name="name", category="category", offset="byte_offset")

    @cached_property
    def _meta(self) -> Columns:
        columns = self._taken("metadata", name="scope", track="track_id", key="key", value="value")
        rows = np.flatnonzero(~self._is_header & (cast("NDArray[Any]", columns["track"]) >= 0))
        return {name: _take(values, rows) for name, values in columns.items()}

    @cached_property
    def _memory(self) -> Columns:
        columns = self._taken(
            "memory_event", ts="ts", track="track_id", offset="byte_offset", address="address", bytes="bytes",
            allocated="total_allocated_bytes", reserved="total_reserved_bytes", event_index="event_index",
            device_type="device_type", device="device",
        )  # fmt: skip
        for name in ("device_type", "device"):
            columns[name] = _wide(cast("NDArray[Any]", columns[name]))
        names = ("address", "bytes", "allocated", "reserved", "device")
        bare = np.all([cast("NDArray[Any]", columns[name]) == NULL_INT64 for name in names], axis=0)
        device_type = cast("NDArray[Any]", columns["device_type"])
        columns["device_type"] = np.where(bare & (device_type == NULL_INT64), -1, device_type)
        return columns

    @cached_property
    def _op(self) -> Columns:
        return _triggered("op", self._taken(
            "op", row="slice_id", sequence="sequence_number", forward_thread="forward_thread_id",
            record_function="record_function_id", event_index="event_index", dims="input_dims", types="input_types",
            strides="input_strides", concrete="concrete_inputs", stack="call_stack", module="module_hierarchy",
            kernel_backend="kernel_backend", kernel_file="kernel_file", layouts="input_layouts",
        ), {"event_index"})  # fmt: skip

    @cached_property
    def _collective(self) -> Columns:
        columns = self._taken(
            "collective", row="slice_id", collective="collective_name", dtype="dtype", in_nelems="in_nelems",
            out_nelems="out_nelems", in_split="in_split", out_split="out_split", group_size="group_size",
            group_name="group_name", group_description="group_description", group_ranks="group_ranks", rank="rank",
            source_rank="source_rank", destination_rank="destination_rank", sequence="sequence", comms_id="comms_id",
        )  # fmt: skip
        known = pc.cast(self.trace.table("collective").column("is_async"), pa.int8())
        filled: Any = pc.fill_null(cast("Any", known), -1)
        columns["is_async"] = filled.combine_chunks().to_numpy(zero_copy_only=False)
        return _triggered("collective", columns, {"dtype", "rank", "sequence"})

    @cached_property
    def _sync(self) -> Columns:
        return _triggered("sync", self._taken(
            "sync", row="slice_id", sync_kind="sync_kind", wait_stream="wait_on_stream",
            record_correlation="event_record_correlation_id", event="event_id",
        ), set())  # fmt: skip

    @cached_property
    def _python(self) -> Columns:
        return self._taken(
            "python_call", row="slice_id", id="python_id", parent="python_parent_id", module="python_module_id"
        )

    @cached_property
    def _xla(self) -> Columns:
        columns = self._taken(
            "xla_op", row="slice_id", hlo_op="hlo_op", opcode="hlo_opcode", module="hlo_module",
            category="hlo_category", framework_op="framework_op", kernel_details="kernel_details",
            transfer_details="transfer_details", step="step_number", program="program_id", run="run_id",
            device="device", flops="flops", bytes="bytes_accessed",
        )  # fmt: skip
        return {**columns, "device": _wide(cast("NDArray[Any]", columns["device"]))}

    @cached_property
    def _compile(self) -> Columns:
        return self._taken(
            "compile_event", ts="ts", dur="dur", kind="kind", frame="frame_id", frame_compile="frame_compile_id",
            name="name", reason="reason", file="file", line="line",
        )  # fmt: skip

    @cached_property
    def _tensor(self) -> Columns:
        columns = self._taken(
            "tensor", ts="ts", device_type="device_type", device="device", address="address", bytes="bytes",
            role="role", name="name", module="module",
        )  # fmt: skip
        for name in ("device_type", "device"):
            columns[name] = _wide(cast("NDArray[Any]", columns[name]))
        return columns

    @cached_property
    def _gpu(self) -> Columns:
        """Args of kernels and copies; of other slices on a device's track, where that is."""
        kernel = self._taken(
            "kernel", row="slice_id", device="device", stream="stream", context="context",
            registers="registers_per_thread", shared_memory="shared_memory_bytes", blocks_per_sm="blocks_per_sm",
            warps_per_sm="warps_per_sm", occupancy="occupancy_pct", queued="queued", graph="graph_id",
            graph_node="graph_node_id", **{f"{g}_{axis}": f"{g}_{axis}" for g in ("grid", "block") for axis in "xyz"},
        )  # fmt: skip
        memcpy = self._taken(
            "memcpy", row="slice_id", device="device", stream="stream", context="context", bytes="bytes",
            bandwidth="bandwidth_gb_per_s",
        )  # fmt: skip
        other = self._on_device(np.concatenate([cast("Any", part["row"]) for part in (kernel, memcpy)]))
        parts = [cast("dict[str, NDArray[Any]]", part) for part in (kernel, memcpy, other)]
        order = np.argsort(np.concatenate([part["row"] for part in parts]), kind="stable")
        sizes = [len(part["row"]) for part in parts]
        columns: Columns = {"row": np.concatenate([part.pop("row") for part in parts])[order]}
        for name in dict.fromkeys(name for part in parts for name in part):
            dtype = next(part[name].dtype for part in parts if name in part)
            if name == "device":
                dtype = np.dtype(np.int64)
            null = np.nan if dtype == np.float64 else NULL_INT64
            filled = [
                _wide(part[name]) if name in part else np.full(size, null, dtype)
                for part, size in zip(parts, sizes, strict=True)
            ]
            columns[name] = np.concatenate(filled)[order]
        return columns

    def _on_device(self, known: NDArray[np.int32]) -> Columns:
        """Device and stream of waits, from their tracks.

        Kineto says them of waits, but not of annotations on a device's track: what carries a stream is work to
        other tools.
        """
        trace = self.trace
        rows = trace.roles == Role.SYNC
        rows[known] = False
        track = trace.array("slice", "track_id")
        device, stream = trace.array("track", "device"), trace.array("track", "stream")
        rows &= ((device >= 0) | (stream != NULL_INT64))[track] if len(device) else False
        found = np.flatnonzero(rows).astype(np.int32)
        return {"row": found, "device": device[track[found]], "stream": stream[track[found]]}


def _pairs(table: pa.Table, first: str, second: str) -> list[tuple[str, str]]:
    """Two text columns that are never null, row by row."""
    columns: Any = (table.column(first).to_pylist(), table.column(second).to_pylist())
    return list(zip(*columns, strict=True))


def _length(columns: Columns) -> int:
    first = next(iter(columns.values()))
    return len(first.codes) if isinstance(first, Text) else len(first)


def _take(values: NDArray[Any] | Text, rows: Any) -> NDArray[Any] | Text:
    return Text(values.codes[rows], values.pool) if isinstance(values, Text) else values[rows]


def _wide(values: NDArray[Any]) -> NDArray[np.int64]:
    """An int32 column as int64, with its null."""
    return np.where(values == -1, NULL_INT64, values.astype(np.int64)) if values.dtype == np.int32 else values


def _triggered(group: str, columns: Columns, others: set[str]) -> Columns:
    """The columns with a value that says "none" in rows that have nothing but ``others``."""
    bare = np.ones(_length(columns), bool)
    for name, values in columns.items():
        if name == "row" or name in others:
            continue
        if isinstance(values, Text):
            bare &= values.codes < 0
        else:
            bare &= values == (NULL_INT64 if values.dtype == np.int64 else -1)
    name, none = _NO_TRIGGER[group]
    return {**columns, name: np.where(bare, none, cast("NDArray[Any]", columns[name]))}
