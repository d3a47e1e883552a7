"""CUPTI's clock against the system's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Anchor:
    """One moment on both clocks: ns since the epoch, CUPTI's ns, and how wide the reading was (ns)."""

    system: int
    cupti: int
    width: int


class Clock:
    """The map from CUPTI's clock to ns since the epoch, through ``anchors``.

    Between two anchors the clocks are taken to run evenly, so drift is corrected; before the first and after the
    last the nearest offset counts.  ``ValueError`` without anchors.
    """

    def __init__(self, anchors: Sequence[Anchor]) -> None:
        if not anchors:
            raise ValueError("a clock needs at least one anchor")
        ordered = sorted(anchors, key=lambda a: a.cupti)
        self._cupti = ordered[0].cupti
        self._system = ordered[0].system
        # Relative to the first anchor, so that float64 holds them exactly (up to 104 days).
        self._at = np.array([a.cupti - self._cupti for a in ordered], np.float64)
        self._lead = np.array(
            [(a.system - self._system) - (a.cupti - self._cupti) for a in ordered],
            np.float64,
        )
        self.width_ns = max(a.width for a in ordered)

    @property
    def drift_ppm(self) -> float | None:
        """How much faster the system's clock ran, in parts per million; None with one anchor."""
        span = self._at[-1]
        return float(self._lead[-1] / span * 1e6) if span > 0 else None

    def to_epoch(self, ticks: NDArray[np.uint64]) -> NDArray[np.int64]:
        """CUPTI's times as int64 ns since the epoch."""
        passed = ticks.astype(np.int64)
        passed -= self._cupti
        if len(self._at) == 1 or not self._lead.any():
            lead: NDArray[np.int64] | int = 0
        else:
            lead = np.rint(np.interp(passed, self._at, self._lead)).astype(np.int64)
        passed += self._system
        passed += lead
        return passed
