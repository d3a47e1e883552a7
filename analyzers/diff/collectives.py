"""Communication on the devices before and after, by collective, size, type and group."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np
from msgspec import Struct

from profsuite.analyzers.device_work import COMM
from profsuite.analyzers.diff.change import Change, Status
from profsuite.analyzers.diff.matching import combined, match
from profsuite.analyzers.diff.measured import Measured, Rest, names_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from profsuite.analyzers.diff.ops import Sort
    from profsuite.analyzers.diff.pieces import Pieces
    from profsuite.analyzers.diff.sides import Side


class CollectiveChange(Struct, frozen=True, kw_only=True):
    """Communication of one kind: a collective of one size, type and group, or a kernel where nothing more is recorded.

    ``matched_by`` is ``size`` (all of these) or ``name``; null where only one side has it.  Null elements, type or
    group size were not recorded, or differ between the sides.
    """

    name: str
    num_elements: int | None
    dtype: str | None
    group_size: int | None
    matched_by: Literal["size", "name"] | None
    status: Status
    runs_before: int
    runs_after: int
    device: Change


class CollectiveDiff(Struct, frozen=True, kw_only=True):
    """Communication on the devices, sorted by its change; the rows and ``rest`` sum to all of it."""

    num_rows: int
    rows: tuple[CollectiveChange, ...]
    rest: Rest


def collective_diff(
    before: Side, after: Side, pieces: Pieces, top: int | None = None, sort: Sort = "change"
) -> CollectiveDiff:
    """What changed of the communication on the devices."""
    comm = pieces.where(pieces.kind == COMM)
    kernel, words = names_of(before, after, comm)
    facts, texts = _collectives(before, after, comm)
    named = facts["name"] >= 0
    # Kernels without a collective's arguments go by their own name.
    name = np.where(named, facts["name"], kernel + len(texts))
    size = combined(name, facts["num_elements"], facts["dtype"], facts["group_size"])
    rows = match((size, name), comm.is_after)
    measured = Measured(rows, comm, (before.num_steps, after.num_steps), top, sort)
    found = []
    for row in measured.shown.tolist():
        examples = [int(of[row]) for of in rows.example if of[row] >= 0]
        here = {key: {int(values[i]) for i in examples} for key, values in facts.items()}
        one = {key: values.pop() if len(values) == 1 else -1 for key, values in here.items()}
        level, first = int(rows.level[row]), examples[0]
        if level > 0:
            one |= {"num_elements": -1, "dtype": -1, "group_size": -1}
        found.append(
            CollectiveChange(
                name=texts[name[first]] if named[first] else words[kernel[first]],
                num_elements=one["num_elements"] if one["num_elements"] >= 0 else None,
                dtype=texts[one["dtype"]] if one["dtype"] >= 0 else None,
                group_size=one["group_size"] if one["group_size"] >= 0 else None,
                matched_by=("size", "name")[level] if level >= 0 else None,
                status=rows.status(row),
                runs_before=int(measured.runs[0][row]),
                runs_after=int(measured.runs[1][row]),
                device=measured.device[row],
            )
        )
    return CollectiveDiff(num_rows=rows.size, rows=tuple(found), rest=measured.rest)


def _collectives(before: Side, after: Side, pieces: Pieces) -> tuple[dict[str, NDArray[np.int64]], list[str]]:
    """What is recorded of each communication piece: its own arguments, else those of the op that launched it."""
    number: dict[str, int] = {}
    facts = {key: np.full(len(pieces.row), -1, np.int64) for key in ("name", "num_elements", "dtype", "group_size")}
    columns = {"num_elements": "in_nelems", "group_size": "group_size"}
    for number_of_side, side in enumerate((before, after)):
        of = np.flatnonzero(pieces.is_after == bool(number_of_side))
        trace = side.trace
        entry = np.full(trace.num_rows("slice") + 1, -1, np.int64)
        entry[trace.array("collective", "slice_id")] = np.arange(trace.num_rows("collective"))
        op = np.full(trace.num_rows("slice") + 1, -1, np.int64)
        op[trace.array("kernel", "slice_id")] = trace.array("kernel", "op_id")
        own = entry[pieces.row[of]]
        at = np.where(own >= 0, own, entry[op[pieces.row[of]]])
        of, at = of[at >= 0], at[at >= 0]
        for key, column in columns.items():
            facts[key][of] = np.maximum(trace.array("collective", column, null=-1)[at], -1)
        for key, column in (("name", "collective_name"), ("dtype", "dtype")):
            words = trace.words("collective", column)
            common = np.array([*(number.setdefault(word, len(number)) for word in words), -1], np.int64)
            facts[key][of] = common[trace.array("collective", column)[at]]
    return facts, list(number)
