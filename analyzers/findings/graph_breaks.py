"""torch.compile could not take a function whole: the graph breaks, and Python runs in between."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import PurePath
from typing import TYPE_CHECKING

import numpy as np

from profsuite.analyzers.base import Finding, Place
from profsuite.analyzers.findings.host_bound import FIRES_FROM as LATE
from profsuite.analyzers.findings.marked_time import host_marks
from profsuite.analyzers.findings.wording import count, somewhere, text, time
from profsuite.analyzers.ranking import longest_names

if TYPE_CHECKING:
    from profsuite.analyzers.analysis import Analysis
    from profsuite.analyzers.base import Evidence, Severity

LONGEST = 1000
"""Characters of a frame's name that are looked at, from its end."""

_RESUMED = r"torch_dynamo_resume_in_.+_at_\d+$"
_PLACE = re.compile(r"^(?P<file>.*)\(\d+\): torch_dynamo_resume_in_(?P<function>.+?)_at_(?P<line>\d+)$")


def graph_breaks(analysis: Analysis) -> tuple[Finding, ...]:
    """Fires on graph breaks that the collector saw, or on Python frames that go on after one.

    Without either there is no telling: several compiled functions look the same.  A warning where the device also
    idles 10 % of the window for a late CPU.

    Remedy: take out of the function what cannot be traced, or make it a custom op.
    """
    return _seen(analysis) or _resumed(analysis)


def _seen(analysis: Analysis) -> tuple[Finding, ...]:
    trace = analysis.trace
    rows = [row for row in trace.table("compile_event").to_pylist() if row["kind"] == "graph_break"]
    if not rows:
        return ()
    places = Counter((row["file"], row["line"], row["reason"]) for row in rows)
    (file, line, _), most = places.most_common(1)[0]
    source = None if file is None else f"{PurePath(file).name}({line})"
    evidence = [count("graph breaks", len(rows)), count("different places", len(places))]
    if source:
        evidence += [text("most often at", source), count("there", most)]
    evidence += [text("because", key[2]) for key, _ in places.most_common(3) if key[2]]
    first = min(row["ts"] for row in rows)
    where = Place(rank=trace.info.rank, start_ns=first, end_ns=max(row["ts"] for row in rows), source=source)
    return (_finding(analysis, len(places), evidence, where),)


def _resumed(analysis: Analysis) -> tuple[Finding, ...]:
    rows = np.flatnonzero(host_marks(analysis, _RESUMED))
    if not len(rows):
        return ()
    functions = np.unique(analysis.trace.array("slice", "name")[rows])
    top = longest_names(analysis.trace, rows, top=1)[0]
    place = _PLACE.match(top.name[-LONGEST:])
    source = f"{PurePath(place['file']).name}({place['line']}): {place['function']}" if place else top.name
    evidence = [
        count("functions that went on after a break", len(functions)),
        count("calls of them", len(rows)),
        text("longest after", source, top.slice_ids),
        count("its calls", top.count),
        time("its total", top.total_ns),
    ]
    where = somewhere(analysis, top.slice_ids[0], source=source)
    return (_finding(analysis, len(functions), evidence, where),)


def _finding(analysis: Analysis, places: int, evidence: list[Evidence], where: Place) -> Finding:
    severity: Severity = "warning" if analysis.share(analysis.idle_ns("host")) >= LATE else "info"
    return Finding(
        id="graph_breaks",
        title=f"torch.compile breaks the graph at {places} place{'' if places == 1 else 's'}",
        severity=severity,
        evidence=tuple(evidence),
        where=where,
        remedy=(
            "Each break costs guards, launches and lost fusion. TORCH_LOGS=graph_breaks names all; "
            "torch.compile(fullgraph=True) stops at the first. Take out of the function what cannot be traced (print, "
            ".item(), branches on values, unknown extensions), or register it with torch.library.custom_op."
        ),
        cost_ns=None,
    )
