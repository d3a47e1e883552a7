"""Columns of numbers from many decoded values at once, by the rules of ``values``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from profsuite.trace.readers import values
from profsuite.trace.readers.fields import NULL_INT64

if TYPE_CHECKING:
    from msgspec import Raw
    from numpy.typing import NDArray

_SCALE: Final = np.array([1000, 100, 10, 1], np.int64)
_TYPE_NONE: Final = type(None)


def integers(found: list[Any]) -> NDArray[np.int64]:
    """int64 of decoded ints, strings and None; null: ``NULL_INT64``."""
    types = set(map(type, found))
    try:
        if types <= {int}:
            return np.array(found, np.int64)
        if types <= {int, _TYPE_NONE}:
            return np.array([NULL_INT64 if value is None else value for value in found], np.int64)
    except OverflowError:
        pass
    column = [None if value is None else values.integer_of(str(value).strip(values.BLANKS)) for value in found]
    return np.array([NULL_INT64 if value is None else value for value in column], np.int64)


def floats(found: list[Any]) -> NDArray[np.float64]:
    """float64 of decoded numbers, strings and None; null: NaN."""
    if str in set(map(type, found)):
        found = [values.real_of(value.strip(values.BLANKS)) if type(value) is str else value for value in found]
    return np.array([float("nan") if value is None else value for value in found], np.float64)


def times(raws: list[Raw]) -> NDArray[np.int64]:
    """ns of microseconds as raw JSON; null: ``NULL_INT64``."""
    if not raws:
        return np.zeros(0, np.int64)
    fast = _times_by_digits(b"\n".join(raws) + b"\n", len(raws))
    if fast is not None:
        return fast
    column = [values.time_ns(bytes(raw)) for raw in raws]
    return np.array([NULL_INT64 if value is None else value for value in column], np.int64)


def _times_by_digits(text: bytes, count: int) -> NDArray[np.int64] | None:
    """``times`` of one number a line, None if one has an exponent, more than three decimals or is none."""
    array = np.frombuffer(text, np.uint8)
    ends = np.flatnonzero(array == 0x0A)
    if len(ends) != count:
        return None
    dots = np.flatnonzero(array == 0x2E)
    lengths = np.diff(ends, prepend=-1) - 1
    decimals = np.zeros(count, np.int64)
    if len(dots):
        rows = np.searchsorted(ends, dots)
        if len(dots) > 1 and (np.diff(rows) == 0).any():
            return None
        decimals[rows] = ends[rows] - dots - 1
        lengths[rows] -= 1
        if decimals.max() > 3:
            return None
    if lengths.max() > 18:
        return None
    offsets = np.zeros(count + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    digits = text.replace(b".", b"").replace(b"\n", b"")
    strings = pa.StringArray.from_buffers(count, pa.py_buffer(offsets.tobytes()), pa.py_buffer(digits))
    try:
        whole = pc.cast(strings, pa.int64()).to_numpy(zero_copy_only=False)
    except pa.ArrowInvalid:
        return None
    scale = _SCALE[decimals]
    if (np.abs(whole) >= values.LIMIT_NS // scale).any():
        return None
    scaled: NDArray[np.int64] = whole * scale
    return scaled
