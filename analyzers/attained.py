"""What device time achieved, measured against the peaks of the device."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from profsuite.analyzers.base import Pct
from profsuite.analyzers.costs.registry import LARGEST, MATRIX_KINDS, Cost

if TYPE_CHECKING:
    from collections.abc import Sequence

    from profsuite.analyzers.costs.peaks import DevicePeaks

Bound = Literal["compute", "memory"]


class Attained(Struct, frozen=True, kw_only=True):
    """What some device time achieved; sums over all calls, null where it is not known.

    ``flops`` as ``torch.utils.flop_counter`` counts, ``needed_flops`` those that no kernel can leave out (less for
    causal attention; of generated kernels those that are known at least), ``num_bytes`` of all tensors, each once.
    ``intensity`` = needed FLOPs / bytes, null like the rate where ``flops`` is.  ``bound_ns`` is the least time that
    the peaks allow: max(needed FLOPs / peak, bytes / bandwidth), ``bound`` which of them that is, ``dtype`` the format
    of the peak.  ``pct_of_roofline`` = bound / device time; null where that is above 100, and ``beyond`` true: the
    data came from a cache, or the formula or the peak does not fit.
    """

    flops: int | None
    needed_flops: int | None
    num_bytes: int | None
    dtype: str | None
    flops_per_s: float | None
    bytes_per_s: float | None
    intensity: float | None
    bound: Bound | None
    bound_ns: float | None
    pct_of_roofline: Pct | None
    beyond: bool


def attained(cost: Cost, count: int, device_ns: int | None, dtype: str | None, peaks: DevicePeaks | None) -> Attained:
    """What ``count`` calls of one cost achieved in ``device_ns`` of device time.

    ``dtype`` is the format of a product, null for others: those compute on vector units, in fp32 (fp64 for such data).
    """
    flops, needed, moved = (
        None if each is None or each * count >= LARGEST else each * count
        for each in (cost.flops, cost.needed_flops, cost.num_bytes)
    )
    rated = dtype or ("fp64" if cost.dtype == "fp64" else "fp32")
    compute = None if peaks is None else peaks.compute(rated) if dtype is not None else peaks.vector(rated)
    bandwidth = peaks.bandwidth_bytes_per_s if peaks is not None else None
    compute_ns = None if needed is None or compute is None else 1e9 * needed / compute
    memory_ns = None if moved is None or bandwidth is None else 1e9 * moved / bandwidth
    # Without its bytes an op may be bound by them; unknown FLOPs of a product leave its bound open as well.
    bounded = memory_ns is not None and (compute_ns is not None or _memory_alone(cost, dtype))
    bound_ns = max(compute_ns or 0.0, memory_ns) if bounded and memory_ns is not None else None
    bound: Bound = "compute" if (compute_ns or 0.0) >= (memory_ns or 0.0) else "memory"
    return _measured(
        flops=flops,
        needed=needed,
        moved=moved,
        dtype=rated if flops is not None else None,
        bound=None if bound_ns is None else bound,
        bound_ns=bound_ns,
        device_ns=device_ns,
    )


def _memory_alone(cost: Cost, dtype: str | None) -> bool:
    """Whether bytes bound the time of an op whose FLOPs or their peak are unknown."""
    return cost.data_dependent or (dtype is None and cost.kind not in MATRIX_KINDS)


def summed(parts: Sequence[Attained], device_ns: int) -> Attained:
    """What several costs achieved together in ``device_ns``; their bounds add up, since the runs follow each other."""
    flops, needed, moved = (_all([getattr(p, key) for p in parts]) for key in ("flops", "needed_flops", "num_bytes"))
    bounds = [part.bound_ns for part in parts]
    bound_ns = None if None in bounds else sum(bound for bound in bounds if bound is not None)
    by_compute = sum(part.bound_ns or 0 for part in parts if part.bound == "compute")
    dtypes = {part.dtype for part in parts}
    return _measured(
        flops=flops,
        needed=needed,
        moved=moved,
        dtype=dtypes.pop() if len(dtypes) == 1 else None,
        bound=None if bound_ns is None else "compute" if by_compute > bound_ns / 2 else "memory",
        bound_ns=bound_ns,
        device_ns=device_ns,
    )


def _measured(
    *,
    flops: int | None,
    needed: int | None,
    moved: int | None,
    dtype: str | None,
    bound: Bound | None,
    bound_ns: float | None,
    device_ns: int | None,
) -> Attained:
    share = 100 * bound_ns / device_ns if bound_ns is not None and device_ns else None
    exact = flops is not None  # what is only known at least makes no rate
    return Attained(
        flops=flops,
        needed_flops=needed,
        num_bytes=moved,
        dtype=dtype,
        flops_per_s=1e9 * needed / device_ns if exact and needed is not None and device_ns else None,
        bytes_per_s=1e9 * moved / device_ns if moved is not None and device_ns else None,
        intensity=needed / moved if exact and needed is not None and moved else None,
        bound=bound,
        bound_ns=bound_ns,
        pct_of_roofline=share if share is not None and share <= 100 else None,
        beyond=share is not None and share > 100,
    )


def _all(values: list[int | None]) -> int | None:
    if None in values:
        return None
    total = sum(value for value in values if value is not None)
    return total if total < LARGEST else None
