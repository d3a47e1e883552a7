"""How many blocks of a kernel a multiprocessor holds at once, and how much of a launch its last wave wastes.

The rules are those of NVIDIA's occupancy calculator (CUDA C++ Programming Guide, "Technical Specifications per Compute
Capability"): threads, registers (allotted to warps in units of 256, to four warps at a time), shared memory (in units
of 128 bytes from 8.0 on, 256 before, and 1 KB a block for the system from 8.0 on), and blocks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

BLOCKS_PER_SM = {
    (6, 0): 32,
    (6, 1): 32,
    (6, 2): 32,
    (7, 0): 32,
    (7, 2): 32,
    (7, 5): 16,
    (8, 0): 32,
    (8, 6): 16,
    (8, 7): 16,
    (8, 9): 24,
    (9, 0): 32,
    (10, 0): 32,
    (10, 3): 32,
    (12, 0): 24,
}
"""Blocks that a multiprocessor holds at most, by compute capability."""

WARP, WARPS_AT_A_TIME, REGISTERS_AT_A_TIME = 32, 4, 256


@dataclass(frozen=True, slots=True)
class Multiprocessor:
    """The limits of one multiprocessor of a device, and how many there are."""

    count: int
    max_threads: int
    max_blocks: int
    registers: int
    shared_memory: int
    shared_unit: int
    shared_reserved: int

    @classmethod
    def of(cls, device: Mapping[str, Any]) -> Multiprocessor | None:
        """From a device as the header of a trace describes it; null where that says too little, and for AMD's."""
        keys = ("numSms", "maxThreadsPerMultiprocessor", "regsPerMultiprocessor", "sharedMemPerMultiprocessor")
        values = [device.get(key) for key in (*keys, "computeMajor", "computeMinor", "warpSize")]
        if not all(type(value) is int and value >= 0 for value in values):
            return None
        count, threads, registers, shared, major, minor, warp = (int(value or 0) for value in values)
        blocks = BLOCKS_PER_SM.get((major, minor))
        if blocks is None or warp != WARP or not count or not threads or not registers or not shared:
            return None
        newer = major >= 8
        return cls(count, threads, blocks, registers, shared, 128 if newer else 256, 1024 if newer else 0)

    def resident_blocks(
        self, threads: NDArray[np.int64], registers: NDArray[np.int64], shared: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Blocks that fit at once, for n launches; 0 where not even one does (what was recorded cannot be)."""
        warps = np.maximum(-(-threads // WARP), 1)
        by_threads = (self.max_threads // WARP) // warps
        per_warp = np.maximum(-(-registers * WARP // REGISTERS_AT_A_TIME) * REGISTERS_AT_A_TIME, 1)
        fitting = self.registers // per_warp // WARPS_AT_A_TIME * WARPS_AT_A_TIME
        by_registers = np.where(registers > 0, fitting // warps, self.max_blocks)
        per_block = -(-(shared + self.shared_reserved) // self.shared_unit) * self.shared_unit
        by_shared = np.where(per_block > 0, self.shared_memory // np.maximum(per_block, 1), self.max_blocks)
        fitting_all = np.minimum(np.minimum(by_threads, by_registers), np.minimum(by_shared, self.max_blocks))
        return cast("NDArray[np.int64]", fitting_all)

    def waves(
        self,
        blocks: NDArray[np.int64],
        threads: NDArray[np.int64],
        registers: NDArray[np.int64],
        shared: NDArray[np.int64],
    ) -> NDArray[np.float64]:
        """Waves of n launches: blocks / (multiprocessors x blocks that fit one); NaN where unknown (input below 0)."""
        known = (blocks > 0) & (threads > 0) & (registers >= 0) & (shared >= 0)
        resident = np.where(known, self.resident_blocks(*(np.maximum(v, 0) for v in (threads, registers, shared))), 0)
        slots = (self.count * resident).astype(np.float64)
        waves = np.divide(blocks, slots, out=np.full(len(blocks), np.nan), where=slots > 0)
        return cast("NDArray[np.float64]", waves)


def tail_loss(waves: NDArray[np.float64]) -> NDArray[np.float64]:
    """The share of the device that stands still because the last wave is not full: 1 - waves / ceil(waves)."""
    return 1.0 - waves / np.ceil(waves)
