"""Many valid events at once: msgspec decodes them, numpy and dicts fill the columns.

Whatever is not as usual (not valid JSON, a type out of the ordinary, an event that has to be
dropped) is left to the caller, who reads that event alone.  Results are the same either way.
"""

from __future__ import annotations

import re
from itertools import chain
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

import msgspec
import numpy as np
from msgspec import Raw, Struct

from profsuite.trace.readers import values
from profsuite.trace.readers.args import Shapes, UnfitError
from profsuite.trace.readers.bulk import floats, integers, times
from profsuite.trace.readers.columns import AXES, DTYPE, KIND, NULL, SLICE_GROUPS, TRIGGERS, Columns
from profsuite.trace.readers.fields import GROUPS, NULL_INT64
from profsuite.trace.readers.lenient import parse_event

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from profsuite.trace.readers.columns import Pool

SMALLEST: Final = 1 << 9
LARGEST: Final = 1 << 21
"""Bytes decoded at once."""
_SPACES: Final = b" \t\n\r"
_NULL: Final = Raw(b"null")
_NO_ARGS: Final = Raw(b"{}")
# Written so, it is the text "-0"; as an integer the sign is lost.
_MINUS_ZERO: Final = re.compile(rb"-0(?=[ \t\n\r,\]}])")
_ALONE: Final = re.compile("[MC]")
_PAIR: Final = attrgetter("pid", "tid")
_MAX_TEXTS: Final = 1 << 17


class _Event(Struct, gc=False):
    ph: str | None = None
    name: str | None = None
    cat: str | None = None
    pid: int | str | None = None
    tid: int | str | None = None
    ts: Raw = _NULL
    dur: Raw = _NULL
    id: int | str | None = None
    args: Raw = _NO_ARGS


class _Texts(dict[bytes, str | None]):
    """Raw JSON -> text, only of what needs no repair."""

    def __missing__(self, raw: bytes) -> str | None:
        content, repaired = values.text(raw)
        if repaired:
            raise UnfitError
        if len(self) >= _MAX_TEXTS:
            self.clear()
        self[raw] = content
        return content


class Batch:
    """Reads runs of events into ``columns``."""

    def __init__(self, columns: Columns) -> None:
        self._columns = columns
        self._decoder = msgspec.json.Decoder(list[_Event])
        self._raw_decoder = msgspec.json.Decoder(list[Raw])
        self._window = SMALLEST * 32
        self.shapes = Shapes()
        self.texts = _Texts()
        self.track_codes: dict[tuple[int | str | None, int | str | None], int] = {}

    def known(self, pool: str) -> set[str | None]:
        """The strings that a pool has already, and None."""
        return {None, *self._columns.pools[pool]}

    def read(self, data: bytes, at: int, base: int) -> int:
        """Read events from the one at ``at``; where the next begins, 0 if the first has to be read alone.

        ``base`` is the file's offset of ``data[0]``.
        """
        failed = False
        while True:
            cut = _last_event(data, at, at + self._window)
            if cut is None:
                if failed or self._window >= LARGEST or at + self._window >= len(data):
                    return 0
                self._window *= 2
                continue
            end, after = cut
            try:
                self._read(data, at, end, base)
            except (UnfitError, msgspec.DecodeError, RecursionError, ValueError, OverflowError):
                if self._window <= SMALLEST:
                    return 0
                self._window = max(self._window // 4, SMALLEST)
                failed = True
                continue
            self._window = min(self._window * 2, LARGEST)
            return after

    def _read(self, data: bytes, at: int, end: int, base: int) -> None:
        if _MINUS_ZERO.search(data, at, end):
            raise UnfitError
        text = b"".join((b"[", memoryview(data)[at:end], b"]"))
        events = self._decoder.decode(text)
        starts = at + _starts(np.frombuffer(data, np.uint8, end - at, at))
        if len(starts) != len(events):
            starts = at - 1 + self._exact_starts(text)
        offsets = starts + base
        phases = [event.ph or "" for event in events]
        letters = "".join(phases)
        if not letters.isascii() or any(len(phase) != 1 for phase in set(phases)):
            raise UnfitError
        alone = [match.start() for match in _ALONE.finditer(letters)]
        runs: list[_Run | int] = []
        first = 0
        for number in [*alone, len(events)]:
            if number > first:
                runs.append(_Run(self, events[first:number], phases[first:number], offsets[first:number]))
            runs.append(number)
            first = number + 1
        columns = self._columns
        singles = [(number, parse_event(data, int(starts[number]), end)) for number in alone]
        if any(phases[n] == "C" and values.time_ns(event.members.get("ts", b"null")) is None for n, event in singles):
            raise UnfitError
        # Nothing can fail from here on.
        single = dict(singles)
        for run in runs:
            if isinstance(run, _Run):
                run.add(columns)
            elif run < len(events):
                columns.add(single[run], int(offsets[run]))

    def _exact_starts(self, text: bytes) -> NDArray[np.int64]:
        """Where events start, also when other places look like one."""
        starts = []
        end = 0
        for raw in self._raw_decoder.decode(text):
            start = text.index(b"{", end)
            starts.append(start)
            end = start + len(bytes(raw))
        return np.array(starts, np.int64)


def _last_event(data: bytes, at: int, limit: int) -> tuple[int, int] | None:
    """The last ``},{`` (spaces apart) before ``limit``: the end of the one and the start of the other."""
    while True:
        start = data.rfind(b"{", at + 1, limit)
        if start < 0:
            return None
        comma = start - 1
        while data[comma] in _SPACES:
            comma -= 1
        if data[comma] == 0x2C:
            end = comma - 1
            while data[end] in _SPACES:
                end -= 1
            if data[end] == 0x7D and end > at:
                return end + 1, start
        limit = start


def _starts(array: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Every place after ``},`` where a brace opens, and 0: the events' starts if there are as many."""
    braces = np.flatnonzero(array == 0x7B)[1:]
    before = _back(array, braces - 1)
    is_comma = array[before] == 0x2C
    braces, before = braces[is_comma], before[is_comma]
    before = _back(array, before - 1)
    return np.concatenate([np.zeros(1, np.int64), braces[array[before] == 0x7D]])


def _back(array: NDArray[np.uint8], at: NDArray[np.int64]) -> NDArray[np.int64]:
    """The last byte up to ``at`` that is not white space (a brace opens the text)."""
    spaces = np.flatnonzero(array[at] <= 0x20)
    while len(spaces):
        at[spaces] -= 1
        spaces = spaces[array[at[spaces]] <= 0x20]
    return at


class _Run:
    """Events of all phases but ``M`` and ``C``; making one checks them and changes no column."""

    def __init__(self, batch: Batch, events: list[_Event], phases: list[str], offsets: NDArray[np.int64]) -> None:
        self.batch = batch
        self.num_events = len(events)
        self.unsupported: list[tuple[str, int]] = []
        ts = times([event.ts for event in events])
        if (ts == NULL_INT64).any():
            raise UnfitError
        codes = np.frombuffer("".join(phases).encode(), np.uint8)
        supported = _IS_READ[codes]
        if not supported.all():
            kept = np.flatnonzero(supported)
            self.unsupported = [(phases[i], int(offsets[i])) for i in np.flatnonzero(~supported).tolist()]
            events = [events[i] for i in kept.tolist()]
            codes, ts, offsets = codes[kept], ts[kept], offsets[kept]
        self.events, self.codes, self.ts, self.offsets = events, codes, ts, offsets
        self.names = [event.name for event in events]
        is_instant = _IS_INSTANT[codes]
        is_memory = is_instant.copy()
        for i in np.flatnonzero(is_instant).tolist():
            is_memory[i] = self.names[i] == "[memory]"
        self.slices = np.flatnonzero(_IS_SLICE[codes])
        self.flows = np.flatnonzero(_IS_FLOW[codes])
        self.ends = np.flatnonzero(codes == ord("E"))
        self.instants = np.flatnonzero(is_instant & ~is_memory)
        self.memory = np.flatnonzero(is_memory)
        self._prepare_slices()
        if "op" in self.found and "sync" in self.found:
            # They share a pool, whose codes are given in the order of the events.
            known = batch.known("misc")
            for field in ("kernel_backend", "kernel_file"):
                for _, fields in self.found["op"]:
                    if not known.issuperset(fields.get(field, ())):
                        raise UnfitError
        flows = [events[i].id for i in self.flows.tolist()]
        if None in flows:
            raise UnfitError
        self.flow_ids = integers(flows)
        no_number = (self.flow_ids == NULL_INT64).tolist()
        self.flow_texts = [str(i) if text else None for i, text in zip(flows, no_number, strict=True)]
        self.memory_fields: dict[str, NDArray[Any]] = {}
        if len(self.memory):
            self._prepare_memory()

    def _prepare_memory(self) -> None:
        shape = self.batch.shapes.of("[memory]")
        decoded = shape.decode(b"[" + b",".join([self.events[i].args for i in self.memory.tolist()]) + b"]")
        present = np.zeros(len(decoded), bool)
        for group, field, get in shape.fields:
            if group == "memory":
                self.memory_fields[field] = column = integers(list(map(get, decoded)))
                if (group, field) in TRIGGERS:
                    present |= column != NULL_INT64
        if not present.all():  # without one of its fields it is an instant
            raise UnfitError

    def _prepare_slices(self) -> None:
        slices = [self.events[i] for i in self.slices.tolist()]
        self.durations = times([event.dur for event in slices])
        self.is_complete = self.codes[self.slices] == ord("X")
        by_category: dict[str | None, list[int]] = {}
        for number, event in enumerate(slices):
            try:
                by_category[event.cat].append(number)
            except KeyError:
                by_category[event.cat] = [number]
        # group -> per category: the slices' numbers, and per field its values of them
        self.found: dict[str, list[tuple[NDArray[np.int64], dict[str, Any]]]] = {}
        for category, numbers in by_category.items():
            shape = self.batch.shapes.of(category)
            decoded = shape.decode(b"[" + b",".join([slices[i].args for i in numbers]) + b"]")
            groups: dict[str, dict[str, Any]] = {}
            for group, field, get in shape.fields:
                if group != "memory":
                    groups.setdefault(group, {})[field] = list(map(get, decoded))
            where = np.array(numbers, np.int64)
            for group, fields in groups.items():
                part = self._part(group, where, fields)
                if part is not None:
                    self.found.setdefault(group, []).append(part)

    def _part(
        self, group: str, where: NDArray[np.int64], fields: dict[str, list[Any]]
    ) -> tuple[NDArray[np.int64], dict[str, Any]] | None:
        """The rows of a group: their slices' numbers, and columns (texts still as lists)."""
        present = np.zeros(len(where), bool)
        columns: dict[str, Any] = {}
        for field, found in fields.items():
            kind = KIND[group, field]
            triggers = (group, field) in TRIGGERS
            if kind == "int":
                columns[field] = integers(found)
                there = columns[field] != NULL_INT64
            elif kind == "float":
                columns[field] = floats(found)
                there = ~np.isnan(columns[field])
            elif kind == "bool":
                columns[field] = np.array([1 if v is True else 0 if v is False else -1 for v in found], np.int8)
                there = columns[field] >= 0
            elif kind == "grid":
                there = np.zeros(len(where), bool)
                for axis, name in enumerate(AXES):
                    columns[field + name] = integers([v[axis] if v and len(v) > axis else None for v in found])
                    there |= columns[field + name] != NULL_INT64
            else:
                if kind == "json":
                    found = list(map(self.batch.texts.__getitem__, map(bytes, found)))
                else:
                    found = [v if v is None or type(v) is str else str(v) for v in found]
                columns[field] = found
                there = np.array([v is not None for v in found]) if triggers else present
            if triggers:
                present |= there
        if group == "slice" or present.all():
            return where, columns
        kept = np.flatnonzero(present)
        if not len(kept):
            return None
        picked = kept.tolist()
        return where[kept], {n: [c[i] for i in picked] if isinstance(c, list) else c[kept] for n, c in columns.items()}

    def add(self, columns: Columns) -> None:
        """Append the rows."""
        columns.num_events += self.num_events
        for phase, offset in self.unsupported:
            columns.unsupport(phase, offset)
        if not self.events:
            return
        tracks = self._tracks(columns)
        named = np.ones(len(self.events), bool)
        named[self.ends] = False
        named[self.memory] = False
        names = _coded(columns.pools["name"], self.names, named)
        categories = _coded(columns.pools["category"], [event.cat for event in self.events], named)
        common: dict[str, NDArray[Any]] = {
            "ts": self.ts,
            "track": tracks,
            "offset": self.offsets,
            "name": names,
            "category": categories,
        }
        self._add_slices(columns, common)
        _append(columns, "end", self.ends, common)
        own: dict[str, NDArray[Any]] = {
            "id": self.flow_ids,
            "id_text": _codes(columns.pools["flow_id"], self.flow_texts),
        }
        _append(columns, "flow", self.flows, {**common, "phase": self.codes.astype(np.int8)}, own)
        _append(columns, "instant", self.instants, common)
        _append(columns, "memory", self.memory, common, self.memory_fields)

    def _tracks(self, columns: Columns) -> NDArray[np.int32]:
        pairs = list(map(_PAIR, self.events))
        known = self.batch.track_codes
        codes = list(map(known.get, pairs))
        if None in codes:
            for number, (pid, tid) in enumerate(pairs):
                if codes[number] is None:
                    code = columns.track("" if pid is None else str(pid), "" if tid is None else str(tid))
                    codes[number] = known[pid, tid] = code
        return np.array(codes, np.int32)

    def _add_slices(self, columns: Columns, common: dict[str, NDArray[Any]]) -> None:
        count = len(self.slices)
        durations = self.durations
        offsets = self.offsets[self.slices]
        for kind, faulty in (
            ("missing_duration", self.is_complete & (durations == NULL_INT64)),
            ("negative_duration", self.is_complete & (durations < 0) & (durations != NULL_INT64)),
        ):
            where = np.flatnonzero(faulty)
            if len(where):
                columns.remark(kind, int(offsets[where[0]]), len(where))
        durations = np.where(self.is_complete, np.maximum(durations, 0), NULL_INT64)
        own: dict[str, NDArray[Any]] = {"dur": durations}
        for field in ("correlation", "external"):
            own[field] = np.full(count, NULL_INT64, np.int64)
            for where, fields in self.found.get("slice", ()):
                if field in fields:
                    own[field][where] = fields[field]
        _append(columns, "slice", self.slices, common, own)
        for group in SLICE_GROUPS:
            if group in self.found:
                self._add_group(columns, group, self.found[group])
        columns.next_row += count

    def _add_group(self, columns: Columns, group: str, parts: list[tuple[NDArray[np.int64], dict[str, Any]]]) -> None:
        rows = np.concatenate([where for where, _ in parts])
        order = None
        if len(parts) > 1:
            order = np.argsort(rows, kind="stable")
            rows = rows[order]
        names = {name for _, fields in parts for name in fields}
        own: dict[str, NDArray[Any]] = {"row": (rows + columns.next_row).astype(np.int32)}
        by_pool: dict[str, list[tuple[str, list[str | None]]]] = {}
        for name, kind, pool in GROUPS[group]:
            if pool and name in names:
                texts: list[str | None] = []
                for where, fields in parts:
                    texts += fields[name] if name in fields else [None] * len(where)
                by_pool.setdefault(pool, []).append((name, texts if order is None else [texts[i] for i in order]))
            for full in [name + axis for axis in AXES] if kind == "grid" else [name]:
                if full in names and not pool:
                    dtype = columns.dtype(group, full)
                    empty = NULL[kind]
                    column = np.concatenate(
                        [f[full] if full in f else np.full(len(where), empty, dtype) for where, f in parts]
                    )
                    own[full] = column if order is None else column[order]
        for pool, fields_of_pool in by_pool.items():
            # New strings get their codes event by event, not column by column.
            step = len(fields_of_pool)
            mixed = list(chain.from_iterable(zip(*[texts for _, texts in fields_of_pool], strict=True)))
            codes = _codes(columns.pools[pool], mixed)
            for number, (name, _) in enumerate(fields_of_pool):
                own[name] = codes[number::step]
        _append(columns, group, None, {}, own)


def _codes(pool: Pool, texts: list[Any]) -> NDArray[np.int32]:
    """The codes of texts, new ones in order; None is -1."""
    codes = list(map(pool.get, texts))
    if None in codes:
        codes = [-1 if text is None else pool[text] for text in texts]
    return np.array(codes, np.int32)


def _coded(pool: Pool, texts: list[str | None], mask: NDArray[np.bool_]) -> NDArray[np.int32]:
    """Codes where ``mask`` is; None is ""."""
    if None in texts:
        texts = [text or "" for text in texts]
    if mask.all():
        return _codes(pool, texts)
    codes = np.full(len(texts), -1, np.int32)
    where = np.flatnonzero(mask)
    codes[where] = _codes(pool, [texts[i] for i in where.tolist()])
    return codes


def _append(
    columns: Columns,
    group: str,
    where: NDArray[np.int64] | None,
    common: dict[str, NDArray[Any]],
    own: dict[str, NDArray[Any]] | None = None,
) -> None:
    """Rows of a group: ``own`` columns as they are, others from ``common`` at ``where``, else null."""
    count = len(where) if where is not None else len((own or {})["row"])
    if not count:
        return
    for name, column in columns.groups[group].items():
        dtype = DTYPE[column.typecode]
        if own and name in own:
            values_ = own[name]
        elif name in common and where is not None:
            values_ = common[name] if len(common[name]) == count else common[name][where]
        else:
            values_ = np.full(count, NULL[columns.kind(group, name)], dtype)
        column.frombytes(np.ascontiguousarray(values_, dtype).tobytes())


def _table(phases: str) -> NDArray[np.bool_]:
    table = np.zeros(256, bool)
    table[[ord(phase) for phase in phases]] = True
    return table


_IS_SLICE: Final = _table("XB")
_IS_FLOW: Final = _table("stf")
_IS_INSTANT: Final = _table("iIR")
_IS_READ: Final = _table("XBEstfiIR")
