"""Memory snapshots without the C extension: what each dict of the pickle becomes, row by row.

``_snapshot.h`` is the same in C; tests/trace/test_snapshot.py holds the two together.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from itertools import repeat, takewhile
from typing import TYPE_CHECKING, Any

import numpy as np

from profsuite.trace.columns import Text, strings
from profsuite.trace.readers.fields import NULL_INT64
from profsuite.trace.readers.pickles import Listing, Mapping, Refused, Row, read_pickle
from profsuite.trace.snapshot import SNAPSHOT_BY_NAME

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

LONGEST_STACK = 1024
"""Frames; torch records no more than 128 of Python."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Found:
    """What a pickle holds: columns by table, shorter than their table where the last rows have no value.

    ``blocks_of``: the row of ``segment`` of each block; ``traces``: (first, end) of each device's rows of ``entry``,
    None for a device without; ``settings``: as written; ``has_segments``: whether it is a snapshot at all; ``fault``:
    why the pickle breaks off, "" if it is whole: rows after the last of ``traces`` are then of an incomplete list.
    """

    columns: dict[str, dict[str, NDArray[Any] | Text]]
    blocks_of: NDArray[np.int32]
    has_segments: bool
    traces: list[tuple[int, int] | None]
    settings: dict[Any, Any]
    fault: str


def read_rows(name: str, chunks: Iterator[bytes]) -> tuple[Found, int]:
    """The content of the pickle and the bytes read; ``TraceError`` as ``read_pickle``."""
    builder = _Columns()
    value, num_bytes, fault = read_pickle(name, chunks, builder)
    return builder.found(value, fault), num_bytes


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

COLUMNS: dict[str, dict[str, str]] = {
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
"""Columns that grow, by their array's type, in the order of ``SN_COLUMNS`` in C; ``device`` of entries and
``segment_id`` of blocks are told by lists."""

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
            table: {column: array(kind) for column, kind in columns.items()} for table, columns in COLUMNS.items()
        }
        self._pools: dict[tuple[str, str], _Pool] = {
            (table, column): _Pool()
            for table, columns in COLUMNS.items()
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

    def rest(self, stack: list[Any]) -> Any:
        """The segments, and the lists of the history that are whole: the last on the stack may not be."""
        if len(stack) == 1 and isinstance(stack[0], Mapping):
            return stack[0]  # all but the last byte is there
        at = stack.index("segments") if "segments" in stack else len(stack)
        segments, key, outer = (*stack[at + 1 : at + 4], None, None, None)[:3]
        if not isinstance(segments, Listing) or key != "device_traces":
            return None
        value, traces = Mapping(), Listing()
        value.items = {"segments": segments, "device_traces": traces}
        if isinstance(outer, Listing):
            pending = list(takewhile(lambda item: isinstance(item, Listing), stack[at + 4 :]))
            traces.items = [*outer.items, *pending[:-1]]
        return value

    # ------------------------------------------------------------ the whole
    def found(self, value: Any, fault: str) -> Found:
        """All of it, once everything is read."""
        top = value.items if isinstance(value, Mapping) else {"segments": value}  # memory_snapshot(): segments alone
        traces, settings = top.get("device_traces"), top.get("allocator_settings")
        lists = traces.items if isinstance(traces, Listing) else []
        columns: dict[str, dict[str, NDArray[Any] | Text]] = {}
        for table, arrays in self._arrays.items():
            pools = self._pools
            columns[table] = {
                column: pools[table, column].column(values) if (table, column) in pools else _numbers(values)
                for column, values in arrays.items()
            }
        return Found(
            columns=columns,
            blocks_of=np.array(self._blocks_of, np.int32),
            has_segments=isinstance(top.get("segments"), Listing),
            traces=[listing.rows if isinstance(listing, Listing) else None for listing in lists],
            settings=settings.items if isinstance(settings, Mapping) else {},
            fault=fault,
        )
