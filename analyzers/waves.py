"""Waves: how often a launch fills the device, and what its unfilled last wave wastes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from profsuite.analyzers.kernels import SHORT_KERNEL_NS
from profsuite.analyzers.occupancy import Multiprocessor, tail_loss

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from profsuite.analyzers.device_costs import DeviceCosts
    from profsuite.trace.model import Trace


@dataclass(frozen=True)
class KernelWaves:
    """Waves of each compute kernel (the elements of ``DeviceCosts``), NaN where unknown; ``dur`` is in ns."""

    waves: NDArray[np.float64]
    dur: NDArray[np.int64]

    @property
    def lost(self) -> NDArray[np.float64]:
        """The time of each kernel of at least 10 µs that its unfilled last wave wastes, ns; 0 where unknown."""
        long = (self.dur >= SHORT_KERNEL_NS) & ~np.isnan(self.waves)
        return np.where(long, tail_loss(np.where(long, self.waves, 1.0)) * self.dur, 0.0)

    @property
    def lost_ns(self) -> int | None:
        """All such time, ns; null where it is known of no kernel."""
        return None if bool(np.isnan(self.waves).all()) else int(self.lost.sum())

    def mean(self, runs: NDArray[np.int64]) -> float | None:
        """Mean of the runs' waves weighted by time; null where one is unknown."""
        return self._weighted(self.waves, runs)

    def mean_loss_pct(self, runs: NDArray[np.int64]) -> float | None:
        """Mean share that the last wave wastes, weighted by time, in percent; null where one is unknown."""
        loss = self._weighted(tail_loss(self.waves), runs)
        return None if loss is None else 100 * loss

    def _weighted(self, values: NDArray[np.float64], runs: NDArray[np.int64]) -> float | None:
        chosen, weight = values[runs], self.dur[runs].astype(np.float64)
        if not len(chosen) or np.isnan(chosen).any():
            return None
        return float(np.average(chosen, weights=weight if weight.any() else None))


def kernel_waves(trace: Trace, work: DeviceCosts, device: Mapping[str, Any]) -> KernelWaves:
    """The waves of every compute kernel: blocks / (multiprocessors x blocks that one holds), see ``occupancy``."""
    multiprocessor = Multiprocessor.of(device)
    unknown = np.full(len(work.ids), np.nan)
    if multiprocessor is None or not len(work.ids):
        return KernelWaves(unknown, work.dur)
    row_of = np.full(trace.num_rows("slice"), -1, np.int64)
    row_of[trace.array("kernel", "slice_id")] = np.arange(trace.num_rows("kernel"))
    rows = row_of[work.ids]

    def column(name: str) -> NDArray[np.int64]:
        values: NDArray[np.int64] = trace.array("kernel", name, null=-1)[rows]
        return np.clip(values, -1, 2**31)

    grid, block = ([column(f"{what}_{axis}") for axis in "xyz"] for what in ("grid", "block"))
    waves = multiprocessor.waves(
        _volume(grid), _volume(block), column("registers_per_thread"), column("shared_memory_bytes")
    )
    return KernelWaves(waves, work.dur)


def _volume(axes: list[NDArray[np.int64]]) -> NDArray[np.int64]:
    """Product of the three sizes, -1 where one is unknown; past 2**62 it is cut off."""
    known = np.all([axis >= 0 for axis in axes], axis=0)
    volume = np.minimum(axes[0].astype(np.float64) * axes[1] * axes[2], 2.0**62).astype(np.int64)
    return np.where(known, volume, -1)
