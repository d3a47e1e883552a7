"""Columns from the raw or decoded values of many events at once, by the rules of ``values``."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Raw

from profsuite.trace.readers import values
from profsuite.trace.readers.fields import NULL_INT64

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

NO_TIME: Final = Raw(b"-9223372036854775.808")
"""Becomes ``NULL_INT64``, for events that have no time."""
_ENCODER: Final = msgspec.json.Encoder()
_NS: Final = pa.decimal128(25, 3)


class UnfitError(Exception):
    """These events have to be read one by one."""


def times(raws: list[Raw]) -> NDArray[np.int64]:
    """ns of microseconds as raw JSON; null: ``NULL_INT64``."""
    exact = _cast(raws, _NS)
    if exact is None:
        return _one_by_one(raws, values.time_ns)
    halves = exact.reshape(-1, 2)  # of 128 bits
    low, high = halves[:, 0], halves[:, 1]
    fits = (high == low >> 63) & (low > -values.LIMIT_NS) & (low < values.LIMIT_NS)
    return np.where(fits, low, NULL_INT64)


def integers(raws: list[Raw]) -> NDArray[np.int64]:
    """int64 of raw JSON; null: ``NULL_INT64``."""
    whole = _cast(raws, pa.int64())
    return _one_by_one(raws, values.integer) if whole is None else whole


def _one_by_one(raws: list[Raw], value_of: Callable[[bytes], int | None]) -> NDArray[np.int64]:
    column = [value_of(bytes(raw)) for raw in raws]
    return np.array([NULL_INT64 if value is None else value for value in column], np.int64)


def _cast(raws: list[Raw], dtype: pa.DataType) -> NDArray[np.int64] | None:
    """Plain numbers as a type of one or two int64, None if one is something else or does not fit."""
    if not raws:
        return np.zeros(0, np.int64)
    lines = _lines(raws)
    if b"e" in lines.text or b"E" in lines.text:
        return None
    try:
        numbers = pc.cast(pc.ascii_rtrim(_array(pa.string(), lines), lines.between.decode()), dtype)
    except pa.ArrowInvalid:
        return None
    return np.frombuffer(cast("Any", numbers.buffers()[1]), np.int64)


def distinct(raws: list[Raw]) -> tuple[NDArray[np.int32], list[bytes]]:
    """The number of each raw value among the distinct, and those in order of appearance."""
    if not raws:
        return np.zeros(0, np.int32), []
    lines = _lines(raws)
    numbers, words = _encoded(_array(pa.binary(), lines))
    _, bounds_of_words, text = words.buffers()
    ends = np.frombuffer(cast("Any", bounds_of_words), np.int32)[: len(words) + 1].tolist()
    content = cast("Any", text).to_pybytes()
    return numbers, [content[start : end - 1] for start, end in pairwise(ends)]


def distinct_pairs(
    first: NDArray[np.int32], second: NDArray[np.int32]
) -> tuple[NDArray[np.int32], list[tuple[int, int]]]:
    """Like ``distinct``, of two columns of numbers."""
    if not len(first):
        return np.zeros(0, np.int32), []
    width = int(second.max()) + 1
    joined = first.astype(np.int64) * width + second
    numbers, found = _encoded(cast("Any", pa.Array).from_buffers(pa.int64(), len(joined), [None, _buffer(joined)]))
    pairs = np.frombuffer(cast("Any", found.buffers()[1]), np.int64)[: len(found)]
    return numbers, [divmod(pair, width) for pair in pairs.tolist()]


def _encoded(array: pa.Array[Any]) -> tuple[NDArray[np.int32], pa.Array[Any]]:
    encoded = cast("Any", array).dictionary_encode()
    return np.frombuffer(encoded.indices.buffers()[1], np.int32)[: len(array)], encoded.dictionary


class _Lines(NamedTuple):
    """Values with a byte after each that is in none of them; ``ends`` are the places after these."""

    text: bytes
    between: bytes
    ends: NDArray[np.int64]


def _lines(raws: list[Raw]) -> _Lines:
    text = _ENCODER.encode_lines(raws)
    between = b"\n"
    ends = _places(text, between)
    if len(ends) != len(raws):  # a value of several lines
        between = b"\1"
        text = between.join([*raws, b""])
        ends = _places(text, between)
        if len(ends) != len(raws):
            raise UnfitError
    return _Lines(text, between, ends + 1)


def _places(text: bytes, byte: bytes) -> NDArray[np.int64]:
    is_there: NDArray[np.bool_] = np.frombuffer(text, np.uint8) == byte[0]
    return is_there.nonzero()[0]


def _array(dtype: pa.DataType, lines: _Lines) -> pa.Array[Any]:
    """The values, each with the byte after it."""
    bounds = np.zeros(len(lines.ends) + 1, np.int32)
    bounds[1:] = lines.ends
    buffers = [None, _buffer(bounds), pa.py_buffer(lines.text)]
    return cast("Any", pa.Array).from_buffers(dtype, len(lines.ends), buffers)  # type: ignore[no-any-return]


def _buffer(array: NDArray[Any]) -> pa.Buffer:
    return pa.py_buffer(cast("Any", array))
