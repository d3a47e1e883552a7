"""The one registry of cost formulas: op name -> what a call of it computes and moves."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from inspect import getdoc
from typing import Literal

from msgspec import Struct

from profsuite.analyzers.costs.call import OpCall, Tensor, UnknownInputError

CostKind = Literal[
    "gemm",
    "batched gemm",
    "grouped gemm",
    "quantised gemm",
    "sparse gemm",
    "convolution",
    "attention",
    "normalisation",
    "elementwise",
    "reduction",
    "softmax",
    "embedding",
    "loss",
    "optimizer",
    "copy",
    "fused",
    "other",
]

MATRIX_KINDS: tuple[CostKind, ...] = (
    "gemm",
    "batched gemm",
    "grouped gemm",
    "quantised gemm",
    "sparse gemm",
    "convolution",
    "attention",
)
"""Kinds that multiply matrices: what a model's FLOPs are counted by, and what a device's matrix units are for."""


class Cost(Struct, frozen=True, kw_only=True):
    """What one call of an op computes and moves at least; null is unknown.

    ``flops`` counts a multiply-add as two and is what ``torch.utils.flop_counter`` counts where that knows the op.
    ``least_flops`` is less where a kernel may skip some (causal attention), and the same as ``flops`` where null; where
    ``flops`` is null it is what is known to be computed at least (generated kernels).
    ``bytes_read`` and ``bytes_written`` are of the tensors, each once: what a kernel with a perfect cache would
    move.  ``bytes_moved`` is their sum where only that is known.  ``dtype`` names the format of the operands as
    devices are rated: ``fp64``, ``fp32``, ``bf16``, ``fp16``, ``fp8``, ``int8``.  ``data_dependent`` means that the
    FLOPs needed depend on data that no trace has (a mask): then time is bounded by the bytes alone.
    """

    kind: CostKind = "other"
    flops: int | None = None
    bytes_read: int | None = None
    bytes_written: int | None = None
    bytes_moved: int | None = None
    least_flops: int | None = None
    dtype: str | None = None
    data_dependent: bool = False

    @property
    def needed_flops(self) -> int | None:
        """The FLOPs that no kernel can leave out; null where unknown."""
        if self.data_dependent:
            return None
        return self.flops if self.least_flops is None else self.least_flops

    @property
    def num_bytes(self) -> int | None:
        """Bytes read and written; null where unknown."""
        if self.bytes_moved is not None:
            return self.bytes_moved
        if self.bytes_read is None or self.bytes_written is None:
            return None
        return self.bytes_read + self.bytes_written


Formula = Callable[[OpCall], Cost | None]


@dataclass(frozen=True, slots=True)
class CostFormula:
    """A registered formula.  ``name`` is the op's, or a regular expression where ``is_pattern``.

    ``reads_values``: its result depends on scalar inputs.  ``composite``: the op is made of others, and counts
    only where none of those has a cost.  ``source`` is the formula's docstring.
    """

    name: str
    kind: str
    function: Formula
    reads_values: bool
    composite: bool
    is_pattern: bool
    built_in: bool

    @property
    def source(self) -> str:
        """Where the formula comes from: its docstring."""
        return getdoc(self.function) or ""


_BY_NAME: dict[str, CostFormula] = {}
_BY_PATTERN: dict[str, tuple[re.Pattern[str], CostFormula]] = {}


def formula(
    *names: str, kind: str, values: bool = False, composite: bool = False, pattern: bool = False
) -> Callable[[Formula], Formula]:
    """Registers a built-in formula under each of ``names``; see ``CostFormula`` for the rest."""

    def register(function: Formula) -> Formula:
        for name in names:
            entry = CostFormula(name, kind, function, values, composite, pattern, True)
            assert name not in _BY_NAME, name
            _add(entry)
        return function

    return register


def _add(entry: CostFormula) -> None:
    if entry.is_pattern:
        _BY_PATTERN[entry.name] = (re.compile(entry.name), entry)
    else:
        _BY_NAME[entry.name] = entry


def register_cost(name: str, function: Formula, *, composite: bool = False) -> None:
    """Teach the roofline an op: ``function`` takes an ``OpCall`` and returns a ``Cost``, or None if it can't tell.

    ``name`` is the op's as a trace has it (``mylib::op``); a formula that exists is replaced.  ``composite``: the op
    is made of other ops, and counts only where none of them has a cost.  ``ValueError`` for an empty name,
    ``TypeError`` if ``function`` cannot be called.  A formula that fails is warned of once and counts as unknown.

    >>> def scan(call: OpCall) -> Cost:
    ...     x = call.tensor(0)
    ...     return Cost(flops=2 * x.numel, bytes_read=x.nbytes, bytes_written=x.nbytes)
    >>> register_cost("mylib::scan", scan)
    """
    if not isinstance(name, str) or not name.strip():
        raise ValueError("register_cost needs the op's name, as 'mylib::op'")
    if not callable(function):
        raise TypeError(f"register_cost({name!r}, ...) needs a function of an OpCall, not {type(function).__name__}")
    _add(CostFormula(name, "other", function, True, composite, False, False))


def costs() -> tuple[CostFormula, ...]:
    """Every formula that is known, built-in and registered, by name."""
    entries: Iterable[CostFormula] = (*_BY_NAME.values(), *(entry for _, entry in _BY_PATTERN.values()))
    return tuple(sorted(entries, key=lambda entry: entry.name))


def find_formula(name: str) -> CostFormula | None:
    """The formula of an op, by its name, else by the first pattern that matches it; None if it has none."""
    found = _BY_NAME.get(name)
    if found is not None:
        return found
    if len(name) <= 4096:
        for regex, entry in _BY_PATTERN.values():
            if regex.match(name):
                return entry
    return None


_failed: set[str] = set()


def cost_of(call: OpCall, entry: CostFormula | None = None) -> Cost | None:
    """The cost of a call; None where no formula knows the op, or its inputs do not say enough."""
    entry = entry or find_formula(call.name)
    if entry is None:
        return None
    try:
        cost = entry.function(call)
        return None if cost is None or _is_absurd(cost) else cost
    except UnknownInputError:
        return None
    except Exception as error:
        if entry.built_in and isinstance(error, ValueError | IndexError | ZeroDivisionError):
            return None  # shapes of another rank than the op takes: a damaged trace
        if entry.built_in:
            raise
        if entry.name not in _failed:
            _failed.add(entry.name)
            warnings.warn(f"the cost formula of {entry.name} fails: {type(error).__name__}: {error}", stacklevel=2)
        return None


LARGEST = 2**62
"""No call computes or moves as much: a damaged shape."""


def _is_absurd(cost: Cost) -> bool:
    numbers = (cost.flops, cost.least_flops, cost.bytes_read, cost.bytes_written, cost.bytes_moved)
    return any(number is not None and not 0 <= number < LARGEST for number in numbers)


def total_bytes(tensors: Iterable[Tensor | None]) -> int | None:
    """Bytes of the tensors, each once; null if one has an unknown size."""
    total = 0
    for tensor in tensors:
        if tensor is None:
            continue
        size = tensor.nbytes
        if size is None:
            return None
        total += size
    return total


def bytes_of(numel: int, tensor: Tensor) -> int | None:
    """Bytes of ``numel`` elements of the tensor's dtype; null where that is unknown."""
    return None if tensor.dtype is None else numel * tensor.dtype.num_bytes


def dtype_name(*tensors: Tensor) -> str | None:
    """The format in which tensors are multiplied: that of the first, null where unknown."""
    return tensors[0].dtype.name if tensors and tensors[0].dtype is not None else None


def require(condition: bool) -> None:
    """``UnknownInputError`` unless the shapes fit each other."""
    if not condition:
        raise UnknownInputError("the shapes do not fit")
