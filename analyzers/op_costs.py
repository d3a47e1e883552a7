"""What every op call of a trace costs, and which call answers for which kernels.

Formulas are evaluated once for each distinct (op, shapes, dtypes, strides, scalars), never for each event.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from profsuite.analyzers.costs.call import OpCall, UnknownInputError, parse_call
from profsuite.analyzers.costs.registry import Cost, CostFormula, cost_of, find_formula
from profsuite.analyzers.ranking import numbered
from profsuite.analyzers.sparse_sizes import stored_elements

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from profsuite.analyzers.op_calls import OpCalls
    from profsuite.trace.model import Trace

EVALUATE = "autograd::engine::evaluate_function"
"""How the autograd engine's ops begin: what lies in them is backward."""

_COLUMNS = ("input_dims", "input_types", "input_strides", "concrete_inputs", "input_layouts")


@dataclass(frozen=True, slots=True)
class Priced:
    """One distinct call: its op's name, its shapes as recorded (JSON), what it costs."""

    name: str
    input_dims: str
    input_types: str
    call: OpCall
    cost: Cost


@dataclass(frozen=True)
class OpCosts:
    """The costs of a trace's calls (the elements of ``OpCalls``).

    ``price`` is an index into ``priced`` for each call, -1 where its cost is unknown; ``owner`` the call that answers
    for each call's kernels (itself or one around it), -1 for none: the outermost call with a cost, but a composite op
    only where nothing inside it has one.
    """

    calls: OpCalls
    priced: tuple[Priced, ...]
    price: NDArray[np.int64]
    owner: NDArray[np.int64]
    backward: NDArray[np.bool_]

    @cached_property
    def owners(self) -> NDArray[np.int64]:
        """The calls that answer for themselves: each is counted once, and none lies in another."""
        return np.flatnonzero((self.owner == np.arange(len(self.owner))) & (self.price >= 0))


def op_costs(trace: Trace, calls: OpCalls) -> OpCosts:
    """The cost of every call, and who answers for whom; see docs/analyses.md, "Roofline"."""
    names = trace.array("slice", "name")[calls.rows].astype(np.int64)
    words = trace.words("slice", "name")
    used = np.unique(names).tolist()
    formulas = {code: found for code in used if (found := find_formula(str(words[code]))) is not None}
    price, priced = _prices(trace, calls, names, formulas)
    composite = np.zeros(len(words) + 1, bool)
    composite[[code for code, entry in formulas.items() if entry.composite]] = True
    return OpCosts(
        calls=calls,
        priced=tuple(priced),
        price=price,
        owner=_owners(calls, price >= 0, composite[names], names),
        backward=_backward(trace, calls, names, used),
    )


@dataclass(frozen=True)
class RecordedCalls:
    """The recorded inputs of some calls: ``key`` is equal for calls whose inputs were recorded alike, -1 for none.

    ``rows`` are of table ``op``, -1 for none.
    """

    key: NDArray[np.int64]
    rows: NDArray[np.int64]
    codes: dict[str, NDArray[np.int64]]
    texts: dict[str, list[str]]
    stored: dict[tuple[int, ...], int]

    def text(self, at: int, column: str) -> str | None:
        """What was recorded of a call in a column of table ``op``; null where nothing was."""
        row = int(self.rows[at])
        if row < 0 or column not in self.codes:
            return None
        code = int(self.codes[column][row])
        return self.texts[column][code] if code >= 0 else None

    def call(self, at: int, name: str = "") -> OpCall | None:
        """The parsed inputs of a call; null where they were not recorded, or make no sense."""
        text = {column: self.text(at, column) for column in _COLUMNS}
        try:
            return parse_call(name, *text.values(), stored=self.stored)
        except UnknownInputError:
            return None


def recorded_calls(
    trace: Trace, calls: OpCalls, at: NDArray[np.int64], values: NDArray[np.bool_] | None = None
) -> RecordedCalls:
    """The recorded inputs of the calls ``at`` (elements); ``values`` marks those whose scalars tell them apart."""
    op_row = np.full(trace.num_rows("slice"), -1, np.int64)
    op_row[trace.array("op", "slice_id")] = np.arange(trace.num_rows("op"))
    columns = [name for name in _COLUMNS if name in trace.ops.column_names]
    codes = {name: trace.array("op", name).astype(np.int64) for name in columns}
    rows = op_row[calls.rows[at]]
    has = np.flatnonzero(rows >= 0)
    has = has[(codes["input_dims"][rows[has]] >= 0) & (codes["input_types"][rows[has]] >= 0)]
    key = np.zeros(len(has), np.int64)
    for name in columns:
        code = codes[name][rows[has]]
        if name == "concrete_inputs" and values is not None:
            code = np.where(values[has], code, -1)
        key = numbered(key * (int(code.max(initial=-1)) + 2) + code + 1)
    full = np.full(len(at), -1, np.int64)
    full[has] = key
    texts = {name: trace.words("op", name) for name in columns}
    return RecordedCalls(full, rows, codes, texts, stored_elements(trace, op_row))


def _prices(
    trace: Trace, calls: OpCalls, names: NDArray[np.int64], formulas: dict[int, CostFormula]
) -> tuple[NDArray[np.int64], list[Priced]]:
    price, priced = np.full(len(names), -1, np.int64), list[Priced]()
    words = trace.words("slice", "name")
    known, reads = np.zeros(len(words) + 1, bool), np.zeros(len(words) + 1, bool)
    known[list(formulas)] = True
    reads[[code for code, entry in formulas.items() if entry.reads_values]] = True
    at = np.flatnonzero(known[names])
    recorded = recorded_calls(trace, calls, at, reads[names[at]])
    there = np.flatnonzero(recorded.key >= 0)
    if not len(there):
        return price, priced
    key = numbered(numbered(names[at[there]]) * (int(recorded.key.max()) + 1) + recorded.key[there])
    size = int(key.max()) + 1
    example = np.zeros(size, np.int64)
    example[key[::-1]] = there[::-1]
    index = np.full(size, -1, np.int64)
    for number, place in enumerate(example.tolist()):
        code = int(names[at[place]])
        call = recorded.call(place, str(words[code]))
        cost = None if call is None else cost_of(call, formulas[code])
        if call is not None and cost is not None:
            index[number] = len(priced)
            dims, types = recorded.text(place, "input_dims"), recorded.text(place, "input_types")
            priced.append(Priced(call.name, dims or "", types or "", call, cost))
    price[at[there]] = index[key]
    return price, priced


def _owners(
    calls: OpCalls, has: NDArray[np.bool_], composite: NDArray[np.bool_], names: NDArray[np.int64]
) -> NDArray[np.int64]:
    up = calls.up
    contains = np.zeros(len(up), bool)  # a call with a cost
    at = up[has]
    at = np.unique(at[at >= 0])
    while len(at):
        contains[at] = True
        at = up[at]
        at = np.unique(at[at >= 0])
        at = at[~contains[at]]
    # Autocast calls an op again with inputs of lower precision: the inner one computes.
    wraps = np.zeros(len(up), bool)
    inner = np.flatnonzero(has & (up >= 0))
    wraps[up[inner[names[inner] == names[up[inner]]]]] = True
    candidate = has & ~(composite & contains) & ~wraps
    return calls.outermost_of(candidate)


def _backward(trace: Trace, calls: OpCalls, names: NDArray[np.int64], used: list[int]) -> NDArray[np.bool_]:
    """Calls of the backward pass: inside the engine's ops, or joined to a forward op by the recorder."""
    words = trace.words("slice", "name")
    engine = np.zeros(len(words) + 1, bool)
    engine[[code for code in used if str(words[code]).startswith(EVALUATE)]] = True
    result: NDArray[np.bool_] = engine[names]
    op_row = np.full(trace.num_rows("slice"), False)
    joined = trace.array("op", "forward_op_id") >= 0
    op_row[trace.array("op", "slice_id")[joined]] = True
    result |= op_row[calls.rows]
    at = np.flatnonzero(calls.up >= 0)
    above = calls.up[at]
    while len(at):
        inside = result[above]
        result[at[inside]] = True
        above = calls.up[above]
        go = ~inside & (above >= 0)
        at, above = at[go], above[go]
    return result
