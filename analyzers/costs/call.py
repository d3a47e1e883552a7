"""One op call as it was recorded: shapes, dtypes, strides and scalars of its inputs, parsed with care.

Traces are hostile input: a shape is only taken where it is a short list of sensible integers, and what cannot be
parsed raises ``UnknownInputError``, which means "unknown" to whoever asked for a cost.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

import msgspec

from profsuite.analyzers.costs.dtypes import DTYPES, SCALAR_TYPES

if TYPE_CHECKING:
    from profsuite.analyzers.costs.dtypes import Dtype

MAX_RANK, MAX_LIST, MAX_SIZE = 64, 16_384, 2**48
"""Limits of a shape: dimensions, tensors in a list, elements of one dimension."""

STRIDED = "strided"
NO_TENSOR = ("", "Scalar", "ScalarList", "GenericList", "Int", "Bool", "Double", "Device", "String", "None")
"""Types of inputs that are no tensors: those of today's recorders and of torch 1.8's."""


class UnknownInputError(ValueError):
    """An input that a formula needs was not recorded, or is not what it takes."""


@dataclass(frozen=True, slots=True)
class Tensor:
    """One tensor input; ``dtype`` and ``strides`` are null where not recorded.

    ``layout`` is ``strided`` or a sparse layout (``sparse`` where only that is known); ``nnz`` is the number of
    stored elements of a sparse one where the trace has it.
    """

    shape: tuple[int, ...]
    dtype: Dtype | None = None
    strides: tuple[int, ...] | None = None
    layout: str = STRIDED
    nnz: int | None = None

    @property
    def numel(self) -> int:
        """Number of elements."""
        return prod(self.shape)

    @property
    def is_sparse(self) -> bool:
        """Whether it is stored in a sparse layout."""
        return self.layout != STRIDED

    @property
    def nbytes(self) -> int | None:
        """Bytes of memory behind it: what stride 0 repeats counts once; null for an unknown dtype."""
        if self.dtype is None:
            return None
        if self.is_sparse:
            return None
        if self.strides is None:
            return self.numel * self.dtype.num_bytes
        stored = (size for size, stride in zip(self.shape, self.strides, strict=True) if stride or not size)
        return prod(stored) * self.dtype.num_bytes


Arg = Tensor | tuple[Tensor, ...] | None


@dataclass(frozen=True, slots=True)
class OpCall:
    """The recorded inputs of one op: ``args[i]`` is a ``Tensor``, a tuple of them, or None where it is neither.

    ``types[i]`` is the type as recorded, ``values[i]`` a scalar as recorded ("" where it has none).
    """

    name: str
    args: tuple[Arg, ...]
    types: tuple[str, ...] = ()
    values: tuple[str, ...] = ()

    def tensor(self, i: int) -> Tensor:
        """The tensor at position ``i``; ``UnknownInputError`` if there is none."""
        arg = self.args[i] if i < len(self.args) else None
        if not isinstance(arg, Tensor):
            raise UnknownInputError(f"{self.name}: input {i} is no tensor")
        return arg

    def optional(self, i: int) -> Tensor | None:
        """The tensor at position ``i``, None if there is none."""
        arg = self.args[i] if i < len(self.args) else None
        return arg if isinstance(arg, Tensor) else None

    def tensors(self, i: int) -> tuple[Tensor, ...]:
        """The list of tensors at position ``i``; ``UnknownInputError`` if there is none."""
        arg = self.args[i] if i < len(self.args) else None
        if not isinstance(arg, tuple):
            raise UnknownInputError(f"{self.name}: input {i} is no list of tensors")
        return arg

    @property
    def every_tensor(self) -> tuple[Tensor, ...]:
        """All tensor inputs, those in lists too."""
        flat: list[Tensor] = []
        for arg in self.args:
            flat += [arg] if isinstance(arg, Tensor) else arg or ()
        return tuple(flat)

    def value(self, i: int) -> str:
        """The scalar at position ``i`` as recorded, "" where it has none."""
        return self.values[i] if i < len(self.values) else ""

    def ints(self, i: int) -> tuple[int, ...]:
        """The integer, or list of integers, at position ``i``; ``UnknownInputError`` if it was not recorded."""
        text = self.value(i)
        if not _INTS.fullmatch(text):
            raise UnknownInputError(f"{self.name}: input {i} has no recorded integers")
        return tuple(int(number) for number in _INT.findall(text))

    def number(self, i: int) -> float:
        """The number at position ``i``; ``UnknownInputError`` if it was not recorded."""
        try:
            return float(self.value(i))
        except ValueError:
            raise UnknownInputError(f"{self.name}: input {i} has no recorded number") from None

    def flag(self, i: int) -> bool:
        """The bool at position ``i``; ``UnknownInputError`` if it was not recorded."""
        return self.flags(i)[0]

    def flags(self, i: int) -> tuple[bool, ...]:
        """The bool, or list of bools, at position ``i``; ``UnknownInputError`` if it was not recorded."""
        words = self.value(i).strip("[]").split(", ")
        if not all(word in ("True", "False") for word in words):
            raise UnknownInputError(f"{self.name}: input {i} has no recorded flag")
        return tuple(word == "True" for word in words)

    def dtype(self, i: int) -> Dtype | None:
        """The torch.dtype given as an argument at position ``i``, None where none was given."""
        return SCALAR_TYPES.get(self.value(i))


_INT = re.compile(r"-?\d{1,15}")
_INTS = re.compile(r"\[?-?\d{1,15}(?:, ?-?\d{1,15}){0,63}\]?")


def parse_call(
    name: str,
    dims: str | None,
    types: str | None,
    strides: str | None = None,
    values: str | None = None,
    layouts: str | None = None,
    *,
    list_dtype: Dtype | None = None,
    stored: Mapping[tuple[int, ...], int] | None = None,
) -> OpCall:
    """An ``OpCall`` from the JSON texts of table ``op``; ``UnknownInputError`` where shapes or types say nothing.

    ``list_dtype`` is the dtype of tensors in lists, of which recorders say none; ``stored`` the number of stored
    elements of sparse tensors by shape.
    """
    types_ = [text if isinstance(text, str) else "" for text in _list(types, name)]
    values_ = [text if isinstance(text, str) else str(text) for text in _list(values, name)] if values else []
    # An undefined tensor has a type ("") and no shape: the shapes are one short.
    dims_ = _aligned(_list(dims, name), types_)
    strides_: list[Any] = _aligned(_list(strides, name), types_) if strides else [None] * len(types_)
    layouts_ = _aligned(_list(layouts, name), types_) if layouts else [None] * len(types_)
    if not len(dims_) == len(strides_) == len(layouts_) == len(types_):
        raise UnknownInputError(f"{name}: as many shapes as types are needed")
    stored = stored or {}
    args: list[Arg] = []
    for shape, kind, stride, layout in zip(dims_, types_, strides_, layouts_, strict=True):
        if kind == "TensorList" or (kind in ("", "GenericList") and _nested(shape)):
            args.append(_tensor_list(shape, stride, list_dtype))
        elif kind in NO_TENSOR:
            if shape:
                raise UnknownInputError(f"{name}: a shape belongs to no tensor")
            args.append(None)
        else:
            args.append(_tensor(shape, kind, stride, layout, stored))
    return OpCall(name, tuple(args), tuple(types_), tuple(values_))


def _list(text: str | None, name: str) -> list[Any]:
    if not text:
        raise UnknownInputError(f"{name}: not recorded")
    try:
        parsed = msgspec.json.decode(text)
    except (ValueError, RecursionError):
        raise UnknownInputError(f"{name}: not JSON") from None
    if not isinstance(parsed, list) or len(parsed) > MAX_LIST:
        raise UnknownInputError(f"{name}: not a list")
    return parsed


def _aligned(entries: list[Any], types: Sequence[str]) -> list[Any]:
    missing = len(types) - len(entries)
    if missing <= 0:
        return entries
    entries = list(entries)
    for i, kind in enumerate(types):
        if missing and kind == "":
            entries.insert(i, [])
            missing -= 1
    return entries


def _nested(shape: Any) -> bool:
    return isinstance(shape, list) and bool(shape) and all(isinstance(each, list) for each in shape)


def _tensor_list(shapes: Any, strides: Any, dtype: Dtype | None) -> tuple[Tensor, ...]:
    if not isinstance(shapes, list) or len(shapes) > MAX_LIST:
        raise UnknownInputError("not a list of shapes")
    steps = strides if isinstance(strides, list) and len(strides) == len(shapes) else [None] * len(shapes)
    return tuple(Tensor(_shape(shape), dtype, _strides(step, shape)) for shape, step in zip(shapes, steps, strict=True))


def _tensor(shape: Any, kind: str, strides: Any, layout: Any, stored: Mapping[tuple[int, ...], int]) -> Tensor:
    sizes = _shape(shape)
    # Sparse tensors have no strides: a recorder writes an empty list for them.
    said = layout if isinstance(layout, str) and layout else "sparse" if sizes and strides == [] else STRIDED
    name = said.removeprefix("torch.").lower()
    sparse = name != STRIDED
    return Tensor(
        sizes,
        DTYPES.get(kind),
        None if sparse else _strides(strides, shape),
        name,
        stored.get(sizes) if sparse else None,
    )


def _shape(sizes: Any) -> tuple[int, ...]:
    if not isinstance(sizes, list) or len(sizes) > MAX_RANK:
        raise UnknownInputError("not a shape")
    if not all(type(size) is int and 0 <= size < MAX_SIZE for size in sizes):
        raise UnknownInputError("not a shape")
    return tuple(sizes)


def _strides(strides: Any, shape: Any) -> tuple[int, ...] | None:
    if not isinstance(strides, list) or len(strides) != len(shape):
        return None
    return tuple(strides) if all(type(stride) is int for stride in strides) else None
