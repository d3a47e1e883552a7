"""What the parts of the graph share: kinds of edges, a list of edges, all device work in one numbering."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from profsuite.analyzers.host_calls import ALLOCATOR, CLASSES, COMPILE, GC, INPUT, LAUNCH, OP, SYNC

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from profsuite.analyzers.analysis import Analysis
    from profsuite.analyzers.host_timeline import Timeline

    Int64s = NDArray[np.int64]

EDGES: Final = ("host", "stream", "launch", "dependency", "sync", "fork", "join", "end", "anchor")
"""Kinds of edges by their code.

host        the thread's own program order
stream      the work before on the same stream
launch      the call that launched it
dependency  work of another stream
sync        a host call that waits for device work
fork, join  work that another thread is given, and the wait for it
end         the end of the job
anchor      no cause is known: it comes when it came
"""
HOST, STREAM, LAUNCHED, DEPENDENCY, SYNCED, FORK, JOIN, END, ANCHOR = range(len(EDGES))
NUM_KINDS: Final = len(EDGES)

LAUNCH_NS: Final = 5_000
"""From a launch call's start to its kernel's, where no kernel was seen that waited for nothing else."""

ACTIVE: Final = (OP, LAUNCH, ALLOCATOR, SYNC, INPUT, COMPILE, GC)
"""Classes of host time that show a thread at work; Python frames also last while it waits."""
IS_ACTIVE: Final = np.isin(np.arange(len(CLASSES)), ACTIVE)
"""The same, indexed by the class."""


class Columns(NamedTuple):
    """Edges as columns; see ``Edges``."""

    target: Int64s
    source: Int64s
    weight: Int64s
    kind: NDArray[np.int8]
    rest: Int64s
    running: NDArray[np.bool_]

    def at(self, rows: NDArray[Any]) -> Columns:
        """Some of the edges."""
        return Columns(*(column[rows] for column in self))


class Edges:
    """A list of edges in the making: ``arrays`` gives their columns.

    ``rest`` is what of a weight the edge's cause does not explain; ``running`` marks weights that are what a thread
    did meanwhile.
    """

    def __init__(self) -> None:
        self._parts: list[Columns] = []

    def add(
        self,
        target: Int64s,
        source: Int64s,
        weight: Int64s,
        kind: int,
        rest: Int64s | None = None,
        running: NDArray[np.bool_] | None = None,
    ) -> None:
        """Append edges of one kind."""
        rest = np.zeros(len(target), np.int64) if rest is None else rest
        running = np.zeros(len(target), bool) if running is None else running
        self._parts.append(Columns(target, source, weight, np.full(len(target), kind, np.int8), rest, running))

    def extend(self, columns: Columns) -> None:
        """Append edges."""
        self._parts.append(columns)

    def add_shifted(self, other: Edges, work: int, points: int) -> None:
        """Append edges whose ends number device work from 0 and host points from -1 downwards."""
        for part in other._parts:
            target, source = (np.where(end >= 0, end + work, points - 1 - end) for end in part[:2])
            self._parts.append(part._replace(target=target, source=source))

    def arrays(self) -> Columns:
        """All edges."""
        none = np.zeros(0, np.int64)
        self.add(none, none, none, HOST)
        return Columns(*(np.concatenate(column) for column in zip(*self._parts, strict=True)))


class Machine:
    """The device work of all devices, by (device, stream, start), and the host threads.

    ``stream`` numbers the streams of all devices; ``launch_start`` and ``launch_end`` are those of the call that
    launched the work, and ``launch`` its row: -1 where it is not known, or began after the work it should have
    launched (clocks that disagree).  ``step`` is the row of ``step``, -1 for none: a step that the recording cuts
    is none.
    """

    def __init__(self, analysis: Analysis) -> None:
        trace, works = analysis.trace, analysis.work
        self.analysis = analysis
        self.trace = trace
        self.threads: dict[int, Timeline] = analysis.timelines.threads
        self.classes = analysis.timelines.classes
        self.ts, self.ends, self.tracks = trace.array("slice", "ts"), trace.end, trace.array("slice", "track_id")
        none = np.zeros(0, np.int64)
        column = {
            name: np.concatenate([getattr(work, name) for work in works]) if works else none
            for name in ("ids", "start", "end", "kind", "streams", "launch_ids")
        }
        device = np.concatenate([np.full(len(w.ids), number) for number, w in enumerate(works)]) if works else none
        order = np.lexsort((column["start"], column["streams"], device))
        self.ids: Int64s = column["ids"][order]
        self.start: Int64s = column["start"][order]
        self.end: Int64s = column["end"][order]
        self.kind: NDArray[np.int8] = column["kind"][order].astype(np.int8)
        self.device: Int64s = device[order]
        streams = column["streams"][order]
        new = np.ones(len(order), bool)
        new[1:] = (self.device[1:] != self.device[:-1]) | (streams[1:] != streams[:-1])
        self.stream: Int64s = np.cumsum(new) - 1
        self.begins = np.flatnonzero(new)
        launch = column["launch_ids"][order].astype(np.int64)
        known = launch >= 0
        known[known] = (self.ts[launch[known]] <= self.start[known]) & (self.classes[launch[known]] > 0)
        self.launch: Int64s = np.where(known, launch, -1)
        step = trace.array("slice", "step_id")[self.ids].astype(np.int64)
        self.whole_steps: NDArray[np.bool_] = ~trace.array("step", "truncated").astype(bool)
        whole = np.append(self.whole_steps, False)[step]
        self.step: Int64s = np.where(whole, step, -1)
        starts = [int(line.time[0]) for line in self.threads.values()]
        self.origin = min([*starts, *self.start[self.begins].tolist()], default=0)

    @property
    def num_work(self) -> int:
        """Pieces of device work."""
        return len(self.ids)

    @property
    def num_streams(self) -> int:
        """Streams of all devices."""
        return len(self.begins)

    @cached_property
    def launch_start(self) -> Int64s:
        """When each piece of work was launched; its own start where that is not known."""
        return np.where(self.launch >= 0, self.ts[self.launch], self.start)

    @cached_property
    def main(self) -> int | None:
        """The track of the thread that gives work to the others: it marks the steps, or is at work first.

        Threads that are at work for less than a twentieth of the busiest one's time are none.
        """
        marks = self.trace.array("step", "slice_id")
        if len(marks):
            tracks = np.bincount(self.tracks[marks])
            if int(tracks.argmax()) in self.threads:
                return int(tracks.argmax())
        active = {track: int(np.diff(line.time)[IS_ACTIVE[line.code]].sum()) for track, line in self.threads.items()}
        most = max(active.values(), default=0)
        busy = [track for track, time in active.items() if 20 * time >= most]
        return min(busy, key=lambda track: (int(self.threads[track].time[0]), track), default=None)

    def stream_rows(self, number: int) -> slice:
        """The work of one stream."""
        stop = self.begins[number + 1] if number + 1 < len(self.begins) else self.num_work
        return slice(int(self.begins[number]), int(stop))
