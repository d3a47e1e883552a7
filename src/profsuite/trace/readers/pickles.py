"""A pickle of plain data, read opcode by opcode: nothing in it is ever called, imported or kept twice.

Python's own unpickler needs several times the file's size for the objects of a memory snapshot, and makes all of
them before anybody can look at one.  This one hands each dict to a ``Builder`` as soon as it is complete, and keeps in
its place, and in the memo, what the builder made of it: a row number, say, instead of a dict of eight entries.

Opcodes: the documentation of ``pickletools`` in the standard library, protocols 2 to 5.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from typing import Any, Protocol

from profsuite.errors import TraceError

DEEPEST = 32
"""Containers inside one another; a snapshot has five."""
LONGEST_TEXT = 1 << 24
"""Bytes of one string."""
MOST_CONTAINERS = 1_000_000
"""Lists and dicts that no builder takes."""
ALLOWANCE = 1_000_000
"""Values on the stack and in the memo before they are held against the bytes read."""

_LOOSE = frozenset((int, str, float, bool, type(None), tuple))
"""What may be many in a list that is no part of a snapshot."""

_AHEAD = 16
"""No opcode with its number is longer, text excepted."""


_NOTHING: list[Any] = []
_EMPTY: dict[Any, Any] = {}


class Listing:
    """A list of the pickle: ``items``, or ``rows`` (first, end) where each item became a row."""

    # Defaults of the class: most lists and dicts are gone before anything but their slot is set.
    slot = -1
    items = _NOTHING
    rows: tuple[int, int] | None = None


EMPTY = Listing()
"""What every list without items becomes once it is part of something."""


class Mapping:
    """A dict of the pickle that no builder took (yet)."""

    slot = -1
    items = _EMPTY


class Row:
    """What stands for a dict that became the next row of a table; one object a table."""

    __slots__ = ("table",)

    def __init__(self, table: str) -> None:
        self.table = table


class Builder(Protocol):
    """What is made of the dicts and lists, from the inside out."""

    def record(self, items: dict[Any, Any]) -> Any:
        """What takes the place of a dict of these items; None to keep it as it is."""

    def settled(self, value: Listing) -> Any:
        """What takes the place of a list, once it is complete and part of something."""

    def claim(self, row: Row, number: int, listing: Listing) -> None:
        """The last ``number`` rows of a table belong to ``listing``."""

    def rest(self, stack: list[Any]) -> Any:
        """The value of a pickle that breaks off, from what is on its stack; None where nothing can be saved."""


class Refused(Exception):  # noqa: N818 - the text of a TraceError, without the file
    """Why a pickle is not read further."""


def read_pickle(name: str, chunks: Iterator[bytes], builder: Builder) -> tuple[Any, int, str]:
    """The pickle's value, the bytes read, and why it breaks off ("" if it does not).

    ``TraceError`` in one line for whatever is not plain data.
    """
    machine = _Machine(chunks, builder)
    try:
        return machine.run(), machine.at, ""
    except Refused as error:
        why = str(error)
    except (IndexError, struct.error):
        machine.all_read()
        why = "the pickle ends early, or is damaged: is the file whole?"
        saved = builder.rest(machine.stack)
        if saved is not None:
            return saved, machine.at, why
    except (TypeError, ValueError, OverflowError, KeyError, AttributeError) as error:
        why = f"a value does not fit a memory snapshot ({type(error).__name__}: {str(error)[:80]})"
    raise TraceError(f"{name}: at byte {machine.at:,}: {why}")


_RUN = re.compile(rb"(?:j.{4}){2,255}", re.DOTALL)
_RUNS = [struct.Struct("<" + "xI" * number).unpack_from for number in range(256)]


class _Machine:
    """The stack machine; ``at`` is the byte that it has reached, ``ended`` whether the file had no more."""

    def __init__(self, chunks: Iterator[bytes], builder: Builder) -> None:
        self._chunks = chunks
        self._builder = builder
        self._base = 0
        self._position = 0
        self._containers = 0
        self._loose = 0
        self._tuples: dict[tuple[Any, ...], tuple[Any, ...]] = {}
        self.ended = False
        self.buffer = b""
        self.stack: list[Any] = []

    @property
    def at(self) -> int:
        return self._base + self._position

    def all_read(self) -> None:
        """Move ``at`` to the end of what was read."""
        self._position = len(self.buffer)

    def _fill(self, position: int, wanted: int) -> int:
        """Read on until ``wanted`` bytes follow ``position``; the position in the new buffer."""
        position = min(position, len(self.buffer))  # a number that is cut off has been stepped over
        parts, there = [self.buffer[position:]], len(self.buffer) - position
        self._base += position
        while there < wanted and not self.ended:
            part = next(self._chunks, b"")
            self.ended = not part
            there += len(part)
            parts.append(part)
        self.buffer = b"".join(parts)
        return 0

    def run(self) -> Any:
        stack = self.stack
        marks: list[int] = []
        memo: list[Any] = []
        push, remember = stack.append, memo.append
        position, safe, buffer = 0, -1, b""
        uint, sint, double = struct.Struct("<I").unpack_from, struct.Struct("<i").unpack_from, struct.Struct(">d")
        record, run_of = self._builder.record, _RUN.match
        while True:
            if position > safe:
                self._position = position
                position = self._fill(position, 1 << 16)
                buffer = self.buffer
                safe = len(buffer) - (0 if self.ended else _AHEAD)
                self._hold(2 * len(stack), len(memo))
            op = buffer[position]
            position += 1
            if op == 0x6A:  # LONG_BINGET: in a list of frames there are many in a row
                run = run_of(buffer, position - 1)
                if run is None:
                    push(memo[uint(buffer, position)[0]])
                    position += 4
                else:
                    end = run.end()
                    for index in _RUNS[(end - position + 1) // 5](buffer, position - 1):
                        push(memo[index])
                    position = end
            elif op == 0x68:  # BINGET
                push(memo[buffer[position]])
                position += 1
            elif op == 0x94:  # MEMOIZE
                value = stack[-1]
                if type(value) is Mapping or type(value) is Listing:
                    value.slot = len(memo)
                remember(value)
            elif op == 0x71 or op == 0x72:  # BINPUT, LONG_BINPUT
                index = buffer[position] if op == 0x71 else uint(buffer, position)[0]
                position += 1 if op == 0x71 else 4
                value = stack[-1]
                if index > len(memo):
                    raise Refused(f"the memo has a hole before {index:,}")
                if type(value) is Mapping or type(value) is Listing:
                    value.slot = index
                if index == len(memo):
                    remember(value)
                else:
                    memo[index] = value
            elif op == 0x4A:  # BININT
                push(sint(buffer, position)[0])
                position += 4
            elif op == 0x28:  # MARK
                marks.append(len(stack))
                if len(marks) > DEEPEST:
                    raise Refused(f"more than {DEEPEST} containers inside one another")
            elif op == 0x7D:  # EMPTY_DICT
                value = Mapping()
                push(value)
                if buffer[position] == 0x94:  # MEMOIZE, as nearly always
                    value.slot = len(memo)
                    remember(value)
                    position += 1
            elif op == 0x75 or op == 0x73:  # SETITEMS, SETITEM
                first = marks.pop() if op == 0x75 else len(stack) - 2
                values = stack[first:]
                del stack[first:]
                mapping = stack[-1]
                if type(mapping) is not Mapping:
                    self._position = position
                    raise Refused("an item is set in something that is no dict, or complete already")
                self._position = position
                inner = [v if type(v) is not Listing else self._settle(v, memo) for v in values[1::2]]
                items = dict(zip(values[::2], inner, strict=True))
                made = None if mapping.items else record(items)
                if made is None:
                    if not all(type(key) in _LOOSE for key in items):
                        raise Refused("a key that is no number or text")
                    if mapping.items:
                        mapping.items.update(items)
                    else:
                        mapping.items = items
                    self._loose += len(items)
                    self._hold(self._loose)
                    self._keep()
                else:
                    stack[-1] = made
                    if mapping.slot >= 0:
                        memo[mapping.slot] = made
            elif op == 0x8A:  # LONG1
                length = buffer[position]
                position += 1
                if length > 9:
                    raise Refused(f"an integer of {length} bytes")
                push(int.from_bytes(buffer[position : position + length], "little", signed=True))
                position += length
            elif op == 0x4D:  # BININT2
                push(buffer[position] | buffer[position + 1] << 8)
                position += 2
            elif op == 0x4B:  # BININT1
                push(buffer[position])
                position += 1
            elif op == 0x5D:  # EMPTY_LIST
                value = Listing()
                push(value)
                if buffer[position] == 0x94:
                    value.slot = len(memo)
                    remember(value)
                    position += 1
            elif op == 0x65 or op == 0x61:  # APPENDS, APPEND
                first = marks.pop() if op == 0x65 else len(stack) - 1
                values = stack[first:]
                del stack[first:]
                listing = stack[-1]
                self._position = position
                if type(listing) is not Listing or listing is EMPTY:
                    raise Refused("something is appended to what is no list, or complete already")
                self._append(listing, values, memo)
            elif op in (0x8C, 0x58, 0x8D):  # SHORT_BINUNICODE, BINUNICODE, BINUNICODE8
                width = {0x8C: 1, 0x58: 4, 0x8D: 8}[op]
                length = int.from_bytes(buffer[position : position + width], "little")
                position += width
                self._position = position
                if length > LONGEST_TEXT:
                    raise Refused(f"a text of {length:,} bytes")
                if position + length > len(buffer) - _AHEAD:
                    position = self._fill(position, length + _AHEAD)
                    buffer = self.buffer
                    safe = len(buffer) - (0 if self.ended else _AHEAD)
                    if len(buffer) < length:
                        raise IndexError
                push(buffer[position : position + length].decode("utf-8", "replace"))
                position += length
            elif op == 0x4E:  # NONE
                push(None)
            elif op == 0x88 or op == 0x89:  # NEWTRUE, NEWFALSE
                push(op == 0x88)
            elif op == 0x47:  # BINFLOAT
                push(double.unpack_from(buffer, position)[0])
                position += 8
            elif op in (0x29, 0x85, 0x86, 0x87, 0x74):  # EMPTY_TUPLE, TUPLE1, TUPLE2, TUPLE3, TUPLE
                first = marks.pop() if op == 0x74 else len(stack) - {0x29: 0, 0x85: 1, 0x86: 2, 0x87: 3}[op]
                values = stack[first:]
                del stack[first:]
                self._position = position
                if len(values) > 64 or not all(map(_is_small, values)):
                    raise Refused("a tuple that holds more than a few integers and texts")
                push(self._once(tuple(values)))
            elif op == 0x95:  # FRAME
                position += 8
            elif op == 0x80:  # PROTO
                if not 2 <= buffer[position] <= 5:
                    raise Refused(f"pickle protocol {buffer[position]}; 2 to 5 are known")
                position += 1
            elif op == 0x2E:  # STOP
                self._position = position
                if len(stack) != 1 or marks:
                    raise Refused("the pickle is damaged: it stops in the middle")
                return stack[0]
            else:
                self._position = position - 1
                raise Refused(refused(op))

    def _append(self, listing: Listing, values: list[Any], memo: list[Any]) -> None:
        if values and type(values[0]) is Row:
            if any(value is not values[0] for value in values) or listing.items:
                raise Refused("a list that mixes rows with something else")
            self._builder.claim(values[0], len(values), listing)
            return
        if listing.rows is not None and values:
            raise Refused("a list that mixes rows with something else")
        settled = [value if type(value) is not Listing else self._settle(value, memo) for value in values]
        if listing.items:
            listing.items.extend(settled)
        else:
            listing.items = settled
        if settled and type(settled[0]) in _LOOSE:
            self._loose += len(settled)
            self._hold(self._loose)
        elif type(values[0] if values else None) in (Mapping, Listing):
            self._keep(len(values))

    def _once(self, value: tuple[Any, ...]) -> tuple[Any, ...]:
        """The one tuple of these items: many an entry has the id of a memory pool."""
        key = (value, *map(type, value))  # 1 is True, but not here
        known = self._tuples.get(key)
        if known is None:
            self._tuples[key] = known = value
            self._keep()
        return known

    def _settle(self, value: Listing, memo: list[Any]) -> Any:
        """What becomes of a list when it is put into a container: from then on it is complete."""
        if value is EMPTY:
            return value
        made = self._builder.settled(value) if value.items or value.rows is not None else EMPTY
        if value.slot >= 0:
            memo[value.slot] = made
        return made

    def _keep(self, number: int = 1) -> None:
        self._containers += number
        if self._containers > MOST_CONTAINERS:
            raise Refused(f"more than {MOST_CONTAINERS:,} lists and dicts that are no part of a memory snapshot")

    def _hold(self, *counts: int) -> None:
        """A snapshot has an entry in 40 bytes and a memo slot in 20; a pickle that is all stack or memo is none."""
        if max(counts) > ALLOWANCE + self._base // 8:
            raise Refused("far more values at once than a memory snapshot of this size holds")


def _is_small(value: Any) -> bool:
    """Whether a tuple may hold it."""
    if type(value) is int:
        return -(2**63) <= value < 2**63
    return type(value) in (str, bool, type(None))


def refused(op: int) -> str:
    """What is said of an opcode that no memory snapshot has."""
    import pickletools

    names = {ord(code.code): code.name for code in pickletools.opcodes}
    what = f"pickle opcode {names[op]}" if op in names else f"byte {op:#04x}, which is no pickle opcode"
    return f"{what}: a memory snapshot holds only lists, dicts, tuples, numbers and texts; refused"
