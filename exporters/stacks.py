"""Call stacks of a trace as one prefix tree: time, device time and allocations by who caused them.

What flame graphs and pprof show.  A node is a distinct stack (thread, outer frame, …, inner frame), however often
it ran; the work is done in numpy, level by level.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from profsuite.analyzers.device_work import device_work
from profsuite.analyzers.memory.origins import innermost
from profsuite.analyzers.places import thread_label
from profsuite.analyzers.ranking import sum_by_group
from profsuite.exporters.names import printable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from profsuite.trace.model import Trace

DEEPEST = 1_000
"""Frames of a stack: what lies deeper counts for the frame there, so that no input makes files quadratic."""

_PYTHON = re.compile(r"^(?P<file>[^\n]{1,1000})\((?P<line>\d{1,9})\): (?P<function>.+)$", re.DOTALL)
_DEVICE_TYPES = {0: "cpu", 1: "cuda", 6: "hip", 12: "xpu", 13: "mps", 15: "hpu", 19: "mtia", 20: "privateuse1"}
"""c10::DeviceType; CPU has no ordinal."""


@dataclass(frozen=True)
class Weights:
    """One quantity by stack: ``value`` (in ``unit``) and ``count`` at each of ``node``; nodes may repeat."""

    name: str
    unit: str
    node: NDArray[np.int64]
    value: NDArray[np.int64]
    count: NDArray[np.int64]


@dataclass(frozen=True)
class Stacks:
    """The tree: node ``i`` is ``frames[frame[i]]`` called by ``parent[i]`` (-1: it is a thread); parents come first.

    ``host`` is self time on the threads, ``device`` the durations of kernels, copies and fills by the stack that
    launched them (a device's track where no launch is known), ``allocated`` what was allocated, by device.
    ``node`` is the stack of every slice, -1 for those of no host thread.
    """

    frames: list[str]
    parent: NDArray[np.int64]
    frame: NDArray[np.int64]
    node: NDArray[np.int64]
    host: Weights
    device: Weights
    allocated: tuple[Weights, ...]

    def path(self, node: int) -> Iterator[int]:
        """The frames of a stack, the innermost first and the thread last."""
        while node >= 0:
            yield int(self.frame[node])
            node = int(self.parent[node])


def python_frame(name: str) -> tuple[str, str | None, int | None]:
    """Function, file and line of a frame as the profiler writes Python's (``train.py(88): step``)."""
    found = _PYTHON.match(name)
    return (found["function"], found["file"], int(found["line"])) if found else (name, None, None)


def stacks(trace: Trace) -> Stacks:
    """The stacks of a trace."""
    tree = _Tree(trace)
    node = tree.host()
    rows = np.flatnonzero(node >= 0)
    host = _gathered("host self time", "nanoseconds", node[rows], trace.array("slice", "self_dur")[rows])
    device = _device(trace, tree, node)
    allocated = _allocated(trace, node)
    parent, frame = tree.nodes()
    frames = [printable(name) for name in trace.words("slice", "name")]
    frames += [printable(thread_label(trace, track)) for track in range(trace.num_rows("track"))]
    return Stacks(frames, parent, frame, node, host, device, allocated)


class _Tree:
    """The nodes so far; the first are the tracks."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.width = len(trace.words("slice", "name")) + trace.num_rows("track")
        tracks = np.arange(trace.num_rows("track"), dtype=np.int64)
        self.size = len(tracks)
        self._parents = [np.full(len(tracks), -1, np.int64)]
        self._frames = [tracks + len(trace.words("slice", "name"))]

    def called(self, parent: NDArray[np.int64], frame: NDArray[np.int64]) -> NDArray[np.int64]:
        """The nodes of frames called by nodes, made where they are new in this call."""
        keys, place = np.unique(parent * self.width + frame, return_inverse=True)
        first = self.size
        self._parents.append(keys // self.width)
        self._frames.append(keys % self.width)
        self.size += len(keys)
        nodes: NDArray[np.int64] = first + place.reshape(-1)
        return nodes

    def host(self) -> NDArray[np.int64]:
        """The node of every slice of a host thread, -1 for the others."""
        trace = self.trace
        track, depth = trace.array("slice", "track_id"), trace.array("slice", "depth")
        parent, name = trace.array("slice", "parent_id"), trace.array("slice", "name").astype(np.int64)
        is_host = np.array([row == "host" for row in trace.tracks.column("kind").to_pylist()], bool)
        rows = np.flatnonzero(is_host[track]) if len(track) else np.zeros(0, np.int64)
        node = np.full(len(track), -1, np.int64)
        rows = rows[np.argsort(depth[rows], kind="stable")]
        sorted_depth = depth[rows]
        deepest = int(sorted_depth[-1]) if len(rows) else -1
        bounds = np.searchsorted(sorted_depth, np.arange(deepest + 2))
        for level in range(deepest + 1):
            of = rows[bounds[level] : bounds[level + 1]]
            up = parent[of]
            around = np.where(up >= 0, node[up], track[of])
            node[of] = self.called(around, name[of]) if level < DEEPEST else around
        return node

    def nodes(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Parent and frame of every node."""
        return np.concatenate(self._parents), np.concatenate(self._frames)


def _device(trace: Trace, tree: _Tree, node: NDArray[np.int64]) -> Weights:
    """Device work under the call that launched it, else under its op, else under its own track."""
    work = device_work(trace)
    empty = np.zeros(0, np.int64)
    ids = np.concatenate([empty, *(w.ids for w in work)])
    around = trace.array("slice", "track_id")[ids].astype(np.int64)
    for known in ("op_ids", "launch_ids"):
        by = np.concatenate([empty, *(getattr(w, known) for w in work)])
        found = np.where(by >= 0, node[by], -1) if len(node) else by
        around = np.where(found >= 0, found, around)
    nodes = tree.called(around, trace.array("slice", "name")[ids].astype(np.int64))
    return _gathered("device time by launch", "nanoseconds", nodes, trace.array("slice", "dur")[ids])


def _allocated(trace: Trace, node: NDArray[np.int64]) -> tuple[Weights, ...]:
    """Bytes allocated by the innermost slice of the thread at that time, by device."""
    size = trace.array("memory_event", "bytes")
    rows = np.flatnonzero(size > 0)
    nodes = allocating_nodes(trace, rows, node)
    nodes = np.where(nodes >= 0, nodes, trace.array("memory_event", "track_id")[rows])
    labels = np.array(device_labels(trace), object)[rows]
    return tuple(
        _gathered(f"allocated on {label}", "bytes", nodes[labels == label], size[rows[labels == label]])
        for label in sorted(set(labels.tolist()))
    )


def device_labels(trace: Trace) -> list[str]:
    """What each memory event calls its device: ``cpu``, ``cuda:0``, …"""
    kind, device = trace.array("memory_event", "device_type"), trace.array("memory_event", "device")
    pairs, place = np.unique(np.stack([kind, device]), axis=1, return_inverse=True)
    named = []
    for number, ordinal in pairs.T.tolist():
        word = _DEVICE_TYPES.get(number, f"device type {number}" if number >= 0 else "unknown device")
        named.append(f"{word}:{ordinal}" if ordinal >= 0 else word)
    return [named[i] for i in place.reshape(-1).tolist()]


def allocating_nodes(trace: Trace, events: NDArray[np.int64], node: NDArray[np.int64]) -> NDArray[np.int64]:
    """For rows of ``memory_event`` the stack (``Stacks.node``) of their thread at that time, -1 where none is known."""
    at, track = (trace.array("memory_event", column)[events] for column in ("ts", "track_id"))
    around = innermost(trace, track, at)
    return np.where(around >= 0, node[around], -1) if len(node) else around


def _gathered(name: str, unit: str, node: NDArray[np.int64], value: NDArray[np.int64]) -> Weights:
    """The sums by node."""
    nodes, group, count = np.unique(node, return_inverse=True, return_counts=True)
    return Weights(name, unit, nodes, sum_by_group(group.reshape(-1), value, len(nodes)), count.astype(np.int64))
