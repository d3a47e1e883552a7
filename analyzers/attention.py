"""Attention: which backend ran for which shapes, how long, and why a fused one was refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from msgspec import Struct

from profsuite.analyzers.attention_backends import (
    FUSED,
    Backend,
    backend_of,
    efficient_refusals,
    flash_refusals,
)
from profsuite.analyzers.base import Ns, Pct, pct
from profsuite.analyzers.costs.call import OpCall, UnknownInputError
from profsuite.analyzers.op_costs import recorded_calls
from profsuite.analyzers.ranking import numbered
from profsuite.analyzers.torch_checks import fused_attention_allowed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from profsuite.analyzers.device_costs import DeviceCosts
    from profsuite.trace.model import Trace

SDPA = ("aten::scaled_dot_product_attention", "aten::_scaled_dot_product_attention_math")
"""Ops whose inputs are (query, key, value, mask, dropout, is_causal, ...): what the rules look at."""


class Refusal(Struct, frozen=True, kw_only=True):
    """A fused backend that did not run, and why; ``reasons`` is empty where nothing recorded speaks against it.

    ``checked_by`` is ``rules`` (documented ones, on recorded inputs) or ``torch`` (its own checks, asked in this
    process); ``allowed`` is what torch said, null where it was not asked.
    """

    backend: Literal["flash", "efficient"]
    reasons: tuple[str, ...]
    checked_by: Literal["rules", "torch"]
    allowed: bool | None


class AttentionRow(Struct, frozen=True, kw_only=True):
    """All attention calls of one backend with the same inputs, in one direction.

    ``backend`` is ``unfused`` for separate products around a softmax, found by their shapes: the forward's alone, and
    ``slice_id`` is a softmax.  ``fused``: the scores never reach memory.  ``input_dims`` are as recorded (JSON), of
    ``unfused`` the scores' shape; null where no shapes were recorded.  ``device_ns`` is the union of the compute
    kernels of the calls, ``device_pct`` its share of all compute kernels' time; null without device work.  Backward
    kernels of ``math`` and ``unfused`` are ordinary products, and not in these rows.
    """

    backend: Backend
    fused: bool
    op: str
    direction: Literal["forward", "backward"]
    input_dims: str | None
    input_types: str | None
    causal: bool | None
    masked: bool | None
    count: int
    device_ns: Ns | None
    device_pct: Pct | None
    refused: tuple[Refusal, ...]
    slice_id: int


class AttentionTable(Struct, frozen=True, kw_only=True):
    """Attention by backend and inputs, most device time first; ``num_calls`` counts forward and backward ones.

    Without attention ``num_calls`` is 0.  ``unfused_pct`` is the share of attention's device time in rows that are not
    fused; times are null without device work.
    """

    num_calls: int
    device_ns: Ns | None
    device_pct: Pct | None
    unfused_pct: Pct | None
    rows: tuple[AttentionRow, ...]


def attention(trace: Trace, work: DeviceCosts, device: Mapping[str, Any], top: int = 10) -> AttentionTable:
    """Attention in a trace; definitions: docs/analyses.md, "Attention"."""
    calls = work.costs.calls
    names = trace.array("slice", "name")[calls.rows].astype(np.int64)
    words = trace.words("slice", "name")
    backends = {code: found for code in np.unique(names).tolist() if (found := backend_of(str(words[code])))}
    flagged = np.zeros(len(words) + 1, bool)
    flagged[list(backends)] = True
    inside = calls.outermost_of(flagged[names])
    rows = _of_ops(trace, work, device, inside, backends) if backends else []
    rows += _unfused(work, inside)
    rows.sort(key=lambda row: (-(row.device_ns or 0), -row.count))
    total = sum(row.device_ns or 0 for row in rows) if rows and len(work.ids) else None
    slow = sum(row.device_ns or 0 for row in rows if not row.fused)
    return AttentionTable(
        num_calls=sum(row.count for row in rows),
        device_ns=total,
        device_pct=None if total is None else pct(min(total, work.total_ns), work.total_ns),
        unfused_pct=None if total is None else pct(slow, total),
        rows=tuple(rows[:top]),
    )


def _of_ops(
    trace: Trace,
    work: DeviceCosts,
    device: Mapping[str, Any],
    inside: NDArray[np.int64],
    backends: dict[int, Backend],
) -> list[AttentionRow]:
    """Rows of the ops that are attention themselves; ``inside`` gives each call's outermost such op."""
    costs, calls = work.costs, work.costs.calls
    own = np.flatnonzero(inside == np.arange(len(inside)))
    recorded = recorded_calls(trace, calls, own)
    name = trace.array("slice", "name")[calls.rows[own]].astype(np.int64)
    key = numbered(
        numbered(name * (int(recorded.key.max(initial=-1)) + 2) + recorded.key + 1) * 2 + costs.backward[own]
    )
    group_of = np.full(len(inside), -1, np.int64)
    group_of[own] = key
    launcher = work.launcher
    piece = np.flatnonzero(launcher >= 0)
    piece = piece[inside[launcher[piece]] >= 0]
    group = group_of[inside[launcher[piece]]]
    size = int(key.max()) + 1
    time, pieces = work.union(group, piece, size), np.bincount(group, minlength=size)
    counts = np.bincount(key, minlength=size)
    rows = []
    for number in range(size):
        at = int(np.flatnonzero(key == number)[0])
        op, element = str(trace.words("slice", "name")[int(name[at])]), int(own[at])
        backend, call = backends[int(name[at])], recorded.call(at)
        spent = int(time[number]) if pieces[number] else None
        around = _sdpa_around(trace, work, element, call)
        rows.append(
            AttentionRow(
                backend=backend,
                fused=backend in FUSED or backend == "flash (CPU)",
                op=op,
                direction="backward" if costs.backward[element] else "forward",
                input_dims=recorded.text(at, "input_dims"),
                input_types=recorded.text(at, "input_types"),
                causal=_causal(op, call, around),
                masked=None if around is None else around.optional(3) is not None,
                count=int(counts[number]),
                device_ns=spent,
                device_pct=None if spent is None else pct(spent, work.total_ns),
                refused=_refusals(backend, around, device) if not costs.backward[element] else (),
                slice_id=int(calls.rows[element]),
            )
        )
    return rows


def _sdpa_around(trace: Trace, work: DeviceCosts, element: int, call: OpCall | None) -> OpCall | None:
    """The inputs of the sdpa call that an attention op belongs to: its own, or those of the op around it."""
    calls = work.costs.calls
    words, names = trace.words("slice", "name"), trace.array("slice", "name")
    above = int(calls.up[element])
    for each in (above, element):  # of the two the outer one, whose inputs are in a fixed order
        if each >= 0 and str(words[names[calls.rows[each]]]) in SDPA:
            return recorded_calls(trace, calls, np.array([each])).call(0) if each != element else call
    return None


_CAUSAL = {
    "aten::_scaled_dot_product_flash_attention": 4,
    "aten::_scaled_dot_product_flash_attention_for_cpu": 4,
    "aten::_scaled_dot_product_efficient_attention": 6,
    "aten::_scaled_dot_product_cudnn_attention": 6,
    "flash_attn::_flash_attn_forward": 5,
    "flash_attn::_flash_attn_varlen_forward": 9,
    "flash_attn_3::fwd": 24,
    "aiter::_flash_attn_forward": 5,
    "aiter::mha_fwd": 5,
    "aiter::fmha_v3_fwd": 5,
}
"""Position of the causal flag where no sdpa call is recorded around (compiled code)."""


def _causal(op: str, call: OpCall | None, around: OpCall | None) -> bool | None:
    said, at = (around, 5) if around is not None else (call, _CAUSAL.get(op, -1))
    try:
        return None if said is None or at < 0 else said.flag(at)
    except UnknownInputError:
        return None


def _refusals(backend: Backend, call: OpCall | None, device: Mapping[str, Any]) -> tuple[Refusal, ...]:
    if call is None or backend not in ("math", "efficient"):
        return ()
    allowed = fused_attention_allowed(call, device)
    said: Literal["rules", "torch"] = "rules" if allowed is None else "torch"
    try:
        found = [("flash", flash_refusals(call, device)), ("efficient", efficient_refusals(call, device))]
    except UnknownInputError:
        return ()
    return tuple(
        Refusal(
            backend="flash" if name == "flash" else "efficient",
            reasons=reasons,
            checked_by=said,
            allowed=None if allowed is None else allowed[name],
        )
        for name, reasons in (found if backend == "math" else found[:1])
    )


def _unfused(work: DeviceCosts, inside: NDArray[np.int64]) -> list[AttentionRow]:
    """Separate products around a softmax: (b h, m, d) by (b h, d, n), softmax over (b, h, m, n), by (b h, n, dv)."""
    costs, counted = work.costs, work.counted
    apart = counted[(inside[counted] < 0) & ~costs.backward[counted]]
    price = costs.price[apart]
    used = np.unique(price).tolist()
    scores: dict[tuple[int, ...], list[int]] = {}
    applied: dict[tuple[int, ...], list[int]] = {}
    for number in used:
        call = costs.priced[number].call
        if call.name in ("aten::bmm", "aten::baddbmm"):
            first = 1 if call.name == "aten::baddbmm" else 0
            a, b = call.tensor(first), call.tensor(first + 1)
            scores.setdefault((a.shape[0], a.shape[1], b.shape[2]), []).append(number)
            applied.setdefault(a.shape, []).append(number)
    rows, taken = [], set[int]()
    for number in used:
        call = costs.priced[number].call
        if call.name != "aten::_softmax" or len(shape := call.tensor(0).shape) != 4:
            continue
        flat = (shape[0] * shape[1], shape[2], shape[3])
        before = [each for each in scores.get(flat, ()) if each not in taken]
        after = [each for each in applied.get(flat, ()) if each not in taken and each not in before]
        if not before or not after:
            continue
        taken.update(before, after)
        members = apart[np.isin(price, [*before, *after, number])]
        own = np.zeros(len(costs.owner) + 1, bool)
        own[members] = True
        piece = np.flatnonzero(own[work.owner])
        spent = int(work.union(np.zeros(len(piece), np.int64), piece, 1)[0]) if len(piece) else None
        softmaxes = apart[price == number]
        rows.append(
            AttentionRow(
                backend="unfused",
                fused=False,
                op=call.name,
                direction="forward",
                input_dims=str(list(shape)),
                input_types=costs.priced[number].input_types,
                causal=None,
                masked=None,
                count=len(softmaxes),
                device_ns=spent,
                device_pct=None if spent is None else pct(spent, work.total_ns),
                refused=(),
                slice_id=int(costs.calls.rows[softmaxes[0]]),
            )
        )
    return rows
