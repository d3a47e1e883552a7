"""The trace reader without the C extension: same interface and results, docs/reader.md in Python.

``Scanner`` walks the document.  Runs of whole, valid events go to ``batch`` (msgspec); an event
that is not valid JSON or not as usual goes to ``lenient`` alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from profsuite.errors import TraceError
from profsuite.trace.columns import strings
from profsuite.trace.readers import values
from profsuite.trace.readers.batch import Batch
from profsuite.trace.readers.columns import Columns, Part
from profsuite.trace.readers.fields import POOLS
from profsuite.trace.readers.lenient import BrokenError, Parser, parse_event
from profsuite.trace.readers.raw import RawTrace, Remark, not_a_trace

if TYPE_CHECKING:
    from numpy.typing import NDArray

STEP: Final = 1 << 21
"""Bytes gathered before the next look at them."""
EVENT_LIMIT: Final = 64 << 20
MEMBER_LIMIT: Final = 16 << 20
MAX_MEMBERS: Final = 100_000
"""Members kept before the events, and after them."""
_KEPT: Final = 64 << 20
"""How far back a lost end of the array, and the byte before an event, is looked for."""
_FREE_TRIES: Final = 16 << 20
_BOM: Final = b"\xef\xbb\xbf"
_SPACES: Final = b" \t\n\r"
_NOT_SPACE: Final = re.compile(rb"[^ \t\n\r]")
_SEPARATORS: Final = re.compile(rb"[ \t\n\r,]*")
_NEXT_EVENT: Final = re.compile(rb"[{\]]")
_CANDIDATE: Final = re.compile(rb"[,\[\]}][ \t\n\r]*\{")
_EVENTS_KEY: Final = re.compile(rb'"traceEvents"[ \t\n\r]*:[ \t\n\r]*\[')
_EVENTS_KEY_BEGUN: Final = re.compile(rb'"traceEvents"[ \t\n\r]*:?[ \t\n\r]*\Z')
_ARRAY_END: Final = re.compile(rb"\][ \t\n\r]*([,}\"]|\Z)")


class Scanner:
    """Reads one trace, fed in pieces of any size.

    ``take`` hands over the columns of the events read so far, ``new_strings`` what a pool gained.
    After ``finish`` everything fed has been read.  ``tracks``, ``header``, ``num_events``,
    ``num_bytes``, ``remarks`` and ``num_rows`` (slices not yet taken) may be read at any time.
    """

    def __init__(self) -> None:
        self.header: list[tuple[str, str]] = []
        self.num_bytes = 0
        self._columns = Columns()
        self._batch = Batch(self._columns)
        self._data = b""
        self._base = 0  # the file's offset of _data[0]
        self._at = 0  # what is read of _data
        self._pending: list[bytes] = []
        self._num_pending = 0
        self._wanted = STEP
        self._final = False
        self._is_object = False
        self._has_events = False
        self._members_before = 0
        self._state: Callable[[], bool] = self._begin
        self._after_event = False  # an event was read and no comma since
        self._lost: _Lost | None = None

    @classmethod
    def at_event(cls, offset: int, is_object: bool) -> Scanner:
        """One that is fed from the event at a byte offset on; ``is_object``: the document is one, no array."""
        scanner = cls()
        scanner._base = scanner.num_bytes = offset
        scanner._is_object = is_object
        scanner._open_events()
        return scanner

    def is_between_events(self) -> bool:
        """Whether all that was fed is read, and an event has to follow: the comma before it was met."""
        self._run()
        is_read = self._at == len(self._data)
        return self._state == self._events and is_read and self._lost is None and not self._after_event

    def part(self) -> Part:
        """Everything read so far, for ``absorb``; the scanner holds no rows after it."""
        columns = self._columns
        pools = {pool: self.new_strings(pool) for pool in POOLS}
        return Part(
            columns.take(), pools, self.tracks, self.header, self.num_events, columns.remarks, columns.unsupported
        )

    def absorb(self, part: Part, num_bytes: int) -> None:
        """Append what was read of the following ``num_bytes``; after this only ``take`` and the like make sense."""
        self._columns.absorb(part)
        self.header += part.header
        self.num_bytes += num_bytes

    @property
    def tracks(self) -> list[tuple[str, str]]:
        """(pid, tid) of every track as text, "" where absent."""
        return list(self._columns.tracks)

    @property
    def num_events(self) -> int:
        """Events seen, also those that were dropped."""
        return self._columns.num_events

    @property
    def num_rows(self) -> int:
        """Slices held, that is since the last ``take``."""
        return len(self._columns.groups["slice"]["ts"])

    @property
    def remarks(self) -> list[Remark]:
        """One remark a kind of fault, by the place of its first."""
        return self._columns.remark_list()

    def feed(self, data: bytes | bytearray | memoryview) -> None:
        """Take the next piece of the file; it is copied where necessary."""
        piece = bytes(data)
        self.num_bytes += len(piece)
        self._pending.append(piece)
        self._num_pending += len(piece)
        if self._num_pending >= self._wanted:
            self._run()

    def finish(self) -> None:
        """End of the file; ``TraceError`` if it is no trace at all."""
        self._final = True
        self._run()
        if self._state == self._begin:
            raise TraceError(not_a_trace("empty"))
        if self._state == self._not_json:
            raise TraceError(not_a_trace("not json"))
        if not self._has_events:
            raise TraceError(not_a_trace("no events"))

    def take(self) -> dict[str, dict[str, NDArray[Any]]]:
        """The raw columns of ``fields.GROUPS`` since the last call, always all of them."""
        return self._columns.take()

    def new_strings(self, pool: str) -> list[str]:
        """The strings of a pool that were added since the last call for it."""
        strings = self._columns.pools[pool]
        fresh, strings.fresh = strings.fresh, []
        return fresh

    def _run(self) -> None:
        """Read as far as the data goes."""
        self._data = b"".join([memoryview(self._data)[self._at :], *self._pending])
        self._base += self._at
        self._at = 0
        self._pending.clear()
        self._num_pending = 0
        while self._state():
            pass
        # Where a step needs all that is held and more, look again only when it has doubled.
        self._wanted = max(STEP, len(self._data) - self._at)

    # Each state reads on from _at; False: it needs more data, or nothing is left to do.

    def _begin(self) -> bool:
        data = self._data
        if self._base == 0 and self._at == 0:
            if data[:3] == _BOM:
                self._at = 3
            elif _BOM.startswith(data[:3]) and not self._final:
                return False
        if not self._skip_space():
            return False
        first = data[self._at : self._at + 1]
        self._is_object = first == b"{"
        self._has_events = first == b"["
        self._state = {b"{": self._members, b"[": self._events}.get(first, self._not_json)
        self._at += 1
        return True

    def _not_json(self) -> bool:
        self._at = len(self._data)
        return False

    def _skip_space(self) -> bool:
        match = _NOT_SPACE.search(self._data, self._at)
        self._at = match.start() if match else len(self._data)
        return match is not None

    def _members(self) -> bool:
        """Between top-level members, before or after the events."""
        match = _SEPARATORS.match(self._data, self._at)
        self._at = match.end() if match else self._at
        byte = self._data[self._at : self._at + 1]
        if not byte:
            if self._final:
                self._end_early(self._base + self._at)
            return False
        if byte == b"}":
            self._at += 1
            self._state = self._trailing
            return True
        return self._member()

    def _member(self) -> bool:
        start = self._at
        cut = min(start + EVENT_LIMIT, len(self._data))
        try:
            member = _parse_member(self._data, start, cut)
        except BrokenError as broken:
            if broken.ran_out and cut == len(self._data):
                if not self._final:
                    return False
                if self._has_events:
                    self._end_early(self._base + start)
                    return False
            return self._bad_member()
        self._at = member.end
        if member.opens_events:
            self._open_events()
        else:
            self._keep_member(member, self._base + start)
        return True

    def _keep_member(self, member: _Member, offset: int) -> None:
        if member.repaired:
            self._columns.remark("repaired", offset)
        if member.key == "traceEvents":
            return  # no array, so no events
        if len(member.value) > MEMBER_LIMIT or len(self.header) - self._members_before >= MAX_MEMBERS:
            self._columns.remark("dropped", offset)
        else:
            self.header.append((member.key, member.value.decode(errors="replace")))

    def _bad_member(self) -> bool:
        offset = self._base + self._at
        if self._has_events:
            self._columns.remark("dropped", offset)
            self._state = self._give_up
        else:
            self._columns.remark("repaired", offset)
            self._state = self._find_events
        return True

    def _find_events(self) -> bool:
        match = _EVENTS_KEY.search(self._data, self._at)
        if match:
            self._at = match.end()
            self._open_events()
            return True
        begun = _EVENTS_KEY_BEGUN.search(self._data, self._at)
        self._at = begun.start() if begun else max(self._at, len(self._data) - len('"traceEvents"'))
        return False

    def _open_events(self) -> None:
        self._has_events = True
        self._members_before = len(self.header)
        self._after_event = False
        self._state = self._events

    def _end_early(self, offset: int) -> None:
        if self._has_events:
            self._columns.remark("truncated", offset)
        self._state = self._give_up

    def _give_up(self) -> bool:
        self._at = len(self._data)
        return False

    def _trailing(self) -> bool:
        if self._skip_space():
            self._columns.remark("trailing_data", self._base + self._at)
            self._state = self._give_up
        return False

    def _events(self) -> bool:
        """Between events."""
        data = self._data
        while True:
            match = _SEPARATORS.match(data, self._at)
            end = match.end() if match else self._at
            if self._after_event and data.find(b",", self._at, end) >= 0:
                self._after_event = False
            self._at = end
            byte = data[end : end + 1]
            if byte == b"{":
                if not self._after_event and (after := self._batch.read(data, end, self._base)):
                    self._at = after
                    continue
                if not self._event():
                    return False
                if self._lost is not None:  # it was dropped
                    return True
            elif byte == b"]":
                self._at += 1
                self._state = self._members if self._is_object else self._trailing
                return True
            elif byte:
                self._columns.remark("dropped", self._base + end)
                self._state = self._junk
                return True
            else:
                if self._final and self._is_object:
                    self._end_early(self._base + len(data))
                return False

    def _junk(self) -> bool:
        match = _NEXT_EVENT.search(self._data, self._at)
        if match is None:
            self._at = len(self._data)
            if self._final and self._is_object:
                self._end_early(self._base + len(self._data))
            return False
        self._at = match.start()
        self._after_event = False
        self._state = self._events
        return True

    def _event(self) -> bool:
        """Read the event at ``_at``; False if more data is needed."""
        start, offset = self._at, self._base + self._at
        cut = min(start + EVENT_LIMIT, len(self._data))
        try:
            event = parse_event(self._data, start, cut)
        except BrokenError as broken:
            ran_out = broken.ran_out and cut == len(self._data)
            if ran_out and not self._final:
                return False
        else:
            event.repaired = event.repaired or self._after_event
            self._columns.add(event, offset)
            self._at = event.end
            self._after_event = True
            return True
        self._lost = _Lost(offset, ran_out)
        if not ran_out:
            self._drop(offset)
        self._state = self._resume
        return True

    def _drop(self, offset: int) -> None:
        self._columns.num_events += 1
        self._columns.remark("dropped", offset)

    def _resume(self) -> bool:
        """After a dropped event: find the next one."""
        lost, data = self._lost, self._data
        assert lost is not None
        # The byte before a candidate may lie before ``at``.
        before = _last_not_space(data, lost.next - self._base, self._at)
        for match in _CANDIDATE.finditer(data, before):
            start = match.end() - 1
            if start < lost.next - self._base or start - match.start() > _KEPT:
                continue
            cut = min(start + EVENT_LIMIT, len(data))
            try:
                event = parse_event(data, start, cut)
            except BrokenError as broken:
                if broken.ran_out and not self._final and cut == len(data):
                    lost.next = self._base + start
                    return self._forget()
                lost.failed(self._base + start, self._base + broken.at)
                continue
            if lost.ran_out:
                self._drop(lost.offset)
            self._columns.add(event, self._base + start)
            self._lost = None
            self._at = event.end
            self._after_event = True
            self._state = self._events
            return True
        lost.next = max(lost.next, self._base + len(data))
        if not self._final:
            return self._forget()
        self._never_resumed(lost)
        return False

    def _forget(self) -> bool:
        """Hold no more of what follows a dropped event than the searches may look back at."""
        lost = self._lost
        assert lost is not None
        self._at = max(self._at, lost.next - self._base - _KEPT)
        return False

    def _never_resumed(self, lost: _Lost) -> None:
        self._state = self._give_up
        if lost.ran_out:
            self._columns.remark("truncated", lost.offset)
            return
        data = self._data
        first = max(lost.offset + 1, self.num_bytes - _KEPT) - self._base
        search = _Lost(self._base + first, False)
        search.next = self._base + first
        for match in _ARRAY_END.finditer(data, first):
            start = match.start()
            if start < search.next - self._base:
                continue
            try:
                members = _parse_rest(data, start + 1, self._is_object)
            except BrokenError as broken:
                search.failed(self._base + start, self._base + broken.at)
                continue
            for at, member in members:
                self._keep_member(member, self._base + at)
            return
        if self._is_object:
            self._columns.remark("truncated", self.num_bytes)


class _Lost:
    """A search for the next event: linear, however much of it fails."""

    def __init__(self, offset: int, ran_out: bool) -> None:
        self.offset = offset  # of the event that broke
        self.ran_out = ran_out  # it did so for want of data
        self.next = offset + 1  # candidates before are done with
        self.spent = 0

    def failed(self, start: int, end: int) -> None:
        """A candidate at ``start`` failed at ``end``."""
        self.spent += end - start
        over = self.spent > _FREE_TRIES + 4 * (start - self.offset)
        self.next = max(end, start + 1) if over else start + 1


class _Member(NamedTuple):
    """A top-level member; ``opens_events``: it is the events' array, of which only ``[`` was read."""

    key: str
    value: bytes
    end: int
    repaired: bool
    opens_events: bool


def _parse_member(data: bytes, start: int, end: int) -> _Member:
    """The top-level member at ``start``; ``BrokenError`` if it is none."""
    parser = Parser(data, end)
    after = parser.key(start, False)
    key = values.text(data[start:after])[0] or ""
    at = parser.colon(after)
    if key == "traceEvents" and data[at : at + 1] == b"[":
        return _Member(key, b"", at + 1, False, True)
    after = parser.value(at, True)
    follows = parser.space(after)
    if data[follows : follows + 1] not in (b",", b"}"):
        raise BrokenError(follows, False)
    return _Member(key, data[at:after], after, parser.repaired, False)


def _parse_rest(data: bytes, at: int, is_object: bool) -> list[tuple[int, _Member]]:
    """The members from after the events' array to the end of the file; ``BrokenError`` if it is not that."""
    found = []
    while is_object:
        match = _SEPARATORS.match(data, at)
        at = match.end() if match else at
        if data[at : at + 1] == b"}":
            at += 1
            break
        if at >= len(data):
            raise BrokenError(at, True)
        member = _parse_member(data, at, len(data))
        if member.opens_events:
            raise BrokenError(member.end, False)
        found.append((at, member))
        at = member.end
    rest = _NOT_SPACE.search(data, at)
    if rest:
        raise BrokenError(rest.start(), False)
    return found


def _last_not_space(data: bytes, end: int, first: int) -> int:
    """The last place before ``end`` that holds no white space, ``first`` if there is none after it."""
    size = 64
    while end > first:
        start = max(first, end - size)
        rest = len(data[start:end].rstrip(_SPACES))
        if rest:
            return start + rest - 1
        end = start
        size = min(2 * size, 1 << 20)
    return first


def read_chunks(chunks: Iterable[bytes]) -> RawTrace:
    """Read a whole trace; ``TraceError`` if it is none."""
    scanner = Scanner()
    for chunk in chunks:
        scanner.feed(chunk)
    scanner.finish()
    return raw_trace(scanner)


def raw_trace(scanner: Scanner) -> RawTrace:
    """All that a scanner holds."""
    return RawTrace(
        groups=scanner.take(),
        pools={pool: strings(scanner.new_strings(pool)) for pool in POOLS},
        tracks=scanner.tracks,
        header=scanner.header,
        num_events=scanner.num_events,
        num_bytes=scanner.num_bytes,
        remarks=scanner.remarks,
    )
