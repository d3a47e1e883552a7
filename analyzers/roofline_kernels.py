"""Roofline of single kernels: of those whose FLOPs and bytes can be told from their op's."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import Struct

from profsuite.analyzers.attained import Attained, attained, summed
from profsuite.analyzers.base import Ns, Pct, pct
from profsuite.analyzers.costs.registry import MATRIX_KINDS
from profsuite.analyzers.matrix_units import format_used, uses_matrix_units
from profsuite.analyzers.ranking import sum_by_group

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from profsuite.analyzers.costs.peaks import DevicePeaks
    from profsuite.analyzers.device_costs import DeviceCosts
    from profsuite.analyzers.waves import KernelWaves
    from profsuite.trace.model import Trace


class RooflineKernel(Struct, frozen=True, kw_only=True):
    """All runs of one compute kernel, most time first.

    ``attained`` is null where a call that answers for a run has other kernels too, or has no known cost: then FLOPs and
    bytes can't be given to single kernels.  ``waves`` and ``tail_loss_pct`` are means weighted by time; null where the
    launch or the device is not described well enough.
    """

    name: str
    op: str | None
    count: int
    total_ns: Ns
    device_pct: Pct | None
    attained: Attained | None
    matrix_units: bool | None
    waves: float | None
    tail_loss_pct: Pct | None


def roofline_kernels(
    trace: Trace,
    work: DeviceCosts,
    device: Mapping[str, Any],
    peaks: DevicePeaks | None,
    waves: KernelWaves,
    top: int,
) -> tuple[RooflineKernel, ...]:
    """The ``top`` compute kernels by time, each with the costs of the calls that launched it alone."""
    if not len(work.ids):
        return ()
    words, name = trace.words("slice", "name"), trace.array("slice", "name")[work.ids].astype(np.int64)
    total = sum_by_group(name, work.dur, len(words))
    everything = int(work.dur.sum())
    pieces_of = np.bincount(work.owner[work.owner >= 0], minlength=len(work.costs.owner))
    rows = []
    for code in np.argsort(-total, kind="stable")[:top].tolist():
        runs = np.flatnonzero(name == code)
        if not len(runs):
            break
        owner = work.owner[runs]
        known = owner >= 0
        ops = Counter(work.costs.priced[p].name for p in work.costs.price[owner[known]].tolist())
        whole = bool(known.all()) and bool((pieces_of[owner] == 1).all())
        text = str(words[code])
        rows.append(
            RooflineKernel(
                name=text,
                op=ops.most_common(1)[0][0] if ops else None,
                count=len(runs),
                total_ns=int(total[code]),
                device_pct=pct(int(total[code]), everything),
                attained=_of_kernel(work, owner, int(total[code]), text, device, peaks) if whole else None,
                matrix_units=uses_matrix_units(text),
                waves=waves.mean(runs),
                tail_loss_pct=waves.mean_loss_pct(runs),
            )
        )
    return tuple(rows)


def _of_kernel(
    work: DeviceCosts,
    owner: NDArray[np.int64],
    total_ns: int,
    name: str,
    device: Mapping[str, Any],
    peaks: DevicePeaks | None,
) -> Attained:
    price, count = np.unique(work.costs.price[owner], return_counts=True)
    parts = []
    for each, number in zip(price.tolist(), count.tolist(), strict=True):
        cost = work.costs.priced[each].cost
        dtype = format_used(device, cost.dtype, [name]) if cost.kind in MATRIX_KINDS else None
        parts.append(attained(cost, number, None, dtype, peaks))
    return summed(parts, total_ns)
