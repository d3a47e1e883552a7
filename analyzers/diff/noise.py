"""How much a mean over steps may differ by chance: Welch's interval, without anything beyond numpy."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from math import atan, cos, pi, sin, sqrt, tan
from typing import TYPE_CHECKING

import numpy as np

from profsuite.analyzers.ranking import sum_by_group

if TYPE_CHECKING:
    from numpy.typing import NDArray

CONFIDENCE = 0.95
"""Of the interval; of a hundred quantities that did not change, about five lie outside of theirs."""

LARGEST_DF = 200
"""From here on Student's t is within 0.6 % of the normal distribution; larger degrees of freedom count as this."""


@dataclass(frozen=True)
class Sums:
    """One quantity of each of n rows over the steps: ``total`` (ns, exact) and ``spread``.

    ``spread`` is the sum over the steps of the squared deviation of the step's own sum from their mean, ns².
    """

    total: NDArray[np.int64]
    spread: NDArray[np.float64]
    num_steps: int


def sums(row: NDArray[np.int64], step: NDArray[np.int64], value: NDArray[np.int64], rows: int, steps: int) -> Sums:
    """``value`` (ns) summed by row and step; a row has 0 in a step that has nothing of it."""
    cell = row * steps + step
    if rows * steps <= 4 * len(cell) + 65536:
        by_cell = sum_by_group(cell, value, rows * steps)
        used = np.flatnonzero(by_cell)
        of, by_cell = used // steps, by_cell[used]
    else:  # sparse: most rows are in few of the steps
        used, number = np.unique(cell, return_inverse=True)
        of, by_cell = used // steps, sum_by_group(number, value, len(used))
    total = sum_by_group(of, by_cell, rows)
    mean = total / steps
    off = (by_cell - mean[of]) ** 2
    absent = steps - np.bincount(of, minlength=rows)
    return Sums(total, np.bincount(of, weights=off, minlength=rows) + absent * mean**2, steps)


def per_step(values: NDArray[np.int64]) -> Sums:
    """The sums of a single row from its value in each step."""
    steps = np.arange(len(values))
    return sums(np.zeros(len(values), np.int64), steps, values, 1, len(values))


def noise_ns(before: Sums, after: Sums) -> NDArray[np.float64] | None:
    """Half the width of each row's 95 % interval for the change of its mean per step, ns; null with one step on a side.

    Welch's unequal-variances interval (B. L. Welch, Biometrika 34, 1947): t(0.975, df) sqrt(s²/n + s'²/n'), with
    df = (s²/n + s'²/n')² / ((s²/n)²/(n - 1) + (s'²/n')²/(n' - 1)), rounded down.  Takes the steps for independent.
    """
    if before.num_steps < 2 or after.num_steps < 2:
        return None
    of_means = [side.spread / (side.num_steps - 1) / side.num_steps for side in (before, after)]
    variance = of_means[0] + of_means[1]
    weight = sum(v * (v / (side.num_steps - 1)) for v, side in zip(of_means, (before, after), strict=True))
    df = np.ones(len(variance))
    np.divide(variance * variance, weight, out=df, where=weight > 0)
    # The largest df is n + n' - 2: rounding may leave it just below.
    whole = np.clip(np.floor(df + 1e-6), 1, LARGEST_DF).astype(np.int64)
    distinct, which = np.unique(whole, return_inverse=True)
    quantile = np.array([t_quantile(n) for n in distinct.tolist()])
    result: NDArray[np.float64] = quantile[which] * np.sqrt(variance)
    return result


@cache
def t_quantile(df: int) -> float:
    """t such that Student's distribution of ``df`` (whole, from 1) has 95 % between -t and t."""
    low, high = 0.0, pi / 2
    for _ in range(60):
        middle = (low + high) / 2
        if _between(middle, df) < CONFIDENCE:
            low = middle
        else:
            high = middle
    return sqrt(df) * tan((low + high) / 2)


def _between(angle: float, df: int) -> float:
    """The probability between -t and t, t = sqrt(df) tan(angle): Abramowitz and Stegun 26.7.3 and 26.7.4."""
    squared = cos(angle) ** 2
    odd = df % 2
    term = cos(angle) if odd else 1.0
    series = 0.0
    for k in range(1 + odd, df, 2):
        series += term
        term *= k / (k + 1) * squared
    if odd:
        return 2 / pi * (angle + sin(angle) * series)
    return sin(angle) * series


def t_probability(t: float, df: int) -> float:
    """The probability that |T| of Student's distribution with ``df`` is below ``t``."""
    return _between(atan(t / sqrt(df)), df)
