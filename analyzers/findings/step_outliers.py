"""Some steps take much longer than the others."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from profsuite.analyzers.base import Evidence, Finding, Place
from profsuite.analyzers.findings.wording import count, grade, ms, share, text, time
from profsuite.analyzers.host_calls import CLASSES
from profsuite.analyzers.ranking import sum_by_group

if TYPE_CHECKING:
    from profsuite.analyzers.analysis import Analysis


def step_outliers(analysis: Analysis) -> tuple[Finding, ...]:
    """Fires when a step lies above the others (see ``StepSummary``); names what grew most in the longest.

    Remedy: look at what the slow steps have that the others lack.
    """
    summary = analysis.steps
    if summary.median_ns is None:
        return ()
    median = summary.median_ns
    slow = [step for step in summary.steps if step.outlier and step.dur_ns > median]
    if not slow:
        return ()
    cost = round(sum(step.dur_ns - median for step in slow))
    longest = max(slow, key=lambda step: step.dur_ns)
    fraction = cost / sum(step.dur_ns for step in summary.steps)
    evidence = [
        count("slow steps", len(slow), []),
        text("their numbers", ", ".join(str(step.number) for step in slow[:10])),
        time("median step", round(median)),
        time("longest step", longest.dur_ns),
        time("above the median in all", cost),
        share("share of all steps", fraction),
        *_period([step.number for step in slow]),
        *_grown(analysis, longest.number),
        *_extra(analysis, [step.number for step in slow]),
    ]
    return (
        Finding(
            id="step_outliers",
            title=(
                f"{len(slow)} of {summary.num_used} steps are slow: step {longest.number} takes {ms(longest.dur_ns)}, "
                f"the median is {ms(median)}"
            ),
            severity="info" if fraction < 0.02 else grade(fraction, 0.02),
            evidence=tuple(evidence),
            where=Place(
                rank=analysis.trace.info.rank,
                step=longest.number,
                start_ns=longest.start_ns,
                end_ns=longest.start_ns + longest.dur_ns,
            ),
            remedy=(
                "Look at what the slow steps have that the others lack: data loading, recompilation, checkpoints, "
                "evaluation, garbage collection, or (on several ranks) one late rank."
            ),
            cost_ns=cost,
        ),
    )


def _period(numbers: list[int]) -> list[Evidence]:
    """After how many steps they come again, where three or more come evenly."""
    apart = np.diff(np.sort(numbers))
    even = len(apart) >= 2 and apart.min() == apart.max() > 1
    return [count("they come every so many steps", int(apart[0]))] if even else []


def _extra(analysis: Analysis, numbers: list[int]) -> list[Evidence]:
    """The slice of the main thread, by name, that takes most more time in the slow steps than in the others."""
    trace, threads = analysis.trace, analysis.host.threads
    if not threads:
        return []
    number, truncated = trace.array("step", "number"), trace.array("step", "truncated").astype(bool)
    slow, step = np.isin(number, numbers), trace.array("slice", "step_id")
    usual = ~slow & ~truncated
    own = (step >= 0) & (trace.array("slice", "track_id") == threads[0].track_id)
    own[trace.array("step", "slice_id")] = False  # the step's own mark
    rows = np.flatnonzero(own)
    names, dur, words = trace.array("slice", "name"), trace.array("slice", "self_dur"), trace.words("slice", "name")
    in_slow, in_usual = (rows[of[step[rows]]] for of in (slow, usual))
    if not usual.any() or not len(in_slow):
        return []
    spent = [sum_by_group(names[r], dur[r], len(words)) for r in (in_slow, in_usual)]
    more = spent[0] / slow.sum() - spent[1] / usual.sum()
    code = int(more.argmax())
    if more[code] <= 0:
        return []
    of = in_slow[names[in_slow] == code]
    of = of[np.argsort(-dur[of], kind="stable")[:5]]
    return [
        text("what takes most more time in them", words[code], of.tolist()),
        time("more by, in each", round(float(more[code]))),
    ]


def _grown(analysis: Analysis, number: int) -> list[Evidence]:
    """Which part of the main thread's step grew most against the median of the steps."""
    threads = analysis.host.threads
    rows = [row for row in threads[0].steps if not row.truncated] if threads else []
    own = next((row for row in rows if row.number == number), None)
    if own is None:
        return []
    names = [f"{name}_ns" for name in CLASSES]
    usual = np.median([[getattr(row.shares, name) for name in names] for row in rows], axis=0)
    more = np.array([getattr(own.shares, name) for name in names]) - usual
    most = int(more.argmax())
    return [text("what grew most on the main thread", IN_WORDS[CLASSES[most]]), time("by", round(float(more[most])))]


IN_WORDS = {
    "sync": "waiting for the device",
    "input": "waiting for input data",
    "launch": "launch and runtime calls",
    "allocator": "device memory allocation",
    "compile": "compilation",
    "gc": "Python garbage collection",
    "op": "ops",
    "python": "Python",
    "unrecorded": "nothing recorded",
}
"""The classes of host time as the report names them."""
