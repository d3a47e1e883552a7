"""speedscope's JSON: each host thread over time, device time and allocations by call stack.

The format is that of https://www.speedscope.app/file-format-schema.json.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from profsuite.exporters.rows import Op, Part, literal, render, words
from profsuite.exporters.stacks import python_frame, stacks
from profsuite.trace.lanes import MAX_LANES, find_lanes
from profsuite.trace.nesting import nest, track_order

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from profsuite.exporters.source import Source
    from profsuite.exporters.stacks import Stacks, Weights
    from profsuite.exporters.target import Sink, Target
    from profsuite.trace.model import Trace

SCHEMA = "https://www.speedscope.app/file-format-schema.json"
CHUNK = 2**17
"""Events that are written at once."""


@dataclass(frozen=True, slots=True)
class Speedscope:
    """The format."""

    name: str = "speedscope"
    suffix: str = ".speedscope.json"
    carries: str = "Host threads over time, frame by frame; device time and allocated bytes by the stack behind them."
    compresses: bool = True
    merges: bool = False

    def write(self, source: Source, target: Target) -> str:
        """Write one file with a profile a thread, one of device time and one a device of allocations."""
        trace = source.trace()
        found = stacks(trace)
        threads = _threads(trace, found)
        sampled = [each for each in (found.device, *found.allocated) if len(each.node)]
        with target.open() as out:
            _say(out, f'{{"$schema":{json.dumps(SCHEMA)},"exporter":"profsuite",')
            _say(out, f'"name":{json.dumps(trace.info.source)},"activeProfileIndex":0,\n"shared":{{"frames":[\n')
            _say(out, ",\n".join(json.dumps(_frame(name)) for name in found.frames) + ']},\n"profiles":[')
            for number, thread in enumerate(threads):
                _say(out, ",\n" if number else "\n")
                thread.write(out)
            for number, weights in enumerate(sampled, len(threads)):
                _say(out, ",\n" if number else "\n")
                _say(out, json.dumps(_sampled(found, weights)))
            _say(out, "]}\n")
        return f"{len(threads)} threads, {len(sampled)} profiles by stack"


FORMAT = Speedscope()


def _say(out: Sink, text: str) -> None:
    out.write(text.encode("utf-8", "replace"))


def _frame(name: str) -> dict[str, Any]:
    function, file, line = python_frame(name)
    return {"name": name} if file is None else {"name": function, "file": file, "line": line}


def _sampled(found: Stacks, weights: Weights) -> dict[str, Any]:
    return {
        "type": "sampled",
        "name": weights.name,
        "unit": weights.unit,
        "startValue": 0,
        "endValue": int(weights.value.sum()),
        "samples": [list(found.path(node))[::-1] for node in weights.node.tolist()],
        "weights": weights.value.tolist(),
    }


@dataclass(frozen=True)
class _Thread:
    """One thread, or the slices of one that overlap its others: events in order, times since ``start``."""

    name: str
    start: int
    end: int
    frame: NDArray[np.int64]
    is_close: NDArray[np.int32]
    at: NDArray[np.int64]

    def write(self, out: Sink) -> None:
        """Write it as an evented profile."""
        head: dict[str, Any] = {"type": "evented", "name": self.name, "unit": "nanoseconds"}
        head |= {"startValue": self.start, "endValue": self.end}
        _say(out, json.dumps(head)[:-1] + ',"events":[\n')
        letters = words([b"O", b"C"])
        for first in range(0, len(self.at), CHUNK):
            rows = slice(first, first + CHUNK)
            parts = [
                Part(Op.WORD, b',\n{"type":"', self.is_close[rows], words=letters),
                Part(Op.INT, b'","frame":', self.frame[rows]),
                Part(Op.INT, b',"at":', self.at[rows]),
                literal(b"}"),
            ]
            text = render(len(self.at[rows]), parts)
            out.write(text if first else text[2:])
        _say(out, "]}")


def _threads(trace: Trace, found: Stacks) -> list[_Thread]:
    """The host threads; times count from the first slice on any of them."""
    is_host = np.array([kind == "host" for kind in trace.tracks.column("kind").to_pylist()], bool)
    track = trace.array("slice", "track_id")
    rows = np.flatnonzero(is_host[track]) if len(track) else np.zeros(0, np.int64)
    if not len(rows):
        return []
    ts, dur, name = (trace.array("slice", column)[rows] for column in ("ts", "dur", "name"))
    lane = find_lanes(track[rows], ts, dur)
    keys, place = np.unique(track[rows].astype(np.int64) * MAX_LANES + lane, return_inverse=True)
    place = place.reshape(-1).astype(np.int32)
    parent, depth, _ = nest(place, ts, dur, np.zeros(len(rows), bool))
    order = track_order(place, ts, dur)
    # In order, slice i has i opens and i - depth closes before it; it closes after its descendants.
    first_of = np.searchsorted(place[order], np.arange(len(keys)))
    rank = np.empty(len(rows), np.int64)
    rank[order] = np.arange(len(rows))
    opens = 2 * rank - depth
    closes = opens + 2 * _sizes(parent, depth) - 1
    events = 2 * len(rows)
    at, frame, is_close = np.empty(events, np.int64), np.empty(events, np.int64), np.ones(events, np.int32)
    at[opens], at[closes] = ts, ts + dur
    frame[opens] = frame[closes] = name
    is_close[opens] = 0
    start = int(ts.min())
    first_label = len(trace.words("slice", "name"))
    threads = []
    bounds = [*(2 * first_of).tolist(), events]
    for number, key in enumerate(keys.tolist()):
        part = slice(bounds[number], bounds[number + 1])
        label = found.frames[first_label + key // MAX_LANES]
        if key % MAX_LANES:
            label += f" (overlapping, {key % MAX_LANES})"
        # Only where the last lane takes what overlaps in more lanes than there are does time go back.
        times = np.maximum.accumulate(at[part] - start)
        threads.append(_Thread(label, int(times[0]), int(times[-1]), frame[part], is_close[part], times))
    return threads


def _sizes(parent: NDArray[np.int32], depth: NDArray[np.int32]) -> NDArray[np.int64]:
    """The number of slices in each slice, itself included."""
    size = np.ones(len(parent), np.int64)
    order = np.argsort(depth, kind="stable")
    bounds = np.searchsorted(depth[order], np.arange(int(depth.max()) + 2))
    for level in range(len(bounds) - 2, 0, -1):
        rows = order[bounds[level] : bounds[level + 1]]
        np.add.at(size, parent[rows], size[rows])
    return size
