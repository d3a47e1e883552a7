"""``xplane.pb``: the planes of XLA's profiler, as JAX and TensorFlow write them (XLA's ``xplane.proto``).

A plane is a host or a device, a line a thread or stream, an event a slice.  Names lie in the plane, once each; so do
the names of stats.  Times are whole picoseconds from the line's start.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from profsuite.errors import TraceError
from profsuite.trace.columns import strings
from profsuite.trace.joins import distinct
from profsuite.trace.readers import hlo
from profsuite.trace.readers.columns import Columns
from profsuite.trace.readers.fields import ARGS, GROUPS, NULL_CODE, NULL_INT64, POOLS
from profsuite.trace.readers.raw import RawTrace
from profsuite.trace.readers.wire import (
    BYTES,
    FIXED64,
    PADDING,
    VARINT,
    BrokenOffError,
    Field,
    fields,
    messages,
    runs,
    signed,
    varint,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from profsuite.trace.readers.wire import Found

LARGEST: Final = 2**31 - 1
"""Bytes of a protobuf message, by its definition."""

FARTHEST_PS: Final = 2**62
_EVENT: Final = 0x22
"""The tag of a line's events."""
METADATA_PLANE: Final = "/host:metadata"
TASK_PLANE: Final = "Task Environment"
_STATS: Final = {key: (group, name) for key, group, name, _ in ARGS if group == "xla" or key == "correlation_id"}
_KINDS: Final = {name: (kind, pool) for name, kind, pool in GROUPS["xla"]}
_TRIGGERS: Final = {name for _, group, name, alone in ARGS if group == "xla" and alone}
_MODULE_ID: Final = re.compile(r"\((\d+)\)$")


def is_xspace(first: bytes) -> bool:
    """Whether these are the first bytes of an ``XSpace``: a plane, which begins with its id or its name."""
    try:
        if first[:1] != b"\n":
            return False
        _, at = varint(first, 1, len(first))
        if first[at : at + 1] == b"\x08":
            _, at = varint(first, at + 1, len(first))
        if first[at : at + 1] != b"\x12":
            return False
        size, at = varint(first, at + 1, len(first))
    except BrokenOffError:
        return False
    name = first[at : at + size]
    return 0 < size < 256 and bool(name) and name.isascii() and name.decode("ascii").isprintable()


@dataclass(slots=True)
class _Line:
    track: int
    start_ns: int
    events: tuple[list[int], list[int]]


@dataclass(slots=True)
class _Stat:
    """A stat: its name's id, and what it is: ``number``, ``text``, ``reference`` or ``bytes``, with its value."""

    name: int
    kind: str
    value: int
    start: int
    stop: int


@dataclass(slots=True)
class _Plane:
    name: str = ""
    lines: list[Field] = field(default_factory=list)
    event_names: dict[int, str] = field(default_factory=dict)
    event_stats: dict[int, list[_Stat]] = field(default_factory=dict)
    stat_names: dict[int, str] = field(default_factory=dict)
    stats: list[_Stat] = field(default_factory=list)


def read_xspace(chunks: Iterable[bytes], done: Callable[[int], None] | None = None) -> RawTrace:
    """The raw trace of a file; ``TraceError`` if it is none.  What lies before a break is kept, with a remark."""
    held = bytearray()
    for chunk in chunks:
        held += chunk
        if len(held) > LARGEST:
            raise TraceError("is larger than 2 GiB, which no protobuf message is; profile for a shorter time")
        if done is not None:
            done(len(held))
    size = len(held)
    held += bytes(PADDING)
    return _Reader(held, size).read()


class _Reader:
    def __init__(self, held: bytearray, size: int) -> None:
        self.size = size
        self.data: Any = held
        self.bytes: NDArray[np.uint8] = np.frombuffer(held, np.uint8)
        self.columns = Columns()
        self.header: list[tuple[str, str]] = []
        self.modules: dict[int, hlo.Module] = {}
        self.named: dict[str, hlo.Module | None] = {}
        self.earliest: int | None = None

    # ------------------------------------------------------------ structure
    def _fields(self, start: int, stop: int) -> Iterator[Field]:
        """The fields of a message; a break ends it and is remarked."""
        try:
            yield from fields(self.data, start, stop)
        except BrokenOffError:
            self.columns.remark("truncated", stop)

    def _text(self, start: int, stop: int) -> str:
        return bytes(self.data[start:stop]).decode("utf-8", "replace")

    def read(self) -> RawTrace:
        """The whole file."""
        planes, notes = [], []
        try:
            for each in fields(self.data, 0, self.size):
                if each.number == 1 and each.wire == BYTES:
                    planes.append(self._plane(each))
                elif each.number in (2, 3) and each.wire == BYTES:
                    notes.append(self._text(each.start, each.stop))
        except BrokenOffError as error:
            if not planes:
                raise TraceError(f"is no XSpace: {error}") from None
            self.columns.remark("truncated", self.size)
        for plane in planes:
            if plane.name == METADATA_PLANE:
                self._read_modules(plane)
        for plane in planes:
            self._read_plane(plane)
        self._read_header(planes, notes)
        columns = self.columns
        remarks = columns.remark_list()
        return RawTrace(
            columns.take(), {pool: strings(list(columns.pools[pool])) for pool in POOLS}, list(columns.tracks),
            self.header, columns.num_events, self.size, remarks,
        )  # fmt: skip

    def _plane(self, whole: Field) -> _Plane:
        plane = _Plane()
        for each in self._fields(whole.start, whole.stop):
            if each.wire != BYTES:
                continue
            if each.number == 2:
                plane.name = self._text(each.start, each.stop)
            elif each.number == 3:
                plane.lines.append(each)
            elif each.number == 4:
                self._event_metadata(plane, each)
            elif each.number == 5:
                key, value = self._entry(each)
                if value is not None:
                    named = [f for f in self._fields(value.start, value.stop) if f.number == 2 and f.wire == BYTES]
                    plane.stat_names[key] = self._text(named[-1].start, named[-1].stop) if named else ""
            elif each.number == 6:
                plane.stats.append(self._stat(each))
        return plane

    def _entry(self, whole: Field) -> tuple[int, Field | None]:
        """Key and value of a map's entry."""
        key, value = 0, None
        for each in self._fields(whole.start, whole.stop):
            if each.number == 1 and each.wire == VARINT:
                key = each.value
            elif each.number == 2 and each.wire == BYTES:
                value = each
        return key, value

    def _event_metadata(self, plane: _Plane, entry: Field) -> None:
        key, value = self._entry(entry)
        if value is None:
            return
        name = display = ""
        for each in self._fields(value.start, value.stop):
            if each.wire != BYTES:
                continue
            if each.number == 2:
                name = self._text(each.start, each.stop)
            elif each.number == 4:
                display = self._text(each.start, each.stop)
            elif each.number == 5:
                plane.event_stats.setdefault(key, []).append(self._stat(each))
        plane.event_names[key] = display or name

    def _stat(self, whole: Field) -> _Stat:
        stat = _Stat(0, "", 0, 0, 0)
        for each in self._fields(whole.start, whole.stop):
            if each.number == 1:
                stat.name = each.value
            elif each.number in _STAT_KINDS:
                stat.kind, stat.value = _STAT_KINDS[each.number], each.value
                stat.start, stat.stop = each.start, each.stop
        return stat

    # ------------------------------------------------------------ facts about the whole
    def _value(self, plane: _Plane, stat: _Stat) -> str | int | None:
        if stat.kind == "text":
            return self._text(stat.start, stat.stop)
        if stat.kind == "reference":
            return plane.stat_names.get(stat.value)
        return signed(stat.value) if stat.kind == "number" else None

    def _read_modules(self, plane: _Plane) -> None:
        for key, stats in plane.event_stats.items():
            for stat in stats:
                if stat.kind == "bytes" and plane.stat_names.get(stat.name, "").lower() in ("hlo proto", "hlo_proto"):
                    module = hlo.read_module(self.data, self.bytes, stat.start, stat.stop)
                    self.modules[key] = module
                    name = _MODULE_ID.sub("", plane.event_names.get(key, ""))
                    self.named[name] = None if name in self.named else module

    def _read_header(self, planes: list[_Plane], notes: list[str]) -> None:
        facts: dict[str, Any] = {}
        for plane in planes:
            if plane.name in (METADATA_PLANE, TASK_PLANE):
                for stat in plane.stats:
                    value = self._value(plane, stat)
                    if value is not None and (name := plane.stat_names.get(stat.name)):
                        facts[name] = value
        begin = facts.get("profile_start_time")
        if isinstance(begin, int) and 0 < begin < 2**62:
            # Lines are counted from the profile's start; of a file that nobody normalised, from the epoch.
            if self.earliest is not None and self.earliest >= begin:
                begin = 0
            self.header.append(("baseTimeNanoseconds", str(begin)))
        if facts:
            self.header.append(("xla", json.dumps(facts)))
        if notes:
            self.header.append(("xla_messages", json.dumps(notes[:1000])))

    # ------------------------------------------------------------ events
    def _read_plane(self, plane: _Plane) -> None:
        lines = [line for number, each in enumerate(plane.lines) if (line := self._line(plane, each, number))]
        sizes = [len(line.events[0]) for line in lines]
        num = sum(sizes)
        if not num:
            return
        start = np.array([at for line in lines for at in line.events[0]], np.int64)
        stop = np.array([at for line in lines for at in line.events[1]], np.int64)
        track = np.repeat(np.array([line.track for line in lines], np.int32), sizes)
        base = np.repeat(np.array([line.start_ns for line in lines], np.int64), sizes)
        found, sound = messages(self.bytes, start, stop)
        numbers = {1: np.zeros(num, np.int64), 2: np.zeros(num, np.int64), 3: np.zeros(num, np.int64)}
        stats: list[Found] = []
        for each in found:
            if each.wire == VARINT and each.number in numbers:
                numbers[each.number][each.index] = each.value.view(np.int64)
            elif each.wire == VARINT and each.number == 5:
                sound[each.index] = False  # so many occurrences, at no time
            elif each.wire == BYTES and each.number == 4:
                stats.append(each)
        metadata, offset, dur = numbers.values()
        sound &= (np.abs(offset) < FARTHEST_PS) & (dur >= 0) & (dur < FARTHEST_PS)
        ts = base + (offset + 500) // 1000
        # Both ends are rounded, not the duration: what lies within another slice still does.
        end = base + (np.where(sound, offset + dur, 0) + 500) // 1000
        sound &= (np.abs(ts) < 2**62) & (np.abs(end) < 2**62)
        self.columns.num_events += num
        if not sound.all():
            self.columns.remark("dropped", int(start[~sound][0]), int((~sound).sum()))
        kept = np.flatnonzero(sound)
        if not len(kept):
            return
        earliest = int(ts[kept].min())
        self.earliest = earliest if self.earliest is None else min(self.earliest, earliest)
        ids, which = np.unique(metadata, return_inverse=True)
        names = [self._name(plane, key & 0xFFFF_FFFF_FFFF_FFFF) for key in ids.tolist()]
        codes = np.array([self.columns.pools["name"][name] for name in names], np.int32)[which]
        blank = self.columns.pools["category"][""]
        values = self._event_values(plane, num, ids, which, stats)
        correlation = values.pop("correlation", None)
        row = np.full(num, -1, np.int32)
        row[kept] = np.arange(len(kept), dtype=np.int32) + np.int32(self.columns.next_row)
        self.columns.append(
            "slice", len(kept),
            {
                "ts": ts[kept], "dur": (end - ts)[kept], "track": track[kept], "name": codes[kept],
                "category": np.full(len(kept), blank, np.int32), "offset": start[kept],
                **({} if correlation is None else {"correlation": correlation[kept]}),
            },
        )  # fmt: skip
        self.columns.next_row += len(kept)
        self._append_xla(values, row)

    def _name(self, plane: _Plane, key: int) -> str:
        known = plane.event_names.get(key)
        return f"event {key} (its name is lost)" if known is None else known

    def _line(self, plane: _Plane, whole: Field, number: int) -> _Line | None:
        """A line's track and the places of its events."""
        ident = display = start = 0
        name = shown = ""
        starts: list[int] = []
        stops: list[int] = []
        at = whole.start
        while at < whole.stop:
            at = runs(self.data, at, whole.stop, _EVENT, starts, stops)
            if at >= whole.stop:
                break
            # Another field than an event, or a break.
            each = next(self._fields(at, whole.stop), None)
            if each is None or not each.whole:
                self.columns.remark("truncated", whole.stop)
                break
            at = each.stop
            if each.wire == VARINT and each.number in (1, 3, 10):
                value = signed(each.value)
                if each.number == 1:
                    ident = value
                elif each.number == 3:
                    start = value
                else:
                    display = value
            elif each.wire == BYTES and each.number == 2:
                name = self._text(each.start, each.stop)
            elif each.wire == BYTES and each.number == 11:
                shown = self._text(each.start, each.stop)
        if not starts:
            return None
        if abs(start) >= 2**62:
            self.columns.num_events += len(starts)
            self.columns.remark("dropped", starts[0], len(starts))
            return None
        place = (plane.name, str(display or ident))
        known = place in self.columns.tracks
        track = self.columns.track(*place)
        if not known:
            self._describe(track, plane.name, shown or name, number)
        return _Line(track, start, (starts, stops))

    def _describe(self, track: int, process: str, thread: str, number: int) -> None:
        """The metadata events that a trace in JSON has of a track."""
        pools = self.columns.pools
        facts = (("process_name", "name", process), ("thread_name", "name", thread),
                 ("thread_sort_index", "sort_index", str(number)))  # fmt: skip
        for event, key, value in facts:
            codes = {
                "name": pools["meta_name"][event],
                "key": pools["meta_key"][key],
                "value": pools["meta_value"][value],
            }
            self.columns.append("meta", 1, {name: np.array([code], np.int32) for name, code in
                                            {**codes, "track": track}.items()})  # fmt: skip

    # ------------------------------------------------------------ stats
    def _event_values(
        self, plane: _Plane, num: int, ids: NDArray[np.int64], which: NDArray[np.intp], stats: list[Found]
    ) -> dict[str, NDArray[Any]]:
        """The columns that stats fill, a value an event; those of the event go before those of its metadata."""
        wanted = {key: _STATS[name][1] for key, name in plane.stat_names.items() if name in _STATS}
        values: dict[str, NDArray[Any]] = {}
        if not wanted:
            return values
        shared: dict[str, NDArray[Any]] = {}  # a value a name of an event
        for place, key in enumerate(ids.tolist()):
            for stat in plane.event_stats.get(key & 0xFFFF_FFFF_FFFF_FFFF, ()):
                if stat.name in wanted:
                    name = wanted[stat.name]
                    self._column(shared, name, len(ids))[place] = self._coded(name, self._value(plane, stat))
        values.update({name: column[which] for name, column in shared.items()})
        index = np.concatenate([each.index for each in stats]) if stats else np.zeros(0, np.int64)
        if not len(index):
            return values
        start = np.concatenate([each.start for each in stats])
        stop = np.concatenate([each.stop for each in stats])
        found, _ = messages(self.bytes, start, stop)
        names = np.zeros(len(index), np.uint64)
        for each in found:
            if each.number == 1 and each.wire == VARINT:
                names[each.index] = each.value
        for key, name in wanted.items():
            mine = names == np.uint64(key & 0xFFFF_FFFF_FFFF_FFFF)
            for each in found:
                if each.number not in _STAT_KINDS or each.number == 1:
                    continue
                rows = np.flatnonzero(mine[each.index])
                if len(rows):
                    column = self._column(values, name, num)
                    column[index[each.index[rows]]] = self._codes(plane, name, each, rows)
        return values

    def _column(self, values: dict[str, NDArray[Any]], name: str, num: int) -> NDArray[Any]:
        if name not in values:
            is_text = name in _KINDS and _KINDS[name][0] == "text"
            values[name] = np.full(num, NULL_CODE, np.int32) if is_text else np.full(num, NULL_INT64, np.int64)
        return values[name]

    def _coded(self, name: str, value: str | int | None) -> int:
        """A value as it stands in the column of ``name``."""
        kind, pool = _KINDS.get(name, ("int", ""))
        if kind == "text":
            return NULL_CODE if value is None else self.columns.pools[pool][str(value)]
        if isinstance(value, str):
            value = int(value) if re.fullmatch(r"-?\d{1,18}", value) else None
        return NULL_INT64 if value is None or not -(2**63) < value < 2**63 else value

    def _codes(self, plane: _Plane, name: str, found: Found, rows: NDArray[np.intp]) -> NDArray[Any]:
        """Values of one stat of many events, as they stand in the column of ``name``."""
        kind = _STAT_KINDS[found.number]
        if kind == "text" and found.wire == BYTES:
            places: Sequence[tuple[int, int]] = list(
                zip(found.start[rows].tolist(), found.stop[rows].tolist(), strict=True)
            )
            known: dict[bytes, int] = {}
            coded = []
            for start, stop in places:
                raw = bytes(self.data[start:stop])
                if raw not in known:
                    known[raw] = self._coded(name, raw.decode("utf-8", "replace"))
                coded.append(known[raw])
            return np.array(coded, np.int64)
        if kind not in ("number", "reference") or found.wire not in (VARINT, FIXED64):
            return np.full(len(rows), self._coded(name, None), np.int64)
        numbers, which = np.unique(found.value[rows], return_inverse=True)
        if kind == "number" and not (name in _KINDS and _KINDS[name][0] == "text"):
            values = numbers.view(np.int64)
            return values[which]
        coded = [
            self._coded(name, plane.stat_names.get(number) if kind == "reference" else str(signed(number)))
            for number in numbers.tolist()
        ]
        return np.array(coded, np.int64)[which]

    # ------------------------------------------------------------ groups
    def _append_xla(self, values: dict[str, NDArray[Any]], row: NDArray[np.int32]) -> None:
        """Rows of the groups ``xla`` and, where the module tells, ``collective``."""
        if not values:
            return
        told = np.zeros(len(row), bool)
        for name in _TRIGGERS & values.keys():
            told |= values[name] != (NULL_CODE if values[name].dtype == np.int32 else NULL_INT64)
        kept = np.flatnonzero(told & (row >= 0))
        if not len(kept):
            return
        columns = {name: column[kept] for name, column in values.items()}
        if "hlo_op" in columns and self.modules:
            self._append_collectives(columns, row[kept])
        self.columns.append("xla", len(kept), {**columns, "row": row[kept]})

    def _append_collectives(self, columns: dict[str, NDArray[Any]], row: NDArray[np.int32]) -> None:
        """Opcodes of the instructions, and a row of ``collective`` for those that communicate."""
        num = len(row)
        ops, none = columns["hlo_op"], np.full(num, NULL_INT64, np.int64)
        program = columns.get("program", none)
        module = columns.get("module", np.full(num, NULL_CODE, np.int32))
        keys, which = distinct(program, module, ops)
        words, pool = list(self.columns.pools["misc"]), self.columns.pools["misc"]
        opcode = np.full(len(keys), NULL_CODE, np.int32)
        facts: list[dict[str, int] | None] = [None] * len(keys)
        for place, (number, text, op) in enumerate(keys.tolist()):
            known = self.modules.get(number & 0xFFFF_FFFF_FFFF_FFFF) or self.named.get(words[text] if text >= 0 else "")
            if known is None or op < 0:
                continue
            found = known.opcodes.get(words[op].lstrip("%"))
            if found:
                opcode[place] = pool[found]
            if (collective := known.collectives.get(words[op].lstrip("%"))) is not None and found is not None:
                facts[place] = self._facts(found, collective)
        columns["opcode"] = opcode[which]
        talks = np.array([each is not None for each in facts], bool)[which]
        rows = np.flatnonzero(talks)
        if len(rows):
            chosen = which[rows].tolist()
            names = next(each for each in facts if each is not None)
            found_columns = {name: np.array([(facts[i] or {})[name] for i in chosen], np.int64) for name in names}
            self.columns.append("collective", len(rows), {**found_columns, "row": row[rows]})

    def _facts(self, opcode: str, known: hlo.Collective) -> dict[str, int]:
        """Columns of ``collective`` that do not change from run to run."""
        pool = self.columns.pools["collective"]

        def text(value: str | None) -> int:
            return NULL_CODE if value is None else pool[value]

        def number(value: int | None) -> int:
            return NULL_INT64 if value is None else value

        return {
            "collective": text(hlo.collective_of(opcode)), "dtype": text(known.dtype),
            "in_nelems": number(known.in_nelems), "out_nelems": number(known.out_nelems),
            "group_size": number(known.group_size), "group_ranks": text(known.group_ranks),
            "is_async": int(hlo.half_of(opcode) == "start"),
        }  # fmt: skip


_STAT_KINDS: Final = {2: "double", 3: "number", 4: "number", 5: "text", 6: "bytes", 7: "reference"}
