"""Device work by the rows of a comparison: its time on each side, and the order in which rows are listed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from profsuite.analyzers.diff.change import Change, Changes
from profsuite.analyzers.diff.noise import sums

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from profsuite.analyzers.diff.matching import Rows
    from profsuite.analyzers.diff.ops import Sort
    from profsuite.analyzers.diff.pieces import Pieces
    from profsuite.analyzers.diff.sides import Side


class Rest(Struct, frozen=True, kw_only=True):
    """What the rows that are not listed sum to; ``num_rows`` is how many they are; ``host`` is null of device work."""

    num_rows: int
    device: Change
    host: Change | None


class Measured:
    """The pieces by row: their time on each side, their number, and the order of the rows."""

    def __init__(self, rows: Rows, pieces: Pieces, num_steps: tuple[int, int], top: int | None, sort: Sort) -> None:
        sides, self.runs = [], []
        for side, steps in zip((False, True), num_steps, strict=True):
            of = pieces.is_after == side
            sides.append(sums(rows.row[of], pieces.step[of], pieces.length[of], rows.size, steps))
            self.runs.append(np.bincount(rows.row[of & pieces.starts], minlength=rows.size))
        self.device = Changes(*sides)
        size = self.device.size
        key = {"increase": -size, "decrease": size}.get(sort, -np.abs(size))
        order = np.argsort(key, kind="stable")
        self.shown, hidden = order[:top], order[len(order) if top is None else top :]
        self.rest = Rest(num_rows=len(hidden), device=self.device.sum(hidden), host=None)


def names_of(before: Side, after: Side, pieces: Pieces) -> tuple[NDArray[np.int64], list[str]]:
    """The name of each piece as a code of both sides' words."""
    number: dict[str, int] = {}
    code = np.zeros(len(pieces.row), np.int64)
    for number_of_side, side in enumerate((before, after)):
        of = pieces.is_after == bool(number_of_side)
        own = side.trace.array("slice", "name")[pieces.row[of]]
        words, present = side.trace.words("slice", "name"), np.unique(own)
        common = np.zeros(len(words), np.int64)
        common[present] = [number.setdefault(words[c], len(number)) for c in present.tolist()]
        code[of] = common[own]
    return code, list(number)
