"""Where allocations were made: the op, the module and the line of source around a moment of a thread."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from profsuite.analyzers.host_calls import INPUT, OP, matching
from profsuite.analyzers.places import is_frame, is_own_frame, own_frame
from profsuite.trace.relations import enclosing

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from profsuite.trace.model import Trace

    Rows = NDArray[np.int64]

_STRAIGHT = 64
"""Slices to climb one by one before climbing by powers of two."""


@dataclass(frozen=True)
class Origins:
    """For each of n moments, rows of ``slice`` (-1 for none): the innermost and outermost op, the module call.

    ``loader`` is the data loader's slice around it.  ``frames`` codes (-1 for none) index ``frame_names``, ``modules``
    index ``module_names``; these are null where nothing of the kind was recorded in the whole trace.
    """

    op: Rows
    root: Rows
    module_call: Rows
    loader: Rows
    modules: Rows
    module_names: list[str] | None
    frames: Rows
    frame_names: list[str] | None


def innermost(trace: Trace, track: NDArray[np.int32], ts: NDArray[np.int64]) -> Rows:
    """The innermost slice of a track that runs at each of n moments; -1 where none does (int64[n])."""
    order = trace.track_order
    if not len(order) or not len(ts):
        return np.full(len(ts), -1, np.int64)
    start, tracks, end = trace.array("slice", "ts")[order], trace.array("slice", "track_id")[order], trace.end
    low, high = min(int(start.min()), int(ts.min())), max(int(start.max()), int(ts.max()))
    bits = (high - low).bit_length()
    if int(tracks.max()).bit_length() + bits > 62:  # centuries, or very many threads: ranks instead of times
        distinct = np.unique(start)
        start, ts_key = np.searchsorted(distinct, start), np.searchsorted(distinct, ts, "right") - 1
        low, bits = -1, len(distinct).bit_length() + 1
    else:
        ts_key = ts
    key = (tracks.astype(np.int64) << bits) | (start - low)
    place = np.searchsorted(key, (track.astype(np.int64) << bits) | (ts_key - low), "right") - 1
    at = np.maximum(place, 0)
    row = np.where((place >= 0) & (tracks[at] == track), order[at], -1).astype(np.int64)
    return _still_running(trace.array("slice", "parent_id"), end, row, ts)


def _still_running(parent: NDArray[np.int32], end: NDArray[np.int64], row: Rows, ts: NDArray[np.int64]) -> Rows:
    """The innermost of ``row`` and its ancestors that ends after ``ts``."""
    over = np.flatnonzero(row >= 0)
    for _ in range(_STRAIGHT):
        over = over[end[row[over]] <= ts[over]]
        if not len(over):
            return row
        row[over] = parent[row[over]]
        over = over[row[over] >= 0]
    # What contains a slice ends no earlier than it: search the ancestors by halving.
    jumps = [parent]
    while bool((jumps[-1] >= 0).any()):
        last = jumps[-1]
        jumps.append(np.where(last >= 0, last[np.maximum(last, 0)], -1).astype(np.int32))
    over = over[end[row[over]] <= ts[over]]
    here = row[over]
    for jump in reversed(jumps):
        ahead = jump[here]
        go = (ahead >= 0) & (end[np.maximum(ahead, 0)] <= ts[over])
        here = np.where(go, ahead, here)
    row[over] = parent[here]
    return row


def at_or_above(trace: Trace, wanted: NDArray[np.bool_], rows: Rows) -> Rows:
    """The innermost of each row and its ancestors that is ``wanted``, -1 where none is."""
    above = enclosing(trace.array("slice", "parent_id"), wanted, rows.astype(np.int32))
    return np.where((rows >= 0) & wanted[rows], rows, above).astype(np.int64)


def origins(trace: Trace, classes: NDArray[np.int8], track: NDArray[np.int32], ts: NDArray[np.int64]) -> Origins:
    """What ran on a track at each of n moments; ``classes`` are those of ``host_classes``."""
    name, words = trace.array("slice", "name"), trace.words("slice", "name")
    if not len(name):
        none = np.full(len(ts), -1, np.int64)
        return Origins(none, none, none, none, none, None, none, None)
    row = innermost(trace, track, ts)
    is_op = classes == OP
    op = at_or_above(trace, is_op, row)
    module_like = matching(trace, r"^nn\.Module: ")
    is_module = module_like[name] if module_like.any() else np.zeros(len(name), bool)
    module_call = at_or_above(trace, is_module, row)
    loader = at_or_above(trace, classes == INPUT, row)
    modules, module_names = _modules(trace, words, row, module_call, bool(is_module.any()))
    frames, frame_names = _frames(trace, words, row)
    return Origins(op, outermost(trace, is_op, op), module_call, loader, modules, module_names, frames, frame_names)


def outermost(trace: Trace, is_op: NDArray[np.bool_], op: Rows) -> Rows:
    """The outermost op around each op (itself where none is), -1 for -1."""
    up = np.arange(len(is_op))
    rows = np.flatnonzero(is_op)
    above = enclosing(trace.array("slice", "parent_id"), is_op, rows.astype(np.int32))
    up[rows] = np.where(above >= 0, above, rows)
    while True:  # pointer doubling: as many rounds as the depth has binary digits
        further = up[up[rows]]
        if bool((further == up[rows]).all()):
            break
        up[rows] = further
    return np.where(op >= 0, up[np.maximum(op, 0)], -1)


def _modules(
    trace: Trace, words: list[str], row: Rows, module_call: Rows, called: bool
) -> tuple[Rows, list[str] | None]:
    """Module codes from the calls of modules, else from the hierarchy that ops were recorded with."""
    if called:
        code = np.where(module_call >= 0, trace.array("slice", "name")[np.maximum(module_call, 0)], -1)
        return code.astype(np.int64), [word.removeprefix("nn.Module: ") for word in words]
    return _of_op(trace, "module_hierarchy", row)


def _of_op(trace: Trace, column: str, row: Rows) -> tuple[Rows, list[str] | None]:
    """A text column of ``op`` at the innermost op that has it; null where no op has it."""
    codes = trace.array("op", column)
    if not bool((codes >= 0).any()):
        return np.full(len(row), -1, np.int64), None
    told = np.full(trace.num_rows("slice"), -1, np.int64)
    told[trace.array("op", "slice_id")] = codes
    holder = at_or_above(trace, told >= 0, row)
    return np.where(holder >= 0, told[np.maximum(holder, 0)], -1), trace.words("op", column)


def _frames(trace: Trace, words: list[str], row: Rows) -> tuple[Rows, list[str] | None]:
    """The innermost frame of the user's own code, from Python calls, else from the stacks that ops carry."""
    name = trace.array("slice", "name")
    frame = np.array([is_frame(word) for word in words] or [False])
    if frame[name].any():
        own = np.array([is_own_frame(word) for word in words])
        found = at_or_above(trace, own[name], row)
        lost = found < 0
        found[lost] = at_or_above(trace, frame[name], row[lost])
        return np.where(found >= 0, name[np.maximum(found, 0)], -1).astype(np.int64), words
    codes, stacks = _of_op(trace, "call_stack", row)
    if stacks is None:
        return codes, None
    frames = [own_frame(stack.split(";")) for stack in stacks]
    numbers: dict[str, int] = {}
    code_of = [-1 if frame is None else numbers.setdefault(frame, len(numbers)) for frame in frames]
    known = np.array([*code_of, -1], np.int64)
    return known[codes], list(numbers)
