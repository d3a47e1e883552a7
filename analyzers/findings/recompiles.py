"""torch.compile compiles the same function again and again: a guard failed."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import PurePath
from typing import TYPE_CHECKING

import numpy as np

from profsuite.analyzers.base import Finding, Place
from profsuite.analyzers.findings.marked_time import host_marks
from profsuite.analyzers.findings.wording import count, grade, ms, percent, share, somewhere, text, time, whole
from profsuite.analyzers.recorded import overlaps
from profsuite.trace.intervals import merge, overlap_length

if TYPE_CHECKING:
    from profsuite.analyzers.analysis import Analysis

FIRES_FROM = 0.01
USUAL = 1
"""Times that a function is compiled again as a matter of course: once a size changes, for all sizes."""

_REGION = r"^Torch-Compiled Region: \d{1,9}/\d{1,9}$"
_NUMBERS = re.compile(r"(\d+)/(\d+)$")


def recompiles(analysis: Analysis) -> tuple[Finding, ...]:
    """Fires on compilations after the first of a function that the collector saw, from 1 % of the recording.

    Else on compiled regions ``N/M`` with M of 2 or more: function N was compiled M + 1 times, some time.

    Remedy: mark_dynamic or padding for sizes, tensors for numbers that change.
    """
    return _seen(analysis) or _numbered(analysis)


def _seen(analysis: Analysis) -> tuple[Finding, ...]:
    trace = analysis.trace
    events = trace.table("compile_event").to_pylist()
    again = [e for e in events if e["kind"] == "compile" and (e["frame_compile_id"] or 0) > 0 and e["dur"] is not None]
    if not again or not analysis.host.window_ns:
        return ()
    start = np.array([e["ts"] for e in again], np.int64)
    end = start + np.array([e["dur"] for e in again], np.int64)
    # The channel also saw what was compiled where nothing else was recorded.
    during = overlaps(start, end, analysis.recording)
    again = [e for e, counts in zip(again, during.tolist(), strict=True) if counts]
    if not again:
        return ()
    since, until = analysis.start_ns, analysis.end_ns
    reasons = [e for e in events if e["kind"] == "recompile" and since <= e["ts"] <= until]
    compiling = merge(start, end)
    cost = overlap_length(compiling, analysis.recording)
    fraction = cost / analysis.recording_ns
    if fraction < FIRES_FROM:
        return ()
    longest = max(again, key=lambda e: e["dur"])
    functions = {e["frame_id"] for e in again}
    why = Counter(e["reason"] for e in reasons if e["reason"]).most_common(3)
    source = None if longest["file"] is None else f"{PurePath(longest['file']).name}({longest['line']})"
    return (
        Finding(
            id="recompiles",
            title=f"torch.compile compiles again for {ms(cost)} ({percent(fraction)} of the {whole(analysis)})",
            severity=grade(fraction),
            evidence=(
                count("compilations after the first", len(again)),
                count("functions", len(functions)),
                time("compiling again", cost),
                share("share of the recording", fraction),
                *((text("longest", longest["name"]),) if longest["name"] else ()),
                *(text("because", reason) for reason, _ in why),
            ),
            where=Place(
                rank=trace.info.rank,
                start_ns=longest["ts"],
                end_ns=longest["ts"] + longest["dur"],
                source=source,
            ),
            remedy=REMEDY,
            cost_ns=cost,
            counted_in=("compile_in_steps",),
        ),
    )


def _numbered(analysis: Analysis) -> tuple[Finding, ...]:
    rows = np.flatnonzero(host_marks(analysis, _REGION))
    if not len(rows):
        return ()
    name = analysis.trace.array("slice", "name")[rows]
    words = analysis.trace.words("slice", "name")
    highest: dict[str, int] = {}
    for code in np.unique(name).tolist():
        numbers = _NUMBERS.search(words[code])
        if numbers:
            highest[numbers[1]] = max(highest.get(numbers[1], 0), int(numbers[2]))
    often = {function: last for function, last in highest.items() if last > USUAL}
    if not often:
        return ()
    function, last = max(often.items(), key=lambda item: item[1])
    row = int(rows[np.flatnonzero(name == words.index(f"Torch-Compiled Region: {function}/{last}"))[0]])
    return (
        Finding(
            id="recompiles",
            title=f"torch.compile has compiled function {function} {last + 1} times",
            severity="info",
            evidence=(
                text("highest number of a region that ran", f"{function}/{last}", [row]),
                count("functions compiled three times or more", len(often)),
                count("compiled regions run", len(rows)),
            ),
            where=somewhere(analysis, row),
            remedy=REMEDY,
            cost_ns=None,
        ),
    )


REMEDY = (
    "TORCH_LOGS=recompiles names the guard that failed. Mark changing sizes with torch._dynamo.mark_dynamic or "
    "dynamic=True, or pad them; pass changing numbers as tensors; don't build modules or lambdas in the loop. Beyond "
    "torch._dynamo.config.recompile_limit (8) the function runs uncompiled."
)
