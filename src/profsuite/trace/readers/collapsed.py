"""Collapsed stacks (``a;b;c 123``, a line a stack), as stackcollapse-*.pl, py-spy, perf and profsuite write them.

They have no time: how often a stack was seen is all that is known.  They become one track on which every frame of the
tree is one slice, as long as its stacks' values together, children one after another in the order of the file, the
frame's own part last.  A value of one is one nanosecond: durations and self times are the file's values exactly, and
starts mean nothing.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import numpy as np

from profsuite.errors import TraceError
from profsuite.trace.columns import strings
from profsuite.trace.readers.columns import Columns
from profsuite.trace.readers.fields import POOLS
from profsuite.trace.readers.raw import RawTrace, Remark

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_LINE: Final = re.compile(rb"(\S.*?)[ \t]+(\d{1,18})[ \t]*\r?")
_JSON: Final = re.compile(rb"\s*(?:\{|\[\s*[{\]])")  # a frame may begin with a bracket: [unknown]
_GREATEST: Final = 2**61
LONGEST_LINE: Final = 16 << 20
TRACK: Final = ("collapsed", "stacks")


def is_collapsed(first: bytes) -> bool:
    """Whether these first bytes of a file are lines of frames and a number."""
    *lines, rest = first.split(b"\n")
    lines = [line for line in lines if line.strip()]
    if not lines:  # one line without an end
        lines = [rest]
    if _JSON.match(first) or b"\0" in first:
        return False
    return all(_LINE.fullmatch(line) for line in lines) and _is_text(first)


def _is_text(first: bytes) -> bool:
    try:
        first.decode()
    except UnicodeDecodeError as error:
        return error.start >= len(first) - 3  # cut within a character
    return True


class _Tree:
    """Frames by their caller: node 0 is the root, and a node's caller has a lower number."""

    def __init__(self) -> None:
        self.known: dict[tuple[int, bytes], int] = {}
        self.parent = [-1]
        self.frame = [b""]
        self.own = [0]
        self.place = [0]

    def add(self, frames: list[bytes], value: int, at: int) -> None:
        """Add a stack, the outermost frame first."""
        node = 0
        for frame in frames:
            key = (node, frame)
            found = self.known.get(key)
            if found is None:
                found = self.known[key] = len(self.parent)
                self.parent.append(node)
                self.frame.append(frame)
                self.own.append(0)
                self.place.append(at)
            node = found
        self.own[node] += value


def read_collapsed(chunks: Iterable[bytes]) -> RawTrace:
    """The raw trace of a file; ``TraceError`` if no line is a stack, or if the values pass what 64 bits hold."""
    tree, columns = _Tree(), Columns()
    total = size = num_lines = 0
    for line, at in _lines(chunks):
        size = at + len(line) + 1
        if not line.strip():
            continue
        num_lines += 1
        found = _LINE.fullmatch(line)
        frames = [frame for frame in found[1].split(b";") if frame] if found else []
        if found is None or not frames:
            columns.remark("dropped", at)
            continue
        total += int(found[2])
        if total >= _GREATEST:
            raise TraceError(f"the values of its stacks add up to more than {_GREATEST:,}, at byte {at:,}")
        tree.add(frames, int(found[2]), at)
    if len(tree.parent) == 1:
        raise TraceError("is no collapsed stacks: no line is frames and a number (main;work 12)")
    _append(columns, tree)
    columns.num_events = num_lines
    remarks = columns.remark_list()
    remarks.append(
        Remark(
            "no_times", num_lines, None,
            "Collapsed stacks have no time: slices lie one after another, a value of one is 1 ns; their durations "
            "and self times are the file's values, their starts mean nothing.",
        )
    )  # fmt: skip
    pools = {pool: strings(list(columns.pools[pool])) for pool in POOLS}
    return RawTrace(columns.take(), pools, list(columns.tracks), [], num_lines, size, remarks)


def _lines(chunks: Iterable[bytes]) -> Iterator[tuple[bytes, int]]:
    """Lines and where they begin."""
    held, at = b"", 0
    for chunk in chunks:
        *whole, held = (held + chunk).split(b"\n")
        for line in whole:
            yield line, at
            at += len(line) + 1
        if len(held) > LONGEST_LINE:
            raise TraceError(f"a line of more than {LONGEST_LINE >> 20} MB at byte {at:,}")
    if held:
        yield held, at


def _append(columns: Columns, tree: _Tree) -> None:
    """The slices of a tree, and the names of their track."""
    parent, own = tree.parent, tree.own
    whole = own.copy()
    for node in range(len(parent) - 1, 0, -1):
        whole[parent[node]] += whole[node]
    start = [0] * len(parent)
    free = [0] * len(parent)  # where a node's next child begins
    for node in range(1, len(parent)):
        start[node] = free[node] = free[parent[node]]
        free[parent[node]] += whole[node]
    num = len(parent) - 1
    track = columns.track(*TRACK)
    names = columns.pools["name"]
    codes = np.array([names[frame.decode("utf-8", "replace")] for frame in tree.frame[1:]], np.int32)
    columns.append("slice", num, {
        "ts": np.array(start[1:], np.int64), "dur": np.array(whole[1:], np.int64),
        "track": np.full(num, track, np.int32), "name": codes,
        "category": np.full(num, columns.pools["category"]["cpu_op"], np.int32),
        "offset": np.array(tree.place[1:], np.int64),
    })  # fmt: skip
    columns.next_row += num
    for event, text in (("process_name", "collapsed stacks"), ("thread_name", "all stacks")):
        row = {"name": columns.pools["meta_name"][event], "track": track, "key": columns.pools["meta_key"]["name"],
               "value": columns.pools["meta_value"][text]}  # fmt: skip
        columns.append("meta", 1, {name: np.array([code], np.int32) for name, code in row.items()})
