"""Memory snapshots: the pickles of ``torch.cuda.memory._dump_snapshot``, read into columns as they go by.

The layout is that of ``torch/csrc/cuda/memory_snapshot.cpp`` and of torch_npu, torch_musa and the like, which write
the same: a dict of ``segments`` (each with its ``blocks``), ``device_traces`` (a list of entries a device), settings.
"""

from __future__ import annotations

import os
from array import array
from itertools import repeat
from typing import Any, cast

import numpy as np
import pyarrow as pa

from profsuite.errors import TraceError
from profsuite.trace.columns import Text, strings, table_of
from profsuite.trace.readers.fields import NULL_INT64
from profsuite.trace.readers.pickles import Listing, Mapping, Refused, Row, read_pickle
from profsuite.trace.snapshot import SNAPSHOT_BY_NAME, Snapshot
from profsuite.trace.source import open_source

PICKLE = b"\x80"
"""How every pickle of protocol 2 or later begins."""

LONGEST_STACK = 1024
"""Frames; torch records no more than 128 of Python."""


def read_snapshot(path: str | os.PathLike[str], *, max_unpacked: int | None = None) -> Snapshot:
    """Read a snapshot, plain or gzipped; ``TraceError`` in one line if it is none, is damaged, or holds code.

    Memory: about as much as the file is large (benchmarks/).
    """
    name = os.fspath(path)
    with open_source(name, max_unpacked, magic=PICKLE) as source:
        builder = _Columns()
        value, num_bytes = read_pickle(name, source.chunks(), builder)
        if source.fault:
            raise TraceError(f"{name}: {source.fault}")
    return builder.snapshot(name, num_bytes, value)


class _Stack(int):
    """A row of ``stack``; -1 is a stack of no frames."""


class _Frame(int):
    """A row of ``frame``."""


class _Pool:
    """Distinct texts and their codes."""

    def __init__(self) -> None:
        self.codes: dict[str | None, int] = {None: -1}

    def code(self, text: Any) -> int:
        """The code of a text; -1 of None."""
        known = self.codes.get(text)
        if known is not None:
            return known
        if not isinstance(text, str):
            if not isinstance(text, tuple):
                raise TypeError(f"{type(text).__name__} instead of a text")
            return self.code(",".join(map(str, text)))
        self.codes[text] = len(self.codes) - 1
        return len(self.codes) - 2

    def column(self, codes: array[int]) -> Text:
        """The column of these codes."""
        return Text(_numbers(codes), strings(list(self.codes)[1:]))


def _numbers(values: array[int]) -> Any:
    return np.frombuffer(values, np.dtype(values.typecode)) if values else np.zeros(0, np.dtype(values.typecode))


_ENTRY, _BLOCK, _SEGMENT, _MARK = Row("entry"), Row("block"), Row("segment"), Row("annotation")
_NO_FRAMES = _Stack(-1)

_COLUMNS: dict[str, dict[str, str]] = {
    "entry": {
        "action": "i", "address": "q", "bytes": "q", "stream": "q", "ts": "q", "device_free_bytes": "q", "pool": "i",
        "user_metadata": "i", "compile_context": "i", "stack_id": "i",
    },
    "block": {"address": "q", "bytes": "q", "requested_bytes": "q", "state": "i", "stack_id": "i"},
    "segment": {
        "device": "i", "address": "q", "total_bytes": "q", "allocated_bytes": "q", "active_bytes": "q",
        "requested_bytes": "q", "stream": "q", "kind": "i", "pool": "i", "expandable": "b", "stack_id": "i",
    },
    "annotation": {"ts": "q", "device": "i", "name": "i", "stage": "i"},
    "frame": {"name": "i", "file": "i", "line": "q"},
    "stack": {"frame_id": "i", "parent_id": "i"},
}  # fmt: skip
"""Columns that grow, by their array's type; ``device`` of entries and ``segment_id`` of blocks are told by lists."""

_SELDOM = (
    ("device_free", "device_free_bytes"),
    ("segment_pool_id", "pool"),
    ("pool_id", "pool"),
    ("user_metadata", "user_metadata"),
    ("compile_context", "compile_context"),
)
"""Keys that most entries lack, and their columns."""


class _Columns:
    """A ``Builder``: entries, blocks, segments, frames and stacks become rows; what is known twice is kept once."""

    def __init__(self) -> None:
        self._arrays = {
            table: {column: array(kind) for column, kind in columns.items()} for table, columns in _COLUMNS.items()
        }
        self._pools: dict[tuple[str, str], _Pool] = {
            (table, column): _Pool()
            for table, columns in _COLUMNS.items()
            for column in columns
            if SNAPSHOT_BY_NAME[table].column(column).dtype == "text"
        }
        self._claimed = dict.fromkeys(("entry", "block", "segment", "annotation"), 0)
        self._frames: dict[tuple[str, str, int], _Frame] = {}
        self._links: dict[tuple[int, int], int] = {}
        self._stacks: dict[tuple[int, ...], _Stack] = {(): _NO_FRAMES}
        self._blocks_of: list[int] = []
        self._add_entry = self._entry_adder()

    # ------------------------------------------------------------ Builder
    def record(self, items: dict[Any, Any]) -> Any:
        """The row that a dict becomes, None for a dict of another kind."""
        if "action" in items:
            self._add_entry(items)
            return _ENTRY
        if "filename" in items:
            return self._frame(items)
        if "state" in items:
            self._block(items)
            return _BLOCK
        if "total_size" in items:
            self._segment(items)
            return _SEGMENT
        if "time_us" in items:
            self._mark(items)
            return _MARK
        return None

    def settled(self, value: Listing) -> Any:
        """A list of frames becomes a stack; any other stays a list."""
        items = value.items
        if not items or type(items[0]) is not _Frame:
            return value
        key = tuple(items)
        stack = self._stacks.get(key)
        if stack is None:
            if len(key) > LONGEST_STACK or any(type(item) is not _Frame for item in key):
                raise Refused(f"a call stack that is not one, or deeper than {LONGEST_STACK}")
            stack = self._stacks[key] = self._stack(key)
        return stack

    def claim(self, row: Row, number: int, listing: Listing) -> None:
        """Rows come in the order of their lists, so that a list is a stretch of rows."""
        claimed, there = self._claimed[row.table], self._count(row.table)
        first, end = listing.rows or (claimed, claimed)
        if there - claimed != number or end != claimed:
            raise Refused(f"a list of {row.table} rows that are part of another list too")
        listing.rows = (first, there)
        self._claimed[row.table] = there

    # ------------------------------------------------------------ rows
    def _count(self, table: str) -> int:
        return len(next(iter(self._arrays[table].values())))

    def _entry_adder(self) -> Any:
        """A function that appends an entry: the one place where every nanosecond counts."""
        columns = self._arrays["entry"]
        names = ("action", "address", "bytes", "stream", "ts", "stack_id")
        action, address, size, stream, ts, stack = (columns[name].append for name in names)
        action_of = self._pools["entry", "action"].code
        stack_of, note = self._stack_of, self._note

        def add(items: dict[Any, Any]) -> None:
            get = items.get
            address(get("addr", NULL_INT64))
            size(get("size", NULL_INT64))
            stream(get("stream", NULL_INT64))
            time = get("time_us")
            ts(NULL_INT64 if time is None else time * 1000)
            stack(stack_of(get("frames")))
            for key, column in _SELDOM:
                if key in items and items[key] not in ("", None):
                    note(column, items[key])
            action(action_of(items["action"]))

        return add

    def _note(self, column: str, value: Any) -> None:
        """Set what few entries have: the column begins where the first of them comes."""
        values, pool = self._arrays["entry"][column], self._pools.get(("entry", column))
        null = NULL_INT64 if pool is None else -1
        del values[self._count("entry") :]  # told under two names: the later counts
        values.extend(repeat(null, self._count("entry") - len(values)))
        values.append(value if pool is None else pool.code(value))

    def _stack_of(self, frames: Any) -> int:
        if frames is None or (type(frames) is Listing and not frames.items and frames.rows is None):
            return -1
        if type(frames) is not _Stack:
            raise TypeError("frames are no list of frames")
        return frames

    def _frame(self, items: dict[Any, Any]) -> _Frame:
        key = (items["name"], items["filename"], items.get("line", NULL_INT64))
        frame = self._frames.get(key)
        if frame is None:
            columns = self._arrays["frame"]
            frame = self._frames[key] = _Frame(len(self._frames))
            columns["line"].append(key[2])
            columns["name"].append(self._pools["frame", "name"].code(key[0]))
            columns["file"].append(self._pools["frame", "file"].code(key[1]))
        return frame

    def _stack(self, frames: tuple[int, ...]) -> _Stack:
        """The row of a stack, the innermost frame of which is first; callers are shared."""
        links, columns, parent = self._links, self._arrays["stack"], -1
        for frame in reversed(frames):
            known = links.get((parent, frame))
            if known is None:
                known = links[parent, frame] = len(links)
                columns["frame_id"].append(frame)
                columns["parent_id"].append(parent)
            parent = known
        return _Stack(parent)

    def _block(self, items: dict[Any, Any]) -> None:
        columns = self._arrays["block"]
        stack, requested = items.get("frames"), items.get("requested_size", NULL_INT64)
        columns["address"].append(items.get("address", NULL_INT64))
        columns["bytes"].append(items["size"])
        columns["requested_bytes"].append(requested)
        columns["state"].append(self._pools["block", "state"].code(items["state"]))
        columns["stack_id"].append(self._stack_of(stack))

    def _segment(self, items: dict[Any, Any]) -> None:
        columns, pools = self._arrays["segment"], self._pools
        blocks = items.get("blocks")
        if type(blocks) is not Listing or blocks.items:
            raise TypeError("a segment's blocks are no list of blocks")
        first, end = blocks.rows or (0, 0)
        if first != len(self._blocks_of) and end > first:
            raise Refused("a list of blocks that is part of two segments")
        self._blocks_of.extend(repeat(len(columns["device"]), end - first))
        numbers = ("allocated_size", "active_size", "requested_size", "stream")
        allocated, active, requested, stream = (items.get(key, NULL_INT64) for key in numbers)
        expandable = items.get("is_expandable")
        values = {
            "device": items["device"], "address": items["address"], "total_bytes": items["total_size"],
            "allocated_bytes": allocated, "active_bytes": active, "requested_bytes": requested, "stream": stream,
            "kind": pools["segment", "kind"].code(items.get("segment_type")),
            "pool": pools["segment", "pool"].code(items.get("segment_pool_id")),
            "expandable": -1 if expandable is None else int(expandable),
            "stack_id": self._stack_of(items.get("frames")),
        }  # fmt: skip
        for column, value in values.items():
            columns[column].append(value)

    def _mark(self, items: dict[Any, Any]) -> None:
        columns, pools = self._arrays["annotation"], self._pools
        columns["ts"].append(items["time_us"] * 1000)
        columns["device"].append(items.get("device", -1))
        columns["name"].append(pools["annotation", "name"].code(items.get("name")))
        columns["stage"].append(pools["annotation", "stage"].code(items.get("stage")))

    # ------------------------------------------------------------ the whole
    def snapshot(self, name: str, num_bytes: int, value: Any) -> Snapshot:
        """The model, once everything is read; ``TraceError`` where the pickle is none of a snapshot."""
        if isinstance(value, Listing):  # torch.cuda.memory_snapshot() is the segments alone
            value, top = Mapping(), value
            value.items = {"segments": top, "device_traces": Listing()}
        if not isinstance(value, Mapping) or not isinstance(value.items.get("segments"), Listing):
            raise TraceError(
                f"{name}: is no memory snapshot: it holds no segments (torch.cuda.memory._dump_snapshot writes one)"
            )
        traces = value.items.get("device_traces")
        lists = traces.items if isinstance(traces, Listing) else []
        device = np.full(self._count("entry"), -1, np.int32)
        for ordinal, listing in enumerate(lists):
            if isinstance(listing, Listing) and listing.rows is not None:
                device[slice(*listing.rows)] = ordinal
        if bool((np.diff(device, prepend=0) < 0).any()) or len(self._blocks_of) != self._count("block"):
            raise TraceError(f"{name}: is no memory snapshot: it has entries or blocks that belong nowhere")
        tables = {table: self._table(table) for table in ("segment", "annotation", "frame", "stack")}
        tables["entry"] = self._table("entry", device=device)
        tables["block"] = self._table("block", segment_id=np.array(self._blocks_of, np.int32))
        settings = value.items.get("allocator_settings")
        told = settings.items if isinstance(settings, Mapping) else {}
        plain = {str(k): str(v) for k, v in told.items() if isinstance(v, str | int | float | bool)}
        return Snapshot(name, num_bytes, tables, plain)

    def _table(self, name: str, **told: Any) -> pa.Table:
        columns, spec, rows = dict(told), SNAPSHOT_BY_NAME[name], self._count(name)
        for column, values in self._arrays[name].items():
            pool = self._pools.get((name, column))
            if rows and not values:
                columns[column] = pa.nulls(rows, cast("Any", spec.column(column).arrow_type()))
                continue
            values.extend(repeat(NULL_INT64 if pool is None else -1, rows - len(values)))
            columns[column] = _numbers(values) if pool is None else pool.column(values)
        return table_of(spec, columns)
