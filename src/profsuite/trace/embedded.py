"""The raw columns of a trace inside a Perfetto file: packets of a field that viewers skip, before all others.

``TracePacket`` leaves the fields 1000 to 1999 to extensions.  Field 1000 holds one part: 1 its description as
JSON, 2 an Arrow IPC stream.  The first part describes the trace, each other is a pool of strings or a batch of a
group; nothing in a file is trusted.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np
import pyarrow as pa

from profsuite.errors import TraceError
from profsuite.trace.columns import Text, array_of, null_of, strings, to_numpy
from profsuite.trace.readers.columns import AXES, DTYPE, NULL, TYPECODE
from profsuite.trace.readers.fields import GROUPS, POOLS
from profsuite.trace.readers.raw import RawTrace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from profsuite.trace.batches import Batches

FORMAT: Final = 1
_PACKET: Final = 0x0A
_TAG: Final = b"\xc2\x3e"
_OPTIONS: Final = pa.ipc.IpcWriteOptions(compression="lz4", use_threads=False)
MAX_PART: Final = 1 << 30
_KINDS: Final = {
    group: {name + axis: (kind, pool) for name, kind, pool in fields for axis in (AXES if kind == "grid" else ("",))}
    for group, fields in GROUPS.items()
}


def is_embedded(first: bytes) -> bool:
    """Whether the first bytes of a file are those of one that profsuite wrote."""
    at = 1
    while at < min(len(first), 6) and first[at] & 128:
        at += 1
    return first[:1] == bytes([_PACKET]) and first[at + 1 : at + 3] == _TAG


# ---------------------------------------------------------------- writing
def embed(batches: Batches, header: list[tuple[str, str]], write: Callable[[bytes], Any]) -> None:
    """Write all of ``batches`` under the top-level keys of ``header``, a packet a batch."""
    head = {"format": FORMAT, "tracks": batches.tracks, "header": header, "num_events": batches.info.num_events}
    write(_packet(head, b""))
    pools: dict[int, tuple[Any, int]] = {}
    for group in GROUPS:
        if group == "end":
            continue
        for columns in batches.batches(group):
            texts, names, arrays = {}, [], []
            for name, values in columns.items():
                if name == "offset":
                    continue  # of a file that this is not
                if isinstance(values, Text):
                    if id(values.pool) not in pools:
                        pools[id(values.pool)] = (values.pool, len(pools))
                        write(_packet({"pool": len(pools) - 1}, _stream(["text"], [values.pool])))
                    texts[name] = pools[id(values.pool)][1]
                    values = values.codes
                names.append(name)
                arrays.append(array_of(values))
            write(_packet({"group": group, "texts": texts}, _stream(names, arrays)))


def embed_ranks(ranks: Sequence[int | None], write: Callable[[bytes], Any]) -> None:
    """Write which ranks a file holds; of several there are no columns, and profsuite does not read it."""
    write(_packet({"format": FORMAT, "ranks": list(ranks)}, b""))


def _stream(names: list[str], arrays: list[Any]) -> bytes:
    batch = pa.record_batch(arrays, names=names)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema, options=_OPTIONS) as writer:
        writer.write_batch(batch)
    return sink.getvalue().to_pybytes()


def _packet(head: dict[str, Any], payload: bytes) -> bytes:
    text = json.dumps(head).encode()
    part = b"\x0a" + _varint(len(text)) + text + b"\x12" + _varint(len(payload)) + payload
    body = _TAG + _varint(len(part)) + part
    return bytes([_PACKET]) + _varint(len(body)) + body


def _varint(value: int) -> bytes:
    out = bytearray()
    while value >= 128:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


# ---------------------------------------------------------------- reading
def read_embedded(chunks: Iterable[bytes]) -> RawTrace:
    """The raw trace of a file that ``embed`` wrote; ``TraceError`` if it is damaged, or of several ranks."""
    parts = _parts(iter(chunks))
    try:
        head, _ = next(parts)
        if isinstance(ranks := head.get("ranks"), list):
            raise TraceError(
                f"holds {len(ranks)} ranks, merged for viewers, and profsuite reads Perfetto files of one; take the "
                "folder that it was made from, or convert that rank by rank (--rank N)"
            )
        return _assembled(head, parts)
    except (ValueError, KeyError, TypeError, IndexError, OverflowError, RecursionError, StopIteration) as error:
        raise TraceError(f"is damaged: its columns cannot be read ({type(error).__name__}: {error})") from None


def _parts(chunks: Iterator[bytes]) -> Iterator[tuple[dict[str, Any], memoryview]]:
    """Description and payload of each part; ends at the first packet of another kind."""
    held = bytearray()

    def need(size: int) -> bool:
        while len(held) < size:
            chunk = next(chunks, None)
            if chunk is None:
                return False
            held.extend(chunk)
        return True

    while need(1) and held[0] == _PACKET:
        need(20)
        size, at = _size(held, 1)
        if bytes(held[at : at + 2]) != _TAG:
            return
        if size > MAX_PART or not need(at + size):
            raise ValueError("a part breaks off")
        packet = bytes(held[at : at + size])
        del held[: at + size]
        _, at = _size(packet, 2)
        length, at = _size(packet, at + 1)
        head = json.loads(packet[at : at + length])
        if not isinstance(head, dict):
            raise TypeError("a part is not described")
        length, start = _size(packet, at + length + 1)
        yield head, memoryview(packet)[start : start + length]


def _size(data: bytes | bytearray, at: int) -> tuple[int, int]:
    """A varint, and the place after it."""
    value = 0
    for shift in range(0, 35, 7):
        value |= (data[at] & 127) << shift
        at += 1
        if not data[at - 1] & 128:
            return value, at
    raise ValueError("a length of more than 32 bits")


def _assembled(head: dict[str, Any], parts: Iterator[tuple[dict[str, Any], memoryview]]) -> RawTrace:
    if head.get("format") != FORMAT:
        raise ValueError(f"of format {head.get('format')!r}, this profsuite reads {FORMAT}")
    tracks = [(_text(pid), _text(tid)) for pid, tid in head["tracks"]]
    header = [(_text(key), _text(value)) for key, value in head["header"]]
    numbers: dict[str, dict[str, int]] = {pool: {} for pool in POOLS}
    tables: dict[tuple[str, int], NDArray[np.int32]] = {}
    words: dict[int, list[str]] = {}
    found: dict[str, list[dict[str, NDArray[Any]]]] = {group: [] for group in GROUPS}
    for part, payload in parts:
        batch = _batch(payload)
        if "pool" in part:
            words[int(part["pool"])] = cast("list[str]", batch.column(0).cast(pa.string()).to_pylist())
            continue
        group, texts = part["group"], part["texts"]
        columns: dict[str, NDArray[Any]] = {}
        for name, (kind, pool) in _KINDS[group].items():
            dtype = DTYPE[TYPECODE[kind]]
            if name not in batch.schema.names:
                null = null_of(np.dtype(np.int64)) if name == "offset" else NULL[kind]
                columns[name] = np.full(batch.num_rows, null, dtype)
                continue
            column = batch.column(batch.schema.names.index(name))
            if column.null_count or column.type != pa.from_numpy_dtype(np.dtype(dtype)):
                raise TypeError(f"{group}.{name} is of type {column.type}")
            values = to_numpy(column)
            if pool:
                values = _codes(values, words[int(texts[name])], (pool, int(texts[name])), numbers[pool], tables)
            columns[name] = values
        found[group].append(columns)
    groups = {group: _whole(group, found[group]) for group in GROUPS}
    _check(groups, len(tracks))
    pools = {pool: strings(list(known)) for pool, known in numbers.items()}
    return RawTrace(groups, pools, tracks, header, int(head["num_events"]), 0)


def _batch(payload: memoryview) -> pa.RecordBatch:
    if not len(payload):
        raise ValueError("an empty part")
    try:
        with pa.ipc.open_stream(pa.py_buffer(payload)) as reader:
            batch = reader.read_next_batch()
        batch.validate(full=True)
    except (pa.ArrowException, OSError) as error:
        raise ValueError(str(error)) from None
    return batch


def _codes(
    codes: NDArray[np.int32],
    words: list[str],
    place: tuple[str, int],
    numbers: dict[str, int],
    tables: dict[tuple[str, int], NDArray[np.int32]],
) -> NDArray[np.int32]:
    """Codes of a written pool as codes of the one that the reader has for the column."""
    if place not in tables:
        table = [numbers.setdefault(_text(word), len(numbers)) for word in words]
        tables[place] = np.array([*table, -1], np.int32)
    if len(codes) and (int(codes.min()) < -1 or int(codes.max()) >= len(words)):
        raise ValueError("a code without a word")
    return tables[place][codes]


def _whole(group: str, parts: list[dict[str, NDArray[Any]]]) -> dict[str, NDArray[Any]]:
    if not parts:
        return {name: np.zeros(0, DTYPE[TYPECODE[kind]]) for name, (kind, _) in _KINDS[group].items()}
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _check(groups: dict[str, dict[str, NDArray[Any]]], num_tracks: int) -> None:
    """Rows and tracks that other columns are found by lie where they must."""
    num_slices = len(groups["slice"]["ts"])
    for group, columns in groups.items():
        track = columns.get("track", np.zeros(0, np.int32))
        if len(track) and (int(track.min()) < 0 or int(track.max()) >= num_tracks):
            raise ValueError(f"{group}: a track that there is not")
        if "row" in columns and len(columns["row"]):
            row = columns["row"]
            if int(row[0]) < 0 or int(row[-1]) >= num_slices or bool((np.diff(row) <= 0).any()):
                raise ValueError(f"{group}: a slice that there is not")
    times = [columns["ts"] for columns in groups.values() if "ts" in columns]
    if any(bool((np.abs(ts) >= 2**62).any()) for ts in times) or bool((groups["slice"]["dur"] < 0).any()):
        raise ValueError("a time that no file has")
    phase = groups["flow"]["phase"]
    if not np.isin(phase, [ord(letter) for letter in "stf"]).all():
        raise ValueError("flow: a phase that there is not")


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("no text where there must be")
    return value
