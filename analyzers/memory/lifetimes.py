"""How long allocations live, by category."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from profsuite.analyzers.memory.model import CATEGORIES, CategoryLifetime

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Int64s = NDArray[np.int64]


def lifetimes(
    codes: NDArray[np.int8], num_bytes: Int64s, duration_ns: Int64s, ended: NDArray[np.bool_]
) -> tuple[CategoryLifetime, ...]:
    """One row a category that occurs, the one with most bytes first.

    ``duration_ns`` counts where ``ended``: where both the allocation and the free were recorded.
    """
    found = []
    for code, category in enumerate(CATEGORIES):
        own = codes == code
        if not own.any():
            continue
        durations = duration_ns[own & ended]
        found.append(
            CategoryLifetime(
                category=category,
                count=int(own.sum()),
                bytes=int(num_bytes[own].sum()),
                num_ended=len(durations),
                median_ns=int(np.median(durations)) if len(durations) else None,
                max_ns=int(durations.max()) if len(durations) else None,
            )
        )
    return tuple(sorted(found, key=lambda row: -row.bytes))
