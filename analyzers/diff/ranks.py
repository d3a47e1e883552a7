"""Two recordings of a job with several ranks: what changed on each rank that both have, and over all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from profsuite.analyzers.diff.change import Change
from profsuite.analyzers.diff.report import DIFF_VERSION, DiffReport
from profsuite.analyzers.diff.summary import PARTS, ms, signed

if TYPE_CHECKING:
    from collections.abc import Sequence


class UnmatchedRank(Struct, frozen=True, kw_only=True):
    """A trace that was not compared: its rank where known, its file, and why."""

    rank: int | None
    source: str
    reason: str


class RanksDiff(Struct, frozen=True, kw_only=True):
    """The comparisons of the ranks that both recordings have, and a summary over them.

    ``mean_change_ms_per_step`` is the mean over the ranks of the change of their time; the ranks wait for each other,
    so the ranks' step times are not independent and no noise is given.  ``unmatched`` were not compared.
    """

    schema_version: int
    summary: str
    mean_change_ms_per_step: float | None
    reports: tuple[DiffReport, ...]
    unmatched: tuple[UnmatchedRank, ...]


def ranks_diff(reports: Sequence[DiffReport], unmatched: Sequence[UnmatchedRank] = ()) -> RanksDiff:
    """The comparisons of several ranks as one value."""
    timed = [(report, report.time) for report in reports if report.time is not None]
    mean = sum(time.change_ms_per_step for _, time in timed) / len(timed) if timed else None
    return RanksDiff(
        schema_version=DIFF_VERSION,
        summary=_summary(timed, mean),
        mean_change_ms_per_step=mean,
        reports=tuple(reports),
        unmatched=tuple(unmatched),
    )


def _summary(timed: Sequence[tuple[DiffReport, Change]], mean: float | None) -> str:
    if mean is None:
        return "No rank could be compared."
    before = sum(time.before_ms_per_step for _, time in timed) / len(timed)
    after = sum(time.after_ms_per_step for _, time in timed) / len(timed)
    what = "a step takes" if all(report.per == "step" for report, _ in timed) else "the window is"
    clear = sum(time.judgement in ("more", "less") for _, time in timed)
    text = f"Over {len(timed)} ranks {what} {ms(after)} on average, before {ms(before)} ({signed(mean)}"
    if any(time.noise_ms_per_step is not None for _, time in timed):
        text += f"; beyond the noise on {clear} of them" if clear else "; within the noise on all of them"
    text += ")."
    totals: dict[str, float] = {}
    for report, _ in timed:
        for part in report.devices[0].parts if report.devices else report.host.parts if report.host else ():
            totals[part.part] = totals.get(part.part, 0.0) + part.time.change_ms_per_step / len(timed)
    moved = {name: value for name, value in totals.items() if value * mean > 0}
    if moved:
        name = max(moved, key=lambda part: abs(moved[part]))
        text += f" The largest part of it is {PARTS.get(name, name)} ({signed(moved[name])} on average)."
    if len(timed) > 1:
        report, time = max(timed, key=lambda one: abs(one[1].change_ms_per_step))
        if report.after.rank is not None and time.change_ms_per_step:
            text += f" Rank {report.after.rank} changed most ({signed(time.change_ms_per_step)})."
    return text
