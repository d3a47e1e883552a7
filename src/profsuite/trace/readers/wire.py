"""Protobuf's wire format: the fields of one message, and those of many messages at once.

Nothing in the bytes is trusted: a length never reaches past the message that it lies in, nothing is allocated by a
length that a file names, nothing recurses.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

VARINT: Final = 0
FIXED64: Final = 1
BYTES: Final = 2
FIXED32: Final = 5

PADDING: Final = 16
"""Zero bytes that must follow the data of ``messages``, so that a varint may be looked at anywhere in it."""

MOST_FIELDS: Final = 512
"""Fields that a message of ``messages`` may have; one with more is left out."""


class BrokenOffError(ValueError):
    """A field that is cut off, or none: what lies before it was told."""


@dataclass(frozen=True, slots=True)
class Field:
    """One field: ``value`` of a number, ``start`` to ``stop`` of bytes; ``whole`` unless the data ends within it."""

    number: int
    wire: int
    value: int
    start: int
    stop: int
    whole: bool = True


def varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    """A number of at most 64 bits, and the place after it; ``BrokenOffError`` if there is none."""
    value = shift = 0
    while at < end and shift < 70:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value & 0xFFFF_FFFF_FFFF_FFFF, at
        shift += 7
    raise BrokenOffError(f"no number at byte {at}")


def signed(value: int) -> int:
    """A 64-bit number as int64."""
    return value - (1 << 64) if value >= 1 << 63 else value


def fields(data: bytes, at: int, end: int) -> Iterator[Field]:
    """The fields of the message from ``at`` to ``end``, in order; ``BrokenOffError`` where it stops being one.

    Bytes that the message ends within are told, as far as they go, before the error is raised.
    """
    while at < end:
        tag, at = varint(data, at, end)
        number, wire = tag >> 3, tag & 7
        if not number:
            raise BrokenOffError(f"no field at byte {at}")
        if wire == VARINT:
            value, at = varint(data, at, end)
            yield Field(number, wire, value, at, at)
        elif wire == BYTES:
            size, at = varint(data, at, end)
            if size > end - at:
                yield Field(number, wire, 0, at, end, whole=False)
                raise BrokenOffError(f"the data ends at byte {end}, within {size:,} bytes")
            yield Field(number, wire, 0, at, at + size)
            at += size
        elif wire in (FIXED64, FIXED32):
            size = 8 if wire == FIXED64 else 4
            if size > end - at:
                raise BrokenOffError(f"the data ends at byte {end}, within a number")
            yield Field(number, wire, int.from_bytes(data[at : at + size], "little"), at, at + size)
            at += size
        else:
            raise BrokenOffError(f"no field at byte {at}")


def runs(data: bytes, at: int, end: int, tag: int, starts: list[int], stops: list[int]) -> int:
    """Note where the messages under a tag of one byte lie, up to the first other field or break; returns its place."""
    start, stop = starts.append, stops.append
    while at < end - 1 and data[at] == tag:
        begin = at + 2
        size = data[at + 1]
        if size >= 128:
            try:
                size, begin = varint(data, at + 1, end)
            except BrokenOffError:
                return at
        if size > end - begin:
            return at
        at = begin + size
        start(begin)
        stop(at)
    return at


def packed(data: bytes, field: Field) -> list[int]:
    """The numbers of a repeated field, packed or single; those before a break."""
    if field.wire == VARINT:
        return [field.value]
    found, at = [], field.start
    try:
        while at < field.stop:
            value, at = varint(data, at, field.stop)
            found.append(value)
    except BrokenOffError:
        pass
    return found


@dataclass(slots=True)
class Found:
    """One field of many messages: ``index`` says of which, ``value`` is a number, ``start`` and ``stop`` bytes."""

    number: int
    wire: int
    index: NDArray[np.int64]
    value: NDArray[np.uint64]
    start: NDArray[np.int64]
    stop: NDArray[np.int64]


def messages(
    data: NDArray[np.uint8], start: NDArray[np.int64], stop: NDArray[np.int64]
) -> tuple[list[Found], NDArray[np.bool_]]:
    """The fields of many short messages, and which of them are sound.

    ``data`` must end in ``PADDING`` zeros that no message reaches into.  All messages are read abreast, a field of each
    at a time, so the work is that of the longest one.
    """
    sound = np.ones(len(start), bool)
    index = np.flatnonzero(start < stop)
    at, end = start[index].copy(), stop[index]
    found: list[Found] = []
    for _ in range(MOST_FIELDS):
        if not len(index):
            return found, sound
        tag, place = _varints(data, at)
        wire = (tag & np.uint64(7)).astype(np.int8)
        number = tag >> np.uint64(3)
        good = (place > at) & (number > 0) & (number < 1 << 29) & _WIRES[wire]
        value, after = _varints(data, place)
        good &= ((wire != VARINT) & (wire != BYTES)) | (after > place)
        fixed = (wire == FIXED64) | (wire == FIXED32)
        width = np.where(wire == FIXED64, 8, 4)
        if fixed.any():
            after = np.where(fixed, place + width, after)
            value = np.where(fixed, _fixed(data, place, wire == FIXED64), value)
        size = np.minimum(value, np.uint64(1 << 40)).astype(np.int64)
        begin = after
        after = np.where(wire == BYTES, after + size, after)
        good &= after <= end
        if not good.all():
            sound[index[~good]] = False
        for kind in np.unique(number[good].astype(np.int64) << 3 | wire[good]).tolist():
            rows = np.flatnonzero(good & (number == kind >> 3) & (wire == kind & 7))
            found.append(Found(kind >> 3, kind & 7, index[rows], value[rows], begin[rows], after[rows]))
        alive = good & (after < end)
        index, at, end = index[alive], after[alive], end[alive]
    sound[index] = False
    return found, sound


_WIRES: Final = np.isin(np.arange(8), (VARINT, FIXED64, BYTES, FIXED32))


def _varints(data: NDArray[np.uint8], at: NDArray[np.int64]) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """The number at each place and the place after it; the same place where none is."""
    last = len(data) - 1
    byte = data[np.minimum(at, last)]
    value = (byte & 127).astype(np.uint64)
    after = at + 1
    more = np.flatnonzero(byte >= 128)
    for shift in range(7, 70, 7):
        if not len(more):
            return value, after
        byte = data[np.minimum(after[more], last)]
        value[more] |= (byte & 127).astype(np.uint64) << np.uint64(shift)
        after[more] += 1
        more = more[byte >= 128]
    after[more] = at[more]
    return value, after


def _fixed(data: NDArray[np.uint8], at: NDArray[np.int64], wide: NDArray[np.bool_]) -> NDArray[np.uint64]:
    """The little-endian number of eight or four bytes at each place."""
    places = np.minimum(at[:, None] + np.arange(8), len(data) - 1)
    numbers = np.ascontiguousarray(data[places]).view("<u8")[:, 0].astype(np.uint64)
    return np.where(wide, numbers, numbers & np.uint64(0xFFFF_FFFF))
