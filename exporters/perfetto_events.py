"""Batches of raw columns as Perfetto's packets: interned words, debug annotations, flows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np

from profsuite.exporters.chrome_events import FIELDS
from profsuite.exporters.json_words import floats, grid_words
from profsuite.exporters.protobuf import BYTES, FIXED64, VARINT, delimited, number, tag
from profsuite.exporters.rows import Op, Part, Rendering, Words, literal, message, when, words
from profsuite.trace.columns import Text
from profsuite.trace.readers.fields import NULL_INT64

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

    from profsuite.exporters.timeline import Slices
    from profsuite.trace.batches import Columns

PACKET: Final = tag(1, BYTES)
SEQUENCE: Final = number(10, 1)
_STATE_CLEARED, _NEEDS_STATE = 1, 2
_HEAD: Final = SEQUENCE + number(13, _NEEDS_STATE)
_TIMESTAMP, _EVENT = tag(8, VARINT), tag(11, BYTES)
_TYPE, _TRACK, _CATEGORY, _NAME_ID = 9, tag(11, VARINT), tag(3, VARINT), tag(10, VARINT)
_BEGIN, _END, _INSTANT, _COUNTER = 1, 2, 3, 4
_ANNOTATION: Final = tag(4, BYTES)
_FLOW, _LAST_FLOW = tag(47, FIXED64), tag(48, FIXED64)
_COUNTER_VALUE: Final = tag(44, FIXED64)
_CATEGORIES, _NAMES, _KEYS, _STRINGS = 1, 2, 3, 29
_CHUNK: Final = 1 << 20


def packet(body: bytes) -> bytes:
    """A packet of the trace."""
    return delimited(1, body)


def first_packet() -> bytes:
    """What opens the sequence of packets that share their interned words."""
    return packet(SEQUENCE + number(13, _STATE_CLEARED) + number(87, 1))


class Interner:
    """Gives words their ids; each pool is written before it is first used."""

    def __init__(self, write: Callable[[bytes], Any]) -> None:
        self._write = write
        self._pools: dict[tuple[int, int], tuple[Any, int]] = {}
        self._next = {_CATEGORIES: 1, _NAMES: 1, _STRINGS: 1, _KEYS: 1}
        self._keys: dict[str, int] = {}

    def ids(self, kind: int, text: Text, skip_empty: bool = False) -> NDArray[np.int64]:
        """The id of each row's word; null where it has none."""
        first = self._first(kind, text.pool)
        ids = np.where(text.codes < 0, NULL_INT64, text.codes.astype(np.int64) + first)
        if skip_empty and len(text.pool) < 10_000:
            for code, word in enumerate(text.pool.to_pylist()):
                if word == "":
                    ids[text.codes == code] = NULL_INT64
        return ids

    def key(self, name: str) -> int:
        """The id of an annotation's name."""
        if name not in self._keys:
            self._keys[name] = len(self._keys) + 1
            self._emit(_KEYS, [(self._keys[name], name)])
        return self._keys[name]

    def _first(self, kind: int, pool: pa.StringArray) -> int:
        place = (kind, id(pool))
        if place not in self._pools:
            self._pools[place] = (pool, self._next[kind])  # the pool is held: its id stays its own
            texts: list[Any] = pool.to_pylist()
            self._emit(kind, list(enumerate(texts, self._next[kind])))
            self._next[kind] += len(texts)
        return self._pools[place][1]

    def _emit(self, kind: int, pairs: list[tuple[int, str]]) -> None:
        body, size = [], 0
        for iid, text in pairs:
            body.append(delimited(kind, number(1, iid) + delimited(2, text.encode("utf-8", "replace"))))
            size += len(body[-1])
            if size >= _CHUNK:
                self._write(packet(_HEAD + delimited(12, b"".join(body))))
                body, size = [], 0
        if body:
            self._write(packet(_HEAD + delimited(12, b"".join(body))))


def ends(ts: NDArray[np.int64], uuid: NDArray[np.int64]) -> Rendering:
    """The ends of slices."""
    return Rendering(len(ts), _event(ts, _END, uuid, ()))


class Encoder:
    """Writes the events of one rank; ``uuids`` are those of its written tracks."""

    def __init__(self, interner: Interner, uuids: NDArray[np.int64]) -> None:
        self._interner = interner
        self._uuids = uuids

    def slices(self, batch: Slices, rows: NDArray[np.int64], flows: Words | None, instant: bool) -> Rendering:
        """Begins of some slices of a batch; instants where they have no length."""
        columns, track = batch.columns, batch.track[rows]
        taken = {name: _take(values, rows) for name, values in columns.items()}
        parts = [*self._named(taken), *self._args("slice", taken, None)]
        for group, args in batch.args.items():
            parts += self._args(group, args.columns, args.index[rows])
        if flows is not None:
            parts.append(Part(Op.WORD, b"", rows.astype(np.int32), words=flows))
        ts = cast("NDArray[np.int64]", taken["ts"])
        return Rendering(len(rows), _event(ts, _INSTANT if instant else _BEGIN, self._uuids[track], parts))

    def instants(self, columns: Columns, track: NDArray[np.int32]) -> Rendering:
        """Instant events."""
        ts = cast("NDArray[np.int64]", columns["ts"])
        return Rendering(len(ts), _event(ts, _INSTANT, self._uuids[track], self._named(columns)))

    def memory(self, columns: Columns, track: NDArray[np.int32], name: Text) -> Rendering:
        """[memory] events; ``name`` says so in every row."""
        ts = cast("NDArray[np.int64]", columns["ts"])
        parts = [Part(Op.VARINT, _NAME_ID, self._interner.ids(_NAMES, name)), *self._args("memory", columns, None)]
        return Rendering(len(ts), _event(ts, _INSTANT, self._uuids[track], parts))

    def counters(self, columns: Columns, uuid: NDArray[np.int64]) -> Rendering:
        """Values of counters, each on its counter's track."""
        ts, value = cast("NDArray[np.int64]", columns["ts"]), cast("NDArray[np.float64]", columns["value"])
        known = np.isfinite(value)
        ts, value, uuid = ts[known], value[known], uuid[known]
        return Rendering(len(ts), _event(ts, _COUNTER, uuid, [Part(Op.FIXED, _COUNTER_VALUE, value.view(np.int64))]))

    def flow_ends(
        self, ts: NDArray[np.int64], track: NDArray[np.int32], flow: NDArray[np.int64], last: NDArray[np.bool_]
    ) -> Rendering:
        """Flow ends at no slice's start, as instants."""
        parts = [
            *when(~last, [Part(Op.FIXED, _FLOW, flow)]),
            *when(last, [Part(Op.FIXED, _LAST_FLOW, flow)]),
        ]
        return Rendering(len(ts), _event(ts, _INSTANT, self._uuids[track], parts))

    def _named(self, columns: Columns) -> list[Part]:
        category, name = cast("Text", columns["category"]), cast("Text", columns["name"])
        return [
            Part(Op.VARINT, _CATEGORY, self._interner.ids(_CATEGORIES, category, skip_empty=True)),
            Part(Op.VARINT, _NAME_ID, self._interner.ids(_NAMES, name)),
        ]

    def _args(self, group: str, columns: Columns, index: NDArray[np.int32] | None) -> list[Part]:
        """Debug annotations under the names that Kineto gives the args."""
        parts: list[Part] = []
        for name, kind, _, key in FIELDS[group]:
            if name not in columns and f"{name}_x" not in columns:
                continue
            iid = number(1, self._interner.key(key[1:-3].decode()))
            if kind == "grid":
                codes, texts = grid_words([cast("NDArray[np.int64]", columns[f"{name}_{axis}"]) for axis in "xyz"])
                found = words([delimited(4, iid + delimited(6, text)) for text in texts])
                parts.append(Part(Op.WORD, b"", codes, index, found))
                continue
            column = columns[name]
            if isinstance(column, Text):
                prefix = _ANNOTATION + iid + tag(17, VARINT)
                parts.append(Part(Op.SIZED, prefix, self._interner.ids(_STRINGS, column), index))
            elif kind == "float":
                codes, texts_ = floats(column)
                values = [float(texts_.data[a:b]) for a, b in zip(texts_.bounds, texts_.bounds[1:], strict=False)]
                found = words([delimited(4, iid + tag(5, FIXED64) + np.float64(v).tobytes()) for v in values])
                parts.append(Part(Op.WORD, b"", codes, index, found))
            elif kind == "bool":
                truth = words([delimited(4, iid + number(2, bit)) for bit in (0, 1)])
                parts.append(Part(Op.WORD, b"", column.astype(np.int32), index, truth))
            elif (column != NULL_INT64).any():
                parts.append(Part(Op.SIZED, _ANNOTATION + iid + tag(4, VARINT), column, index))
        return parts


def flow_words(num_rows: int, row: NDArray[np.int32], flow: NDArray[np.int64], last: NDArray[np.bool_]) -> Words:
    """For each of ``num_rows`` slices its flow ids as fields; ``row`` is in order."""
    cells = np.zeros((len(row), 10), np.uint8)
    cells[:, :2] = np.where(last[:, None], np.frombuffer(_LAST_FLOW, np.uint8), np.frombuffer(_FLOW, np.uint8))
    cells[:, 2:] = flow.astype("<i8").view(np.uint8).reshape(-1, 8)
    bounds = np.searchsorted(row, np.arange(num_rows + 1)).astype(np.int64) * 10
    return Words(bounds, cells.tobytes())


def _event(ts: NDArray[np.int64], kind: int, uuid: NDArray[np.int64], parts: Sequence[Part]) -> list[Part]:
    """A packet of a track event."""
    event = [literal(number(_TYPE, kind)), Part(Op.VARINT, _TRACK, uuid), *parts]
    return message(PACKET, [Part(Op.VARINT, _TIMESTAMP, ts), literal(_HEAD), *message(_EVENT, event)])


def _take(values: NDArray[Any] | Text, rows: NDArray[np.int64]) -> NDArray[Any] | Text:
    return values.take(rows) if isinstance(values, Text) else values[rows]
