"""One quantity before and after: totals, per step, and whether the change is more than noise."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import numpy as np
from msgspec import Struct

from profsuite.analyzers.base import Ns
from profsuite.analyzers.diff.noise import Sums, noise_ns, per_step

if TYPE_CHECKING:
    from numpy.typing import NDArray

Judgement = Literal["more", "less", "same", "noise", "unknown"]
Status = Literal["both", "added", "removed"]


class Change(Struct, frozen=True, kw_only=True):
    """A time before and after; ``change`` is after - before.

    ``before_ns`` and ``after_ns`` are totals over each side's steps, exact: parts add up in them, and a value per
    step is its total divided by the side's number of steps.  ``noise_ms_per_step`` is half the width of Welch's 95 %
    interval, null with one step on a side.  ``judgement``: ``same`` without any change, ``noise`` within it,
    ``more`` or ``less`` beyond it, ``unknown`` where the noise is.  ``change_pct`` is of before, null of nothing.
    """

    before_ns: Ns
    after_ns: Ns
    before_ms_per_step: float
    after_ms_per_step: float
    change_ms_per_step: float
    change_pct: float | None
    noise_ms_per_step: float | None
    judgement: Judgement


@dataclass(frozen=True)
class Changes:
    """A quantity of n rows before and after."""

    before: Sums
    after: Sums

    @cached_property
    def noise(self) -> NDArray[np.float64] | None:
        """Half the width of each row's interval, ns per step; null with one step on a side."""
        return noise_ns(self.before, self.after)

    @property
    def size(self) -> NDArray[np.float64]:
        """Each row's change, ns per step: for sorting."""
        difference: NDArray[np.float64] = (
            self.after.total / self.after.num_steps - self.before.total / self.before.num_steps
        )
        return difference

    def __getitem__(self, row: int) -> Change:
        noise = None if self.noise is None else float(self.noise[row])
        return self._change(int(self.before.total[row]), int(self.after.total[row]), noise)

    def sum(self, rows: NDArray[np.int64]) -> Change:
        """The change of some rows together; its noise is not known, for they vary together."""
        return self._change(int(self.before.total[rows].sum()), int(self.after.total[rows].sum()), None)

    def _change(self, before: int, after: int, noise: float | None) -> Change:
        return change(before, self.before.num_steps, after, self.after.num_steps, noise)


def change(before: int, steps_before: int, after: int, steps_after: int, noise: float | None) -> Change:
    """From totals (ns) and numbers of steps; ``noise`` in ns per step."""
    # One exact difference, rounded once: that of the swapped sides is its negative.
    difference = after * steps_before - before * steps_after
    scale = steps_before * steps_after * 1_000_000
    judgement: Judgement
    if difference == 0:
        judgement = "same"
    elif noise is None:
        judgement = "unknown"
    elif abs(difference) / (steps_before * steps_after) <= noise:
        judgement = "noise"
    else:
        judgement = "more" if difference > 0 else "less"
    return Change(
        before_ns=before,
        after_ns=after,
        before_ms_per_step=before / (steps_before * 1_000_000),
        after_ms_per_step=after / (steps_after * 1_000_000),
        change_ms_per_step=difference / scale,
        change_pct=100 * difference / (before * steps_after) if before else None,
        noise_ms_per_step=None if noise is None else noise / 1e6,
        judgement=judgement,
    )


def change_of(before: NDArray[np.int64], after: NDArray[np.int64]) -> Change:
    """From the value in each step of each side, ns."""
    return Changes(per_step(before), per_step(after))[0]
