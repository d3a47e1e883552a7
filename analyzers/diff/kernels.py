"""Kernels, copies and fills before and after, matched through the op that launched them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np
from msgspec import Struct

from profsuite.analyzers.diff.change import Change, Status
from profsuite.analyzers.diff.matching import Rows, combined, match
from profsuite.analyzers.diff.measured import Measured, Rest, names_of
from profsuite.trace.classes import WORK_KINDS, WorkKind

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from profsuite.analyzers.diff.calls import Calls
    from profsuite.analyzers.diff.ops import Sort
    from profsuite.analyzers.diff.pieces import Pieces
    from profsuite.analyzers.diff.sides import Side


class KernelChange(Struct, frozen=True, kw_only=True):
    """Device work of one op: one kernel by its name, or, where the sides' names differ, what has no namesake.

    ``matched_by`` is ``name`` (op and kernel) or ``op``; null where only one side has it.  ``name_before`` and
    ``name_after`` are the one that takes most time on each side, ``num_names_before`` and ``num_names_after`` how many
    there are.  ``op`` is null for work without a recorded op.  Runs are counted over each side's steps.
    """

    op: str | None
    kind: WorkKind
    name_before: str | None
    name_after: str | None
    num_names_before: int
    num_names_after: int
    matched_by: Literal["name", "op"] | None
    status: Status
    runs_before: int
    runs_after: int
    device: Change


class KernelDiff(Struct, frozen=True, kw_only=True):
    """Device work sorted by its change; rows and ``rest`` (what is beyond ``top``) sum to all device work."""

    num_rows: int
    rows: tuple[KernelChange, ...]
    rest: Rest


def kernel_diff(
    before: Side, after: Side, calls: Calls, pieces: Pieces, top: int | None = None, sort: Sort = "change"
) -> KernelDiff:
    """What changed of the kernels, copies and fills."""
    name, words = names_of(before, after, pieces)
    op = np.where(pieces.call >= 0, calls.name[pieces.call] if len(calls.name) else -1, -1)
    by_op = combined(op, pieces.kind)
    rows = match((combined(by_op, name), by_op), pieces.is_after)
    measured = Measured(rows, pieces, (before.num_steps, after.num_steps), top, sort)
    names = [_names_by_row(rows, pieces, name, side) for side in (False, True)]
    found = []
    for row in measured.shown.tolist():
        example = int(max(rows.example[0][row], rows.example[1][row]))
        (old, num_old), (new, num_new) = (of.get(row, (-1, 0)) for of in names)
        level = int(rows.level[row])
        found.append(
            KernelChange(
                op=calls.words[op[example]] if op[example] >= 0 else None,
                kind=WORK_KINDS[int(pieces.kind[example])],
                name_before=words[old] if num_old else None,
                name_after=words[new] if num_new else None,
                num_names_before=num_old,
                num_names_after=num_new,
                matched_by=("name", "op")[level] if level >= 0 else None,
                status=rows.status(row),
                runs_before=int(measured.runs[0][row]),
                runs_after=int(measured.runs[1][row]),
                device=measured.device[row],
            )
        )
    return KernelDiff(num_rows=rows.size, rows=tuple(found), rest=measured.rest)


def _names_by_row(rows: Rows, pieces: Pieces, name: NDArray[np.int64], side: bool) -> dict[int, tuple[int, int]]:
    """For each row that one side has: the name of most time, and how many names there are."""
    of = np.flatnonzero(pieces.is_after == side)
    width = int(name.max()) + 1 if len(name) else 1
    key, number = np.unique(rows.row[of] * width + name[of], return_inverse=True)
    time = np.bincount(number, weights=pieces.length[of], minlength=len(key))
    row = key // width
    order = np.lexsort((-time, row))
    first = np.flatnonzero(np.append(True, row[order][1:] != row[order][:-1])[: len(order)])
    columns = (row[order][first], (key % width)[order][first], np.diff(np.append(first, len(order))))
    return {r: (n, c) for r, n, c in zip(*(column.tolist() for column in columns), strict=True)}
