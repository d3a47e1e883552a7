"""The host itself copies tensors: in the data loader of the training process, or on the thread that launches."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from profsuite.analyzers.base import Finding
from profsuite.analyzers.enclosing import inside
from profsuite.analyzers.findings.marked_time import host_marks
from profsuite.analyzers.findings.wording import count, grade, ms, per_step, percent, share, somewhere, text, time
from profsuite.analyzers.host_calls import INPUT
from profsuite.analyzers.places import source_frame
from profsuite.analyzers.ranking import longest_names
from profsuite.trace.intervals import union_length

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from profsuite.analyzers.analysis import Analysis

FIRES_FROM = 0.02

_COPY = r"^aten::(?:copy_|cat|_cat|_pin_memory|index|index_select|gather)$"


def host_copies(analysis: Analysis) -> tuple[Finding, ...]:
    """Fires when copying ops that launch nothing take 2 % of the recording, on the main thread.

    Jobs with a device: anywhere on that thread.  CPU jobs, where a copy may be the work itself: in the loader only.

    Remedy: collate and convert in workers, once a batch, in the dtype that training needs.
    """
    rows = copying(analysis)
    if not len(rows) or not analysis.host.window_ns:
        return ()
    trace = analysis.trace
    start, end = trace.array("slice", "ts"), trace.end
    cost = union_length(start[rows], end[rows])
    fraction = cost / analysis.host.window_ns
    if fraction < FIRES_FROM:
        return ()
    loading = rows[_loading(analysis)[rows]]
    top = longest_names(trace, rows)[0]
    return (
        Finding(
            id="host_copies",
            title=f"The host copies tensors for {ms(cost)} ({percent(fraction)} of the main thread's time)",
            severity=grade(fraction),
            evidence=(
                count("copies on the host", len(rows), top.slice_ids),
                time("their time", cost),
                share("share of the main thread", fraction),
                *per_step("copying", analysis, cost),
                time("of it in the data loader", union_length(start[loading], end[loading])),
                text("longest", top.name, top.slice_ids),
                time("its total", top.total_ns),
            ),
            where=somewhere(analysis, top.slice_ids[0], op=top.name, source=source_frame(trace, top.slice_ids[0])),
            remedy=(
                "Collate and convert in workers (num_workers), not in the training process, or once per batch instead "
                "of once per sample (__getitems__); keep the data in the dtype that training needs; move raw bytes and "
                "convert on the GPU."
            ),
            cost_ns=cost,
            counted_in=("input_bound", "host_bound"),
        ),
    )


def copying(analysis: Analysis) -> NDArray[np.int64]:
    """Copying ops of the main thread inside which there is nothing: no launch, so the host copied."""
    trace, threads = analysis.trace, analysis.host.threads
    parent = trace.array("slice", "parent_id")
    if not threads or not len(parent):
        return np.zeros(0, np.int64)
    main = threads[0]
    leaf = np.ones(len(parent), bool)
    leaf[parent[parent >= 0]] = False
    own = host_marks(analysis, _COPY) & leaf & (analysis.timelines.classes != INPUT)
    own &= trace.array("slice", "track_id") == main.track_id
    if analysis.main is None or not main.num_launches:
        own &= _loading(analysis)
    return np.flatnonzero(own)


def _loading(analysis: Analysis) -> NDArray[np.bool_]:
    return inside(analysis.trace, analysis.timelines.classes == INPUT)
