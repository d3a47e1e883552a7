"""Putting recorded columns together: ``RawBuilder`` makes a ``RawTrace`` of columns, ``merge`` one of several.

Every part of the collector hands over a ``RawTrace`` with times in ns since the epoch.  Each has its own numbering
of strings, tracks and slices; ``merge`` renumbers them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from profsuite.trace.readers.fields import GROUPS, NULL_CODE, NULL_INT64, POOLS, Kind
from profsuite.trace.readers.raw import RawTrace, Remark

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    Columns = dict[str, dict[str, NDArray[Any]]]

DTYPES: Final[dict[Kind, type[np.generic]]] = {
    "time": np.int64, "int": np.int64, "grid": np.int64, "float": np.float64, "bool": np.int8, "row": np.int32,
    "track": np.int32, "phase": np.int8, "text": np.int32, "json": np.int32,
}  # fmt: skip
NULLS: Final[dict[Kind, float]] = {
    "time": NULL_INT64, "int": NULL_INT64, "grid": NULL_INT64, "float": float("nan"), "bool": -1, "row": -1,
    "track": -1, "phase": 0, "text": NULL_CODE, "json": NULL_CODE,
}  # fmt: skip


def _spread(group: str) -> list[tuple[str, Kind, str]]:
    columns: list[tuple[str, Kind, str]] = []
    for name, kind, pool in GROUPS[group]:
        names = [f"{name}_{axis}" for axis in "xyz"] if kind == "grid" else [name]
        columns += [(n, kind, pool) for n in names]
    return columns


COLUMNS: Final = {group: _spread(group) for group in GROUPS}
"""The columns of each group with grids spread out: (name, kind, pool)."""


class RawBuilder:
    """A ``RawTrace`` in the making: columns are appended to groups, strings and tracks are interned.

    ``code`` and ``track`` give numbers for strings and (pid, tid); ``append`` takes whole columns, ``add`` one row.
    Columns left out are null.
    """

    def __init__(self) -> None:
        self._parts: dict[str, list[tuple[int, Mapping[str, Any]]]] = {group: [] for group in GROUPS}
        self._rows: dict[str, list[dict[str, Any]]] = {group: [] for group in GROUPS}
        self._count = dict.fromkeys(GROUPS, 0)
        self._pools: dict[str, dict[str, int]] = {pool: {} for pool in POOLS}
        self._tracks: dict[tuple[str, str], int] = {}
        self.header: dict[str, str] = {}
        self.remarks: list[Remark] = []

    def code(self, pool: str, text: str | None) -> int:
        """The number of a string in a pool; -1 for None."""
        if text is None:
            return NULL_CODE
        numbers = self._pools[pool]
        return numbers.setdefault(text, len(numbers))

    def codes(self, pool: str, texts: Iterable[str | None]) -> NDArray[np.int32]:
        """The numbers of several strings."""
        return np.array([self.code(pool, text) for text in texts], np.int32)

    def track(self, pid: int | str, tid: int | str) -> int:
        """The number of a track."""
        return self._tracks.setdefault((str(pid), str(tid)), len(self._tracks))

    def tracks(self) -> list[tuple[str, str]]:
        """(pid, tid) of the tracks so far, by number."""
        return list(self._tracks)

    def num_rows(self, group: str) -> int:
        """Rows of a group so far: the row that the next one will have."""
        return self._count[group]

    def append(self, group: str, columns: Mapping[str, Any], length: int | None = None) -> int:
        """Append rows given as columns (arrays, or one value for all); returns the row of the first.

        Arrays of any integer or float type will do; they are converted by ``build`` and must not change until then.
        ``ValueError`` for columns that the group does not have, or of different lengths.
        """
        self._flush(group)
        spec = COLUMNS[group]
        if unknown := set(columns) - {name for name, _, _ in spec}:
            raise ValueError(f"group {group!r} has no column {sorted(unknown)[0]!r}")
        lengths = {len(value) for value in columns.values() if np.ndim(value)}
        if length is not None:
            lengths.add(length)
        if len(lengths) != 1:
            raise ValueError(f"group {group!r}: columns of different lengths: {sorted(lengths)}")
        length = lengths.pop()
        first = self._count[group]
        self._parts[group].append((length, {name: value for name, value in columns.items() if value is not None}))
        self._count[group] += length
        return first

    def add(self, group: str, **values: Any) -> int:
        """Append one row; strings of text columns are interned.  Returns its row."""
        spec = {name: (kind, pool) for name, kind, pool in COLUMNS[group]}
        row = {}
        for name, value in values.items():
            if name not in spec:
                raise ValueError(f"group {group!r} has no column {name!r}")
            kind, pool = spec[name]
            row[name] = self.code(pool, value) if pool and (value is None or isinstance(value, str)) else value
            if row[name] is None:
                row[name] = NULLS[kind]
        self._rows[group].append(row)
        self._count[group] += 1
        return self._count[group] - 1

    def add_metadata(self, track: int, event: str, key: str, value: str) -> None:
        """A metadata event such as (``thread_name``, ``name``, "main")."""
        self.add("meta", name=event, track=track, key=key, value=value)

    def _flush(self, group: str) -> None:
        rows, self._rows[group] = self._rows[group], []
        if not rows:
            return
        part = {
            name: np.array([row.get(name, NULLS[kind]) for row in rows], DTYPES[kind])
            for name, kind, _ in COLUMNS[group]
        }
        self._parts[group].append((len(rows), part))

    def _columns(self, group: str) -> dict[str, NDArray[Any]]:
        """The columns of all parts: each value is converted and copied once, where it belongs.

        Part by part, since the columns of a part often lie together in memory.
        """
        spec = COLUMNS[group]
        columns = {name: np.empty(self._count[group], DTYPES[kind]) for name, kind, _ in spec}
        at = 0
        for length, part in self._parts[group]:
            for name, kind, _ in spec:
                columns[name][at : at + length] = part.get(name, NULLS[kind])
            at += length
        return columns

    def build(self, num_events: int | None = None) -> RawTrace:
        """The trace; the builder must not be used afterwards.  ``num_events`` defaults to the rows of events."""
        strings = _strings()
        groups: Columns = {}
        for group in COLUMNS:
            self._flush(group)
            groups[group] = self._columns(group)
        if num_events is None:
            num_events = sum(self._count[group] for group in EVENTS)
        return RawTrace(
            groups=groups,
            pools={pool: strings(list(numbers)) for pool, numbers in self._pools.items()},
            tracks=list(self._tracks),
            header=list(self.header.items()),
            num_events=num_events,
            num_bytes=0,
            remarks=list(self.remarks),
        )


EVENTS: Final = tuple(g for g in ("slice", "flow", "counter", "instant", "memory", "compile") if g in GROUPS)
"""The groups that hold a row for each event of their own."""


def _strings() -> Callable[[Sequence[str]], pa.StringArray]:
    """``columns.strings``; its pyarrow is not loaded before a first window has given its memory back."""
    from profsuite.trace.columns import strings

    return strings


def empty() -> RawTrace:
    """A trace of nothing."""
    return RawBuilder().build()


def merge(raws: Sequence[RawTrace]) -> RawTrace:
    """One trace of several of the same process: rows in order, strings, tracks and slices renumbered.

    Of header keys that occur twice the first is kept; remarks of one kind are added up.  A metadata event that
    occurs twice is kept once.
    """
    if len(raws) == 1:
        return raws[0]
    strings = _strings()
    pools: dict[str, pa.StringArray] = {}
    tables: dict[str, list[NDArray[np.int32]]] = {}
    for pool in POOLS:
        words, tables[pool] = _unite([raw.pools[pool].to_pylist() for raw in raws])
        pools[pool] = strings(words)
    tracks, track_tables = _unite([raw.tracks for raw in raws])
    first_row = np.cumsum([0, *(len(raw.groups["slice"]["ts"]) for raw in raws)])
    groups: Columns = {}
    for group, spec in COLUMNS.items():
        groups[group] = {}
        for name, kind, pool in spec:
            parts = []
            for i, raw in enumerate(raws):
                values = raw.groups[group][name]
                if pool:
                    values = tables[pool][i][values]
                elif kind == "track":
                    values = track_tables[i][values]
                elif kind == "row":
                    values = values + np.int32(first_row[i])
                parts.append(values)
            groups[group][name] = np.concatenate(parts) if parts else np.zeros(0, DTYPES[kind])
    groups["meta"] = _distinct(groups["meta"])
    header: dict[str, str] = {}
    for raw in raws:
        for key, value in raw.header:
            header.setdefault(key, value)
    return RawTrace(
        groups=groups,
        pools=pools,
        tracks=tracks,
        header=list(header.items()),
        num_events=sum(raw.num_events for raw in raws),
        num_bytes=sum(raw.num_bytes for raw in raws),
        remarks=_sum([remark for raw in raws for remark in raw.remarks]),
    )


def _unite(parts: Sequence[Sequence[Any]]) -> tuple[list[Any], list[NDArray[np.int32]]]:
    """All words once, and a table of new numbers a part; its last entry keeps code -1 as it is."""
    numbers: dict[Any, int] = {}
    tables = [np.array([*(numbers.setdefault(w, len(numbers)) for w in words), NULL_CODE], np.int32) for words in parts]
    return list(numbers), tables


def _distinct(columns: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    rows = np.stack([column.astype(np.int64) for column in columns.values()], axis=1)
    if not len(rows):
        return columns
    keep = np.sort(np.unique(rows, axis=0, return_index=True)[1])
    return {name: column[keep] for name, column in columns.items()}


def _sum(remarks: Iterable[Remark]) -> list[Remark]:
    found: dict[tuple[str, str], Remark] = {}
    for remark in remarks:
        key = (remark.kind, remark.message)
        if key in found:
            found[key].count += remark.count
        else:
            found[key] = Remark(remark.kind, remark.count, remark.byte_offset, remark.message)
    return list(found.values())
