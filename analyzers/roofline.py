"""Roofline: how near ops and kernels come to what the device's arithmetic and memory allow."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from msgspec import Struct

from profsuite.analyzers.attained import Attained, attained
from profsuite.analyzers.base import Ns, Pct, pct
from profsuite.analyzers.costs.peaks import DevicePeaks
from profsuite.analyzers.costs.registry import LARGEST, MATRIX_KINDS
from profsuite.analyzers.kernel_families import family
from profsuite.analyzers.kernels import SHORT_KERNEL_NS
from profsuite.analyzers.matrix_units import format_used, takes, uses_matrix_units
from profsuite.analyzers.ranking import sum_by_group
from profsuite.analyzers.roofline_kernels import RooflineKernel, roofline_kernels
from profsuite.analyzers.waves import KernelWaves

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from profsuite.analyzers.device_costs import DeviceCosts
    from profsuite.trace.model import Trace

Direction = Literal["forward", "backward"]

UNPRICED_PCT = 1.0
"""Share of kernel time in products without a known cost, beyond which their utilisation is not given."""

PRODUCT_FAMILIES = ("matrix multiplications", "convolutions", "attention")
"""Families of kernels (``kernel_families``) that are products."""


class RooflineOp(Struct, frozen=True, kw_only=True):
    """All calls of one op with one set of shapes, in one direction.

    ``device_ns`` is the union of the compute kernels that the calls answer for, ``device_pct`` its share of all compute
    kernels' union; both null in a recording without device work.  ``count`` counts the calls whose kernels were
    recorded.  ``matrix_units``: whether most of the kernels' time ran on them, null where names do not tell, or the op
    is no product; ``could_use`` is the format in which they would take the operands.
    """

    name: str
    input_dims: str
    input_types: str
    direction: Direction
    kind: str
    count: int
    num_kernels: int
    device_ns: Ns | None
    device_pct: Pct | None
    attained: Attained
    matrix_units: bool | None
    could_use: str | None
    main_kernel: str | None
    longest_slice_id: int | None


class Roofline(Struct, frozen=True, kw_only=True):
    """What the kernels achieved, of what the device can do.

    ``peaks`` is null for a device that is not in the table and for which none were given.  ``coverage_pct`` is the
    share of all compute kernels' time whose op has a known bound, ``priced_pct`` of those whose op has any known cost.
    ``flops`` sums the products (of matrices, convolutions, attention) of all calls, by direction; ``flops_per_step``
    is their mean over the complete steps.  ``unpriced_products_pct`` is the share of kernel time in kernels that by
    their names are products and whose cost is unknown.  ``mfu_pct``: the time that the FLOPs would take at their
    formats' peaks, as a share of the window; null without peaks, and where more than 1 % of kernel time is in such
    kernels.  ``launch_bound_pct`` is the share of kernel time in kernels below 10
    µs, ``tail_loss_ns`` the time that unfilled last waves waste in longer ones (null where unknown).
    """

    device: str | None
    peaks: DevicePeaks | None
    device_ns: Ns
    coverage_pct: Pct | None
    priced_pct: Pct | None
    flops: int | None
    forward_flops: int | None
    backward_flops: int | None
    flops_per_step: float | None
    mfu_pct: Pct | None
    unpriced_products_pct: Pct | None
    launch_bound_pct: Pct | None
    tail_loss_ns: Ns | None
    matrix_units_pct: Pct | None
    num_ops: int
    ops: tuple[RooflineOp, ...]
    kernels: tuple[RooflineKernel, ...]
    note: str | None


def roofline(
    trace: Trace,
    work: DeviceCosts,
    everything: list[RooflineOp],
    waves: KernelWaves,
    device: Mapping[str, Any],
    peaks: DevicePeaks | None,
    window_ns: int,
    top: int = 10,
) -> Roofline:
    """The roofline of a trace: the ``top`` ops and kernels; definitions: docs/analyses.md, "Roofline".

    ``everything`` is of ``roofline_ops``, ``waves`` of ``kernel_waves``; ``device`` describes the main device (a row
    of the file's header), ``window_ns`` sums the windows of all devices.
    """
    products = [op for op in everything if op.kind in MATRIX_KINDS]
    unpriced = _unpriced(trace, work)
    flops = _sum(products)
    known = np.array([op.attained.bound_ns is not None for op in everything], bool)
    on_units = [op for op in products if op.device_ns]
    return Roofline(
        device=name if isinstance(name := device.get("name"), str) and name else None,
        peaks=peaks,
        device_ns=work.total_ns,
        coverage_pct=_covered(work, known),
        priced_pct=_covered(work, np.ones(len(everything), bool)),
        flops=flops,
        forward_flops=_sum([op for op in products if op.direction == "forward"]),
        backward_flops=_sum([op for op in products if op.direction == "backward"]),
        flops_per_step=_per_step(trace, work),
        mfu_pct=_utilisation(products, peaks, window_ns) if unpriced is not None and unpriced <= UNPRICED_PCT else None,
        unpriced_products_pct=unpriced,
        launch_bound_pct=pct(int(work.dur[work.dur < SHORT_KERNEL_NS].sum()), int(work.dur.sum())),
        tail_loss_ns=waves.lost_ns,
        matrix_units_pct=_on_matrix_units(on_units),
        num_ops=len(everything),
        ops=tuple(sorted(everything, key=_weight)[:top]),
        kernels=roofline_kernels(trace, work, device, peaks, waves, top),
        note=_note(trace, work, everything, peaks, device),
    )


def roofline_ops(
    trace: Trace, work: DeviceCosts, device: Mapping[str, Any], peaks: DevicePeaks | None
) -> list[RooflineOp]:
    """Every op with a known cost, by shapes and direction, in the order of ``work.groups``."""
    costs = work.costs
    group, example = work.groups
    size = len(example)
    counts = np.bincount(group, minlength=size)
    of_call = np.full(len(costs.owner), -1, np.int64)
    of_call[work.counted] = group
    piece = np.flatnonzero(work.owner >= 0)
    of_piece = of_call[work.owner[piece]]
    time = work.union(of_piece, piece, size)
    pieces = np.bincount(of_piece, minlength=size)
    shares = _kernel_names(trace, work, piece, of_piece, size)
    longest = _longest(work, piece, of_piece, size)
    rows = []
    for number, call in enumerate(example.tolist()):
        priced = costs.priced[int(costs.price[call])]
        names = [name for name, _ in shares[number]]
        product = priced.cost.kind in MATRIX_KINDS
        dtype = format_used(device, priced.cost.dtype, names) if product else None
        spent = int(time[number]) if pieces[number] else None
        rows.append(
            RooflineOp(
                name=priced.name,
                input_dims=priced.input_dims,
                input_types=priced.input_types,
                direction="backward" if costs.backward[call] else "forward",
                kind=priced.cost.kind,
                count=int(counts[number]),
                num_kernels=int(pieces[number]),
                device_ns=spent,
                device_pct=None if spent is None else pct(spent, work.total_ns),
                attained=attained(priced.cost, int(counts[number]), spent, dtype, peaks),
                matrix_units=_mostly(shares[number]) if product else None,
                could_use=takes(device, priced.cost.dtype) if product else None,
                main_kernel=names[0] if names else None,
                longest_slice_id=int(longest[number]) if pieces[number] else None,
            )
        )
    return rows


def _kernel_names(
    trace: Trace, work: DeviceCosts, piece: NDArray[np.int64], group: NDArray[np.int64], size: int
) -> list[list[tuple[str, int]]]:
    """The kernels' names of each group with their time, most time first."""
    words = trace.words("slice", "name")
    name = trace.array("slice", "name")[work.ids[piece]].astype(np.int64)
    shares: list[list[tuple[str, int]]] = [[] for _ in range(size)]
    if len(piece):
        key = group * len(words) + name
        distinct, number = np.unique(key, return_inverse=True)
        total = sum_by_group(number, work.dur[piece], len(distinct))
        for pair, ns in zip(distinct.tolist(), total.tolist(), strict=True):
            shares[pair // len(words)].append((str(words[pair % len(words)]), ns))
    return [sorted(each, key=lambda entry: -entry[1]) for each in shares]


def _longest(work: DeviceCosts, piece: NDArray[np.int64], group: NDArray[np.int64], size: int) -> NDArray[np.int64]:
    longest = np.full(size, -1, np.int64)
    order = np.argsort(work.dur[piece], kind="stable")
    longest[group[order]] = work.ids[piece[order]]  # the last assignment stays
    return longest


def _mostly(shares: list[tuple[str, int]]) -> bool | None:
    """Whether most of the time ran on matrix units; kernels whose name does not tell decide nothing."""
    time: Counter[bool] = Counter()
    for name, ns in shares:
        used = uses_matrix_units(name)
        if used is not None:
            time[used] += ns
    return None if not time else time[True] >= time[False]


def _sum(ops: list[RooflineOp]) -> int | None:
    known = [op.attained.flops for op in ops if op.attained.flops is not None]
    return total if known and (total := sum(known)) < LARGEST else None


def _covered(work: DeviceCosts, wanted: NDArray[np.bool_]) -> float | None:
    group, _ = work.groups
    of_call = np.full(len(work.costs.owner) + 1, -1, np.int64)
    of_call[work.counted] = group
    number = of_call[work.owner]
    flags = np.append(wanted, False)
    piece = np.flatnonzero(flags[number])
    covered = int(work.union(np.zeros(len(piece), np.int64), piece, 1)[0])
    return pct(covered, work.total_ns)


def _unpriced(trace: Trace, work: DeviceCosts) -> float | None:
    """Share of kernel time in products without a known cost; null without kernels."""
    words = trace.words("slice", "name")
    at = np.flatnonzero(work.owner < 0)
    name = trace.array("slice", "name")[work.ids[at]].astype(np.int64)
    products = np.zeros(len(words) + 1, bool)
    products[[code for code in np.unique(name).tolist() if family(str(words[code])) in PRODUCT_FAMILIES]] = True
    return pct(int(work.dur[at[products[name]]].sum()), int(work.dur.sum()))


def _per_step(trace: Trace, work: DeviceCosts) -> float | None:
    """Mean FLOPs of the products of a complete step; a call belongs to the step that it starts in."""
    whole = ~trace.array("step", "truncated").astype(bool)
    costs = work.costs
    flops = [price.cost.flops if price.cost.kind in MATRIX_KINDS else 0 for price in costs.priced]
    step = trace.array("slice", "step_id")[costs.calls.rows[work.counted]]
    inside = step >= 0
    inside[inside] = whole[step[inside]]
    counts = np.bincount(costs.price[work.counted][inside], minlength=len(flops)).tolist()
    total = sum(n * f for n, f in zip(counts, flops, strict=True) if f)
    return total / int(whole.sum()) if whole.any() and total else None


def _utilisation(products: list[RooflineOp], peaks: DevicePeaks | None, window_ns: int) -> float | None:
    if peaks is None or not products or window_ns <= 0:
        return None
    ideal = 0.0
    for op in products:
        rate = peaks.compute(op.attained.dtype)
        if op.attained.flops is None or rate is None:
            return None
        ideal += op.attained.flops / rate
    share = 100 * 1e9 * ideal / window_ns
    return share if share <= 100 else None


def _on_matrix_units(products: list[RooflineOp]) -> float | None:
    """Share of the products' time, among those that could, which ran on matrix units; of what names tell."""
    told = [op for op in products if op.could_use is not None and op.matrix_units is not None]
    return pct(sum(op.device_ns or 0 for op in told if op.matrix_units), sum(op.device_ns or 0 for op in told))


def _weight(op: RooflineOp) -> tuple[int, int]:
    return -(op.device_ns or 0), -(op.attained.flops or 0)


def _note(
    trace: Trace,
    work: DeviceCosts,
    ops: list[RooflineOp],
    peaks: DevicePeaks | None,
    device: Mapping[str, Any],
) -> str | None:
    if not ops:
        if not bool((trace.array("op", "input_dims") >= 0).any()):
            return "No input shapes were recorded, so no FLOPs or bytes are known; record_shapes=True records them."
        return "Input shapes were recorded, but for no op that launched a kernel and whose cost is known."
    if peaks is None and len(work.ids):
        name = device.get("name")
        said = f"The peaks of {name!r} are not known" if isinstance(name, str) and name else "The file names no device"
        return f'{said}: no percentages; --peak "bf16=989e12,bandwidth=3.35e12" gives them.'
    return None
