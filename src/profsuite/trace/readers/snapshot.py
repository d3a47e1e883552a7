"""Memory snapshots: the pickles of ``torch.cuda.memory._dump_snapshot``, read into columns as they go by.

The layout is that of ``torch/csrc/cuda/memory_snapshot.cpp`` and of torch_npu, torch_musa and the like, which write
the same: a dict of ``segments`` (each with its ``blocks``), ``device_traces`` (a list of entries a device), settings.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa

from profsuite.errors import TraceError
from profsuite.trace.columns import Text, table_of
from profsuite.trace.readers.fields import NULL_INT64
from profsuite.trace.readers.pickles import refused
from profsuite.trace.readers.snapshot_rows import COLUMNS, Found, read_rows
from profsuite.trace.snapshot import SNAPSHOT_BY_NAME, Snapshot
from profsuite.trace.source import open_source

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

PICKLE = b"\x80"
"""How every pickle of protocol 2 or later begins."""

_DTYPES = {"q": np.int64, "i": np.int32, "b": np.int8}


def read_snapshot(
    path: str | os.PathLike[str], *, max_unpacked: int | None = None, use_c: bool | None = None
) -> Snapshot:
    """Read a snapshot, plain or gzipped; ``TraceError`` in one line if it is none, is damaged, or holds code.

    Of a pickle that breaks off in the history (the segments come first) the segments and the devices whose history is
    whole are kept; ``Snapshot.fault`` says so.

    In C where the extension is built (``use_c``: True to insist, False to do without).  Memory: less than the file is
    large (benchmarks/).
    """
    name = os.fspath(path)
    scan = None if use_c is False else _native()
    if scan is None and use_c:
        raise TraceError("the C extension is not built: profsuite doctor says why")
    with open_source(name, max_unpacked, magic=PICKLE) as source:
        found, num_bytes = read_rows(name, source.chunks()) if scan is None else _scanned(scan, name, source.chunks())
        if source.fault and not found.fault:
            raise TraceError(f"{name}: {source.fault}")
    return _snapshot(name, num_bytes, found)


def _native() -> Any:
    """The machine in C, None where it was not built."""
    try:
        return getattr(import_module("profsuite.trace._scanner"), "snapshot", None)
    except ImportError:
        return None


def _scanned(scan: Any, name: str, chunks: Iterator[bytes]) -> tuple[Found, int]:
    """As ``read_rows``, in C."""
    result = scan(chunks)
    if len(result) == 2:
        why, at = result
        if why.startswith("opcode "):
            why = refused(int(why[7:]))
        raise TraceError(f"{name}: at byte {at:,}: {why}")
    has_segments, at, tables, text, starts, blocks_of, traces, settings, fault = result
    # No bytes are repaired here: the scanner has put U+FFFD where there was no UTF-8.
    ends = np.frombuffer(starts, np.uintp).astype(np.int64)
    offsets, data = pa.py_buffer(cast("Any", ends)), pa.py_buffer(text)
    words: Any = cast("Any", pa.LargeStringArray).from_buffers(len(ends) - 1, offsets, data)
    columns: dict[str, dict[str, NDArray[Any] | Text]] = {}
    for (table, kinds), given in zip(COLUMNS.items(), tables, strict=True):
        columns[table] = {}
        for (column, kind), data in zip(kinds.items(), given, strict=True):
            if isinstance(data, tuple):
                codes, numbers = (np.frombuffer(part, np.int32) for part in data)
                columns[table][column] = Text(codes, words.take(pa.array(numbers)).cast(pa.string()))
            else:
                columns[table][column] = np.frombuffer(data, _DTYPES[kind])
    found = Found(
        columns=columns,
        blocks_of=np.frombuffer(blocks_of, np.int32),
        has_segments=has_segments,
        traces=traces,
        settings=settings,
        fault=fault,
    )
    return found, at


def _snapshot(name: str, num_bytes: int, found: Found) -> Snapshot:
    """The model; ``TraceError`` where the pickle is none of a snapshot."""
    if not found.has_segments:
        raise TraceError(
            f"{name}: is no memory snapshot: it holds no segments (torch.cuda.memory._dump_snapshot writes one)"
        )
    num_entries, num_blocks = (_count(found, table) for table in ("entry", "block"))
    fault = None
    if found.fault:
        kept = max((rows[1] for rows in found.traces if rows is not None), default=0)
        fault = (
            f"The file breaks off at byte {num_bytes:,}: the segments are whole, as is the history of the first "
            f"{len(found.traces)} devices; {num_entries - kept:,} entries of an incomplete one are left out."
        )
        num_entries = kept
    device = np.full(num_entries, -1, np.int32)
    for ordinal, rows in enumerate(found.traces):
        if rows is not None:
            device[slice(*rows)] = ordinal
    if bool((np.diff(device, prepend=0) < 0).any()) or len(found.blocks_of) != num_blocks:
        raise TraceError(f"{name}: is no memory snapshot: it has entries or blocks that belong nowhere")
    tables = {table: _table(found, table) for table in ("segment", "annotation", "frame", "stack")}
    tables["entry"] = _table(found, "entry", num_entries, device=device)
    tables["block"] = _table(found, "block", segment_id=found.blocks_of)
    known = {k: v for k, v in found.settings.items() if isinstance(k, str) and isinstance(v, str | int | float)}
    return Snapshot(name, num_bytes, tables, {key: str(value) for key, value in known.items()}, fault)


def _count(found: Found, table: str) -> int:
    return len(_values(next(iter(found.columns[table].values()))))


def _values(column: NDArray[Any] | Text) -> NDArray[Any]:
    return column.codes if isinstance(column, Text) else column


def _table(found: Found, name: str, num_rows: int | None = None, **told: Any) -> pa.Table:
    columns, spec = dict(told), SNAPSHOT_BY_NAME[name]
    rows = _count(found, name) if num_rows is None else num_rows
    for column, given in found.columns[name].items():
        values = _values(given)[:rows]
        if rows and not len(values):
            columns[column] = pa.nulls(rows, cast("Any", spec.column(column).arrow_type()))
            continue
        if len(values) < rows:
            null = NULL_INT64 if values.dtype == np.int64 else -1
            values = np.concatenate([values, np.full(rows - len(values), null, values.dtype)])
        columns[column] = Text(values, given.pool) if isinstance(given, Text) else values
    return table_of(spec, columns)
