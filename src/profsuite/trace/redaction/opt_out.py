"""``OptOut``: modules, functions and annotations that a user names by globs, and a trace without them.

A slice that goes takes its name and its arguments along; what ran inside it stays, now inside what was around it.
No time is lost: what the slice spent itself becomes self time of the slice around it, and what a device did stays.
"""

from __future__ import annotations

import fnmatch
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np
import pyarrow as pa

from profsuite.trace.classes import DEVICE_WORK, Role, role_mask
from profsuite.trace.columns import Text, strings, table_of
from profsuite.trace.nesting import nest
from profsuite.trace.schema import BY_NAME

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from profsuite.trace.model import Trace
    from profsuite.trace.redaction.report import RedactionReport

_FRAME: Final = re.compile(r"(?P<file>[^\n]+?)\.pyx?\(\d{1,9}\): (?P<function>[^\n]*)")
_TOKEN: Final = re.compile(r"(?:[\w.-]|::|[/\\])+")
_STEPS: Final = ("ProfilerStep#", "Iteration#")
_LONGEST: Final = 4096
"""Characters of a name that are compared."""

STAYS: Final = (*DEVICE_WORK, Role.SYNC, Role.LAUNCH, Role.OVERHEAD, Role.SPAN)
"""What ran on a device, and what put it there: never removed, only renamed."""


class OptOut:
    """Globs of dotted names, as Python has them.

    A glob names whole parts of a name: ``mymodule`` is all of that module, ``mymodule.secret*`` what in it begins
    so, ``*.step`` every function of that name; marks of steps are none.
    ``src/mymodule/secret.py(8): run`` is ``src.mymodule.secret.run``, ``nn.Module: Block_0`` is ``Block_0`` and
    ``Block``.
    """

    def __init__(self, globs: Sequence[str]) -> None:
        found = "|".join(fnmatch.translate(glob).removesuffix(r"\Z").removesuffix(r"\z") for glob in globs)
        self._regex = re.compile(rf"(?:.*\.)?(?:{found})(?:\..*)?", re.DOTALL) if globs else None

    def __bool__(self) -> bool:
        return self._regex is not None

    def matches(self, text: str) -> bool:
        """Whether a name, a frame or a file is one that was opted out."""
        if self._regex is None or not text or text.startswith(_STEPS):
            return False
        return any(self._regex.fullmatch(name) is not None for name in _dotted(text[:_LONGEST]))

    def sub(self, text: str, replace: Callable[[str], str]) -> str:
        """``text`` with every name in it that was opted out replaced."""
        if text.startswith(_STEPS):
            return text
        return _TOKEN.sub(lambda found: replace(found[0]) if self.matches(found[0]) else found[0], text)

    def frames(self, stack: str) -> str:
        """A call stack, frames separated by ``;``, without those that were opted out."""
        frames = stack.split(";")
        kept = [frame for frame in frames if not self.matches(frame.strip())]
        return stack if len(kept) == len(frames) else ";".join(kept)


def _dotted(text: str) -> list[str]:
    """The names that a text may be known by, with dots between their parts."""
    if frame := _FRAME.fullmatch(text):
        module = _parts(frame["file"])
        return [f"{module}.{frame['function']}"]
    if text.startswith("nn.Module: "):
        name = text.removeprefix("nn.Module: ")
        return [name, re.sub(r"_\d{1,9}$", "", name)]
    return [text, _parts(text)]


def _parts(text: str) -> str:
    plain = re.sub(r"::|[/\\]+", ".", text)
    return re.sub(r"(?:\.__init__)?\.pyx?$", "", plain).strip(".").removesuffix(".__init__")


# ---------------------------------------------------------------- traces
def without(trace: Trace, opt_out: OptOut, report: RedactionReport) -> Trace:
    """The trace without the slices that were opted out, and without their names in what stays."""
    removed = _removed(trace, opt_out)
    tables = dict(trace.tables)
    if removed.any():
        tables |= _renested(trace, removed)
        for name, table in tables.items():
            report.remove(name, trace.num_rows(name) - table.num_rows)
    tables["op"] = _edited(tables["op"], "op", {"call_stack": opt_out.frames, "module_hierarchy": _kept(opt_out)})
    for name in ("instant", "counter"):
        wanted = _matching(tables[name], "name", opt_out)
        report.remove(name, int(wanted.sum()))
        tables[name] = tables[name].filter(pa.array(~wanted))
    for name, columns in (("compile_event", ("name", "file")), ("tensor", ("name", "module"))):
        wanted = _matching(tables[name], columns[0], opt_out) | _matching(tables[name], columns[1], opt_out)
        emptied = (*columns, "reason", "line") if name == "compile_event" else columns
        tables[name] = _emptied(tables[name], name, emptied, wanted)
    return replace(trace, tables=tables, _cache={})


def _removed(trace: Trace, opt_out: OptOut) -> NDArray[np.bool_]:
    """The slices that go: those whose name matches, but for marks of steps and what ran on a device."""
    matching = np.array([opt_out.matches(word) for word in trace.words("slice", "name")], bool)
    if not matching.any():
        return np.zeros(trace.num_rows("slice"), bool)
    removed: NDArray[np.bool_] = matching[trace.array("slice", "name")] & ~role_mask(trace.roles, STAYS)
    removed[trace.array("step", "slice_id")] = False
    return removed


def _renested(trace: Trace, removed: NDArray[np.bool_]) -> dict[str, pa.Table]:
    """Every table with a reference to slices, of those that are kept."""
    kept = np.flatnonzero(~removed)
    numbers = np.full(len(removed) + 1, -1, np.int32)
    numbers[kept] = np.arange(len(kept), dtype=np.int32)
    ops = _kept_op(trace, removed)
    tables: dict[str, pa.Table] = {}
    for name, table in trace.tables.items():
        spec = BY_NAME[name]
        of_slices = [column.name for column in spec.columns if column.unit == "row of slice"]
        if name == "slice":
            table = table.take(cast("Any", pa.array(kept)))
        elif "slice_id" in of_slices:
            table = table.filter(pa.array(~removed[trace.array(name, "slice_id")]))
        columns: dict[str, Any] = {}
        for column in of_slices:
            if column == "parent_id":
                continue
            old = _codes(table, column)
            columns[column] = numbers[ops[old] if column in ("op_id", "forward_op_id") else old]
        tables[name] = _with(table, name, columns)
    roles = trace.roles[kept]
    track, ts, dur = (trace.array("slice", column)[kept] for column in ("track_id", "ts", "dur"))
    parent, depth, self_dur = nest(track, ts, dur, role_mask(roles, (*DEVICE_WORK, Role.SYNC)))
    tables["slice"] = _with(tables["slice"], "slice", {"parent_id": parent, "depth": depth, "self_dur": self_dur})
    tables["python_call"] = _callers(trace, removed, tables["python_call"])
    return tables


def _kept_op(trace: Trace, removed: NDArray[np.bool_]) -> NDArray[np.int32]:
    """For each slice itself, or where it goes the innermost op around it that stays, else -1; the last entry is -1."""
    parent = np.append(trace.array("slice", "parent_id"), np.int32(-1))
    usable = np.append(~removed & (trace.roles == Role.OP), False)
    found = np.arange(len(parent), dtype=np.int32)
    found[-1] = -1
    active = np.flatnonzero(np.append(removed, False))
    while len(active):
        found[active] = parent[found[active]]
        active = active[(found[active] >= 0) & ~usable[found[active]]]
    return found


def _callers(trace: Trace, removed: NDArray[np.bool_], table: pa.Table) -> pa.Table:
    """The calls that stay, each with the nearest caller that stays."""
    rows = np.flatnonzero(removed[trace.array("python_call", "slice_id")])
    if not len(rows):
        return table
    ids, parents = trace.array("python_call", "python_id"), trace.array("python_call", "python_parent_id")
    order = rows[np.argsort(ids[rows], kind="stable")]
    gone = ids[order]
    caller = _codes(table, "python_parent_id")
    for _ in range(len(order)):  # as deep as calls that go lie inside each other
        at = np.minimum(np.searchsorted(gone, caller), len(gone) - 1)
        known = (gone[at] == caller) & (caller != -(2**63))
        if not known.any():
            break
        caller = np.where(known, parents[order[at]], caller)
    else:
        caller = np.where(np.isin(caller, gone), np.int64(-(2**63)), caller)  # they call each other in a circle
    return _with(table, "python_call", {"python_parent_id": caller})


# ---------------------------------------------------------------- columns
def _codes(table: pa.Table, column: str) -> NDArray[Any]:
    """An integer column as numpy, with the raw columns' null."""
    chunked: Any = table.column(column)
    null = -1 if chunked.type == pa.int32() else -(2**63)
    filled: Any = chunked.fill_null(null).combine_chunks()
    array = filled if isinstance(filled, pa.Array) else pa.concat_arrays(filled.chunks)
    return cast("NDArray[Any]", array.to_numpy(zero_copy_only=False))


def _with(table: pa.Table, name: str, columns: dict[str, Any]) -> pa.Table:
    """The table with some columns replaced, by arrays with the raw columns' nulls."""
    if not columns:
        return table
    spec = BY_NAME[name]
    given: dict[str, Any] = {}
    for column in spec.columns:
        if column.name in columns:
            given[column.name] = columns[column.name]
        else:
            whole: Any = table.column(column.name).combine_chunks()
            given[column.name] = whole if isinstance(whole, pa.Array) else pa.concat_arrays(whole.chunks)
    return table_of(spec, given)


def text_of(table: pa.Table, column: str) -> Text:
    """A text column as codes into a pool of words."""
    chunked: Any = table.column(column).unify_dictionaries()
    if not chunked.num_chunks:
        return Text(np.zeros(0, np.int32), strings([]))
    whole = chunked.combine_chunks()
    array: Any = whole if isinstance(whole, pa.Array) else pa.concat_arrays(whole.chunks)
    return Text(array.indices.fill_null(-1).to_numpy(zero_copy_only=False), array.dictionary)


def _matching(table: pa.Table, column: str, opt_out: OptOut) -> NDArray[np.bool_]:
    text = text_of(table, column)
    matching = np.array([*(opt_out.matches(word) for word in cast("Any", text.pool.to_pylist())), False], bool)
    return cast("NDArray[np.bool_]", matching[text.codes])


def _edited(table: pa.Table, name: str, edits: dict[str, Callable[[str], str]]) -> pa.Table:
    columns: dict[str, Any] = {}
    for column, edit in edits.items():
        text = text_of(table, column)
        words = cast("list[str]", text.pool.to_pylist())
        edited = [edit(word) for word in words]
        if edited != words:
            columns[column] = _distinct(text.codes, edited)
    return _with(table, name, columns)


def _kept(opt_out: OptOut) -> Callable[[str], str]:
    """A module path, or nothing where a part of it was opted out."""

    def edit(path: str) -> str:
        parts = re.split(r"[.:()\s]+", path)
        return "" if opt_out.matches(path) or any(opt_out.matches(part) for part in parts) else path

    return edit


def _distinct(codes: NDArray[np.int32], words: list[str]) -> Text:
    """A text column whose words are each there once, and used; "" counts as null where the column may be."""
    used = np.unique(codes[codes >= 0])
    numbers: dict[str, int] = {}
    table = np.full(len(words) + 1, -1, np.int32)
    for code in used.tolist():
        table[code] = numbers.setdefault(words[code], len(numbers))
    return Text(table[codes], strings(list(numbers)))


def _emptied(table: pa.Table, name: str, columns: Sequence[str], rows: NDArray[np.bool_]) -> pa.Table:
    """The table with null in some columns of some rows."""
    if not rows.any():
        return table
    made: dict[str, Any] = {}
    for column in columns:
        if BY_NAME[name].column(column).dtype == "text":
            text = text_of(table, column)
            made[column] = Text(np.where(rows, np.int32(-1), text.codes), text.pool)
        else:
            made[column] = np.where(rows, np.int64(-(2**63)), _codes(table, column))
    return _with(table, name, made)
