"""What profsuite writes into a trace file to get the very same trace back: the top-level key ``profsuite``.

An exporter numbers tracks, moves overlapping slices to tracks of their own and adds keys that viewers want.
The mark says so; ``find_marks`` reads it, and ``Marks.restore`` undoes it.  A mark is part of a file and
trusted no more than the rest of it: what does not make sense counts as absent.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from profsuite.trace.readers.fields import GROUPS, NULL_INT64

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from profsuite.trace.readers.raw import RawTrace

KEY: Final = "profsuite"
FORMAT: Final = 1
RANKS: Final = "mergedRanks"
"""The top-level key of a file of several ranks: which they are.  It is the trace's own, so that it stays when the file
is written again."""

Track = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Marks:
    """What a file's mark says.

    ``tracks`` are the (pid, tid) of the trace's tracks in order, ``table`` gives the number among them of each
    track of the file, ``ours`` are the file's tracks that the exporter made.  ``own`` are those of them whose
    events are the exporter's as well.  ``added`` are top-level keys that the trace has not, ``num_added`` the
    events.
    """

    tracks: list[Track]
    table: NDArray[np.int32]
    ours: NDArray[np.bool_]
    own: NDArray[np.bool_]
    added: frozenset[str] = frozenset()
    num_added: int = 0
    selection: str | None = None
    compile_events: list[list[Any]] = field(default_factory=list)
    tensors: list[list[Any]] = field(default_factory=list)

    def header(self, header: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
        """The trace's own top-level keys."""
        mark = max(place for place, (key, _) in enumerate(header) if key == KEY)  # one before it is the trace's
        return [pair for place, pair in enumerate(header) if place != mark and pair[0] not in self.added]

    def part(self, group: str, columns: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """Rows of a raw group with the trace's own tracks, and without what the exporter added."""
        if "track" not in columns:
            return columns
        if group in ("meta", "instant"):
            extra = (self.ours if group == "meta" else self.own)[columns["track"]]
            if extra.any():
                columns = {name: values[~extra] for name, values in columns.items()}
        return {**columns, "track": self.table[columns["track"]]}

    def restore(self, raw: RawTrace) -> RawTrace:
        """The raw trace that was exported."""
        groups = {group: self.part(group, columns) for group, columns in raw.groups.items()}
        pools = raw.pools
        for group, rows in (("compile", self.compile_events), ("tensor", self.tensors)):
            if rows:
                groups[group], pools = _columns(group, rows, pools)
        header = self.header(raw.header)
        num_events = max(0, raw.num_events - self.num_added)
        return replace(raw, groups=groups, pools=pools, tracks=list(self.tracks), header=header, num_events=num_events)


def find_marks(header: Sequence[tuple[str, str]], tracks: Sequence[Track]) -> Marks | None:
    """The mark of a file with these top-level keys and tracks; None if it has none that makes sense."""
    text = next((value for key, value in reversed(header) if key == KEY), None)
    try:
        mark = json.loads(text) if text is not None else None
    except (ValueError, RecursionError):
        return None
    if not isinstance(mark, dict) or mark.get("format") != FORMAT or not isinstance(mark.get("tracks"), list):
        return None
    try:
        return _marks(mark, tracks)
    except (TypeError, ValueError, IndexError, OverflowError):
        return None


def _marks(mark: dict[str, Any], tracks: Sequence[Track]) -> Marks:
    own = [_pair(pid, tid) for pid, tid in mark["tracks"]]
    number = {pair: i for i, pair in enumerate(own)}
    if len(number) != len(own):
        raise ValueError("a track twice")
    lanes: dict[Track, int] = {}
    for pid, tid, base in mark.get("lanes", []):
        if not isinstance(base, int) or not -1 <= base < len(own) or _pair(pid, tid) in number:
            raise ValueError("a lane of no track")
        lanes[pid, tid] = base
    table = np.zeros(len(tracks), np.int32)
    for i, pair in enumerate(tracks):
        base = lanes.get(pair, number.get(pair, -2))
        if base == -2:
            base = number[pair] = len(own)
            own.append(pair)
        table[i] = base
    added = [key for key in mark.get("added", []) if isinstance(key, str)]
    num_added, selection = mark.get("num_added"), mark.get("selection")
    return Marks(
        tracks=own,
        table=table,
        ours=np.array([pair in lanes for pair in tracks], bool),
        own=table < 0,
        added=frozenset(added),
        num_added=num_added if type(num_added) is int and 0 <= num_added < 2**62 else 0,
        selection=selection if isinstance(selection, str) else None,
        compile_events=[_row("compile", row) for row in mark.get("compile_events", [])],
        tensors=[_row("tensor", row) for row in mark.get("tensors", [])],
    )


def _columns(
    group: str, rows: list[list[Any]], pools: dict[str, Any]
) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    import pyarrow as pa

    from profsuite.trace.columns import strings

    words: list[str] = []
    columns: dict[str, NDArray[Any]] = {}
    for number, (name, kind, _) in enumerate(GROUPS[group]):
        values = [row[number] for row in rows]
        if kind == "text":
            codes = []
            for value in values:
                codes.append(-1 if value is None else len(pools["misc"]) + len(words))
                words += [] if value is None else [value]
            columns[name] = np.array(codes, np.int32)
        else:
            columns[name] = np.array([NULL_INT64 if v is None else v for v in values], np.int64)
    return columns, {**pools, "misc": pa.concat_arrays([pools["misc"], strings(words)])}


def _pair(pid: Any, tid: Any) -> Track:
    if not isinstance(pid, str) or not isinstance(tid, str):
        raise TypeError("pid and tid are text")
    return pid, tid


def _row(group: str, row: Any) -> list[Any]:
    if not isinstance(row, list) or len(row) != len(GROUPS[group]) or not isinstance(row[0], int):
        raise TypeError(f"no row of {group}")
    for value, (_, kind, _) in zip(row, GROUPS[group], strict=True):
        fits = isinstance(value, str) if kind == "text" else type(value) is int and -(2**63) < value < 2**63
        if value is not None and not fits:
            raise TypeError(f"no row of {group}")
    return row
