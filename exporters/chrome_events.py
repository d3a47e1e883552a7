"""Batches of raw columns as the lines of Chrome trace JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

import msgspec
import numpy as np

from profsuite.exporters.json_words import Pools, floats, grid_words, non_empty, string, value
from profsuite.exporters.rows import Op, Part, Rendering, Separator, Words, literal, when, words
from profsuite.trace.columns import Text
from profsuite.trace.readers.fields import ARGS, GROUPS, NULL_INT64

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from profsuite.exporters.timeline import Slices
    from profsuite.trace.batches import Columns

_VALUES: Final = {"shape", "types", "concrete"}
"""Pools whose texts Kineto writes as arrays; those of others are strings in its files, whatever they hold."""
_TRUTH: Final = words([b"false", b"true"])
_PHASES: Final = words([string("s"), string("t"), string("f")])


def _keys() -> dict[str, list[tuple[str, str, str, bytes]]]:
    """Group -> (field, kind, pool, key as Kineto writes it), in the order of the columns."""
    first: dict[tuple[str, str], str] = {}
    for key, group, name, _ in ARGS:
        first.setdefault((group, name), key)
    first["memory", "event_index"] = first["op", "event_index"]
    return {
        group: [
            (name, kind, pool, string(first[group, name]) + b": ")
            for name, kind, pool in fields
            if (group, name) in first
        ]
        for group, fields in GROUPS.items()
    }


FIELDS: Final = _keys()


class Encoder:
    """Writes the events of one rank; ``places`` are the pid and tid of each written track."""

    def __init__(self, places: Words) -> None:
        self._places = places
        self._pools = Pools()

    def lines(self, events: Sequence[dict[str, Any]]) -> tuple[int, bytes]:
        """A few events that are given whole, "places" standing for the pid and tid of a track."""
        texts = [b",\n" + msgspec.json.encode(event) for event in events]
        return len(texts), b"".join(texts)

    def slices(self, batch: Slices) -> tuple[int, Rendering]:
        """Complete events with all their args."""
        columns = batch.columns
        parts = [
            literal(b',\n{"ph": "X"'),
            *self._common(columns, batch.track),
            Part(Op.TIME, b', "dur": ', _ints(columns, "dur")),
            literal(b', "args": {', Separator.OPENS),
            *self._args("slice", columns, None),
        ]
        for group, rows in batch.args.items():
            parts += self._args(group, rows.columns, rows.index)
        parts.append(literal(b"}}"))
        return len(batch), Rendering(len(batch), parts)

    def flows(self, columns: Columns, track: NDArray[np.int32]) -> tuple[int, Rendering]:
        """Ends of arrows."""
        phase = cast("NDArray[np.int8]", columns["phase"])
        codes = np.where(phase == ord("s"), 0, np.where(phase == ord("t"), 1, 2)).astype(np.int32)
        number, text = _ints(columns, "id"), cast("Text", columns["id_text"])
        has_text = (number == NULL_INT64) & (text.codes >= 0)
        parts = [
            Part(Op.WORD, b',\n{"ph": ', codes, words=_PHASES),
            Part(Op.INT, b', "id": ', number),
            Part(Op.WORD, b', "id": ', np.where(has_text, text.codes, -1), words=self._pools.words(text.pool, string)),
            *self._common(columns, track),
            *when(codes == 2, [literal(b', "bp": "e"')]),
            literal(b"}"),
        ]
        return len(track), Rendering(len(track), parts)

    def counters(self, columns: Columns, track: NDArray[np.int32]) -> tuple[int, Rendering]:
        """Counter events, one of all series that were recorded together."""
        series = cast("Text", columns["series"])
        name = cast("Text", columns["name"])
        starts = _starts(series.codes, (_ints(columns, "ts"), track, name.codes), _ints(columns, "offset"))
        codes, numbers = floats(cast("NDArray[np.float64]", columns["value"]))
        ends = np.append(starts[1:], True)
        parts = [
            *when(starts, [
                literal(b',\n{"ph": "C"'), *self._common({**columns, "category": name}, track, False),
                literal(b', "args": {'),
            ]),
            *when(~starts, [literal(b", ")]),
            Part(Op.WORD, b"", series.codes, words=self._pools.words(series.pool, _key)),
            Part(Op.WORD, b"", codes, words=numbers),
            *when(codes < 0, [literal(b"null")]),
            *when(ends, [literal(b"}}")]),
        ]  # fmt: skip
        return int(starts.sum()), Rendering(len(track), parts)

    def instants(self, columns: Columns, track: NDArray[np.int32]) -> tuple[int, Rendering]:
        """Instant events of threads."""
        parts = [literal(b',\n{"ph": "i", "s": "t"'), *self._common(columns, track), literal(b"}")]
        return len(track), Rendering(len(track), parts)

    def memory(self, columns: Columns, track: NDArray[np.int32]) -> tuple[int, Rendering]:
        """[memory] events."""
        parts = [
            literal(b',\n{"ph": "i", "cat": "cpu_instant_event", "s": "t", "name": "[memory]"'),
            *self._place(columns, track),
            literal(b', "args": {', Separator.OPENS),
            *self._args("memory", columns, None),
            literal(b"}}"),
        ]
        return len(track), Rendering(len(track), parts)

    def meta(self, columns: Columns, track: NDArray[np.int32], without: frozenset[str]) -> tuple[int, Rendering]:
        """Metadata events, without those of some names."""
        name, key, text = (cast("Text", columns[c]) for c in ("name", "key", "value"))
        keep = [word not in without for word in name.pool.to_pylist()] if without else []
        rows = np.flatnonzero(np.array(keep, bool)[name.codes]) if keep else np.arange(len(track))
        name, key, text, track = name.take(rows), key.take(rows), text.take(rows), track[rows]
        starts = _starts(key.codes, (track, name.codes), None)
        ends = np.append(starts[1:], True)[: len(starts)]
        strings = [code for code, word in enumerate(key.pool.to_pylist()) if word in ("name", "labels")]
        as_string = np.isin(key.codes, strings)
        parts = [
            *when(starts, [
                literal(b',\n{"ph": "M"'),
                Part(Op.WORD, b', "name": ', name.codes, words=self._pools.words(name.pool, string)),
                Part(Op.WORD, b", ", track, words=self._places),
                literal(b', "args": {'),
            ]),
            *when(~starts, [literal(b", ")]),
            Part(Op.WORD, b"", key.codes, words=self._pools.words(key.pool, _key)),
            Part(Op.WORD, b"", np.where(as_string, text.codes, -1), words=self._pools.words(text.pool, string)),
            Part(Op.WORD, b"", np.where(as_string, -1, text.codes), words=self._pools.words(text.pool, value)),
            *when(ends, [literal(b"}}")]),
        ]  # fmt: skip
        return int(starts.sum()), Rendering(len(track), parts)

    def _common(self, columns: Columns, track: NDArray[np.int32], has_category: bool = True) -> list[Part]:
        """Category, name, place and time."""
        name = cast("Text", columns["name"])
        parts = [Part(Op.WORD, b', "name": ', name.codes, words=self._pools.words(name.pool, string))]
        if has_category:
            category = cast("Text", columns["category"])
            text = self._pools.words(category.pool, string)
            parts.insert(0, Part(Op.WORD, b', "cat": ', non_empty(category), words=text))
        return parts + self._place(columns, track)

    def _place(self, columns: Columns, track: NDArray[np.int32]) -> list[Part]:
        return [
            Part(Op.WORD, b", ", track, words=self._places),
            Part(Op.TIME, b', "ts": ', _ints(columns, "ts")),
        ]

    def _args(self, group: str, columns: Columns, index: NDArray[np.int32] | None) -> list[Part]:
        """The members of ``args`` that a group makes."""
        parts: list[Part] = []
        for name, kind, pool, key in FIELDS[group]:
            if kind == "grid":
                if f"{name}_x" in columns:
                    axes = [_ints(columns, f"{name}_{axis}") for axis in "xyz"]
                    parts.append(_grid(key, axes, index))
                continue
            if name not in columns:
                continue
            column = columns[name]
            if isinstance(column, Text):
                encode = value if pool in _VALUES or name == "comms_id" else string
                text = self._pools.words(column.pool, encode)
                parts.append(Part(Op.WORD, key, column.codes, index, text).member())
            elif kind == "float":
                codes, text = floats(column)
                parts.append(Part(Op.WORD, key, codes, index, text).member())
            elif kind == "bool":
                parts.append(Part(Op.WORD, key, column.astype(np.int32), index, _TRUTH).member())
            elif len(column) and (column != NULL_INT64).any():
                parts.append(Part(Op.INT, key, column, index).member())
        return parts


def _ints(columns: Columns, name: str) -> NDArray[np.int64]:
    return cast("NDArray[np.int64]", columns[name])


def _key(text: str) -> bytes:
    return string(text) + b": "


def _grid(key: bytes, axes: Sequence[NDArray[np.int64]], index: NDArray[np.int32] | None) -> Part:
    """A member of three whole numbers, of which there are few."""
    codes, texts = grid_words(axes)
    return Part(Op.WORD, key, codes, index, words(texts)).member()


def _starts(
    key: NDArray[np.int32], same: Sequence[NDArray[Any]], offset: NDArray[np.int64] | None
) -> NDArray[np.bool_]:
    """Which rows begin an event: rows of one event are alike in all but their keys, and no key comes twice.

    Rows of one place in the file are one event.  Where that is not known, keys rise within an event.
    """
    starts = np.ones(len(key), bool)
    alike = np.ones(max(0, len(key) - 1), bool)
    for column in same:
        alike &= column[1:] == column[:-1]
    together = key[1:] > key[:-1]
    if offset is not None:
        together = np.where(offset[1:] != NULL_INT64, offset[1:] == offset[:-1], together)
    starts[1:] = ~(alike & together)
    return starts
