"""The nodes of an execution trace, numbered in order: threads, ops and annotations, device work below its op."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from profsuite.analyzers.memory.origins import innermost
from profsuite.trace.classes import Role
from profsuite.trace.nesting import nest, track_order
from profsuite.trace.readers.fields import NULL_INT64
from profsuite.trace.relations import enclosing

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from profsuite.trace.model import Trace

ROOT: Final = 1
"""Id of the process."""
FUNCTION, BACKWARD, USER = 0, 1, 7
"""Scopes of torch's RecordFunction."""
ENGINE: Final = "autograd::engine::evaluate_function: "
"""What is around every backward op, before its name."""


@dataclass(frozen=True, slots=True)
class Nodes:
    """All nodes but the process, by id from 2 on.

    ``row`` is the slice (-1: a thread), ``track`` the thread of a host node, ``parent`` an id, ``op_row`` the slice
    whose inputs and attributes it has (-1: none), ``is_device`` tells device work.  ``sequence`` is -1 where there
    is none.  ``thread`` and ``forward_thread`` are numbers as RecordFunction counts threads (0: unknown or none),
    ``forward_parent`` an id (0: none), ``exclusive`` ns.
    """

    row: NDArray[np.int64]
    track: NDArray[np.int64]
    parent: NDArray[np.int64]
    op_row: NDArray[np.int64]
    is_device: NDArray[np.bool_]
    sequence: NDArray[np.int64]
    thread: NDArray[np.int64]
    forward_thread: NDArray[np.int64]
    forward_parent: NDArray[np.int64]
    scope: NDArray[np.int64]
    exclusive: NDArray[np.int64]


def find_nodes(trace: Trace) -> Nodes:
    """The nodes of a trace: a parent is the innermost op or annotation around its start on its thread.

    Device work follows the op that launched it; where that is unknown it is the process' own.
    """
    is_host = np.isin(trace.roles, (Role.OP, Role.ANNOTATION))
    rows = np.flatnonzero(is_host)
    slices = {name: trace.array("slice", name) for name in ("ts", "dur", "track_id")}
    ts, dur, track = (slices[name][rows] for name in ("ts", "dur", "track_id"))
    above, _, exclusive = nest(track, ts, dur, np.zeros(len(rows), bool))
    order = track_order(np.zeros(len(rows), np.int32), ts, dur)
    place = np.empty(len(rows), np.int64)
    place[order] = np.arange(len(rows))
    threads, first = np.unique(track[order], return_index=True)  # each before its first op
    work, work_op = _device_work(trace, is_host)
    host_of = np.full(len(is_host) + 1, -1)
    host_of[rows] = np.arange(len(rows))
    below = host_of[work_op]  # -1: unknown

    # What stands where: (place of the host node, thread / it / device work below it, start).
    num = (len(threads), len(rows), len(work))
    at = np.concatenate((first, place, np.where(below >= 0, place[below] if len(rows) else 0, len(rows))))
    kind = np.repeat(np.arange(3), num)
    start = np.concatenate((np.zeros(num[0] + num[1], np.int64), slices["ts"][work]))
    found = np.lexsort((start, kind, at))
    ids = np.empty(len(found), np.int64)
    ids[found] = ROOT + 1 + np.arange(len(found))
    thread_ids, host_ids, _ = np.split(ids, np.cumsum(num)[:2])
    of_track = np.searchsorted(threads, track)

    parent = np.where(above >= 0, host_ids[above], thread_ids[of_track]) if len(rows) else np.zeros(0, np.int64)
    numbers = _thread_numbers(trace, threads[np.argsort(first)].tolist())
    thread = np.array([numbers[number] for number in track.tolist()], np.int64) if len(rows) else np.zeros(0, np.int64)
    # The profiler copies both from a backward op to the engine's slice around it, where torch has neither.
    engine = np.array([word.startswith(ENGINE) for word in trace.words("slice", "name")] or [False])
    is_engine = engine[trace.array("slice", "name")[rows]]
    sequence = np.where(is_engine, -1, _of_ops(trace, "sequence_number", -1)[rows])
    forward_thread = np.where(is_engine, 0, np.maximum(0, _of_ops(trace, "forward_thread_id", 0)[rows]))
    by_number = {name: number for number, name in numbers.items()}
    distinct, which = np.unique(forward_thread, return_inverse=True)
    forward_track = np.array([by_number.get(name, -1) for name in distinct.tolist()], np.int64)[which.reshape(-1)]
    forward_parent = np.where(forward_track == track, parent, 0)
    away = np.flatnonzero((forward_track >= 0) & (forward_track != track))
    if len(away):
        inside = innermost(trace, forward_track[away].astype(np.int32), ts[away])
        around = enclosing(trace.array("slice", "parent_id"), is_host, np.maximum(inside, 0).astype(np.int32))
        around = np.where(inside < 0, -1, np.where(is_host[inside], inside, around))
        root = thread_ids[np.searchsorted(threads, forward_track[away])]
        forward_parent[away] = np.where(around >= 0, host_ids[host_of[around]], root)

    def joined(of_thread: Any, of_host: NDArray[Any], of_work: Any) -> NDArray[Any]:
        parts = [np.broadcast_to(part, size) for part, size in zip((of_thread, of_host, of_work), num, strict=True)]
        return np.concatenate(parts)[found]

    def inherited(values: NDArray[np.int64], none: int) -> NDArray[np.int64]:
        return np.where(below >= 0, values[below], none) if len(rows) else np.full(len(work), none)

    scope = _scopes(trace, rows, above, forward_thread)
    return Nodes(
        row=joined(-1, rows, work),
        track=joined(threads, track, inherited(track.astype(np.int64), -1)),
        parent=joined(ROOT, parent, inherited(host_ids, ROOT)),
        op_row=joined(-1, rows, inherited(rows, -1)),
        is_device=joined(False, np.zeros(len(rows), bool), True),
        sequence=joined(-1, sequence, inherited(sequence, -1)),
        thread=joined(
            np.array([numbers[number] for number in threads.tolist()], np.int64), thread, inherited(thread, 0)
        ),
        forward_thread=joined(0, forward_thread, inherited(forward_thread, 0)),
        forward_parent=joined(0, forward_parent, inherited(forward_parent, 0)),
        scope=joined(USER, scope, inherited(scope, USER)),
        exclusive=joined(0, exclusive, slices["dur"][work]),
    )


def _device_work(trace: Trace, is_host: NDArray[np.bool_]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Slices of device work and the op, or annotation, that launched each (-1: unknown)."""
    row, launch, op = (
        np.concatenate([trace.array(table, column) for table in ("kernel", "memcpy")]).astype(np.int64)
        for column in ("slice_id", "launch_id", "op_id")
    )
    around = enclosing(trace.array("slice", "parent_id"), is_host, np.maximum(launch, 0).astype(np.int32))
    return row, np.where(op >= 0, op, np.where(launch >= 0, around, -1))


def _of_ops(trace: Trace, column: str, none: int) -> NDArray[np.int64]:
    """A column of table ``op`` for every slice."""
    values = np.full(trace.num_rows("slice"), none, np.int64)
    found = trace.array("op", column).astype(np.int64)
    values[trace.array("op", "slice_id")] = np.where(found == NULL_INT64, none, found)
    return values


def _thread_numbers(trace: Trace, tracks: list[int]) -> dict[int, int]:
    """RecordFunction's number of each thread: backward ops say that of their forward op; else a free one."""
    op, number = trace.array("op", "forward_op_id"), trace.array("op", "forward_thread_id")
    known = (op >= 0) & (number > 0) & (number < 2**31)
    pairs, count = np.unique(
        np.stack([trace.array("slice", "track_id")[op[known]].astype(np.int64), number[known]]),
        axis=1,
        return_counts=True,
    )
    found: dict[int, int] = {}
    for place in np.argsort(-count, kind="stable").tolist():
        track, name = pairs[:, place].tolist()
        if track not in found and name not in found.values():
            found[track] = name
    free = iter(sorted(set(range(1, len(tracks) + len(found) + 1)) - set(found.values())))
    return found | {track: next(free) for track in tracks if track not in found}


def _scopes(
    trace: Trace, rows: NDArray[np.int64], above: NDArray[np.int32], forward_thread: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Annotations are the user's; a backward op names a forward thread, or the engine evaluates it by its name."""
    scope = np.where(trace.roles[rows] == Role.ANNOTATION, USER, FUNCTION)
    words = trace.words("slice", "name")
    code = {word: number for number, word in enumerate(words)}
    called = np.array(
        [code.get(word.removeprefix(ENGINE), -1) if word.startswith(ENGINE) else -1 for word in words] or [-1]
    )
    name = trace.array("slice", "name")[rows]
    is_called = (above >= 0) & (called[name[above]] == name) if len(rows) else np.zeros(0, bool)
    return np.where((scope == FUNCTION) & ((forward_thread > 0) | is_called), BACKWARD, scope)
