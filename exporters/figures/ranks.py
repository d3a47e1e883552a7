"""The ranks of a job: how each spent its time, when it communicates and waits, for whom, how fast data moves."""

from __future__ import annotations

from typing import Final

import numpy as np

from profsuite.analyzers.job.report import JobReport
from profsuite.exporters.figures.figure import Figure
from profsuite.exporters.figures.plots import Points, matrix, points
from profsuite.exporters.figures.time import stacked
from profsuite.exporters.units import PERCENT, size, time_scale

ROWS: Final = 64
"""Ranks of a picture; of more, neighbours share a row."""


def rank_figure(job: JobReport) -> Figure | None:
    """The window of each rank's main device by part; null without device work.  Neighbours of very many share a bar."""
    rows = [row for row in job.ranks if row.shares is not None]
    if not rows:
        return None
    if len(rows) > 4 * ROWS:
        rows = sorted(rows, key=lambda row: row.shares.idle_ns if row.shares else 0)[-4 * ROWS :]
        rows.sort(key=lambda row: row.rank)
    title = "GPU time of each rank"
    if len(rows) < len(job.ranks):
        title += f" (the {len(rows)} of {len(job.ranks)} that idle most)"
    return stacked(title, [str(row.rank) for row in rows], [row.shares for row in rows if row.shares], "rank")


def over_time_figures(job: JobReport) -> tuple[Figure, ...]:
    """Rank by time: the share of each stretch in collectives, and that of waiting in them; none without collectives."""
    found = job.over_time
    if found is None:
        return ()
    edges = np.array(found.edges_ns, np.int64)
    lengths = np.diff(edges)
    scale = time_scale(found.edges_ns)
    middle = ((edges[:-1] + edges[1:]) / (2 * scale.divisor)).tolist()
    made = []
    for title, rows in (("In collectives", found.comm_ns), ("Waiting in collectives for a later rank", found.wait_ns)):
        names, sums, counts = _folded(found.ranks, np.array(rows, np.int64))
        share = 100 * sums / (counts[:, None] * lengths[None, :])
        if share.any():
            values = [[round(cell, 3) for cell in row] for row in share.tolist()]
            axes = ("rank", f"{scale.unit} since the first collective")
            height = max(240, 140 + 20 * len(names))
            made.append(matrix(f"{title}, by rank and time", (names, middle), values, PERCENT, axes, height))
    return tuple(made)


def _folded(ranks: tuple[int, ...], rows: np.ndarray) -> tuple[list[str], np.ndarray, np.ndarray]:
    """At most ``ROWS`` rows: their names, the sums of the ranks in them, how many those are."""
    width = -(-len(ranks) // ROWS)
    first = np.arange(0, len(ranks), width)
    counts = np.diff(np.append(first, len(ranks)))
    names = [
        str(ranks[at]) if count == 1 else f"{ranks[at]}–{ranks[at + count - 1]}"
        for at, count in zip(first.tolist(), counts.tolist(), strict=True)
    ]
    return names, np.add.reduceat(rows, first, axis=0), counts


def waiting_figure(job: JobReport) -> Figure | None:
    """How long each rank waited for each other; null where none waited.  Of very many ranks those with most waits."""
    waits = np.array(job.wait_matrix_ns, np.int64)
    if not waits.any():
        return None
    title = "How long a rank (column) waited for another (row)"
    shown = np.arange(len(waits))
    if len(waits) > ROWS:
        shown = np.sort(np.argsort(waits.sum(axis=0) + waits.sum(axis=1))[-ROWS:])
        title += f", the {ROWS} ranks of {len(waits)} with most"
    names = [str(job.ranks[n].rank) for n in shown.tolist()]
    among = waits[np.ix_(shown, shown)]
    scale = time_scale([int(among.max())])
    return matrix(title, (names, names), (among / scale.divisor).tolist(), scale, ("for rank", "rank"))


def bandwidth_figure(job: JobReport) -> Figure | None:
    """Bus bandwidth by mean size of each kind of collective and group; null where no sizes were recorded."""
    kinds: dict[str, list[tuple[float, float, str]]] = {}
    for row in job.collectives:
        if row.num_bytes and row.bus_gb_per_s:
            mean = row.num_bytes / row.count
            label = f"{row.kind}, {row.count:,} of {size(mean)}" + (f", {row.group}" if row.group else "")
            kinds.setdefault(row.kind, []).append((mean, row.bus_gb_per_s, label))
    if not kinds:
        return None
    found = [Points(kind, *map(list, zip(*rows, strict=True))) for kind, rows in kinds.items()]
    made = points("Bus bandwidth by mean size", found, "B a collective", "GB/s")
    # Sizes differ by powers of ten: each tick has its prefix.
    made.layout["xaxis"] |= {"exponentformat": "SI", "ticksuffix": "B"}
    return made
