"""Edits of a recording: parts that take k times as long, or nothing."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from msgspec import Struct

from profsuite.analyzers.device_work import COMM
from profsuite.analyzers.host_calls import CLASSES, INPUT, LAUNCH, OP, PYTHON, UNRECORDED, communicates
from profsuite.analyzers.kernel_families import FAMILIES, family
from profsuite.analyzers.whatif.beside import taken_share, time_beside
from profsuite.analyzers.whatif.parts import DEPENDENCY, FORK, JOIN, LAUNCHED, SYNCED
from profsuite.trace.classes import WORK_KINDS
from profsuite.trace.dag import earliest
from profsuite.trace.intervals import covered, covered_before, merge

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from profsuite.analyzers.analysis import Analysis
    from profsuite.analyzers.host_timeline import Timeline
    from profsuite.analyzers.whatif.graph import Graph
    from profsuite.trace.intervals import IntervalSet

    Int64s = NDArray[np.int64]

FAMILY_WORDS: Final = dict(
    zip(
        (
            "optimizer",
            "attention",
            "conv",
            "gemm",
            "norm",
            "softmax",
            "triton",
            "embedding",
            "reduction",
            "elementwise",
        ),
        (name for name, _, _ in FAMILIES),
        strict=True,
    )
)
"""What a scale may call a family of kernels."""
KIND_WORDS: Final = {"compute": 0, "comm": 1, "memcpy": 2}
HOST_WORDS: Final = {name: code for code, name in enumerate(CLASSES) if code}
"""What a scale may call a class of device work, or of host time."""
MOST_COST_NS: Final = 20_000.0
"""More than this a slice no profiler adds."""
_ROUNDS: Final = 40
_CLOSE: Final = 1e-4
"""How well the cost of recording must explain the time of a step."""
_NEVER: Final = -(2**61)


class Edit(Struct, frozen=True, kw_only=True):
    """What to change before a replay.

    ``scales`` are (pattern, factor): the time of what matches becomes ``factor`` times as long.  A pattern is a class
    of kernels (``gemm``, ``attention``, ``comm``, ``memcpy``, ...), a class of host time (``python``, ``launch``,
    ``input``, ...), or a name with ``*`` and ``?``: of kernels, of ops (the device work that they launched, or on
    the host where they launched none; ``host:NAME`` is always the host; ``both:NAME`` adds the backward ops of the
    forward ops inside, so that an annotation stands for a part of the model).  ``no_comm`` removes communication,
    ``no_launch_overhead`` the time of launch calls and from there to the device, ``no_input_wait`` the time that
    threads wait for input, ``no_sync`` the waits of the host for a device, ``graphs`` all that the host does between
    launches (as if each step were one graph launch), ``early_comm`` starts each collective when its inputs are ready.
    ``bare_step_ns`` is what a step takes when nothing records, where that is known: what the recording added is taken
    off first, the same for every host slice (half at its start, half at its end).
    """

    scales: tuple[tuple[str, float], ...] = ()
    no_comm: bool = False
    no_launch_overhead: bool = False
    no_input_wait: bool = False
    no_sync: bool = False
    graphs: bool = False
    early_comm: bool = False
    bare_step_ns: int | None = None


def parse_scale(text: str) -> tuple[str, float]:
    """(pattern, factor) of ``gemm=0.5``; ``ValueError`` says what is wrong."""
    pattern, separator, number = text.rpartition("=")
    try:
        factor = float(number)
    except ValueError:
        factor = math.nan
    if not separator or not pattern or not 0 <= factor < math.inf:
        raise ValueError(f"{text!r} is no scale: write PATTERN=FACTOR, for example gemm=0.5")
    return pattern, factor


class Edited(NamedTuple):
    """Durations and weights of a graph's nodes and edges after an edit."""

    own: NDArray[np.int64]
    weight: NDArray[np.int64]


def apply(analysis: Analysis, graph: Graph, edit: Edit) -> Edited:
    """The graph's durations under an edit.

    ``ValueError`` for a pattern that nothing matches, and for a ``bare_step_ns`` that no cost of recording explains.
    """
    cost = 0.0 if edit.bare_step_ns is None else recording_cost_ns(analysis, graph, edit.bare_step_ns)
    return _Applied(analysis, graph, edit, cost).edited()


def recording_cost_ns(analysis: Analysis, graph: Graph, bare_step_ns: int) -> float:
    """What recording added to each host slice, so that a step without it takes ``bare_step_ns``; 0 where it did not.

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
            threads.append((at, _Stretches(line, begin, end, [], _recorded(analysis, thread))))
    same = np.ones(len(CLASSES))

    def surplus(cost: float) -> float:
        """By how much a step is longer than it should be, ns."""
        weight = graph.weight.copy()
        for at, stretches in threads:
            weight[at] = stretches.weights(same, cost)
        finish = earliest(graph.first, graph.source, weight, graph.own)[0]
        return float(finish[graph.end] - finish[graph.start]) / num_steps - bare_step_ns

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


def _recorded(analysis: Analysis, thread: int) -> Int64s:
    """Starts and ends of the host slices of a thread."""
    trace = analysis.trace
    mine = np.flatnonzero((trace.array("slice", "track_id") == thread) & (analysis.timelines.classes > 0))
    return np.concatenate([trace.array("slice", "ts")[mine], trace.end[mine]])


class _Applied:
    def __init__(self, analysis: Analysis, graph: Graph, edit: Edit, cost_ns: float = 0.0) -> None:
        self.cost_ns = cost_ns
        self.analysis = analysis
        self.trace = analysis.trace
        self.graph = graph
        self.edit = edit
        self.work = np.flatnonzero(graph.kind >= 0)
        self.factor = np.ones(len(self.work))
        self.by_class = np.ones(len(CLASSES))
        self.by_slice: list[tuple[NDArray[np.int64], float]] = []
        self.host_comm = 1.0

    def edited(self) -> Edited:
        graph, edit = self.graph, self.edit
        for pattern, factor in edit.scales:
            self._scale(pattern, factor)
        kind = graph.kind[self.work]
        if edit.no_comm:
            self.factor[kind == COMM] = 0
            self.by_slice.append((self._host_comm(), 0.0))
            self.host_comm = 0.0
        if edit.no_launch_overhead:
            self.by_class[LAUNCH] = 0
        if edit.no_input_wait:
            self.by_class[INPUT] = 0
        if edit.graphs:
            self.by_class[[PYTHON, OP, LAUNCH]] = 0
        own = graph.own.copy()
        own[self.work] = _scaled(own[self.work], self.factor)
        weight = graph.weight.copy()
        if (self.by_class != 1).any() or self.by_slice or self.cost_ns:
            self._scale_threads(weight)
        if self.host_comm != 1:
            self._scale_beside_comm(weight)
        if edit.no_launch_overhead or edit.graphs:
            # What a launch does not explain is not its overhead.
            launched = graph.edge == LAUNCHED
            weight[launched] = graph.rest[launched]
        if edit.no_sync:
            weight[graph.edge == SYNCED] = _NEVER
        if edit.early_comm:
            target = graph.target
            depends = np.zeros(graph.num_nodes, bool)
            depends[target[graph.edge == DEPENDENCY]] = True
            weight[(graph.edge == LAUNCHED) & (graph.kind[target] == COMM) & depends[target]] = _NEVER
        return Edited(own, weight)

    def _scale(self, pattern: str, factor: float) -> None:
        if pattern in HOST_WORDS:
            self.by_class[HOST_WORDS[pattern]] *= factor
            return
        where, _, rest = pattern.partition(":")
        name = rest if where in ("host", "both") else pattern
        if where == "both":
            rows = self._with_backward(self._host_rows(name))
            here = self._launched_inside(rows)
        else:
            is_word = name == pattern and (name in KIND_WORDS or name in FAMILY_WORDS)
            here = np.zeros(len(self.work), bool) if where == "host" else self._device_match(name)
            rows = np.empty(0, np.int64) if is_word else self._host_rows(name)
            if pattern == "comm":
                rows = self._host_comm()
                self.host_comm *= 1.0 if here.any() else factor
        if here.any():
            self.factor[here] *= factor
            return
        if not len(rows):
            raise ValueError(
                f"nothing in this trace matches {pattern!r}: no kernel, no op; classes are "
                f"{', '.join([*FAMILY_WORDS, *KIND_WORDS, *HOST_WORDS])}"
            )
        self.by_slice.append((rows, factor))

    def _device_match(self, name: str) -> NDArray[np.bool_]:
        graph, trace = self.graph, self.trace
        if name in KIND_WORDS:
            return np.asarray(graph.kind[self.work] == KIND_WORDS[name])
        names, codes = trace.words("slice", "name"), trace.array("slice", "name")
        ids = graph.slice_id[self.work]
        if name in FAMILY_WORDS:
            wanted = FAMILY_WORDS[name]
            used = np.unique(codes[ids])
            table = np.zeros(len(names), bool)
            table[used] = [family(names[code]) == wanted for code in used.tolist()]
            return np.asarray(table[codes[ids]] & (graph.kind[self.work] == WORK_KINDS.index("compute")))
        matches = _glob(name, names)
        found = np.asarray(matches[codes[ids]])
        return found | self._launched_inside(self._host_rows(name))

    def _launched_inside(self, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which device work was launched inside some host slices."""
        graph, trace = self.graph, self.trace
        found = np.zeros(len(self.work), bool)
        launch = np.full(trace.num_rows("slice"), -1, np.int64)
        for table in ("kernel", "memcpy"):
            launch[trace.array(table, "slice_id")] = trace.array(table, "launch_id")
        calls = launch[graph.slice_id[self.work]]
        start, track = trace.array("slice", "ts"), trace.array("slice", "track_id")
        for thread in np.unique(track[rows]).tolist():
            mine = rows[track[rows] == thread]
            inside = merge(start[mine], trace.end[mine])
            at = np.flatnonzero((calls >= 0) & (track[calls] == thread))
            moments = start[calls[at]]
            found[at] = covered_before(moments + 1, inside) > covered_before(moments, inside)
        return found

    def _host_rows(self, name: str) -> NDArray[np.int64]:
        trace = self.trace
        matches = _glob(name, trace.words("slice", "name"))
        on_host = self.analysis.timelines.classes > 0
        return (
            np.flatnonzero(matches[trace.array("slice", "name")] & on_host) if len(matches) else np.zeros(0, np.int64)
        )

    def _host_comm(self) -> NDArray[np.int64]:
        """Collectives as the host sees them: on CPU jobs they run there."""
        rows = np.flatnonzero(communicates(self.trace)[self.trace.array("slice", "name")])
        return rows[self.analysis.timelines.classes[rows] > 0]

    def _scale_beside_comm(self, weight: NDArray[np.int64]) -> None:
        """What collectives on other threads cost beside their spans: the hand-over, and the main thread's time."""
        graph = self.graph
        rows = self._host_comm()
        is_comm = np.zeros(self.trace.num_rows("slice") + 1, bool)  # one more: of nodes without a slice
        is_comm[rows] = True
        given = (graph.edge == FORK) & is_comm[graph.slice_id[graph.target]]
        awaited = (graph.edge == JOIN) & is_comm[graph.slice_id[graph.source]]
        weight[given | awaited] = _scaled(weight[given | awaited], self.host_comm)
        main = graph.main
        if main is None or not given.any():
            return
        beside = np.unique(graph.slice_id[graph.target[given]])
        share = taken_share(self.analysis, beside, main)
        edges = np.flatnonzero(graph.is_running & (graph.track[graph.target] == main))
        if share:
            took = time_beside(self.analysis, graph, beside, main, edges)
            less = np.rint(took * (share * (1 - self.host_comm))).astype(np.int64)
            weight[edges] = np.maximum(weight[edges] - less, np.minimum(weight[edges], 0))

    def _with_backward(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Host slices, and the backward ops of the forward ops inside them."""
        trace = self.trace
        backward, forward = trace.array("op", "slice_id"), trace.array("op", "forward_op_id").astype(np.int64)
        known = forward >= 0
        backward, forward = backward[known].astype(np.int64), forward[known]
        start, track = trace.array("slice", "ts"), trace.array("slice", "track_id")
        inside = np.zeros(len(forward), bool)
        for thread in np.unique(track[rows]).tolist():
            mine = rows[track[rows] == thread]
            first, last = merge(start[mine], trace.end[mine])
            at = np.flatnonzero(track[forward] == thread)
            moment = start[forward[at]]
            inside[at] = np.searchsorted(first, moment, "right") > np.searchsorted(last, moment, "right")
        found = backward[inside]
        return np.union1d(rows, found[self.analysis.timelines.classes[found] > 0])

    def _scale_threads(self, weight: NDArray[np.int64]) -> None:
        """Host edges anew: each thread's time between two moments, every stretch of it times its factor."""
        graph = self.graph
        running = np.flatnonzero(graph.is_running)
        if not self.by_slice and not self.cost_ns:
            for code in np.flatnonzero(self.by_class != 1).tolist():
                time = self.analysis.edge_times[code]
                weight[running] += _scaled(time, self.by_class[code]) - time
            return
        tracks = graph.track[graph.target[running]]
        slice_track, start = self.trace.array("slice", "track_id"), self.trace.array("slice", "ts")
        for thread, line in self.analysis.timelines.threads.items():
            at = running[tracks == thread]
            if not len(at):
                continue
            begin = graph.time[graph.source[at]] + graph.origin_ns
            end = graph.time[graph.target[at]] + graph.origin_ns
            covers = []
            for rows, factor in self.by_slice:
                mine = rows[slice_track[rows] == thread]
                if len(mine):
                    covers.append((merge(start[mine], self.trace.end[mine]), factor))
            plain = not self.cost_ns and bool((self.by_class == 1).all())
            if plain and len(covers) == 1:
                inside = covered(begin, end, covers[0][0])
                weight[at] += _scaled(inside, covers[0][1]) - inside
            elif covers or self.cost_ns:
                recorded = _recorded(self.analysis, thread) if self.cost_ns else np.empty(0, np.int64)
                weight[at] = _Stretches(line, begin, end, covers, recorded).weights(self.by_class, self.cost_ns)
            else:
                codes = np.flatnonzero(self.by_class != 1).tolist()
                spent = line.spent(codes, begin, end)
                for code, time in zip(codes, spent, strict=True):
                    weight[at] += _scaled(time, self.by_class[code]) - time


class _Stretches:
    """A thread's time between moments, cut where its class, the slices that are scaled or the recorded ones change.

    Each of ``recorded`` (start or end of a slice) may cost some time, taken from what follows until the next one.
    """

    def __init__(
        self, line: Timeline, begin: Int64s, end: Int64s, covers: list[tuple[IntervalSet, float]], recorded: Int64s
    ) -> None:
        bounds = [bound for cover, _ in covers for bound in cover]
        self.times, number = np.unique(np.concatenate([recorded, line.time, *bounds]), return_inverse=True)
        self.num_recorded = np.bincount(number[: len(recorded)], minlength=len(self.times))[:-1]
        self.length = np.diff(self.times)
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
        """The times between the moments, ns, where each slice's recording cost ``cost_ns`` less."""
        factor = by_class[self.code] * self.cover
        cost = np.minimum(self.num_recorded * (cost_ns / 2), self.length)
        change = np.concatenate([[0.0], np.cumsum((self.length - cost) * factor - self.length)])

        def until(place: tuple[NDArray[np.intp], Int64s]) -> NDArray[np.float64]:
            stretch, into = place
            left = np.maximum(into - cost[stretch], 0.0) * factor[stretch]
            return np.asarray(change[stretch] + left - into)

        change_ns: Int64s = np.rint(until(self.end) - until(self.begin)).astype(np.int64)
        took: Int64s = np.maximum(self.took + change_ns, 0)
        return took


def _scaled(time: Int64s, factor: NDArray[np.float64] | float) -> Int64s:
    """Times times factors, rounded to ns; exact where the factor is 1."""
    return np.where(factor == 1, time, np.rint(time * factor)).astype(np.int64)


def _glob(pattern: str, names: list[str]) -> NDArray[np.bool_]:
    regex = re.compile("".join({"*": ".*", "?": "."}.get(c, re.escape(c)) for c in pattern), re.DOTALL)
    return np.array([regex.fullmatch(name) is not None for name in names], bool)
