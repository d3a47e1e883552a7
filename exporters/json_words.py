"""Values as JSON text: pools of strings and columns of floats become words that are copied into place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from profsuite.exporters.rows import Words, words
from profsuite.trace.columns import Text, integers, to_numpy
from profsuite.trace.readers.fields import NULL_INT64

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pyarrow as pa
    from numpy.typing import NDArray


def string(text: str) -> bytes:
    """A JSON string."""
    return msgspec.json.encode(text)


def value(text: str) -> bytes:
    """Text that a reader took from a value as written: that value again where it is valid JSON, else a string."""
    if text[:1] in tuple("[{-0123456789tf") and not text[-1:].isspace():
        try:
            msgspec.json.decode(text)
        except (msgspec.DecodeError, RecursionError, ValueError):
            return string(text)
        return text.encode()
    return string(text)


def track_id(text: str) -> bytes:
    """A pid or tid: a whole number where it is one."""
    return value(text) if text.removeprefix("-").isdecimal() and text.isascii() else string(text)


def microseconds(ns: int) -> bytes:
    """Nanoseconds as microseconds, exactly."""
    whole, rest = divmod(abs(ns), 1_000)
    return f"{'-' if ns < 0 else ''}{whole}.{rest:03}".encode()


class Pools:
    """The words of pools, each encoded once."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, Callable[[str], bytes]], tuple[Any, Words]] = {}

    def words(self, pool: pa.StringArray, encode: Callable[[str], bytes]) -> Words:
        """The encoded words of a pool."""
        key = (id(pool), encode)
        if key not in self._known:
            texts: list[Any] = pool.to_pylist()
            self._known[key] = (pool, words([encode(text) for text in texts]))  # the pool is held: its id stays its own
        return self._known[key][1]


def non_empty(text: Text) -> NDArray[np.int32]:
    """Codes of a text column with -1 for the empty string."""
    for code, word in enumerate(text.pool.to_pylist() if len(text.pool) < 10_000 else ()):
        if word == "":
            return np.where(text.codes == code, np.int32(-1), text.codes)
    return text.codes


def floats(values: NDArray[np.float64]) -> tuple[NDArray[np.int32], Words]:
    """Codes (-1 for what JSON has not: NaN, infinities) and words, the shortest that are exact, of a column."""
    codes, bits = numbered(values.view(np.int64))
    codes = np.where(np.isfinite(values), codes, np.int32(-1))
    return codes, words([repr(number).encode() for number in bits.view(np.float64).tolist()])


def numbered(values: NDArray[np.int64]) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """The number of each value among the distinct, and those in order of appearance."""
    array: Any = integers(values)
    encoded = array.dictionary_encode()
    return to_numpy(encoded.indices), to_numpy(encoded.dictionary)


def grid_words(axes: Sequence[NDArray[np.int64]]) -> tuple[NDArray[np.int32], list[bytes]]:
    """Codes (-1 where no axis is known) and texts of columns of three whole numbers, of which few are distinct."""
    joined = np.zeros(len(axes[0]), np.int64)
    for axis in axes:
        codes, found = numbered(axis)
        codes, _ = numbered(joined * len(found) + codes)
        joined = codes.astype(np.int64)
    first = np.full(int(joined.max(initial=-1)) + 1, -1)
    first[joined[::-1]] = np.arange(len(joined))[::-1]
    cells = zip(*(axis[first].tolist() for axis in axes), strict=True)
    texts = [[None if part == NULL_INT64 else part for part in cell] for cell in cells]
    absent = np.array([all(part is None for part in cell) for cell in texts], bool)
    codes = np.where(absent[joined], -1, joined).astype(np.int32)
    return codes, [msgspec.json.encode(cell) for cell in texts]
