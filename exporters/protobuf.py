"""The wire format of protobuf, as much of it as a writer needs."""

from __future__ import annotations

VARINT, FIXED64, BYTES = 0, 1, 2


def varint(value: int) -> bytes:
    """A number of up to 64 bits; a negative one as its two's complement."""
    value &= 2**64 - 1
    out = bytearray()
    while value >= 128:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def tag(field: int, wire_type: int) -> bytes:
    """What precedes a field."""
    return varint(field << 3 | wire_type)


def number(field: int, value: int) -> bytes:
    """A field of a number."""
    return tag(field, VARINT) + varint(value)


def delimited(field: int, data: bytes) -> bytes:
    """A field of bytes, text or a message."""
    return tag(field, BYTES) + varint(len(data)) + data
