"""How long a message takes by its size: a latency and a bandwidth, fitted to the shortest times of each size."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

if TYPE_CHECKING:
    from numpy.typing import NDArray

LEAST_SPREAD = 4.0
"""The largest size must be so many times the smallest one for a fit to mean something."""


class TransferModel(Struct, frozen=True, kw_only=True):
    """time = latency + bytes / bandwidth; ``bytes_at_90_pct`` is the size that reaches 90 % of the bandwidth.

    ``error_pct`` is the median deviation of the fitted from the measured times.
    """

    latency_ns: float
    bandwidth_gb_per_s: float
    bytes_at_90_pct: int
    num_sizes: int
    error_pct: float


def transfer_model(num_bytes: NDArray[np.int64], dur: NDArray[np.int64]) -> TransferModel | None:
    """Fit of ``dur`` (ns) over ``num_bytes``; null where the sizes are too alike or the times do not rise with them.

    Of each size the shortest time counts: the others waited for something.  Least squares of the relative errors, so
    that small messages weigh as much as large ones.
    """
    known = (num_bytes > 0) & (dur > 0)
    sizes, index = np.unique(num_bytes[known], return_inverse=True)
    if len(sizes) < 2 or sizes[-1] < LEAST_SPREAD * sizes[0]:
        return None
    shortest = np.full(len(sizes), np.iinfo(np.int64).max, np.int64)
    np.minimum.at(shortest, index, dur[known])
    time = shortest.astype(np.float64)
    columns = np.stack((np.ones(len(sizes)), sizes.astype(np.float64)), axis=1) / time[:, None]
    (latency, per_byte), *_ = np.linalg.lstsq(columns, np.ones(len(sizes)), rcond=None)
    if latency <= 0 or per_byte <= 0:
        return None
    error = np.median(np.abs(latency + per_byte * sizes - time) / time)
    return TransferModel(
        latency_ns=float(latency),
        bandwidth_gb_per_s=float(1 / per_byte),  # bytes a ns
        bytes_at_90_pct=int(np.ceil(9 * latency / per_byte)),
        num_sizes=len(sizes),
        error_pct=float(100 * error),
    )
