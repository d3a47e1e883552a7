"""The raw columns of one file while they grow: rows of an event, string pools, tracks, remarks."""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from profsuite.trace.readers import values
from profsuite.trace.readers.fields import ARGS, GROUPS, NULL_CODE, NULL_INT64, POOLS, Kind
from profsuite.trace.readers.lenient import elements
from profsuite.trace.readers.raw import Remark, remark_message

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from profsuite.trace.readers.lenient import Event

TYPECODE: Final[dict[Kind, str]] = {
    "time": "q", "int": "q", "float": "d", "bool": "b", "row": "i", "track": "i", "phase": "b",
    "grid": "q", "text": "i", "json": "i",
}  # fmt: skip
DTYPE: Final[dict[str, type[np.generic]]] = {"q": np.int64, "i": np.int32, "b": np.int8, "d": np.float64}
NULL: Final[dict[Kind, float]] = {
    "time": NULL_INT64, "int": NULL_INT64, "float": float("nan"), "bool": -1, "grid": NULL_INT64,
    "text": NULL_CODE, "json": NULL_CODE,
}  # fmt: skip
KIND: Final = {(group, name): kind for group, fields in GROUPS.items() for name, kind, _ in fields}
AXES: Final = ("_x", "_y", "_z")
SLICE_GROUPS: Final = ("op", "gpu", "collective", "sync", "python", "xla", "rocprof")
"""Groups whose rows belong to a slice, in the order in which one event fills them."""
READ_PHASES: Final = frozenset("XBEstfCiIRM")
TRIGGERS: Final = frozenset((group, field) for _, group, field, alone in ARGS if alone)
BY_KEY: Final[dict[str, tuple[tuple[str, str], ...]]] = {
    key: ((group, field), ("memory", field)) if field == "event_index" else ((group, field),)
    for key, group, field, _ in ARGS
}


class Pool(dict[str, int]):
    """Strings of a pool -> their codes; looking up a new one gives it the next code."""

    def __init__(self) -> None:
        super().__init__()
        self.fresh: list[str] = []

    def __missing__(self, value: str) -> int:
        code = self[value] = len(self)
        self.fresh.append(value)
        return code


@dataclass(frozen=True, slots=True)
class Part:
    """What was read of one stretch of a file, with numbers of strings, tracks and slices of its own.

    ``remarks``: kind -> (count, byte offset of the first).  ``unsupported``: phase -> count.
    """

    groups: dict[str, dict[str, NDArray[Any]]]
    pools: dict[str, list[str]]
    tracks: list[tuple[str, str]]
    header: list[tuple[str, str]]
    num_events: int
    remarks: dict[str, tuple[int, int]]
    unsupported: dict[str, int]


class Columns:
    """Everything but the parser's state; see ``RawTrace`` for what the parts mean."""

    def __init__(self) -> None:
        self.groups: dict[str, dict[str, array[float]]] = {}
        self.pools = {pool: Pool() for pool in POOLS}
        self.tracks: dict[tuple[str, str], int] = {}
        self.remarks: dict[str, tuple[int, int]] = {}
        self.unsupported: dict[str, int] = {}
        self.num_events = 0
        self.next_row = 0
        self.clear()

    @staticmethod
    def kind(group: str, column: str) -> Kind:
        """The kind of a column, also of an axis of a grid."""
        return KIND.get((group, column)) or KIND[group, column[:-2]]

    def dtype(self, group: str, column: str) -> type[np.generic]:
        """The numpy type of a column."""
        return DTYPE[TYPECODE[self.kind(group, column)]]

    def clear(self) -> None:
        """Empty columns; pools, tracks and the slices' running number stay."""
        for group, fields in GROUPS.items():
            self.groups[group] = {
                name + axis: array(TYPECODE[kind])
                for name, kind, _ in fields
                for axis in (AXES if kind == "grid" else ("",))
            }

    def take(self) -> dict[str, dict[str, NDArray[Any]]]:
        """The columns as numpy arrays; they are empty afterwards."""
        taken = {
            group: {name: np.frombuffer(column, DTYPE[column.typecode]) for name, column in columns.items()}
            for group, columns in self.groups.items()
        }
        self.clear()
        return taken

    def append(self, group: str, count: int, found: Mapping[str, NDArray[Any]]) -> None:
        """Add rows; columns that are not among the ``found`` are null."""
        if not count:
            return
        for name, column in self.groups[group].items():
            dtype = DTYPE[column.typecode]
            filled = found[name] if name in found else np.full(count, NULL[self.kind(group, name)], dtype)
            column.frombytes(np.ascontiguousarray(filled, dtype).view(np.uint8).data)

    def absorb(self, part: Part) -> None:
        """Append what was read of the stretch of the file that follows."""
        codes = {
            pool: np.array([*(self.pools[pool][word] for word in words), NULL_CODE], np.int32)
            for pool, words in part.pools.items()
        }
        tracks = np.array([self.track(*pair) for pair in part.tracks], np.int32)
        for group, fields in GROUPS.items():
            found = dict(part.groups[group])
            for name, kind, pool in fields:
                if pool:
                    found[name] = codes[pool][found[name]]
                elif kind == "track":
                    found[name] = tracks[found[name]]
                elif kind == "row":
                    found[name] = found[name] + np.int32(self.next_row)
            self.append(group, len(next(iter(found.values()))), found)
        self.next_row += len(part.groups["slice"]["ts"])
        self.num_events += part.num_events
        for fault, (count, first) in part.remarks.items():
            self.remark(fault, first, count)
        for phase, count in part.unsupported.items():
            self.unsupported[phase] = self.unsupported.get(phase, 0) + count

    def remark(self, kind: str, offset: int, count: int = 1) -> None:
        """Count a fault at a byte offset."""
        total, first = self.remarks.get(kind, (0, offset))
        self.remarks[kind] = (total + count, min(first, offset))

    def unsupport(self, phase: str, offset: int) -> None:
        """Count an event of a phase that is not read."""
        self.unsupported[phase] = self.unsupported.get(phase, 0) + 1
        self.remark("unsupported", offset)

    def remark_list(self) -> list[Remark]:
        """One remark a kind, by place of its first."""
        found = sorted(self.remarks.items(), key=lambda item: (item[1][1], item[0]))
        return [
            Remark(kind, count, first, remark_message(kind, count, self.unsupported)) for kind, (count, first) in found
        ]

    def track(self, pid: str, tid: str) -> int:
        """The number of a track, a new one if it is not known."""
        return self.tracks.setdefault((pid, tid), len(self.tracks))

    def add(self, event: Event, offset: int) -> None:
        """Add the rows of an event that begins at ``offset``, or the remark that it is dropped."""
        _Rows(self, event, offset).add()


class _Rows:
    """The rows of one event."""

    def __init__(self, columns: Columns, event: Event, offset: int) -> None:
        self.columns = columns
        self.event = event
        self.offset = offset
        self.repaired = event.repaired

    def add(self) -> None:
        members, columns = self.event.members, self.columns
        columns.num_events += 1
        phase = self.event.phase
        ts = values.time_ns(members.get("ts", b"null"))
        no_id = phase in "stf" and members.get("id", b"null") == b"null"
        if phase != "M" and (ts is None or no_id):
            columns.remark("dropped", self.offset)
            return
        if phase not in READ_PHASES:
            columns.unsupport(phase, self.offset)
        else:
            self._add(phase, ts)
        if self.repaired:
            columns.remark("repaired", self.offset)

    def _add(self, phase: str, ts: int | None) -> None:
        if phase == "M":
            self._meta()
        elif phase in "XB":
            self._slice(ts, phase)
        elif phase == "E":
            self._row("end", {"ts": ts, "track": self._track()})
        elif phase in "stf":
            self._flow(ts, phase)
        elif phase == "C":
            self._counter(ts)
        elif values.text(self.event.members.get("name", b"null"))[0] != "[memory]" or not self._memory(ts):
            track, name, category = self._track(), self._own("name", "name"), self._own("cat", "category")
            self._row("instant", {"ts": ts, "track": track, "name": name, "category": category})

    def _row(self, group: str, fields: Mapping[str, float | None]) -> None:
        """Append a row; ``offset`` fills itself."""
        for name, column in self.columns.groups[group].items():
            value = self.offset if name == "offset" else fields.get(name)
            column.append(NULL[Columns.kind(group, name)] if value is None else value)

    def _text(self, pool: str, raw: bytes) -> int | None:
        value, repaired = values.text(raw)
        if value is None:
            return None
        self.repaired = self.repaired or repaired
        return self.columns.pools[pool][value]

    def _own(self, key: str, pool: str) -> int | None:
        """The code of a member's text, "" where the event has none."""
        raw = self.event.members.get(key, b"null")
        return self._text(pool, b'""' if raw == b"null" else raw)

    def _flow(self, ts: int | None, phase: str) -> None:
        raw = self.event.members["id"]
        number = values.integer(raw)
        row = {
            "ts": ts, "track": self._track(), "phase": ord(phase), "name": self._own("name", "name"),
            "category": self._own("cat", "category"), "id": number,
            "id_text": self._text("flow_id", raw) if number is None else None,
        }  # fmt: skip
        self._row("flow", row)

    def _track(self) -> int:
        parts = []
        for key in ("pid", "tid"):
            value, repaired = values.text(self.event.members.get(key, b"null"))
            self.repaired = self.repaired or repaired
            parts.append(value or "")
        return self.columns.track(parts[0], parts[1])

    def _slice(self, ts: int | None, phase: str) -> None:
        columns, members = self.columns, self.event.members
        duration = None
        if phase == "X":
            duration = values.time_ns(members["dur"]) if "dur" in members else None
            if duration is None:
                columns.remark("missing_duration", self.offset)
                duration = 0
            elif duration < 0:
                columns.remark("negative_duration", self.offset)
                duration = 0
        found = self._args()
        own = found.pop("slice", {})
        row = {
            "ts": ts, "dur": duration, "track": self._track(), "name": self._own("name", "name"),
            "category": self._own("cat", "category"),
            "correlation": values.integer(own.get("correlation", b"null")),
            "external": values.integer(own.get("external", b"null")),
        }  # fmt: skip
        self._row("slice", row)
        for group in SLICE_GROUPS:
            if group in found:
                fields, present = self._coerce(group, found[group])
                if present:
                    fields["row"] = columns.next_row
                    self._row(group, self._intern(group, fields, found[group]))
        columns.next_row += 1

    def _args(self) -> dict[str, dict[str, bytes]]:
        """The args that become columns: group -> field -> raw text."""
        found: dict[str, dict[str, bytes]] = {}
        for key, raw in (self.event.args or {}).items():
            for group, field in BY_KEY.get(key, ()):
                found.setdefault(group, {})[field] = raw
        return found

    def _coerce(self, group: str, raws: dict[str, bytes]) -> tuple[dict[str, float | None], bool]:
        """Values of a group but its texts, and whether a field that makes a row is there."""
        fields: dict[str, float | None] = {}
        present = False
        for field, raw in raws.items():
            kind = KIND[group, field]
            there = raw != b"null"
            if kind == "int":
                value: float | None = values.integer(raw)
                there = value is not None
            elif kind == "float":
                value = values.real(raw)
                there = value is not None
            elif kind == "bool":
                value = values.boolean(raw)
                there = value is not None
            elif kind == "grid":
                parts = [values.integer(part) for part in (elements(raw, 3) if raw[:1] == b"[" else ())]
                fields.update((field + axis, part) for axis, part in zip(AXES, parts, strict=False))
                there = any(part is not None for part in parts)
                value = None
            else:
                value = None
            fields[field] = value
            present = present or (there and (group, field) in TRIGGERS)
        return fields, present

    def _intern(self, group: str, fields: dict[str, float | None], raws: dict[str, bytes]) -> dict[str, float | None]:
        for name, kind, pool in GROUPS[group]:
            if name in raws and kind in ("text", "json"):
                fields[name] = self._text(pool, raws[name])
        return fields

    def _memory(self, ts: int | None) -> bool:
        fields, present = self._coerce("memory", self._args().get("memory", {}))
        if present:
            self._row("memory", {**fields, "ts": ts, "track": self._track()})
        return present

    def _counter(self, ts: int | None) -> None:
        for key, raw in (self.event.args or {}).items():
            value = None if raw[:1] == b'"' else values.real(raw)
            if value is not None:
                track, name = self._track(), self._own("name", "name")
                self.repaired = self.repaired or key in self.event.odd_keys
                series = self.columns.pools["series"][key]
                self._row("counter", {"ts": ts, "track": track, "name": name, "series": series, "value": value})

    def _meta(self) -> None:
        for key, raw in (self.event.args or {}).items():
            if raw != b"null":
                name, track = self._own("name", "meta_name"), self._track()
                self.repaired = self.repaired or key in self.event.odd_keys
                code = self.columns.pools["meta_key"][key]
                self._row("meta", {"name": name, "track": track, "key": code, "value": self._text("meta_value", raw)})
