"""How slices relate: steps, launches and their device work, ops around launches, forward and backward.

Everything is vectorised; rows are row numbers of ``slice``, -1 for none.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow.compute as pc

from profsuite.trace.classes import DEVICE_WORK, Role, role_mask
from profsuite.trace.columns import to_numpy
from profsuite.trace.flows import LAUNCH_FLOWS, launches_by_flow
from profsuite.trace.joins import earliest_with
from profsuite.trace.readers.fields import NULL_INT64

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    Rows = NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Slices:
    """The columns of ``slice`` that relations are found from; nulls are ``NULL_INT64``, rows -1."""

    ts: NDArray[np.int64]
    dur: NDArray[np.int64]
    track: NDArray[np.int32]
    name: NDArray[np.int32]
    role: NDArray[np.int8]
    correlation: NDArray[np.int64]
    external: NDArray[np.int64]
    parent: NDArray[np.int32]
    names: pa.StringArray


@dataclass(frozen=True, slots=True)
class Steps:
    """Training steps by start: rows of ``slice``, the numbers of their marks, start and duration (ns)."""

    row: NDArray[np.int32]
    number: NDArray[np.int64]
    ts: NDArray[np.int64]
    dur: NDArray[np.int64]


_STEP_MARKS = (r"^ProfilerStep#\d{1,18}$", r"^Iteration#\d{1,18}$")


def find_steps(slices: Slices, numbered: Rows | None = None, number: NDArray[np.int64] | None = None) -> Steps:
    """The steps that were marked.

    A mark is a host slice of an op or annotation category named ``ProfilerStep#N``, or, in a trace
    without those, ``Iteration#N``; else one of the slices ``numbered``, whose ``number`` was recorded: an annotation
    of the host, or of the first device's track that has some.  A mark inside another one (the same step, recorded
    twice) is left out, on whatever thread.
    """
    for pattern in _STEP_MARKS:
        marked = named_like(slices.names, pattern)
        if not marked.any():
            continue
        row = np.flatnonzero(marked[slices.name] & role_mask(slices.role, (Role.OP, Role.ANNOTATION)))
        if not len(row):
            continue
        row = _outermost(slices, row)
        numbers = [int(slices.names[int(code)].as_py().rpartition("#")[2]) for code in slices.name[row]]
        return _steps(slices, row, np.array(numbers, np.int64))
    if numbered is not None and number is not None and len(numbered):
        role = slices.role[numbered]
        chosen = np.flatnonzero(role == Role.ANNOTATION)
        if not len(chosen):
            chosen = np.flatnonzero(role == Role.DEVICE_ANNOTATION)
            if len(chosen):
                track = slices.track[numbered[chosen]]
                chosen = chosen[track == track.min()]
        at = np.full(len(slices.ts), -1, np.int64)
        at[numbered[chosen]] = chosen
        row = _outermost(slices, numbered[chosen])
        return _steps(slices, row, number[at[row]])
    empty = np.zeros(0, np.int64)
    return Steps(empty.astype(np.int32), empty, empty, empty)


def _outermost(slices: Slices, row: NDArray[Any]) -> NDArray[Any]:
    """Slices by start, without those that lie within one before."""
    ts, end = slices.ts[row], slices.ts[row] + slices.dur[row]
    order = np.lexsort((row, -end, ts))
    row, ts, end = row[order], ts[order], end[order]
    reached = np.maximum.accumulate(end)
    inside = np.zeros(len(row), bool)
    inside[1:] = (end[1:] <= reached[:-1]) & (ts[1:] < reached[:-1])
    return row[~inside]


def _steps(slices: Slices, row: NDArray[Any], number: NDArray[np.int64]) -> Steps:
    return Steps(row.astype(np.int32), number, slices.ts[row], slices.dur[row])


def named_like(names: pa.StringArray, pattern: str) -> NDArray[np.bool_]:
    """Which names match (RE2): a bool a code, and False at the end, where code -1 (no name) looks."""
    return np.append(to_numpy(pc.match_substring_regex(names, pattern)), False)


def step_at(steps: Steps, ts: NDArray[np.int64]) -> Rows:
    """The step (row of ``step``) that each time lies in; of two, the one that starts later."""
    if not len(steps.ts) or not len(ts):
        return np.full(len(ts), -1, np.int32)
    step = np.searchsorted(steps.ts, ts, side="right").astype(np.int32) - np.int32(1)
    ends = steps.ts + steps.dur
    step[(step >= 0) & (ts >= ends[step])] = -1
    return cast("Rows", step)


def assign_steps(slices: Slices, steps: Steps, work: Rows, launch: Rows) -> Rows:
    """The step of every slice: by its start, but of device work by the start of its launch.

    ``launch`` holds the launch of each row in ``work``.
    """
    step = step_at(steps, slices.ts)
    launched = launch >= 0
    step[work[launched]] = step[launch[launched]]
    return step


def truncated_steps(
    slices: Slices, steps: Steps, step: Rows, unclosed: NDArray[np.bool_] | None, file_truncated: bool
) -> NDArray[np.bool_]:
    """Which steps the recording does not hold in full (bool, one a step).

    These are: a step that begins before or ends after the recorder's own span (category
    ``Trace``); one that was never closed; the last step of a file that breaks off; and a first or
    last step in which no op and no launch began although others have some, which is what
    ``prof.step()`` leaves when recording stops right after it.
    """
    truncated = np.zeros(len(steps.row), bool)
    if not len(truncated):
        return truncated
    span = np.flatnonzero(slices.role == Role.SPAN)
    if len(span):
        begin, end = int(slices.ts[span].min()), int((slices.ts[span] + slices.dur[span]).max())
        truncated |= (steps.ts < begin) | (steps.ts + steps.dur > end)
    if unclosed is not None:
        truncated |= unclosed[steps.row]
    truncated[-1] |= file_truncated
    busy = role_mask(slices.role, (Role.OP, Role.LAUNCH)) & (step >= 0)
    busy[steps.row] = False  # the marks themselves may be ops
    work = np.bincount(step[busy], minlength=len(truncated))
    if work.any():
        truncated[0] |= work[0] == 0
        truncated[-1] |= work[-1] == 0
    return truncated


def find_launches(slices: Slices, flow: dict[str, NDArray[Any]], categories: pa.StringArray) -> tuple[Rows, Rows]:
    """Device work (rows, ascending) and the launch of each: the call with the same correlation id.

    Of several calls with one id the earliest counts.  Many kernels may have one launch (a graph).
    Where no device work has a correlation id, the launch flows tell (``flow`` is the raw group,
    ``categories`` its pool).
    """
    work = np.flatnonzero(role_mask(slices.role, DEVICE_WORK)).astype(np.int32)
    wanted = slices.correlation[work]
    calls = np.flatnonzero(slices.role == Role.LAUNCH).astype(np.int32)
    if len(flow["ts"]) and not bool((wanted != NULL_INT64).any()):
        words = [(word or "").lower() in LAUNCH_FLOWS for word in categories.to_pylist()]
        follow = np.array([*words, False], bool)[flow["category"]]
        return work, launches_by_flow(flow, follow, slices.track, slices.ts, calls, work)
    keys = slices.correlation[calls]
    known = keys != NULL_INT64
    if not known.all():
        keys, calls = keys[known], calls[known]
    return work, earliest_with(wanted, keys, calls, slices.ts)


def find_ops(slices: Slices, work: Rows, launch: Rows) -> Rows:
    """The op of each device slice: the innermost op around its launch, else the op of its external id.

    An external id that merely repeats the correlation id says nothing (Kineto wrote that while it
    knew no op) and is not followed.
    """
    op = enclosing(slices.parent, slices.role == Role.OP, launch)
    lost = np.flatnonzero(op < 0)
    if len(lost):
        external = _told_external(slices, work[lost])
        called = launch[lost]
        has_call = (external == NULL_INT64) & (called >= 0)
        external[has_call] = _told_external(slices, called[has_call])
        if bool((external != NULL_INT64).any()):
            ops = np.flatnonzero((slices.role == Role.OP) & (slices.external != NULL_INT64)).astype(np.int32)
            op[lost] = earliest_with(external, slices.external[ops], ops, slices.ts)
    return op


def _told_external(slices: Slices, rows: Rows) -> NDArray[np.int64]:
    external = slices.external[rows]
    return np.where(external == slices.correlation[rows], NULL_INT64, external)


def enclosing(parent: NDArray[np.int32], wanted: NDArray[np.bool_], rows: Rows) -> Rows:
    """The innermost ancestor that is ``wanted`` (bool, one a slice) of each row; -1 where none is."""
    found = np.full(len(rows), -1, np.int32)
    active = np.flatnonzero(rows >= 0)
    here = parent[rows[active]]
    for _ in range(64):
        alive = here >= 0
        active, here = active[alive], here[alive]
        if not len(active):
            return found
        hit = wanted[here]
        found[active[hit]] = here[hit]
        active, here = active[~hit], parent[here[~hit]]
    # Deeper than real call stacks go: skip what is not wanted by pointer doubling.
    jump = parent.copy()
    while True:
        through = np.flatnonzero(jump >= 0)
        through = through[~wanted[jump[through]]]
        if not len(through):
            break
        jump[through] = jump[jump[through]]
    alive = here >= 0
    active, here = active[alive], here[alive]
    found[active] = np.where(wanted[here], here, jump[here])
    return found


_BACKWARD_NAME = r"(^autograd::engine::evaluate_function: )|(Backward\d*$)"


def find_forward_ops(slices: Slices, op_row: Rows, sequence: NDArray[np.int64], thread: NDArray[np.int64]) -> Rows:
    """The forward op of each row of ``op`` (by its slice ``op_row``) that is a backward op.

    A backward op names a forward thread, or its name ends in ``Backward`` and digits, or it is the
    engine's ``evaluate_function``.  Its forward op is the op of the same sequence number that
    started last before it and is not backward itself.  Sequence numbers are counted by thread:
    where several threads used one, the thread that this forward thread number led to most often
    decides.
    """
    forward_op = np.full(len(op_row), -1, np.int32)
    numbered = np.flatnonzero((sequence != NULL_INT64) & (slices.role[op_row] == Role.OP))
    if not len(numbered):
        return forward_op
    named = named_like(slices.names, _BACKWARD_NAME)
    known_thread = thread[numbered] != NULL_INT64
    is_backward = known_thread | named[slices.name[op_row[numbered]]]
    backward, forward = numbered[is_backward], numbered[~is_backward]
    if not len(backward) or not len(forward):
        return forward_op
    ts, track = slices.ts[op_row], slices.track[op_row]
    match = _last_before((sequence,), ts, forward, backward)
    if len(forward) and bool((track[forward] != track[forward[0]]).any()):
        home = track.copy()  # the thread to look for a forward op on
        home[backward] = _forward_tracks(thread[backward], match, track)
        sure = home[backward] >= 0
        match[sure] = _last_before((sequence, home), ts, forward, backward[sure])
    forward_op[backward] = np.where(match >= 0, op_row[match], -1)
    return forward_op


def _forward_tracks(thread: NDArray[np.int64], match: NDArray[np.int64], track: NDArray[np.int32]) -> Rows:
    """For each backward op the track that most ops of its forward thread number matched, -1 if unknown."""
    home = np.full(len(thread), -1, np.int32)
    known = np.flatnonzero(thread != NULL_INT64)
    numbers, number = np.unique(thread[known], return_inverse=True)
    matched = match[known] >= 0
    width = int(track.max()) + 1
    votes, count = np.unique(
        number[matched].astype(np.int64) * width + track[match[known][matched]], return_counts=True
    )
    best = np.full(len(numbers), -1, np.int32)
    order = np.argsort(count, kind="stable")
    best[votes[order] // width] = votes[order] % width  # the last assignment stays: the most votes
    home[known] = best[number]
    return home


def _last_before(
    keys: tuple[NDArray[Any], ...], ts: NDArray[np.int64], forward: NDArray[Any], backward: NDArray[Any]
) -> NDArray[np.int64]:
    """For each of ``backward`` the one of ``forward`` with the same ``keys`` that started last before it."""
    both = np.concatenate((forward, backward))
    is_forward = np.arange(len(both)) < len(forward)
    # At the same time a backward op sorts before a forward one: "before" is strict.
    order = np.lexsort((both, is_forward, ts[both], *(key[both] for key in keys)))
    ordered = both[order]
    place = np.maximum.accumulate(np.where(is_forward[order], np.arange(len(both)), -1))
    candidate = np.where(place >= 0, ordered[place], -1)
    for key in keys:
        candidate[key[candidate] != key[ordered]] = -1
    match = np.full(len(both), -1, np.int64)
    match[order] = candidate
    return match[len(forward) :]
