"""Scalars from TensorBoard's event files: records of protocol buffers in TFRecord's frames, read without its packages.

A frame is the length (uint64), its check sum, the data, its check sum, all little endian; a check sum is the data's
CRC-32C, turned by 15 bits and with a constant added (tensorflow/core/lib/io/record_writer.h).  The fields are those of
tensorflow/core/util/event.proto, framework/summary.proto and framework/tensor.proto.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Final

from profsuite.exporters.units import plural

MOST_BYTES: Final = 64 << 20
"""Of one file that are read."""
MOST_RECORD: Final = 1 << 20
"""Bytes of a record that is looked into; longer ones are images and graphs."""
MOST_TAGS: Final = 2_000
_FLOAT, _DOUBLE, _INT32, _INT64 = 1, 2, 3, 9
"""``DataType`` of types.proto."""
_PACKED: Final = {_FLOAT: "<f", _DOUBLE: "<d", _INT32: "<i", _INT64: "<q"}


@dataclass(frozen=True, slots=True)
class Scalar:
    """One tag over the steps: ``step``, ``wall_time`` (seconds since 1970) and ``value``, in the order of the steps."""

    tag: str
    step: tuple[int, ...]
    wall_time: tuple[float, ...]
    value: tuple[float, ...]


@dataclass(slots=True)
class Scalars:
    """The scalars of some files, by tag, and in words what of them could not be used."""

    found: tuple[Scalar, ...] = ()
    faults: list[str] = field(default_factory=list)


def read_scalars(paths: list[Path]) -> Scalars:
    """The scalars of event files, those of one tag together; values that are no numbers are counted as a fault."""
    points: dict[str, list[tuple[int, float, float]]] = {}
    result = Scalars()
    for path in paths:
        bad = no_number = 0
        try:
            with path.open("rb") as stream:
                for record in _records(stream):
                    if isinstance(record, str):
                        result.faults.append(f"{path.name}: {record}")
                        break
                    if record is None:
                        bad += 1
                        continue
                    for tag, step, when, value in _values(record):
                        if not (math.isfinite(value) and math.isfinite(when)):
                            no_number += 1
                        elif tag in points or len(points) < MOST_TAGS:
                            points.setdefault(tag, []).append((step, when, value))
        except OSError as error:
            result.faults.append(f"{path.name}: cannot be read: {error.strerror}")
        if bad:
            result.faults.append(f"{path.name}: passed over {plural(bad, 'damaged record')}")
        if no_number:
            result.faults.append(f"{path.name}: passed over {plural(no_number, 'value')} without a finite number")
    for tag in sorted(points):
        ordered = sorted(points[tag], key=lambda point: point[:2])
        result.found += (
            Scalar(
                tag,
                tuple(point[0] for point in ordered),
                tuple(point[1] for point in ordered),
                tuple(point[2] for point in ordered),
            ),
        )
    return result


def _records(stream: IO[bytes]) -> Iterator[bytes | str | None]:
    """The records; null for one that is damaged, and a text where nothing more can be read."""
    read = 0
    while head := stream.read(12):
        if len(head) < 12:
            yield "ends within a record"
            return
        (length,), (checked,) = struct.unpack("<Q", head[:8]), struct.unpack("<I", head[8:])
        if _masked(head[:8]) != checked:
            yield f"is damaged from byte {read:,} on, or is no event file"
            return
        read += length + 16
        if read > MOST_BYTES:
            yield f"only the first {MOST_BYTES >> 20} MB were read"
            return
        data, end = stream.read(length), stream.read(4)
        if len(data) < length or len(end) < 4:
            yield "ends within a record"
            return
        if length > MOST_RECORD:
            continue
        yield data if _masked(data) == struct.unpack("<I", end)[0] else None


def _table() -> tuple[int, ...]:
    """CRC-32C (Castagnoli), byte by byte, of the reversed polynomial."""
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
        table.append(byte)
    return tuple(table)


_TABLE: Final = _table()


def _masked(data: bytes) -> int:
    crc, table = 0xFFFFFFFF, _TABLE
    for byte in data:
        crc = crc >> 8 ^ table[(crc ^ byte) & 255]
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def _values(record: bytes) -> Iterator[tuple[str, int, float, float]]:
    """Tag, step, time and value of each scalar in an event; what is no event has none."""
    when, step, summaries = 0.0, 0, []
    for number, value in _fields(record):
        if number == 1 and isinstance(value, bytes) and len(value) == 8:
            (when,) = struct.unpack("<d", value)
        elif number == 2 and isinstance(value, int):
            step = _signed(value)
        elif number == 5 and isinstance(value, bytes):
            summaries.append(value)
    for summary in summaries:
        for number, value in _fields(summary):
            if number == 1 and isinstance(value, bytes):
                tag, scalar = _value(value)
                if tag and scalar is not None:
                    yield tag, step, when, scalar


def _value(data: bytes) -> tuple[str, float | None]:
    """The tag of a ``Summary.Value``, and its value where it is one number."""
    tag, found = "", None
    for number, value in _fields(data):
        if not isinstance(value, bytes):
            continue
        if number == 1:
            tag = value[:1000].decode("utf-8", "replace")
        elif number == 2 and len(value) == 4:
            (found,) = struct.unpack("<f", value)
        elif number == 8:
            found = _tensor(value)
    return tag, found


def _tensor(data: bytes) -> float | None:
    """The number in a tensor of one element; null for others."""
    kind, content, found = 0, b"", []
    for number, value in _fields(data):
        if number == 1 and isinstance(value, int):
            kind = value
        elif number == 4 and isinstance(value, bytes):
            content = value
        elif number in (5, 6) and isinstance(value, bytes) and len(value) == (4 if number == 5 else 8):
            found.append(float(struct.unpack("<f" if number == 5 else "<d", value)[0]))
        elif number in (7, 10):
            whole = value if isinstance(value, int) else _varint(value, 0)[0] if value else 0
            found.append(float(_signed(whole)))
    form = _PACKED.get(kind)
    if form is None or len(found) > 1:
        return None
    if not found and len(content) == struct.calcsize(form):
        return float(struct.unpack(form, content)[0])
    return found[0] if found else None


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Numbers and values of a message's fields; ends where it is none."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        kind = key & 7
        if kind == 0:
            value, at = _varint(data, at)
            yield key >> 3, value
            continue
        if kind == 2:
            size, at = _varint(data, at)
        elif kind in (1, 5):
            size = 8 if kind == 1 else 4
        else:
            return
        if at + size > len(data):
            return
        yield key >> 3, data[at : at + size]
        at += size


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """A whole number from there on, and where it ends; the data's end ends it."""
    value = shift = 0
    while at < len(data) and shift < 70:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            break
        shift += 7
    return value & (1 << 64) - 1, at


def _signed(value: int) -> int:
    return value - (1 << 64) if value >= 1 << 63 else value
