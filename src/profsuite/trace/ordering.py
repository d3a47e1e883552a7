"""Rows in the order of two columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


def sorted_by(first: NDArray[Any], then: NDArray[Any]) -> NDArray[np.intp]:
    """The rows of two integer columns in the order of ``first``, then of ``then``; equal ones stay in order.

    As ``np.lexsort((then, first))``, and faster where both values fit one int64: columns here consist of sorted runs,
    which one stable sort merges.
    """
    if not len(first):
        return np.zeros(0, np.intp)
    lowest, low = int(first.min()), int(then.min())
    bits = (int(then.max()) - low).bit_length()
    if (int(first.max()) - lowest).bit_length() + bits > 63:
        return np.lexsort((then, first))
    key = first - np.int64(lowest)
    key <<= bits
    key |= then.astype(np.int64) - low
    return np.argsort(key, kind="stable")
