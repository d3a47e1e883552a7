"""A trace as viewers want it: tracks on which slices nest, slices with their args, clocks and ids of several ranks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np
import pyarrow as pa

from profsuite.trace.columns import Text
from profsuite.trace.lanes import find_lanes
from profsuite.trace.readers.fields import NULL_INT64

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from profsuite.trace.batches import Batches, Columns

ARG_GROUPS: Final = ("op", "gpu", "collective", "sync", "python", "xla", "rocprof")
"""Groups whose rows are args of a slice."""

ROWS: Final = 32_768
"""Slices that are written at once."""
_WHEN: Final = ("ts", "dur", "track")


@dataclass(frozen=True, slots=True)
class Track:
    """A track as it is written: ``number`` of the trace's own, ``lane`` above 0 for one made for overlaps."""

    number: int
    lane: int = 0


@dataclass(frozen=True, slots=True)
class Rows:
    """Args of a batch of slices: the columns of a group, and each slice's row among them (negative: none)."""

    columns: Columns
    index: NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Slices:
    """A batch of slices: their columns, the written track of each, and their args by group."""

    first: int
    columns: Columns
    track: NDArray[np.int32]
    args: dict[str, Rows]

    def __len__(self) -> int:
        return len(self.track)


@dataclass(frozen=True)
class Timeline:
    """One rank: its batches, ``number`` among ``num_ranks``, ``shift`` (ns) onto the common clock.

    ``id_step`` is added ``number`` times to the ids by which events of one rank find each other.
    """

    batches: Batches
    number: int = 0
    num_ranks: int = 1
    shift: int = 0
    id_step: int = 0

    @property
    def rank(self) -> int:
        """The rank, else its place among the traces."""
        return self.number if self.batches.info.rank is None else self.batches.info.rank

    @cached_property
    def _moved(self) -> tuple[NDArray[np.int32] | None, list[Track]]:
        """The written track of every slice (None: its own), and the written tracks."""
        tracks = [Track(number) for number in range(len(self.batches.tracks))]
        ts, dur, track = self._times()
        pa.default_memory_pool().release_unused()
        lane = find_lanes(track, ts, dur)
        del ts, dur
        if not lane.any():
            return None, tracks
        width = int(lane.max()) + 1
        found = np.unique(track[lane > 0].astype(np.int64) * width + lane[lane > 0]).tolist()
        codes = np.arange(len(tracks) * width, dtype=np.int32) // width
        for place, cell in enumerate(found):
            codes[cell] = len(tracks) + place
        tracks += [Track(cell // width, cell % width) for cell in found]
        return codes[track.astype(np.int64) * width + lane], tracks

    def _times(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int32]]:
        """Start, duration and own track of every slice."""
        num = self.batches.num_rows("slice")
        ts, dur, track = np.zeros(num, np.int64), np.zeros(num, np.int64), np.zeros(num, np.int32)
        first = 0
        for batch in self.batches.batches("slice", _WHEN):
            rows = slice(first, first + len(cast("NDArray[Any]", batch["ts"])))
            ts[rows], dur[rows], track[rows] = (cast("NDArray[Any]", batch[name]) for name in ("ts", "dur", "track"))
            first = rows.stop
        return ts, dur, track

    def columns_only(self) -> tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.int64]]:
        """Written track, start and duration of every slice."""
        ts, dur, track = self._times()
        moved = self._moved[0]
        return (track if moved is None else moved), ts, dur

    def slices_only(self) -> Iterator[Slices]:
        """The slices in batches, without their args."""
        moved = self._moved[0]
        first = 0
        for batch in self.batches.batches("slice", _WHEN):
            num = len(cast("NDArray[Any]", batch["ts"]))
            track = cast("NDArray[np.int32]", batch["track"]) if moved is None else moved[first : first + num]
            yield Slices(first, self._shifted(batch, ()), track, {})
            first += num

    @property
    def tracks(self) -> list[Track]:
        """The written tracks; the first are the trace's own."""
        return self._moved[1]

    def slices(self) -> Iterator[Slices]:
        """The slices in batches, in order, with their args."""
        cursors = {group: _Cursor(self.batches.batches(group)) for group in ARG_GROUPS}
        moved = self._moved[0]
        first = 0
        for batch in _smaller(self.batches.batches("slice")):
            columns = self._shifted(batch, ("correlation", "external"))
            num = len(cast("NDArray[Any]", columns["ts"]))
            track = cast("NDArray[np.int32]", columns["track"]) if moved is None else moved[first : first + num]
            args = {}
            for group, cursor in cursors.items():
                found = cursor.until(first + num)
                if found:
                    index = np.full(num, -1, np.int32)
                    row = cast("NDArray[np.int32]", found["row"])
                    index[row - first] = np.arange(len(row), dtype=np.int32)
                    ids = {"python": ("id", "parent"), "sync": ("record_correlation",)}.get(group, ())
                    args[group] = Rows(self._shifted(found, ids), index)
            yield Slices(first, columns, track, args)
            first += num

    def points(self, group: str) -> Iterator[tuple[Columns, NDArray[np.int32]]]:
        """Batches of flow, counter, instant, memory or meta rows, and the written track of each."""
        for batch in self.batches.batches(group):
            columns = self._shifted(batch, ())
            track = cast("NDArray[np.int32]", columns["track"])
            if group == "flow" and self._moved[0] is not None:
                track = self._flow_tracks(track, cast("NDArray[np.int64]", batch["ts"]))
            yield columns, track

    def _shifted(self, columns: Columns, ids: Sequence[str]) -> Columns:
        """Columns on the common clock, with ids that are the rank's alone."""
        changed: Columns = {}
        if self.shift and "ts" in columns:
            changed["ts"] = cast("NDArray[Any]", columns["ts"]) + self.shift
        for name in ids if self.id_step and self.number else ():
            values = cast("NDArray[Any]", columns[name])
            changed[name] = np.where(values > 0, values + self.number * self.id_step, values)
        return {**columns, **changed} if changed else columns

    @cached_property
    def _moved_starts(self) -> dict[int, tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int64]]]:
        """Of each track with lanes: starts of moved slices in order, their written tracks, starts of the others."""
        moved = self._moved[0]
        assert moved is not None
        num = len(self.batches.tracks)
        bases = {track.number for track in self.tracks[num:]}
        found: dict[int, list[tuple[NDArray[np.int64], NDArray[np.int32]]]] = {base: [] for base in bases}
        first = 0
        for batch in self.batches.batches("slice", _WHEN):
            ts, track = cast("NDArray[np.int64]", batch["ts"]), cast("NDArray[np.int32]", batch["track"])
            written = moved[first : first + len(ts)]
            for base in bases:
                rows = track == base
                if rows.any():
                    found[base].append((ts[rows], written[rows]))
            first += len(ts)
        starts = {}
        for base, pairs in found.items():
            ts = np.concatenate([pair[0] for pair in pairs])
            written = np.concatenate([pair[1] for pair in pairs])
            order = np.argsort(ts[written >= num], kind="stable")
            starts[base] = (
                ts[written >= num][order], written[written >= num][order], np.unique(ts[written < num]),
            )  # fmt: skip
        return starts

    def _flow_tracks(self, track: NDArray[np.int32], ts: NDArray[np.int64]) -> NDArray[np.int32]:
        """Flow ends go with the slice that starts where they are, if it was moved."""
        out = track.copy()
        for base, (moved, written, kept) in self._moved_starts.items():
            rows = np.flatnonzero(track == base)
            at = np.minimum(np.searchsorted(moved, ts[rows]), len(moved) - 1)
            hit = (moved[at] == ts[rows]) & ~np.isin(ts[rows], kept)
            out[rows[hit]] = written[at[hit]]
        return out

    @cached_property
    def names(self) -> dict[str, list[str | None]]:
        """What metadata events call the tracks: the last ``process_name``, ``thread_name`` and so on of each."""
        wanted = {
            "process_name": "name", "process_labels": "labels", "process_sort_index": "sort_index",
            "thread_name": "name", "thread_sort_index": "sort_index",
        }  # fmt: skip
        tracks = self.batches.tracks
        out: dict[str, list[str | None]] = {scope: [None] * len(tracks) for scope in wanted}
        for columns, track in self.points("meta"):
            name, key, value = (cast("Text", columns[c]) for c in ("name", "key", "value"))
            scopes, keys = name.pool.to_pylist(), key.pool.to_pylist()
            for scope, field in wanted.items():
                if scope not in scopes or field not in keys:
                    continue
                rows = (name.codes == scopes.index(scope)) & (key.codes == keys.index(field)) & (value.codes >= 0)
                for row in np.flatnonzero(rows).tolist():
                    out[scope][track[row]] = value.pool[int(value.codes[row])].as_py()
        for scope in wanted:
            if scope.startswith("process"):
                by_pid = {pid: name for (pid, _), name in zip(tracks, out[scope], strict=True) if name is not None}
                out[scope] = [by_pid.get(pid) for pid, _ in tracks]
        return out


def timelines(ranks: Sequence[Batches]) -> list[Timeline]:
    """The ranks on one clock, where their base times are known, with ids that do not collide."""
    if len(ranks) == 1:
        return [Timeline(ranks[0])]
    base = common_base(ranks)
    step = _id_step(ranks)
    return [
        Timeline(rank, number, len(ranks), (rank.info.base_time_ns or base) - base, step)
        for number, rank in enumerate(ranks)
    ]


def common_base(ranks: Sequence[Batches]) -> int:
    """The earliest base time of several ranks, ns since the epoch; 0 where none is known."""
    return min((rank.info.base_time_ns for rank in ranks if rank.info.base_time_ns is not None), default=0)


def _id_step(ranks: Sequence[Batches]) -> int:
    """A power of ten above all ids by which events are joined; 0 where there is no room for it."""
    highest = 0
    for rank in ranks:
        for group, names in (("slice", ("correlation", "external")), ("python", ("id",))):
            for batch in rank.batches(group, names):
                highest = max(highest, *(int(cast("NDArray[Any]", batch[n]).max(initial=0)) for n in names))
    step = 10 ** len(str(highest))
    return step if step * (len(ranks) + 1) < 2**62 else 0


class FlowIds:
    """Ids of flows that are each rank's alone: ids as they are for one rank, else numbered anew."""

    def __init__(self, ranks: Sequence[Timeline]) -> None:
        self._known: dict[int, tuple[NDArray[np.int64], int]] = {}
        start = 1
        for rank in ranks if len(ranks) > 1 else ():
            parts = [cast("NDArray[np.int64]", batch["id"]) for batch in rank.batches.batches("flow", ("id",))]
            ids = np.unique(np.concatenate(parts)) if parts else np.zeros(0, np.int64)
            self._known[rank.number] = (ids, start)
            start += len(ids)
        self._texts = start

    def of(self, rank: Timeline, columns: Columns) -> Columns:
        """The flow columns with the ids to write."""
        if rank.number not in self._known:
            return columns
        ids, start = self._known[rank.number]
        own = cast("NDArray[np.int64]", columns["id"])
        numbers = start + np.searchsorted(ids, own)
        text = cast("Text", columns["id_text"])
        by_text = self._texts + text.codes.astype(np.int64) * rank.num_ranks + rank.number
        numbers = np.where((own == NULL_INT64) & (text.codes >= 0), by_text, numbers)
        return {**columns, "id": numbers, "id_text": Text(np.full(len(own), -1, np.int32), text.pool)}


class _Cursor:
    """Rows of a group that belong to the slices of each batch in turn."""

    def __init__(self, batches: Iterator[Columns]) -> None:
        self._batches = batches
        self._held: list[Columns] = []

    def until(self, row: int) -> Columns:
        """The rows of slices before ``row`` that were not yet given; {} if there are none."""
        taken: list[Columns] = []
        while True:
            columns = self._held.pop() if self._held else next(self._batches, None)
            if columns is None:
                break
            rows = cast("NDArray[np.int32]", columns["row"])
            num = int(np.searchsorted(rows, row))
            if num:
                taken.append(_part(columns, slice(0, num)))
            if num < len(rows):
                self._held.append(_part(columns, slice(num, None)))
                break
        return _joined(taken) if taken else {}


def _smaller(batches: Iterator[Columns]) -> Iterator[Columns]:
    """Batches of no more than ``ROWS``: their text is what takes memory."""
    for batch in batches:
        num = len(cast("NDArray[Any]", batch["ts"]))
        for first in range(0, num, ROWS):
            yield _part(batch, slice(first, first + ROWS))


def _part(columns: Columns, rows: slice) -> Columns:
    return {n: Text(v.codes[rows], v.pool) if isinstance(v, Text) else v[rows] for n, v in columns.items()}


def _joined(parts: list[Columns]) -> Columns:
    if len(parts) == 1:
        return parts[0]
    joined: Columns = {}
    for name, first in parts[0].items():
        if isinstance(first, Text):
            joined[name] = Text(np.concatenate([cast("Text", part[name]).codes for part in parts]), first.pool)
        else:
            joined[name] = np.concatenate([cast("NDArray[Any]", part[name]) for part in parts])
    return joined
