"""The grammar of one event and of one top-level member, fault tolerant (docs/reader.md).

Nothing here recurses: nesting may be a million deep.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from profsuite.trace.readers.values import text

MAX_DEPTH: Final = 1_000_000
_SPACE: Final = re.compile(rb"[ \t\n\r]*")
_SCALAR: Final = re.compile(rb'[^ \t\n\r,}\]{\[":]+')
_MARK: Final = re.compile(rb'["{}\[\]]')
_OPEN_OBJECT, _OPEN_ARRAY, _CLOSE_OBJECT = b"{[}"
_QUOTE, _BACKSLASH, _COMMA, _COLON = b'"\\,:'
_AFTER_STRING: Final = frozenset(b",:}]")

Span = tuple[int, int]


class BrokenError(Exception):
    """The text at ``at`` does not follow the grammar; ``ran_out``: it ended before it could."""

    def __init__(self, at: int, ran_out: bool) -> None:
        super().__init__(at, ran_out)
        self.at = at
        self.ran_out = ran_out


class Event:
    """The members of an event: key -> raw text; ``args`` likewise, None where it is no object.

    ``odd_keys`` are the keys of ``args`` whose text had to be repaired, ``end`` is where the event
    ends, ``repaired`` whether a stray quote was taken into a string.
    """

    __slots__ = ("args", "end", "members", "odd_keys", "phase", "repaired")

    def __init__(
        self,
        phase: str,
        members: dict[str, bytes],
        args: dict[str, bytes] | None,
        odd_keys: set[str],
        end: int,
        repaired: bool,
    ) -> None:
        self.phase = phase
        self.members = members
        self.args = args
        self.odd_keys = odd_keys
        self.end = end
        self.repaired = repaired


class Parser:
    """Parses values in ``data[:end]``; ``repaired`` is set when a stray quote was taken into a string."""

    def __init__(self, data: bytes, end: int) -> None:
        self.data = data
        self.end = end
        self.repaired = False
        self.args: dict[str, Span] | None = None
        self.odd_keys: set[str] = set()

    def space(self, at: int) -> int:
        """The first byte at or after ``at`` that is not white space; ``BrokenError`` if there is none."""
        match = _SPACE.match(self.data, at, self.end)
        after = match.end() if match else at
        if after >= self.end:
            raise BrokenError(self.end, True)
        return after

    def string(self, at: int, stray_quotes: bool) -> int:
        """The end of the string whose quote is at ``at``."""
        data, end = self.data, self.end
        first = at + 1
        position = first
        while True:
            quote = data.find(b'"', position, end)
            if quote < 0:
                raise BrokenError(end, True)
            slash = quote - 1
            while slash >= first and data[slash] == _BACKSLASH:
                slash -= 1
            if (quote - slash) & 1:  # an even run of backslashes escapes nothing
                if not stray_quotes or data[self.space(quote + 1)] in _AFTER_STRING:
                    return quote + 1
                self.repaired = True
            position = quote + 1

    def value(self, at: int, stray_quotes: bool) -> int:
        """The end of the value that starts at ``at``.

        ``stray_quotes``: whether a string may hold unescaped ones; those inside a container may.
        """
        byte = self.data[at]
        if byte == _QUOTE:
            return self.string(at, stray_quotes)
        if byte in (_OPEN_OBJECT, _OPEN_ARRAY):
            return self._container(at)
        return self._scalar(at)

    def _scalar(self, at: int) -> int:
        match = _SCALAR.match(self.data, at, self.end)
        if match is None:
            raise BrokenError(at, False)
        if match.end() >= self.end:
            raise BrokenError(self.end, True)
        return match.end()

    def _container(self, at: int) -> int:
        """The end of the array or object at ``at``: of what is inside only strings and brackets count."""
        data, end = self.data, self.end
        stack = bytearray()
        while True:
            match = _MARK.search(data, at, end)
            if match is None:
                raise BrokenError(end, True)
            at = match.start()
            byte = data[at]
            if byte == _QUOTE:
                at = self.string(at, True)
                continue
            if byte in (_OPEN_OBJECT, _OPEN_ARRAY):
                stack.append(byte + 2)  # in ASCII each closing bracket is two after its opening one
                if len(stack) > MAX_DEPTH:
                    raise BrokenError(at, False)
            elif byte != stack.pop():
                raise BrokenError(at, False)
            at += 1
            if not stack:
                return at

    def key(self, at: int, stray_quotes: bool) -> int:
        """The end of the key at ``at``."""
        if self.data[at] != _QUOTE:
            raise BrokenError(at, False)
        return self.string(at, stray_quotes)

    def colon(self, at: int) -> int:
        """The start of the value after the colon at or after ``at``."""
        at = self.space(at)
        if self.data[at] != _COLON:
            raise BrokenError(at, False)
        return self.space(at + 1)

    def members(self, at: int, own: bool) -> tuple[dict[str, Span], int]:
        """The members of the object at ``at`` (key -> where its value is) and its end.

        A later member of the same key takes the place of the earlier.  ``own``: the event itself,
        whose strings end at their first unescaped quote but in ``args``, which fill ``self.args``.
        """
        data = self.data
        found: dict[str, Span] = {}
        at = self.space(at + 1)
        while data[at] != _CLOSE_OBJECT:
            start = at
            at = self.key(at, not own)
            name, odd = _key_text(data[start:at])
            start = self.colon(at)
            if not own:
                if odd:
                    self.odd_keys.add(name)
                at = self.value(start, True)
            elif name == "args":
                at = self._args(start)
            else:
                at = self.value(start, False)
            found.pop(name, None)  # the later member counts, in its place
            found[name] = (start, at)
            at = self.space(at)
            if data[at] == _COMMA:
                at = self.space(at + 1)
            elif data[at] != _CLOSE_OBJECT:
                raise BrokenError(at, False)
        return found, at + 1

    def _args(self, at: int) -> int:
        self.odd_keys.clear()
        if self.data[at] == _OPEN_OBJECT:
            self.args, end = self.members(at, own=False)
            return end
        self.args = None
        return self.value(at, True)


@lru_cache(4096)
def _key_text(key: bytes) -> tuple[str, bool]:
    name, repaired = text(key)
    return name or "", repaired


def parse_event(data: bytes, start: int, end: int) -> Event:
    """The event whose ``{`` is at ``start``.

    ``BrokenError`` if it does not follow the grammar before ``end`` or has no ``ph`` of one ASCII character.
    """
    parser = Parser(data, end)
    found, after = parser.members(start, own=True)
    first, last = found.get("ph", (0, 0))
    phase = text(data[first:last])[0] if last and data[first] == _QUOTE else None
    if phase is None or len(phase) != 1 or not phase.isascii():
        raise BrokenError(after, False)
    members = {name: data[at:stop] for name, (at, stop) in found.items()}
    args = None if parser.args is None else {name: data[at:stop] for name, (at, stop) in parser.args.items()}
    return Event(phase, members, args, parser.odd_keys, after, parser.repaired)


def elements(raw: bytes, count: int) -> list[bytes]:
    """The raw text of up to ``count`` first elements of an array, up to the first that is no JSON."""
    parser = Parser(raw, len(raw))
    parts: list[bytes] = []
    try:
        at = parser.space(1)
        while len(parts) < count:
            end = parser.value(at, True)
            parts.append(raw[at:end])
            at = parser.space(end)
            if raw[at] != _COMMA:
                break
            at = parser.space(at + 1)
    except BrokenError:
        pass
    return parts
