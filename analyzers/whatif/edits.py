"""Edits of a recording: parts that take k times as long, or nothing."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from msgspec import Struct

from profsuite.analyzers.device_work import COMM
from profsuite.analyzers.host_calls import CLASSES, INPUT, LAUNCH, OP, PYTHON, communicates
from profsuite.analyzers.kernel_families import FAMILIES, family
from profsuite.analyzers.whatif.beside import taken_share, time_beside
from profsuite.analyzers.whatif.parts import DEPENDENCY, FORK, JOIN, LAUNCHED, SYNCED
from profsuite.analyzers.whatif.stretches import Stretches, recorded, recording_cost_ns
from profsuite.trace.classes import WORK_KINDS
from profsuite.trace.intervals import covered, covered_before, merge

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from profsuite.analyzers.analysis import Analysis
    from profsuite.analyzers.whatif.graph import Graph

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
    off first (``recording_cost_ns``).
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
    if not separator or not pattern or math.isnan(factor):
        raise ValueError(f"{text!r} is no scale: write PATTERN=FACTOR, for example gemm=0.5")
    if not 0 <= factor < math.inf:
        raise ValueError(f"{text!r}: the factor must be 0 or more, and finite")
    return pattern, factor


class Edited(NamedTuple):
    """Durations and weights of a graph's nodes and edges after an edit."""

    own: NDArray[np.int64]
    weight: NDArray[np.int64]


def apply(analysis: Analysis, graph: Graph, edit: Edit) -> Edited:
    """The graph's durations under an edit.

    ``ValueError`` for a pattern that nothing matches, for what only a job with device work has (launches, waits for
    the device) where there is none, and for a ``bare_step_ns`` that no cost of recording explains.
    """
    launches = bool((graph.edge == LAUNCHED).any())
    for asked, has, lack in (
        (edit.graphs, launches, "no device work is launched in this trace, so there is nothing for a graph to launch"),
        (edit.no_launch_overhead, launches, "no device work is launched in this trace, so launches cost nothing"),
        (edit.no_sync, bool((graph.kind >= 0).any()), "there is no device work in this trace that the host waits for"),
    ):
        if asked and not has:
            raise ValueError(lack)
    cost = 0.0 if edit.bare_step_ns is None else recording_cost_ns(analysis, graph, edit.bare_step_ns)
    return _Applied(analysis, graph, edit, cost).edited()


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
                records = recorded(self.analysis, thread) if self.cost_ns else None
                weight[at] = Stretches(line, begin, end, covers, records).weights(self.by_class, self.cost_ns)
            else:
                codes = np.flatnonzero(self.by_class != 1).tolist()
                spent = line.spent(codes, begin, end)
                for code, time in zip(codes, spent, strict=True):
                    weight[at] += _scaled(time, self.by_class[code]) - time


def _scaled(time: Int64s, factor: NDArray[np.float64] | float) -> Int64s:
    """Times times factors, rounded to ns; exact where the factor is 1."""
    return np.where(factor == 1, time, np.rint(time * factor)).astype(np.int64)


def _glob(pattern: str, names: list[str]) -> NDArray[np.bool_]:
    regex = re.compile("".join({"*": ".*", "?": "."}.get(c, re.escape(c)) for c in pattern), re.DOTALL)
    return np.array([regex.fullmatch(name) is not None for name in names], bool)
