"""Inputs of an op as an execution trace has them: values, shapes, types and strides, from the args that Kineto writes.

Kineto says ``Scalar`` of every number and nothing of what is neither tensor nor number; the kind of a number is that
of its text.  What it does not say is of type ``Unknown``.
"""

from __future__ import annotations

import math
import re
from typing import Any, Final

import msgspec

from profsuite.analyzers.costs.dtypes import DTYPES

Input = tuple[Any, Any, str, Any]

UNKNOWN: Final[Input] = ("<Unknown>", [], "Unknown", [])
"""Value, shape, type and strides of an input of which nothing is known."""
MAX_ELEMENTS: Final = 4096
"""Of a list, as the execution trace observer keeps them."""
_INT: Final = re.compile(r"-?\d{1,18}")
_FLOAT: Final = re.compile(r"-?(\d+\.?\d*([eE][-+]?\d+)?|inf|nan)")


def inputs_json(dims: str | None, types: str | None, strides: str | None, concrete: str | None) -> bytes:
    """The member ``inputs`` of a node, from the JSON texts of table ``op``; empty lists where nothing was recorded."""
    kinds = _listed(types)
    shapes, steps, texts = (_aligned(_listed(text), kinds) for text in (dims, strides, concrete))
    found: list[Input] = []
    for number, kind in enumerate(kinds):
        shape, step, text = (part[number] if number < len(part) else None for part in (shapes, steps, texts))
        found.append(_input(str(kind), shape, step, text if isinstance(text, str) else ""))
    columns = [list(column) for column in zip(*found, strict=True)] or [[], [], [], []]
    if strides is None:
        columns[3] = []
    return msgspec.json.encode(dict(zip(("values", "shapes", "types", "strides"), columns, strict=True)))


def _listed(text: str | None) -> list[Any]:
    try:
        found = msgspec.json.decode(text) if text else []
    except (ValueError, RecursionError):
        return []
    return found if isinstance(found, list) and len(found) <= MAX_ELEMENTS else []


def _aligned(entries: list[Any], kinds: list[Any]) -> list[Any]:
    """Entries for each kind: an undefined tensor has a kind ("") and nothing else."""
    missing = len(kinds) - len(entries)
    for number, kind in enumerate(kinds):
        if entries and missing > 0 and kind == "":
            entries.insert(number, [])
            missing -= 1
    return entries


def _input(kind: str, shape: Any, strides: Any, text: str) -> Input:
    if kind == "TensorList":
        return _tensors(shape, strides)
    if kind == "ScalarList":
        return _scalars(text)
    if kind in ("", "Scalar"):
        return _scalar(text)
    if not _is_shape(shape):
        return UNKNOWN
    return _tensor(shape, kind), shape, f"Tensor({kind})", strides if _is_shape(strides) else []


def _tensor(shape: list[int], kind: str | None) -> list[Any]:
    """Tensor id, storage id, offset, elements, bytes of an element, device; 0 and "" are unknown."""
    dtype = DTYPES.get(kind or "")
    num = math.prod(shape)
    return [0, 0, 0, num if 0 <= num < 2**63 else 0, dtype.num_bytes if dtype else 0, ""]


def _tensors(shapes: Any, strides: Any) -> Input:
    """A list of tensors, of whose elements no recorder says the type."""
    if not isinstance(shapes, list) or len(shapes) > MAX_ELEMENTS or not all(map(_is_shape, shapes)):
        return UNKNOWN
    known = isinstance(strides, list) and len(strides) == len(shapes) and all(map(_is_shape, strides))
    steps = strides if known else [[] for _ in shapes]
    return (
        [_tensor(shape, None) for shape in shapes],
        shapes,
        f"GenericList[{','.join(['Tensor'] * len(shapes))}]",
        steps,
    )


def _scalars(text: str) -> Input:
    if not (text.startswith("[") and text.endswith("]")) or text.count(",") >= MAX_ELEMENTS:
        return UNKNOWN
    words = text[1:-1].split(", ") if text != "[]" else []
    values = [_scalar(word) for word in words]
    if UNKNOWN in values:
        return UNKNOWN
    shapes: list[Any] = [[] for _ in values]
    return [value[0] for value in values], shapes, f"GenericList[{','.join(value[2] for value in values)}]", shapes


def _scalar(text: str) -> Input:
    if text in ("True", "False"):
        return text == "True", [], "Bool", []
    if _INT.fullmatch(text):
        return int(text), [], "Int", []
    if len(text) < 400 and _FLOAT.fullmatch(text):
        value = float(text)
        return value if math.isfinite(value) else text, [], "Double", []
    return UNKNOWN


def _is_shape(shape: Any) -> bool:
    return isinstance(shape, list) and len(shape) <= 64 and all(type(size) is int for size in shape)
