"""Steps: how long they take, how much they vary, which are out of line."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from profsuite.analyzers.base import Ns

if TYPE_CHECKING:
    from profsuite.trace.model import Trace

MIN_STEPS_FOR_OUTLIERS = 5


class StepRow(Struct, frozen=True, kw_only=True):
    """One step on the host clock; ``excluded`` (with the reason) steps take no part in the statistics."""

    number: int
    start_ns: Ns
    dur_ns: Ns
    excluded: str | None
    outlier: bool


class StepSummary(Struct, frozen=True, kw_only=True):
    """Statistics over the complete steps; null where there are too few.

    ``std_ns`` is the sample's (n - 1), ``cv_pct`` = std / mean in percent.  An outlier lies more than five scaled
    median absolute deviations (1.4826 MAD) and 5 % from the median (needs five steps).  ``note`` says what was left
    out, or that the recording has no steps.
    """

    count: int
    num_used: int
    mean_ns: float | None
    std_ns: float | None
    cv_pct: float | None
    median_ns: float | None
    min_ns: Ns | None
    max_ns: Ns | None
    outliers: tuple[int, ...]
    steps: tuple[StepRow, ...]
    note: str | None


def steps(trace: Trace) -> StepSummary:
    """Durations of the steps on the host clock, by time; their statistics without the truncated ones.

    The outlier rule is Iglewicz and Hoaglin's (How to Detect and Handle Outliers, 1993) with a cut of 5 scaled
    deviations instead of 3.5, and a floor of 5 % so that a very steady job does not report noise.
    """
    start, dur = trace.array("step", "ts"), trace.array("step", "dur")
    order = np.argsort(start, kind="stable")
    start, dur = start[order], dur[order]
    number, truncated = trace.array("step", "number")[order], trace.array("step", "truncated")[order].astype(bool)
    used = dur[~truncated]
    out = np.zeros(len(dur), bool)
    if len(used) >= MIN_STEPS_FOR_OUTLIERS:
        median = float(np.median(used))
        scale = 1.4826 * float(np.median(np.abs(used - median)))
        out = ~truncated & (np.abs(dur - median) > max(5 * scale, 0.05 * median))
    mean = float(used.mean()) if len(used) else None
    std = float(used.std(ddof=1)) if len(used) > 1 else None
    return StepSummary(
        count=len(dur),
        num_used=len(used),
        mean_ns=mean,
        std_ns=std,
        cv_pct=100 * std / mean if mean and std is not None else None,
        median_ns=float(np.median(used)) if len(used) else None,
        min_ns=int(used.min()) if len(used) else None,
        max_ns=int(used.max()) if len(used) else None,
        outliers=tuple(number[out].tolist()),
        steps=tuple(
            StepRow(number=n, start_ns=s, dur_ns=d, excluded=_CUT if t else None, outlier=o)
            for n, s, d, t, o in zip(
                number.tolist(), start.tolist(), dur.tolist(), truncated.tolist(), out.tolist(), strict=True
            )
        ),
        note=_note(number[truncated].tolist(), len(dur), trace.info.selection),
    )


_CUT = "the recording starts or ends inside it"


def _note(cut: list[int], count: int, selection: str | None) -> str | None:
    if not count and selection:
        return f"No step lies in the selection ({selection})."
    if not count:
        return "The recording has no steps: call prof.step() once an iteration, or mark them with record_function."
    if not cut:
        return None
    named = ", ".join(map(str, cut[:5])) + (" and others" if len(cut) > 5 else "")
    return f"Left out of the statistics: step {named} ({_CUT})."
