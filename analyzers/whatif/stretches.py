"""A thread's time between moments, under scales of its parts, and without what recording it cost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from profsuite.analyzers.host_calls import CLASSES, UNRECORDED, matching
from profsuite.trace.dag import earliest

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from profsuite.analyzers.analysis import Analysis
    from profsuite.analyzers.host_timeline import Timeline
    from profsuite.analyzers.whatif.graph import Graph
    from profsuite.trace.intervals import IntervalSet

    Int64s = NDArray[np.int64]

MOST_COST_NS: Final = 20_000.0
"""More than this a slice no profiler adds."""
COLD_NS: Final = 3_000.0
"""Since its last record this long ago, a recorder finds two thirds (1 - 1/e) of its code and data out of the caches."""
ENGINE_RECORDS: Final = 3.0
"""As many records does one cost that autograd's engine makes: its name is put together only while something records."""
_ROUNDS: Final = 40
_CLOSE: Final = 1e-4
"""How well the cost of recording must explain the time of a step."""
_ENGINE: Final = "^autograd::engine::evaluate_function"


class Records(NamedTuple):
    """When a thread's host slices start and end, and how many plain records each of these costs."""

    time: Int64s
    weight: NDArray[np.float64]


def recorded(analysis: Analysis, thread: int) -> Records:
    """What a recorder wrote of a thread."""
    trace = analysis.trace
    mine = np.flatnonzero((trace.array("slice", "track_id") == thread) & (analysis.timelines.classes > 0))
    engine = matching(trace, _ENGINE)[trace.array("slice", "name")[mine]]
    weight = np.where(engine, ENGINE_RECORDS, 1.0)
    time = np.concatenate([trace.array("slice", "ts")[mine], trace.end[mine]])
    return Records(time, np.concatenate([weight, weight]))


def recording_cost_ns(analysis: Analysis, graph: Graph, bare_step_ns: int) -> float:
    """What recording added at most to a host slice, so that a step without it takes ``bare_step_ns``; 0 for nothing.

    Half of it at its start, half at its end; of that the share 1 - exp(-t / ``COLD_NS``), where the next record comes t
    later; and ``ENGINE_RECORDS`` times as much for the slices that autograd's engine names.

    ``ValueError`` where there are no steps, or where a step would take longer even at ``MOST_COST_NS`` a slice.
    """
    num_steps = len(graph.steps)
    if not num_steps:
        raise ValueError("no steps were recorded: what one takes without the recording says nothing about this trace")
    running = np.flatnonzero(graph.is_running)
    tracks = graph.track[graph.target[running]]
    threads = []
    for thread, line in analysis.timelines.threads.items():
        at = running[tracks == thread]
        if len(at):
            begin, end = (graph.time[side[at]] + graph.origin_ns for side in (graph.source, graph.target))
            threads.append((at, Stretches(line, begin, end, [], recorded(analysis, thread))))
    same = np.ones(len(CLASSES))

    def surplus(cost: float) -> float:
        """By how much a step is longer than it should be, ns."""
        weight = graph.weight.copy()
        for at, stretches in threads:
            weight[at] = stretches.weights(same, cost)
        finish = earliest(graph.first, graph.source, weight, graph.own)[0]
        return float(graph.took_ns(finish)) / num_steps - bare_step_ns

    low, high = 0.0, MOST_COST_NS
    above, below = surplus(low), surplus(high)
    if above <= 0:
        return 0.0
    if below > 0:
        raise ValueError(
            f"a step of {bare_step_ns / 1e6:g} ms is too short: without what recording can have cost it takes "
            f"{(below + bare_step_ns) / 1e6:.4g} ms"
        )
    # The surplus falls with the cost, steeply at first: a secant, and the middle wherever that goes slowly.
    cost = high
    for number in range(_ROUNDS):
        cost = (low + high) / 2 if number % 3 == 2 else low + (high - low) * above / (above - below)
        left = surplus(cost)
        if abs(left) <= _CLOSE * bare_step_ns:
            break
        low, high = (cost, high) if left > 0 else (low, cost)
        above, below = (left, below) if left > 0 else (above, left)
    return cost


class Stretches:
    """A thread's time between moments, cut where its class, the slices that are scaled or the recorded ones change.

    Each of ``records`` (start or end of a slice) may cost some time, taken from what follows until the next one: the
    more, the longer that takes, for after it the recorder's code and data are no longer in the caches.
    """

    def __init__(
        self,
        line: Timeline,
        begin: Int64s,
        end: Int64s,
        covers: list[tuple[IntervalSet, float]],
        records: Records | None = None,
    ) -> None:
        bounds = [bound for cover, _ in covers for bound in cover]
        moments, records_weight = ([], None) if records is None else ([records.time], records.weight)
        self.times, number = np.unique(np.concatenate([*moments, line.time, *bounds]), return_inverse=True)
        self.length = np.diff(self.times)
        self.records: NDArray[np.float64] = np.zeros(len(self.length))
        if records_weight is not None:
            count = np.bincount(number[: len(records_weight)], records_weight, len(self.times))[:-1].astype(np.float64)
            self.records = count * -np.expm1(-self.length / COLD_NS)
        since = self.times[:-1]
        stretch = np.clip(np.searchsorted(line.time, since, "right") - 1, 0, len(line.code) - 1)
        outside = (since < line.time[0]) | (since >= line.time[-1])
        self.code = np.where(outside, UNRECORDED, line.code[stretch])
        self.cover = np.ones(len(since))
        for (first, last), scale in covers:
            inside = np.searchsorted(first, since, "right") > np.searchsorted(last, since, "right")
            self.cover[inside] *= scale
        self.took = end - begin
        self.begin, self.end = self._place(begin), self._place(end)

    def _place(self, moments: Int64s) -> tuple[NDArray[np.intp], Int64s]:
        inside = np.clip(moments, self.times[0], self.times[-1])
        stretch = np.clip(np.searchsorted(self.times, inside, "right") - 1, 0, len(self.length) - 1)
        return stretch, inside - self.times[stretch]

    def weights(self, by_class: NDArray[np.float64], cost_ns: float) -> Int64s:
        """The times between the moments, ns, without the recording, of which a slice costs at most ``cost_ns``."""
        factor = by_class[self.code] * self.cover
        cost = np.minimum(self.records * (cost_ns / 2), self.length)
        change = np.concatenate([[0.0], np.cumsum((self.length - cost) * factor - self.length)])

        def until(place: tuple[NDArray[np.intp], Int64s]) -> NDArray[np.float64]:
            stretch, into = place
            left = np.maximum(into - cost[stretch], 0.0) * factor[stretch]
            return np.asarray(change[stretch] + left - into)

        change_ns: Int64s = np.rint(until(self.end) - until(self.begin)).astype(np.int64)
        took: Int64s = np.maximum(self.took + change_ns, 0)
        return took
