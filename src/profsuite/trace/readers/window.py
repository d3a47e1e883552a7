"""The rows of a run of events: msgspec decodes their ``args``, numpy and Arrow fill the columns."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any, Final

import msgspec
import numpy as np
from msgspec import Raw, Struct
from msgspec.structs import astuple

from profsuite.trace.readers import values
from profsuite.trace.readers.args import Shape, Shapes, StrangerError
from profsuite.trace.readers.bulk import NO_TIME, UnfitError, distinct_pairs, integers, times
from profsuite.trace.readers.columns import KIND, NULL, SLICE_GROUPS, TRIGGERS, Columns
from profsuite.trace.readers.fields import GROUPS, NULL_INT64
from profsuite.trace.readers.texts import Texts, Words, codes, texts_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from profsuite.trace.readers.args import Column

    Rows = NDArray[np.int64]

_NULL: Final = Raw(b"null")
_ENCODER: Final = msgspec.json.Encoder()
_SPACES: Final = b" \t\n\r"
_NO_ARGS: Final = Raw(b"{}")


class Event(Struct, gc=False):
    """An event's own members, as far as they become columns."""

    ph: str
    name: Raw = _NULL
    cat: Raw = _NULL
    pid: Raw = _NULL
    tid: Raw = _NULL
    ts: Raw = NO_TIME
    dur: Raw = NO_TIME
    id: Raw = _NULL
    args: Raw = _NO_ARGS


_MEMBERS: Final = Event.__struct_fields__


class Learned:
    """What one window teaches for the next."""

    def __init__(self) -> None:
        self.shapes = Shapes()
        self.memory = Shape()
        self.words = Words()
        self.members = msgspec.json.Decoder(list[dict[str, Raw]])


class Window:
    """The rows of some events; making one checks them and changes no column."""

    def __init__(self, learned: Learned, events: list[Event], offsets: Rows) -> None:
        self.learned = learned
        self.offsets = offsets
        self.num_events = len(events)
        flat = list(chain.from_iterable(map(astuple, events)))
        columns = [flat[number :: len(_MEMBERS)] for number in range(len(_MEMBERS))]
        phases, names, categories, self.pids, self.tids, ts, self.written_durations, self.ids, self.args = columns
        letters = "".join(phases)
        if not letters.isascii() or len(letters) != len(events) or "" in phases:
            raise UnfitError
        self.phases = np.frombuffer(letters.encode(), np.uint8)
        self.ts = times(ts)
        if ((self.ts == NULL_INT64) & (self.phases != ord("M"))).any():
            raise UnfitError
        self.names = learned.words.texts(names).or_empty()
        self.categories = learned.words.texts(categories).or_empty()
        instant = _IS_INSTANT[self.phases]
        memory = instant & self.names.where("[memory]")
        self.slices = np.flatnonzero(_IS_SLICE[self.phases])
        self.flows = np.flatnonzero(_IS_FLOW[self.phases])
        self.ends = np.flatnonzero(self.phases == ord("E"))
        self.instants = np.flatnonzero(instant & ~memory)
        self.memory = np.flatnonzero(memory)
        self._prepare_slices()
        self._prepare_flows()
        self._prepare_memory()
        self._prepare_metadata()
        self._prepare_counters()
        self._prepare_tracks()

    def _members(self, rows: Rows) -> list[dict[str, Raw]]:
        """The args of some events; of two like keys the later is the one that counts, also for the order."""
        text = _ENCODER.encode(_at(self.args, rows))
        found = self.learned.members.decode(text)
        if text.translate(None, _SPACES) != _ENCODER.encode(found).translate(None, _SPACES):
            raise UnfitError
        return found

    def _prepare_slices(self) -> None:
        self.durations = times(_at(self.written_durations, self.slices))
        categories, names = self.categories.at(self.slices), self.names.at(self.slices)
        numbers, pairs = distinct_pairs(categories.numbers, names.numbers)
        kinds = [(categories.words[category] or "", names.words[name] or "") for category, name in pairs]
        while True:
            try:
                self.parts = self._parts(numbers, kinds)
                return
            except StrangerError as stranger:
                self.learned.shapes.set_apart(*kinds[numbers[stranger.place]])

    def _parts(self, numbers: NDArray[np.int32], kinds: list[tuple[str, str]]) -> list[_Part]:
        """The rows that the slices' args make, given each slice's number among (category, name)."""
        shapes = [self.learned.shapes.of(*kind) for kind in kinds]
        each = list(dict.fromkeys(shapes))
        of_slices = np.array([each.index(shape) for shape in shapes], np.int32)[numbers]
        parts: list[_Part] = []
        for number, shape in enumerate(each):
            where = np.flatnonzero(of_slices == number)
            try:
                groups = shape.read(_at(self.args, self.slices[where]), _OF_SLICES, self.learned.words)
            except StrangerError as stranger:
                raise StrangerError(int(where[stranger.place])) from None
            parts += [_Part(group, where, columns) for group, columns in groups.items()]
        return parts

    def _prepare_flows(self) -> None:
        ids = _at(self.ids, self.flows)
        self.flow_ids = integers(ids)
        self.worded = np.flatnonzero(self.flow_ids == NULL_INT64)
        self.flow_texts = self.learned.words.texts(_at(ids, self.worded))
        if None in self.flow_texts.words:
            raise UnfitError

    def _prepare_memory(self) -> None:
        self.memory_columns: dict[str, NDArray[Any]] = {}
        if len(self.memory):
            columns = self.learned.memory.read(_at(self.args, self.memory), ("memory",), self.learned.words)
            part = _Part("memory", self.memory, columns.get("memory", {}))
            if len(part.where) < len(self.memory):  # without one of its fields it is an instant
                raise UnfitError
            self.memory_columns = part.numbers

    def _prepare_metadata(self) -> None:
        rows = np.flatnonzero(self.phases == ord("M"))
        self.metadata = rows
        if not len(rows):
            return
        found = self._members(rows)
        keys = [key for args in found for key in args]
        texts = self.learned.words.texts([value for args in found for value in args.values()])
        kept = np.flatnonzero(texts.present())
        self.metadata = np.repeat(rows, [len(args) for args in found])[kept]
        self.metadata_keys = texts_of(keys).at(kept)
        self.metadata_values = texts.at(kept)

    def _prepare_counters(self) -> None:
        rows = np.flatnonzero(self.phases == ord("C"))
        self.counters = rows
        if not len(rows):
            return
        found = self._members(rows)
        series: list[tuple[int, str, float]] = []
        for row, args in zip(rows.tolist(), found, strict=True):
            for key, raw in args.items():
                written = bytes(raw)
                value = None if written[:1] == b'"' else values.real(written)
                if value is not None:
                    series.append((row, key, value))
        self.counters = np.array([row for row, _, _ in series], np.int64)
        self.counter_series = texts_of([key for _, key, _ in series])
        self.counter_values = np.array([value for _, _, value in series], np.float64)

    def _prepare_tracks(self) -> None:
        """The (pid, tid) of each event that has rows."""
        on_track = _IS_READ[self.phases].copy()
        on_track[self.metadata] = on_track[self.counters] = True
        self.on_track = np.flatnonzero(on_track)
        pids = self.learned.words.texts(_at(self.pids, self.on_track)).or_empty()
        tids = self.learned.words.texts(_at(self.tids, self.on_track)).or_empty()
        self.track_numbers, pairs = distinct_pairs(pids.numbers, tids.numbers)
        self.track_texts = [(pids.words[pid] or "", tids.words[tid] or "") for pid, tid in pairs]

    def add(self, columns: Columns) -> None:
        """Append the rows."""
        columns.num_events += self.num_events
        for number in np.flatnonzero(~_IS_SUPPORTED[self.phases]).tolist():
            columns.unsupport(chr(self.phases[number]), int(self.offsets[number]))
        tracks = np.zeros(self.num_events, np.int32)
        tracks[self.on_track] = np.array([columns.track(*pair) for pair in self.track_texts], np.int32)[
            self.track_numbers
        ]
        self.common: dict[str, NDArray[Any]] = {"ts": self.ts, "track": tracks, "offset": self.offsets}
        named = np.zeros(self.num_events, bool)
        for rows in (self.slices, self.flows, self.instants):
            named[rows] = True
        self._code(columns, "category", self.categories, np.flatnonzero(named))
        named[self.counters] = True
        self._code(columns, "name", self.names, np.flatnonzero(named))
        self._add_slices(columns)
        self._append(columns, "end", self.ends)
        self._add_flows(columns)
        self._append(columns, "instant", self.instants)
        self._append(columns, "memory", self.memory, self.memory_columns)
        if len(self.metadata):
            self._add_metadata(columns)
        if len(self.counters):
            self._add_counters(columns)

    def _code(self, columns: Columns, name: str, texts: Texts, rows: Rows) -> None:
        (found,) = codes(columns.pools[name], [(rows, texts.at(rows))])
        self.common[name] = np.zeros(self.num_events, np.int32)
        self.common[name][rows] = found

    def _add_slices(self, columns: Columns) -> None:
        count = len(self.slices)
        offsets = self.offsets[self.slices]
        is_complete = self.phases[self.slices] == ord("X")
        is_missing = self.durations == NULL_INT64
        for kind, faulty in (
            ("missing_duration", is_complete & is_missing),
            ("negative_duration", is_complete & (self.durations < 0) & ~is_missing),
        ):
            where = np.flatnonzero(faulty)
            if len(where):
                columns.remark(kind, int(offsets[where[0]]), len(where))
        own: dict[str, NDArray[Any]] = {
            "dur": np.where(is_complete, np.maximum(self.durations, 0), NULL_INT64),
            "correlation": np.full(count, NULL_INT64, np.int64),
            "external": np.full(count, NULL_INT64, np.int64),
        }
        for part in self.parts:
            if part.group == "slice":
                for field, column in part.numbers.items():
                    own[field][part.where] = column
        self._append(columns, "slice", self.slices, own)
        self._code_parts(columns)
        for group in SLICE_GROUPS:
            self._add_group(columns, group, [part for part in self.parts if part.group == group])
        columns.next_row += count

    def _code_parts(self, columns: Columns) -> None:
        """The codes of the groups' texts; one pool may serve several columns and groups."""
        pools: dict[str, list[tuple[_Part, str, Texts]]] = {}
        for group in SLICE_GROUPS:
            for field, _, pool in GROUPS[group]:
                for part in self.parts:
                    if part.group == group and field in part.texts:
                        pools.setdefault(pool, []).append((part, field, part.texts[field]))
        for pool, found in pools.items():
            coded = codes(columns.pools[pool], [(part.where, texts) for part, _, texts in found])
            for (part, field, _), column in zip(found, coded, strict=True):
                part.numbers[field] = column

    def _add_group(self, columns: Columns, group: str, parts: list[_Part]) -> None:
        """Rows of a group, from the parts of all categories, in the order of the slices."""
        if not parts:
            return
        rows = np.concatenate([part.where for part in parts])
        order = np.argsort(rows, kind="stable") if len(parts) > 1 else None
        own: dict[str, NDArray[Any]] = {"row": rows + columns.next_row}
        for field in {field for part in parts for field in part.numbers}:
            dtype = columns.dtype(group, field)
            empty = NULL[columns.kind(group, field)]
            found = [part.numbers.get(field) for part in parts]
            own[field] = np.concatenate(
                [
                    np.full(len(part.where), empty, dtype) if column is None else column
                    for part, column in zip(parts, found, strict=True)
                ]
            )
        if order is not None:
            own = {field: column[order] for field, column in own.items()}
        columns.append(group, len(rows), own)

    def _add_flows(self, columns: Columns) -> None:
        texts = np.full(len(self.flows), -1, np.int32)
        (texts[self.worded],) = codes(columns.pools["flow_id"], [(self.worded, self.flow_texts)])
        phases = self.phases[self.flows]
        own: dict[str, NDArray[Any]] = {"phase": phases, "id": self.flow_ids, "id_text": texts}
        self._append(columns, "flow", self.flows, own)

    def _add_metadata(self, columns: Columns) -> None:
        rows = self.metadata
        own: dict[str, NDArray[Any]] = {}
        for name, pool, texts in (
            ("name", "meta_name", self.names.at(rows)),
            ("key", "meta_key", self.metadata_keys),
            ("value", "meta_value", self.metadata_values),
        ):
            (own[name],) = codes(columns.pools[pool], [(np.arange(len(rows)), texts)])
        self._append(columns, "meta", rows, own)

    def _add_counters(self, columns: Columns) -> None:
        rows = self.counters
        (series,) = codes(columns.pools["series"], [(np.arange(len(rows)), self.counter_series)])
        self._append(columns, "counter", rows, {"series": series, "value": self.counter_values})

    def _append(self, columns: Columns, group: str, rows: Rows, own: dict[str, NDArray[Any]] | None = None) -> None:
        """Rows of a group: its ``own`` columns, and what all events have in common."""
        if not len(rows):
            return
        own = own or {}
        fields = {name for name, _, _ in GROUPS[group]}
        shared = {name: column[rows] for name, column in self.common.items() if name in fields - own.keys()}
        columns.append(group, len(rows), {**shared, **own})


class _Part:
    """The rows of one group that the args of one category make: their events' numbers, and columns."""

    def __init__(self, group: str, where: Rows, columns: dict[str, Column]) -> None:
        self.group = group
        present = np.zeros(len(where), bool)
        for field, column in columns.items():
            if (group, field if (group, field) in KIND else field[:-2]) in TRIGGERS:
                present |= column.present
        self.where = where
        found = {field: column.values for field, column in columns.items()}
        if group != "slice" and not present.all():
            kept = np.flatnonzero(present)
            self.where = where[kept]
            found = {f: c.at(kept) if isinstance(c, Texts) else c[kept] for f, c in found.items()}
        self.texts = {field: column for field, column in found.items() if isinstance(column, Texts)}
        self.numbers = {field: column for field, column in found.items() if not isinstance(column, Texts)}


def _at(items: list[Any], rows: Rows) -> list[Any]:
    return items if len(rows) == len(items) else [items[row] for row in rows.tolist()]


def _table(phases: str) -> NDArray[np.bool_]:
    table = np.zeros(256, bool)
    table[[ord(phase) for phase in phases]] = True
    return table


_IS_SLICE: Final = _table("XB")
_IS_FLOW: Final = _table("stf")
_IS_INSTANT: Final = _table("iIR")
_IS_READ: Final = _table("XBEstfiIR")
_IS_SUPPORTED: Final = _table("XBEstfiIRMC")
_OF_SLICES: Final = ("slice", *SLICE_GROUPS)
