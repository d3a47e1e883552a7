"""The op calls of both sides on common ground: one numbering of names, call paths, modules and shapes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from profsuite.analyzers.host_calls import OP, matching
from profsuite.analyzers.ranking import numbered

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from profsuite.analyzers.diff.sides import Side
    from profsuite.trace.model import Trace

DEEPEST = 100
"""Ops deeper than this within others are told apart by their name alone: no real job nests so."""

_MODULE = r"^nn\.Module: "


@dataclass(frozen=True)
class Calls:
    """The calls of ops of both sides, before then after; ``split`` is the number of those before.

    All codes are common to both sides: ``name`` and ``words``; ``path`` is the chain of names from the outermost op;
    ``module`` and ``shape`` are -1 where not recorded (on both sides: what only one recorded tells nothing apart).
    ``up`` is the call around each, -1 for none; ``step`` the position of its step, -1 for none; ``self_dur`` in ns.
    ``element`` gives, for each side, the call of every row of ``slice``, -1 for none (and for row -1).
    """

    split: int
    words: list[str]
    modules: list[str]
    shapes: list[str]
    name: NDArray[np.int64]
    up: NDArray[np.int64]
    path: NDArray[np.int64]
    module: NDArray[np.int64]
    shape: NDArray[np.int64]
    step: NDArray[np.int64]
    self_dur: NDArray[np.int64]
    element: tuple[NDArray[np.int64], NDArray[np.int64]]

    def chain(self, call: int) -> tuple[str, ...]:
        """Names of the ops around a call from the outermost, its own last; at most ``DEEPEST``."""
        names: list[str] = []
        while call >= 0 and len(names) < DEEPEST:
            names.append(self.words[self.name[call]])
            call = int(self.up[call])
        return tuple(reversed(names))


def calls(before: Side, after: Side) -> Calls:
    """The op calls of both sides."""
    found = [_of(side) for side in (before, after)]
    split = len(found[0].rows)
    names, words = _common(found, lambda one: (one.name, one.words))
    modules, module_words = _common(found, lambda one: (one.module, one.modules))
    shapes, shape_words = _common(found, lambda one: (one.shape, one.shapes))
    up = np.concatenate([one.up + (one.up >= 0) * shift for one, shift in zip(found, (0, split), strict=True)])
    elements = []
    for one, shift in zip(found, (0, split), strict=True):
        element = np.full(one.num_slices + 1, -1, np.int64)
        element[one.rows] = np.arange(len(one.rows)) + shift
        elements.append(element)
    return Calls(
        split=split,
        words=words,
        modules=module_words,
        shapes=shape_words,
        name=names,
        up=up,
        path=_paths(names, up, len(words)),
        module=_on_both(modules, split),
        shape=_on_both(shapes, split),
        step=np.concatenate([side.step_of[one.rows] for side, one in zip((before, after), found, strict=True)]),
        self_dur=np.concatenate([one.self_dur for one in found]),
        element=(elements[0], elements[1]),
    )


@dataclass(frozen=True)
class _OneSide:
    """The op calls of one trace: ``rows`` of ``slice``, and codes into the trace's own words."""

    num_slices: int
    rows: NDArray[np.int64]
    up: NDArray[np.int64]
    name: NDArray[np.int64]
    words: Sequence[str]
    module: NDArray[np.int64]
    modules: Sequence[str]
    shape: NDArray[np.int64]
    shapes: Sequence[str]
    self_dur: NDArray[np.int64]


def _of(side: Side) -> _OneSide:
    trace = side.trace
    is_op = side.timelines.classes == OP
    rows = np.flatnonzero(is_op)
    parent, name = trace.array("slice", "parent_id"), trace.array("slice", "name").astype(np.int64)
    element = np.full(len(is_op) + 1, -1, np.int64)
    element[rows] = np.arange(len(rows))
    around = nearest_around(parent, is_op)
    ids = trace.array("op", "slice_id")
    shape = np.full(len(is_op), -1, np.int64)
    shape[ids] = trace.array("op", "input_dims")
    module, modules = _modules(trace, parent, name, ids)
    return _OneSide(
        num_slices=len(is_op),
        rows=rows,
        up=element[around[rows]],
        name=name[rows],
        words=trace.words("slice", "name"),
        module=module[rows],
        modules=modules,
        shape=shape[rows],
        # Recorders differ in the blanks that they write.
        shapes=["".join(text.split()) for text in trace.words("op", "input_dims")],
        self_dur=trace.array("slice", "self_dur")[rows],
    )


def nearest_around(parent: NDArray[np.int32], marked: NDArray[np.bool_]) -> NDArray[np.int64]:
    """The nearest marked slice around every slice, as a row, -1 for none."""
    up = parent.astype(np.int64)
    at = np.flatnonzero(up >= 0)
    at = at[~marked[up[at]]]
    while len(at):
        up[at] = up[up[at]]  # pointer doubling: every round halves the way that is left
        at = at[up[at] >= 0]
        at = at[~marked[up[at]]]
    return up


def _modules(
    trace: Trace, parent: NDArray[np.int32], name: NDArray[np.int64], ids: NDArray[np.int64]
) -> tuple[NDArray[np.int64], Sequence[str]]:
    """The module of every slice as a code, -1 for none: as recorded, or the innermost ``nn.Module`` frame around it.

    An op of the backward pass belongs to the module of its forward op.
    """
    hierarchy = trace.array("op", "module_hierarchy")
    if (hierarchy >= 0).any():
        module = np.full(len(parent), -1, np.int64)
        module[ids] = hierarchy
        words: Sequence[str] = trace.words("op", "module_hierarchy")
    else:
        frame = matching(trace, _MODULE)[name] if len(name) else np.zeros(0, bool)
        if not frame.any():
            return np.full(len(parent), -1, np.int64), ()
        around = nearest_around(parent, frame)
        module = np.where(around >= 0, name[around], -1)
        words = [text.removeprefix("nn.Module: ") for text in trace.words("slice", "name")]
    forward = np.full(len(parent), -1, np.int64)
    forward[ids] = trace.array("op", "forward_op_id")
    linked = forward >= 0
    holder = np.where(linked, np.arange(len(parent)), nearest_around(parent, linked))
    backward = (module < 0) & (holder >= 0)
    module[backward] = module[forward[holder[backward]]]
    return module, words


def _common(
    found: Sequence[_OneSide], of: Callable[[_OneSide], tuple[NDArray[np.int64], Sequence[str]]]
) -> tuple[NDArray[np.int64], list[str]]:
    """Codes of both sides in one numbering, and its words; -1 stays."""
    number: dict[str, int] = {}
    codes = []
    for one in found:
        code, words = of(one)
        new = np.array([*(number.setdefault(word, len(number)) for word in words), -1], np.int64)
        codes.append(new[code])
    return np.concatenate(codes), list(number)


def _on_both(code: NDArray[np.int64], split: int) -> NDArray[np.int64]:
    """The codes, or none at all where one of the sides recorded none."""
    if (code[:split] >= 0).any() and (code[split:] >= 0).any():
        return code
    return np.full(len(code), -1, np.int64)


def _paths(name: NDArray[np.int64], up: NDArray[np.int64], num_words: int) -> NDArray[np.int64]:
    """The number of each call's chain of names, from the outermost op to itself; level by level."""
    path = numbered(name)  # what is deeper than the deepest level keeps this
    num_paths = int(path.max()) + 1 if len(path) else 0
    depth = _depths(up)
    order = np.argsort(depth, kind="stable")
    bounds = np.searchsorted(depth[order], np.arange(DEEPEST + 1))
    for level in range(DEEPEST):
        at = order[bounds[level] : bounds[level + 1]]
        if not len(at):
            break
        above = path[up[at]] + 1 if level else np.zeros(len(at), np.int64)
        path[at] = num_paths + numbered(above * num_words + name[at])
        num_paths = int(path[at].max()) + 1
    return path


def _depths(up: NDArray[np.int64]) -> NDArray[np.int64]:
    """How many calls are around each, by pointer doubling."""
    depth = (up >= 0).astype(np.int64)
    jump = up.copy()
    at = np.flatnonzero(jump >= 0)
    while len(at):
        target = jump[at]
        step, further = depth[target], jump[target]
        depth[at] += step
        jump[at] = further
        at = at[further >= 0]
    return depth
