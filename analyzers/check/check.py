"""``check``: a recording against a baseline and against budgets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np
from msgspec import Struct

from profsuite.analyzers.base import pct
from profsuite.analyzers.diff.change import Change, change_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from profsuite.analyzers.check.baseline import Baseline
    from profsuite.analyzers.check.budget import Budget

CHECK_VERSION = 1
DEFAULT_THRESHOLD_PCT = 5.0

Outcome = Literal["ok", "faster", "regression", "exceeded", "missing"]
FAILURES: tuple[Outcome, ...] = ("regression", "exceeded", "missing")


class CheckRow(Struct, frozen=True, kw_only=True):
    """One thing that was checked.  ``missing`` (no data to hold a budget against) fails as the other two do.

    ``value`` and ``limit`` are in ``unit``; of a comparison ``limit`` is the baseline's value plus the threshold.
    """

    name: str
    outcome: Outcome
    unit: str
    value: float | None
    baseline: float | None
    limit: float | None
    message: str


class ChangeRow(Struct, frozen=True, kw_only=True):
    """A part or an op before and after: what explains a change, and fails nothing."""

    name: str
    time: Change


class RankCheck(Struct, frozen=True, kw_only=True):
    """The checks of one rank; ``parts`` and ``ops`` (largest change first) are empty without a baseline for them."""

    source: str
    baseline: str | None
    rank: int | None
    per: str
    failed: bool
    rows: tuple[CheckRow, ...]
    parts: tuple[ChangeRow, ...]
    ops: tuple[ChangeRow, ...]
    notes: tuple[str, ...]


class CheckReport(Struct, frozen=True, kw_only=True):
    """All checks; ``failed`` if any rank's did."""

    schema_version: int
    failed: bool
    threshold_pct: float
    ranks: tuple[RankCheck, ...]


def check_report(ranks: Sequence[RankCheck], threshold_pct: float) -> CheckReport:
    """The checks of several ranks as one value."""
    failed = any(rank.failed for rank in ranks)
    return CheckReport(schema_version=CHECK_VERSION, failed=failed, threshold_pct=threshold_pct, ranks=tuple(ranks))


def check(
    current: Baseline,
    base: Baseline | None,
    budgets: Sequence[Budget] = (),
    threshold_pct: float = DEFAULT_THRESHOLD_PCT,
    top: int = 10,
) -> RankCheck:
    """A recording against a baseline (null: only against the budgets).

    A regression is a step time, or a memory peak, more than ``threshold_pct`` above the baseline's, and of the step
    time a change beyond the noise (docs/analyses.md, "Diff"); where the noise is not known the threshold alone decides.
    """
    rows: list[CheckRow] = []
    notes: list[str] = []
    parts: tuple[ChangeRow, ...] = ()
    ops: tuple[ChangeRow, ...] = ()
    if base is not None:
        comparable = current.per == base.per and current.on_device == base.on_device
        if comparable:
            time = _change(base.time_ns, current.time_ns)
            rows.append(_time_row(time, threshold_pct, current.per))
            if time.noise_ms_per_step is None:
                notes.append("With one step on a side nothing is known of noise: the threshold alone decides.")
            parts = _changes(base.parts_ns, current.parts_ns, None)
            if base.ops_device_ns is not None and current.ops_device_ns is not None:
                ops = _changes(base.ops_device_ns, current.ops_device_ns, top)
        else:
            rows.append(_not_comparable(current, base))
        if base.peak_memory_bytes is not None and current.peak_memory_bytes is not None:
            rows.append(_memory_row(base.peak_memory_bytes, current.peak_memory_bytes, threshold_pct))
    rows += [_budget_row(current, budget) for budget in budgets]
    return RankCheck(
        source=current.source,
        baseline=None if base is None else base.source,
        rank=current.rank,
        per=current.per,
        failed=any(row.outcome in FAILURES for row in rows),
        rows=tuple(rows),
        parts=parts,
        ops=ops,
        notes=tuple(notes),
    )


def _change(before: Sequence[int], after: Sequence[int]) -> Change:
    return change_of(np.array(before, np.int64), np.array(after, np.int64))


def _changes(
    before: dict[str, tuple[int, ...]], after: dict[str, tuple[int, ...]], top: int | None
) -> tuple[ChangeRow, ...]:
    """Each name's change, the largest first; of one that a side lacks, that side has nothing."""
    steps = [len(next(iter(side.values()), (0,))) for side in (before, after)]
    found = [
        ChangeRow(name=name, time=_change(before.get(name, (0,) * steps[0]), after.get(name, (0,) * steps[1])))
        for name in dict.fromkeys((*before, *after))
    ]
    found = [row for row in found if row.time.before_ns or row.time.after_ns]
    if top is None:
        return tuple(found)
    found = [row for row in found if row.time.judgement != "same"]
    return tuple(sorted(found, key=lambda row: -abs(row.time.change_ms_per_step))[:top])


def _time_row(time: Change, threshold_pct: float, per: str) -> CheckRow:
    limit = time.before_ms_per_step * (1 + threshold_pct / 100)
    grown = time.change_pct is not None and time.change_pct > threshold_pct
    outcome: Outcome = "ok"
    changed = f"{time.change_ms_per_step:+,.3f} ms"
    if time.change_pct is not None:
        changed += f" ({time.change_pct:+.1f} %)"
    if time.noise_ms_per_step is not None:
        changed += f", noise ±{time.noise_ms_per_step:,.3f} ms"
    message = f"{changed}: within the threshold of {threshold_pct:g} %"
    if grown and time.judgement == "noise":
        message = f"{changed}: above the threshold of {threshold_pct:g} %, but within the noise"
    elif grown:
        outcome, message = "regression", f"{changed}: above the threshold of {threshold_pct:g} %"
    elif time.judgement == "less" and time.change_pct is not None and time.change_pct < -threshold_pct:
        outcome, message = "faster", f"{changed}: faster by more than the threshold; save a new baseline to keep it"
    return CheckRow(
        name="step time" if per == "step" else "window",
        outcome=outcome,
        unit="ms",
        value=time.after_ms_per_step,
        baseline=time.before_ms_per_step,
        limit=limit,
        message=message,
    )


def _not_comparable(current: Baseline, base: Baseline) -> CheckRow:
    kinds = [f"a {each.per} of the {'device' if each.on_device else 'main thread'}" for each in (base, current)]
    return CheckRow(
        name="step time",
        outcome="missing",
        unit="ms",
        value=None,
        baseline=None,
        limit=None,
        message=f"the baseline is of {kinds[0]}, the recording of {kinds[1]}: record both alike",
    )


def _memory_row(before: int, after: int, threshold_pct: float) -> CheckRow:
    limit = before * (1 + threshold_pct / 100)
    grown = 100.0 * (after - before) / before if before else 0.0
    return CheckRow(
        name="memory peak",
        outcome="regression" if after > limit else "ok",
        unit="bytes",
        value=after,
        baseline=before,
        limit=limit,
        message=f"{grown:+.1f} %: {'above' if after > limit else 'within'} the threshold of {threshold_pct:g} %",
    )


_PARTS = {
    "compute_pct_min": "compute",
    "exposed_comm_pct_max": "exposed_comm",
    "exposed_memcpy_pct_max": "exposed_memcpy",
    "idle_pct_max": "idle",
}


def _budget_row(current: Baseline, budget: Budget) -> CheckRow:
    value, unit, lacking = _measured(current, budget)
    outcome: Outcome = "ok"
    if value is None:
        outcome, message = "missing", lacking
    else:
        least = budget.key.endswith("_min")
        exceeded = value < budget.limit if least else value > budget.limit
        outcome = "exceeded" if exceeded else "ok"
        bound = "least" if least else "most"
        message = (
            f"{value:,.10g} {unit}, {'not ' if exceeded else ''}within the budget of at {bound} {budget.limit:,.10g}"
        )
    return CheckRow(
        name=budget.name, outcome=outcome, unit=unit, value=value, baseline=None, limit=budget.limit, message=message
    )


def _measured(current: Baseline, budget: Budget) -> tuple[float | None, str, str]:
    """The value that a budget limits, its unit, and what would record it where it is null."""
    steps, total = len(current.time_ns), sum(current.time_ns)
    if budget.op is not None:
        if current.ops_device_ns is None:
            return None, "ms", "no device work of ops in this recording; activities=[CPU, CUDA] records it"
        return sum(current.ops_device_ns.get(budget.op, ())) / steps / 1e6, "ms", ""
    if budget.key == "step_ms_max":
        if current.per != "step":
            return None, "ms", "no whole step in this recording; call prof.step() once an iteration"
        return total / steps / 1e6, "ms", ""
    if budget.key == "memory_peak_bytes_max":
        return current.peak_memory_bytes, "bytes", "no allocations in this recording; profile_memory=True records them"
    lacking = "no device work in this recording; activities=[CPU, CUDA] records it"
    if not current.on_device:
        return None, "%", lacking
    if budget.key == "busy_pct_min":
        return pct(total - sum(current.parts_ns["idle"]), total), "%", lacking
    return pct(sum(current.parts_ns[_PARTS[budget.key]]), total), "%", lacking
