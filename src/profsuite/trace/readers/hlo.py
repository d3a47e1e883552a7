"""What XLA's HLO says of an instruction: its opcode and, of a collective, the data and the ranks.

Profiles carry the compiled modules (``xla/service/hlo.proto``, ``xla_data.proto``).  An instruction's name is no
opcode: JAX calls an all-reduce ``psum.3``, and only the module tells.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING, Final

import numpy as np

from profsuite.trace.readers.wire import BYTES, VARINT, BrokenOffError, Field, fields, messages, packed, signed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

COLLECTIVES: Final = {
    "all-reduce": "allreduce",
    "all-gather": "allgather",
    "reduce-scatter": "reduce_scatter",
    "all-to-all": "all_to_all",
    "ragged-all-to-all": "all_to_all",
    "collective-permute": "send_recv",
    "collective-broadcast": "broadcast",
    "send": "send",
    "recv": "recv",
}
"""Opcodes that communicate, and what torch calls the same."""

JAX_COLLECTIVES: Final = {
    "psum_scatter": "reduce_scatter",
    "reduce_scatter": "reduce_scatter",
    "psum": "allreduce",
    "psum2": "allreduce",
    "psum_invariant": "allreduce",
    "pmax": "allreduce",
    "pmin": "allreduce",
    "all_gather": "allgather",
    "all_gather_invariant": "allgather",
    "all_to_all": "all_to_all",
    "ragged_all_to_all": "all_to_all",
    "ppermute": "send_recv",
    "pbroadcast": "broadcast",
}
"""JAX's primitives that communicate: instructions are named after them."""

_NUMBER: Final = re.compile(r"(?:\.\d+|\.remat\d*|\.clone|_\d+)+$")
_HALF: Final = re.compile(r"-(start|done)$")

_DTYPES: Final = {
    1: "Bool", 2: "Char", 3: "Short", 4: "Int", 5: "Long", 6: "Byte", 7: "UInt16", 8: "UInt32", 9: "UInt64", 10: "Half",
    11: "Float", 12: "Double", 15: "ComplexFloat", 16: "BFloat16", 18: "ComplexDouble", 19: "Float8_e5m2",
    20: "Float8_e4m3fn",
}  # fmt: skip
"""xla.PrimitiveType by torch's names of the same types."""


@dataclass(frozen=True, slots=True)
class Collective:
    """One communicating instruction: elements of its input and output, type, and the groups' ranks where told."""

    in_nelems: int | None
    out_nelems: int | None
    dtype: str | None
    group_size: int | None
    group_ranks: str | None


@dataclass(slots=True)
class Module:
    """One compiled module: the opcode of each instruction, and its collectives, by the instruction's name."""

    opcodes: dict[str, str] = field(default_factory=dict)
    collectives: dict[str, Collective] = field(default_factory=dict)


def base_name(text: str) -> str:
    """The opcode in an instruction's name: ``all-reduce-start`` of ``%all-reduce-start.12 = f32[8] …``."""
    return _NUMBER.sub("", text.partition(" = ")[0].lstrip("%"))


def collective_of(opcode: str) -> str | None:
    """What torch calls the collective of an opcode or an instruction's base name; None of what communicates nothing."""
    bare = _HALF.sub("", opcode)
    return COLLECTIVES.get(bare) or JAX_COLLECTIVES.get(bare)


def half_of(opcode: str) -> str | None:
    """``start`` or ``done`` of an asynchronous instruction's opcode, else None."""
    found = _HALF.search(opcode)
    return found[1] if found else None


def read_module(data: bytes, padded: NDArray[np.uint8], start: int, stop: int) -> Module:
    """The module in a serialized ``xla.HloProto`` from ``start`` to ``stop``; of a damaged one what comes first."""
    module = Module()
    spans: list[tuple[int, int]] = []
    for proto in _inside(data, start, stop, 1):
        for computation in _inside(data, proto.start, proto.stop, 3):
            spans += [(each.start, each.stop) for each in _inside(data, computation.start, computation.stop, 2)]
    if not spans:
        return module
    bounds = np.array(spans, np.int64)
    found, _ = messages(padded, bounds[:, 0], bounds[:, 1])
    texts: dict[int, list[str]] = {number: [""] * len(spans) for number in (1, 2)}
    for each in found:
        if each.number in texts and each.wire == BYTES:
            places = zip(each.index.tolist(), each.start.tolist(), each.stop.tolist(), strict=True)
            for index, begin, end in places:
                texts[each.number][index] = data[begin:end].decode("utf-8", "replace")
    for (begin, end), name, opcode in zip(spans, texts[1], texts[2], strict=True):
        module.opcodes[name] = opcode
        if collective_of(opcode) is not None and half_of(opcode) != "done":
            module.collectives[name] = _collective(data, begin, end, opcode)
    return module


def _inside(data: bytes, start: int, stop: int, number: int) -> Iterator[Field]:
    """The messages of one field; those before a break."""
    try:
        for each in fields(data, start, stop):
            if each.number == number and each.wire == BYTES:
                yield each
    except BrokenOffError:
        return


@dataclass(slots=True)
class _Shape:
    dtype: int = 0
    nelems: int = 1
    parts: list[_Shape] = field(default_factory=list)


def _shape(data: bytes, start: int, stop: int, depth: int = 0) -> _Shape:
    """An ``xla.ShapeProto``; tuples are looked into two deep."""
    shape, dimensions = _Shape(), []
    try:
        for each in fields(data, start, stop):
            if each.number == 2 and each.wire == VARINT:
                shape.dtype = each.value
            elif each.number == 3:
                dimensions += [signed(value) for value in packed(data, each)]
            elif each.number == 4 and each.wire == BYTES and depth < 2 and len(shape.parts) < 4096:
                shape.parts.append(_shape(data, each.start, each.stop, depth + 1))
    except BrokenOffError:
        pass
    shape.nelems = prod(dimensions[:64])
    return shape


def _collective(data: bytes, start: int, stop: int, opcode: str) -> Collective:
    shape = _Shape()
    groups: list[list[int]] = []
    size: int | None = None
    try:
        for each in fields(data, start, stop):
            if each.wire != BYTES:
                continue
            if each.number == 3:
                shape = _shape(data, each.start, each.stop)
            elif each.number == 49:
                groups.append(_ranks(data, each))
            elif each.number == 87:
                groups += [_ranks(data, group) for group in _inside(data, each.start, each.stop, 1)]
                for iota in _inside(data, each.start, each.stop, 2):
                    size = next((f.value for f in fields(data, iota.start, iota.stop) if f.number == 2), None)
    except BrokenOffError:
        pass
    sizes = {len(group) for group in groups if group}
    if len(sizes) == 1:
        size = sizes.pop()
    if size is not None and not 0 < size < 1 << 31:
        size = None
    result, operand = _data(shape, opcode)
    dtype = _DTYPES.get(result[0].dtype) if result else None
    out = _count(result)
    into = _count(operand)
    kind = collective_of(opcode)
    if into is None and out is not None:
        if kind == "allgather":
            into = out // size if size else None
        elif kind == "reduce_scatter":
            into = out * size if size else None
        else:
            into = out
    ranks = json.dumps(groups[0] if len(groups) == 1 else groups, separators=(",", ":")) if groups else None
    return Collective(_fits(into), _fits(out), dtype, size, ranks)


def _data(shape: _Shape, opcode: str) -> tuple[list[_Shape], list[_Shape]]:
    """The arrays that come out, and those that go in where the shape tells both (asynchronous starts do)."""
    if half_of(opcode) == "start" and len(shape.parts) >= 2 and collective_of(opcode) != "allreduce":
        into, out = shape.parts[0], shape.parts[1]
        return out.parts or [out], into.parts or [into]
    return shape.parts or [shape], []


def _count(shapes: list[_Shape]) -> int | None:
    """Elements of arrays of one type; None where there are none, or several types."""
    types = {shape.dtype for shape in shapes}
    return sum(shape.nelems for shape in shapes) if len(types) == 1 and types <= _DTYPES.keys() else None


def _fits(value: int | None) -> int | None:
    return value if value is not None and 0 <= value < 2**62 else None


def _ranks(data: bytes, group: Field) -> list[int]:
    found: list[int] = []
    try:
        for each in fields(data, group.start, group.stop):
            if each.number == 1:
                found += packed(data, each)
    except BrokenOffError:
        pass
    return found
