"""From numpy columns with sentinels to Arrow tables with nulls and back, without copying where it can be helped.

``pa.array`` and ``pa.scalar`` of Python values and ``to_numpy`` import pandas, which takes longer than
to read most traces: nothing here, and nothing that makes a ``Trace``, uses them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa

from profsuite.trace.readers.fields import NULL_INT64
from profsuite.trace.schema import BY_NAME

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from profsuite.trace.schema import Column, Table


@dataclass(frozen=True, slots=True)
class Text:
    """A text column: ``codes`` (int32, -1 for null) into ``pool``."""

    codes: NDArray[np.int32]
    pool: pa.StringArray

    def take(self, rows: NDArray[Any]) -> Text:
        """The column at ``rows``."""
        return Text(self.codes[rows], self.pool)


def gather(values: NDArray[Any], rows: NDArray[Any]) -> NDArray[Any]:
    """``values[rows]``, with the null of the type (see ``fields.Kind``) where a row is negative."""
    if len(values) == 0:
        return np.full(len(rows), null_of(values.dtype), values.dtype)
    out: NDArray[Any] = values[rows]
    absent = rows < 0
    if absent.any():
        out[absent] = null_of(values.dtype)
    return out


def strings(values: Sequence[str | None]) -> pa.StringArray:
    """An Arrow array of Python strings; lone surrogates become "?"."""
    data = [b"" if v is None else v.encode("utf-8", "replace") for v in values]
    offsets = np.zeros(len(data) + 1, np.int32)
    np.cumsum([len(d) for d in data], out=offsets[1:])
    valid = np.array([v is not None for v in values], bool)
    buffers = [_buffer(offsets), pa.py_buffer(b"".join(data)), _bitmap(valid)]
    return cast("Any", pa.StringArray).from_buffers(len(data), *buffers)  # type: ignore[no-any-return]


def array_of(values: NDArray[Any]) -> pa.Array[Any]:
    """An Arrow array of numbers, none of them null."""
    return _from_buffers(pa.from_numpy_dtype(values.dtype), values, None)


def integers(values: NDArray[np.int64]) -> pa.Int64Array:
    """An Arrow array of 64-bit integers, none of them null."""
    return cast("pa.Int64Array", _from_buffers(pa.int64(), values, None))


def to_numpy(array: pa.Array[Any]) -> NDArray[Any]:
    """The values of an int, float or bool array; what stands where it is null is undefined."""
    data = array.buffers()[1]
    if array.type == pa.bool_():
        return _bits(data, array) if data is not None else np.zeros(0, bool)
    dtype = np.dtype(str(array.type).replace("double", "float64"))
    if data is None:
        return np.zeros(0, dtype)
    return np.frombuffer(cast("Any", data), dtype)[array.offset : array.offset + len(array)]


def nulls(array: pa.Array[Any]) -> NDArray[np.bool_] | None:
    """Where an array is null, None if it nowhere is."""
    validity = array.buffers()[0]
    return ~_bits(validity, array) if validity is not None and array.null_count else None


def _bits(bitmap: pa.Buffer, array: pa.Array[Any]) -> NDArray[np.bool_]:
    """The bits that belong to ``array`` as bools."""
    data: NDArray[np.uint8] = np.frombuffer(cast("Any", bitmap), np.uint8)
    return np.unpackbits(data, bitorder="little", count=array.offset + len(array))[array.offset :].astype(bool)


def null_of(dtype: np.dtype[Any]) -> float:
    """The raw columns' null of a dtype."""
    if dtype.kind == "f":
        return float("nan")
    return NULL_INT64 if dtype == np.int64 else -1


def build_table(name: str, columns: dict[str, NDArray[Any] | Text]) -> pa.Table:
    """The table ``name`` of the schema from one numpy array or ``Text`` a column.

    Nulls are ``NULL_INT64`` in int64 arrays, NaN in float64, -1 in int32, int8 (bool) and codes;
    the empty string counts as null in a nullable text column.  int64 arrays may fill int32 columns
    (values that do not fit become null).  ``ValueError`` if columns are missing, unknown or of
    different lengths.
    """
    return table_of(BY_NAME[name], columns)


def table_of(spec: Table, columns: Mapping[str, NDArray[Any] | Text | pa.Array[Any]]) -> pa.Table:
    """As ``build_table``, for a table that is declared elsewhere; Arrow arrays are taken as they are."""
    name = spec.name
    if set(columns) != {c.name for c in spec.columns}:
        odd = set(columns) ^ {c.name for c in spec.columns}
        raise ValueError(f"table {name!r}: missing or unknown columns {sorted(odd)}")
    given = [(c, columns[c.name]) for c in spec.columns]
    arrays = [v if isinstance(v, pa.Array) else _array(c, v) for c, v in given]
    if len({len(a) for a in arrays}) > 1:
        raise ValueError(f"table {name!r}: columns of different lengths")
    return pa.Table.from_arrays(arrays, schema=spec.arrow_schema())


def _array(column: Column, values: NDArray[Any] | Text) -> pa.Array[Any]:
    if isinstance(values, Text):
        return _text(column, values)
    if column.dtype == "bool":
        return _bool(values, column.nullable)
    valid: NDArray[np.bool_] | None = None
    if column.dtype == "float64":
        if column.nullable:
            valid = ~np.isnan(values)
    elif values.dtype == np.int64:
        if column.nullable:
            valid = values != NULL_INT64
        if column.dtype == "int32":
            fits = (values >= -(2**31)) & (values < 2**31)
            valid = fits if valid is None else valid & fits
            values = np.where(fits, values, 0).astype(np.int32)
    elif column.nullable:
        valid = values != -1
    return _from_buffers(column.arrow_type(), values, valid)


def _text(column: Column, text: Text) -> pa.DictionaryArray[Any, Any]:
    codes, pool = text.codes, text.pool
    if column.nullable:
        valid = codes >= 0
        for empty in _empty_codes(pool):
            valid &= codes != empty
        indices = _from_buffers(pa.int32(), codes, valid)
    else:
        if len(codes) and int(codes.min()) < 0:
            # Absent, in a column that has no nulls: the empty string.
            codes = np.where(codes < 0, np.int32(len(pool)), codes)
            pool = pa.concat_arrays([pool, strings([""])])
        indices = _from_buffers(pa.int32(), codes, None)
    return pa.DictionaryArray.from_arrays(indices, pool, safe=False)


def _empty_codes(pool: pa.StringArray) -> list[int]:
    """The codes of the empty string: at most one in a pool of distinct strings."""
    if not len(pool):
        return []
    ends: NDArray[np.int32] = np.frombuffer(cast("Any", pool.buffers()[1]), np.int32)
    ends = ends[pool.offset : pool.offset + len(pool) + 1]
    empty: list[int] = np.flatnonzero(ends[1:] == ends[:-1]).tolist()
    return empty


def _bool(values: NDArray[Any], nullable: bool) -> pa.Array[Any]:
    bits = _buffer(np.packbits(values > 0, bitorder="little"))
    validity = _bitmap(values != -1) if nullable else None
    return pa.Array.from_buffers(pa.bool_(), len(values), [validity, bits])


def _from_buffers(dtype: pa.DataType, values: NDArray[Any], valid: NDArray[np.bool_] | None) -> pa.Array[Any]:
    values = np.ascontiguousarray(values)
    validity = None if valid is None else _bitmap(valid)
    return pa.Array.from_buffers(dtype, len(values), [validity, _buffer(values)])


def _bitmap(valid: NDArray[np.bool_]) -> pa.Buffer | None:
    if valid.all():
        return None
    return _buffer(np.packbits(valid, bitorder="little"))


def _buffer(values: NDArray[Any]) -> pa.Buffer:
    return pa.py_buffer(cast("Any", values))  # the stubs know numpy as a buffer from Python 3.12 on
