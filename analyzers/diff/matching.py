"""Which things of one side are which of the other: by the finest key that both have, then by coarser ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from profsuite.analyzers.ranking import numbered

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from profsuite.analyzers.diff.change import Status


@dataclass(frozen=True)
class Rows:
    """The rows of a comparison: ``row`` of each thing; ``level`` of each row is the key that matched, -1 for none.

    ``example`` is, for each row, the first thing of it on each side, -1 where that side has none.
    """

    row: NDArray[np.int64]
    level: NDArray[np.int64]
    example: tuple[NDArray[np.int64], NDArray[np.int64]]

    @property
    def size(self) -> int:
        """How many rows there are."""
        return len(self.level)

    def status(self, row: int) -> Status:
        """Which sides have the row."""
        if self.example[0][row] < 0:
            return "added"
        return "removed" if self.example[1][row] < 0 else "both"


def match(keys: Sequence[NDArray[np.int64]], is_after: NDArray[np.bool_]) -> Rows:
    """Rows of n things by ``keys``, from the finest to the coarsest (int64[n] from -1, equal keys equal numbers).

    Things whose finest key both sides have are one row; of the rest those whose next key both sides (of the rest)
    have; what stays has rows of its own by the finest key.  Swapping the sides gives the same rows.
    """
    num_things = len(is_after)
    row = np.full(num_things, -1, np.int64)
    levels: list[NDArray[np.int64]] = []
    count = 0
    for level, key in enumerate((*keys, keys[0])):
        at = np.flatnonzero(row < 0)
        if not len(at):
            break
        group = numbered(key[at] + 1)
        if level < len(keys):
            size = int(group.max()) + 1
            sides = [np.bincount(group[is_after[at] == side], minlength=size) > 0 for side in (False, True)]
            both = (sides[0] & sides[1])[group]
            at, group = at[both], numbered(group[both])
        if len(at):
            row[at] = count + group
            found = int(group.max()) + 1
            levels.append(np.full(found, level if level < len(keys) else -1, np.int64))
            count += found
    examples = []
    for side in (False, True):
        example = np.full(count, -1, np.int64)
        of = np.flatnonzero(is_after == side)[::-1]
        example[row[of]] = of  # backwards: the first one is written last
        examples.append(example)
    return Rows(row, np.concatenate([np.zeros(0, np.int64), *levels]), (examples[0], examples[1]))


def combined(*codes: NDArray[np.int64]) -> NDArray[np.int64]:
    """One number for each combination of codes (from -1)."""
    key = numbered(codes[0] + 1)
    for code in codes[1:]:
        if len(code):
            key = numbered(key * (int(code.max()) + 2) + code + 1)
    return key
