"""Columns to bytes: a list of parts is written once a row, in C where the extension is built.

A part has a prefix and, where it has data, is left out in rows where that is null.  Without the
extension numpy and Arrow write the very same bytes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np
import pyarrow as pa

from profsuite.trace.readers.fields import NULL_INT64

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray


class Op(IntEnum):
    """What a part writes after its prefix."""

    LITERAL = 0
    INT = 1
    TIME = 2
    WORD = 3
    WHEN = 4
    VARINT = 5
    FIXED = 6
    SIZED = 7
    """A length-delimited field of protobuf: the prefix's first byte, the length of the rest, that rest and a varint."""
    OPEN = 8
    CLOSE = 9


class Separator(IntEnum):
    """What a part is among the members of a JSON object."""

    NONE = 0
    MEMBER = 1
    """A comma goes before it, unless it is the first since ``OPENS``."""
    OPENS = 2
    """Members follow it."""


@dataclass(frozen=True, slots=True)
class Words:
    """Byte strings one after another: word i is ``data[bounds[i]:bounds[i + 1]]``."""

    bounds: NDArray[np.int64]
    data: bytes

    def __len__(self) -> int:
        return len(self.bounds) - 1


def words(values: Sequence[bytes]) -> Words:
    """The words of a list."""
    bounds = np.zeros(len(values) + 1, np.int64)
    np.cumsum([len(value) for value in values], out=bounds[1:])
    return Words(bounds, b"".join(values))


@dataclass(frozen=True, slots=True)
class Part:
    """One part of a row.

    ``data``: int64 (INT, TIME, VARINT, SIZED; null: ``NULL_INT64``; FIXED: bits), int32 codes (WORD; negative: null),
    int8 (WHEN).  ``index`` (int32) gives each row's element of ``data``, negative for null; without it the row's
    number is it.
    ``skip``: how many of the following parts a false WHEN leaves out.
    """

    op: Op
    prefix: bytes = b""
    data: NDArray[Any] | None = None
    index: NDArray[np.int32] | None = None
    words: Words | None = None
    separator: Separator = Separator.NONE
    skip: int = 0

    def member(self) -> Part:
        """The same as a member of a JSON object."""
        return replace(self, separator=Separator.MEMBER)


def literal(prefix: bytes, separator: Separator = Separator.NONE) -> Part:
    """The same bytes in every row."""
    return Part(Op.LITERAL, prefix, separator=separator)


def when(mask: NDArray[Any], parts: Sequence[Part], index: NDArray[np.int32] | None = None) -> list[Part]:
    """The parts in those rows only where the mask holds."""
    return [Part(Op.WHEN, data=mask.astype(np.int8), index=index, skip=len(parts)), *parts]


def message(tag: bytes, parts: Sequence[Part]) -> list[Part]:
    """A length-delimited field of protobuf around the parts."""
    return [Part(Op.OPEN, tag), *parts, Part(Op.CLOSE)]


PIECE_ROWS: Final = 4_096
"""Rows that are rendered at once: their text stays in the processor's cache until it is written."""


@dataclass(frozen=True, slots=True)
class Rendering:
    """Rows that are rendered when they are written, which another thread may do meanwhile."""

    num_rows: int
    parts: Sequence[Part]

    def pieces(self) -> Iterator[memoryview]:
        """The text, some rows at a time."""
        native = native_rows()
        if native is None:
            yield render_arrow(self.num_rows, self.parts)
            return
        given = [_tuple(part) for part in self.parts]
        for first in range(0, self.num_rows, PIECE_ROWS):
            yield memoryview(native(first, min(self.num_rows, first + PIECE_ROWS), given))


def render(num_rows: int, parts: Sequence[Part]) -> memoryview:
    """The parts of every row, row by row."""
    native = native_rows()
    if native is None:
        return render_arrow(num_rows, parts)
    return memoryview(native(0, num_rows, [_tuple(part) for part in parts]))


@cache
def native_rows() -> Callable[..., Any] | None:
    """The C version, None where the extension was not built."""
    try:
        return getattr(import_module("profsuite.trace._scanner"), "rows", None)
    except ImportError:
        return None


_DTYPE: dict[Op, Any] = {Op.WORD: np.int32, Op.WHEN: np.int8}


def _tuple(part: Part) -> tuple[Any, ...]:
    data = None if part.data is None else np.ascontiguousarray(part.data, _DTYPE.get(part.op, np.int64))
    index = None if part.index is None else np.ascontiguousarray(part.index, np.int32)
    bounds, text = (None, None) if part.words is None else (part.words.bounds, part.words.data)
    return (int(part.op), int(part.separator), part.prefix, data, index, part.skip, bounds, text)


# ---------------------------------------------------------------- without the extension
def render_arrow(num_rows: int, parts: Sequence[Part]) -> memoryview:
    """``render`` in numpy: the reference of the C version.

    Every part becomes pieces: for each row a stretch of one buffer.  The pieces of all parts, row by row, are
    then copied together.
    """
    active = np.ones(num_rows, bool)
    fresh = np.ones(num_rows, bool)
    until: list[tuple[int, NDArray[np.bool_]]] = []
    pieces: list[_Pieces] = []
    opened: list[tuple[int, int]] = []
    for number, part in enumerate(parts):
        while until and until[-1][0] == number:
            active = until.pop()[1]
        there, values = _values(part, num_rows, active)
        if part.op == Op.WHEN:
            until.append((number + part.skip + 1, active))
            active = active & there & (values > 0)
            continue
        if part.separator == Separator.MEMBER:
            pieces.append(_constant(b", ", there & ~fresh))
            fresh = fresh & ~there
        if part.op == Op.SIZED:
            digits = _written(part, values, there)
            pieces.append(_constant(part.prefix[:1], there))
            pieces.append(
                _matrix((digits.size + len(part.prefix) - 1).astype(np.uint8)[:, None], there.astype(np.int64))
            )
            pieces += [_constant(part.prefix[1:], there), digits]
            continue
        pieces.append(_constant(part.prefix, there))
        if part.separator == Separator.OPENS:
            fresh = fresh | there
        if part.op == Op.OPEN:
            opened.append((len(pieces), len(pieces) + 1))
            pieces.append(_constant(bytes(4), there))
        elif part.op == Op.CLOSE:
            at, first = opened.pop()
            sizes = np.sum([piece.size for piece in pieces[first:]], axis=0)
            pieces[at] = _matrix(_padded(sizes), np.where(pieces[at].size > 0, 4, 0))
        elif part.op != Op.LITERAL:
            pieces.append(_written(part, values, there))
    return _together(pieces, num_rows)


@dataclass(frozen=True, slots=True)
class _Pieces:
    """For each row ``size`` bytes of ``data`` from ``start`` on."""

    data: NDArray[np.uint8]
    start: NDArray[np.int64]
    size: NDArray[np.int64]


def _values(part: Part, num_rows: int, active: NDArray[np.bool_]) -> tuple[NDArray[np.bool_], NDArray[Any]]:
    """In which rows the part is written, and its values."""
    if part.data is None:
        return active, np.zeros(0)
    data = np.asarray(part.data, _DTYPE.get(part.op, np.int64))
    if part.index is None:
        values, there = data[:num_rows], active
        if len(values) < num_rows:
            raise ValueError("rows: a column is too short")
    else:
        there = active & (part.index >= 0)
        values = np.zeros(num_rows, data.dtype)
        values[there] = data[part.index[there]]
    if part.op == Op.WORD:
        there = there & (values >= 0)
    elif part.op in (Op.INT, Op.TIME, Op.VARINT, Op.SIZED):
        there = there & (values != NULL_INT64)
    return there, values


def _constant(text: bytes, there: NDArray[np.bool_]) -> _Pieces:
    return _Pieces(np.frombuffer(text, np.uint8), np.zeros(len(there), np.int64), np.where(there, len(text), 0))


def _matrix(rows: NDArray[np.uint8], size: NDArray[np.int64]) -> _Pieces:
    """The first bytes of each row of a matrix."""
    return _Pieces(rows.reshape(-1), np.arange(len(rows), dtype=np.int64) * rows.shape[1], size)


def _padded(sizes: NDArray[np.int64]) -> NDArray[np.uint8]:
    """Varints of four bytes."""
    if len(sizes) and int(sizes.max()) >> 28:
        raise ValueError("rows: a message of more than 256 MB")
    shifted = sizes[:, None] >> np.array([0, 7, 14, 21]) & 127
    padded: NDArray[np.uint8] = (shifted | np.array([128, 128, 128, 0])).astype(np.uint8)
    return padded


def _written(part: Part, values: NDArray[Any], there: NDArray[np.bool_]) -> _Pieces:
    """What follows the prefix."""
    if part.op == Op.WORD:
        assert part.words is not None
        codes = np.where(there, values, 0)
        bounds = part.words.bounds if len(part.words) else np.zeros(2, np.int64)
        if len(codes) and int(codes.max()) >= len(bounds) - 1:
            raise ValueError("rows: a code without a word")
        data = np.frombuffer(part.words.data, np.uint8)
        return _Pieces(data, bounds[codes], np.where(there, bounds[codes + 1] - bounds[codes], 0))
    if part.op == Op.FIXED:
        return _matrix(values.astype("<i8").view(np.uint8).reshape(-1, 8), np.where(there, 8, 0))
    if part.op in (Op.VARINT, Op.SIZED):
        left = values.astype(np.int64).view(np.uint64)
        shifted = left[:, None] >> np.arange(0, 70, 7, dtype=np.uint64)[None, :9]
        shifted = np.column_stack([shifted, left >> np.uint64(63)])
        size = np.maximum(1, np.sum(shifted > 0, axis=1))
        last = np.arange(10) == size[:, None] - 1
        digits = (shifted & np.uint64(127)) | np.where(last, 0, 128).astype(np.uint64)
        return _matrix(digits.astype(np.uint8), np.where(there, size, 0))
    return _decimals(np.where(there, values, 0), there, part.op == Op.TIME)


def _decimals(values: NDArray[np.int64], there: NDArray[np.bool_], is_time: bool) -> _Pieces:
    """Whole numbers, or ns as microseconds with three decimals."""
    if is_time:
        negative = values < 0
        size = np.abs(values)
        whole = pa.array(size // 1000).cast(pa.string()).to_numpy(zero_copy_only=False)
        rest = np.char.zfill((size % 1000).astype("U3"), 3)
        text = [f"{'-' if n else ''}{w}.{r}".encode() for n, w, r in zip(negative, whole, rest, strict=True)]
        found = words(text)
        data, bounds = np.frombuffer(found.data, np.uint8), found.bounds
    else:
        text_array: Any = pa.array(values).cast(pa.string())
        bounds = np.frombuffer(text_array.buffers()[1], np.int32)[: len(values) + 1].astype(np.int64)
        data = np.frombuffer(text_array.buffers()[2] or b"", np.uint8)
    return _Pieces(data, bounds[:-1], np.where(there, bounds[1:] - bounds[:-1], 0))


def _together(pieces: list[_Pieces], num_rows: int) -> memoryview:
    """The pieces of each row one after another."""
    sizes = np.array([piece.size for piece in pieces], np.int64).reshape(len(pieces), num_rows)
    ends = np.cumsum(sizes.T.reshape(-1)).reshape(num_rows, len(pieces))
    out = np.zeros(int(ends[-1, -1]) if ends.size else 0, np.uint8)
    for number, piece in enumerate(pieces):
        rows = np.flatnonzero(piece.size)
        if not len(rows):
            continue
        size = piece.size[rows]
        to, source = ends[rows, number] - size, piece.start[rows]
        within = np.arange(int(size.sum())) - np.repeat(np.cumsum(size) - size, size)
        out[np.repeat(to, size) + within] = piece.data[np.repeat(source, size) + within]
    return memoryview(cast("Any", out))
