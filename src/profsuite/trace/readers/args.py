"""Typed decoding of the ``args`` of many like events, with the keys that such events have.

Keys are learned: a struct knows the keys met so far and refuses others, so no key is missed and
none is looked for in vain.  So are types: numbers are expected as such until one is something else.
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec
import numpy as np
from msgspec import Raw
from msgspec.structs import astuple

from profsuite.trace.readers import values
from profsuite.trace.readers.bulk import UnfitError, distinct
from profsuite.trace.readers.columns import AXES, BY_KEY, DTYPE, KIND, NULL, TYPECODE
from profsuite.trace.readers.fields import NULL_INT64
from profsuite.trace.readers.lenient import elements
from profsuite.trace.readers.texts import Texts, Words

if TYPE_CHECKING:
    from collections.abc import Callable, Container

    from numpy.typing import NDArray

    from profsuite.trace.readers.fields import Kind

MAX_KEYS: Final = 256
MAX_SHAPES: Final = 64
MAX_APART: Final = 4
SETTLED: Final = 256
"""Events of a shape after which a name that has further keys gets a shape of its own."""
_UNKNOWN: Final = re.compile(r"Object contains unknown field `(.*)` - at `\$\[([0-9]+)\]", re.DOTALL)
_MISTYPED: Final = re.compile(r"Expected `.*` - at `\$\[[0-9]+\]\.(.*)`", re.DOTALL)
# Written so, a float is -0.0, but msgspec takes it for an int.
_MINUS_ZERO: Final = re.compile(rb"-0(?=[ \t\n\r,\]}])")
_NULL: Final = Raw(b"null")
_ENCODER: Final = msgspec.json.Encoder()
_STRICT: Final[dict[Kind, Any]] = {"int": int | None, "float": float | None}


class StrangerError(Exception):
    """The event at ``place`` has a key that many others of its shape have not."""

    def __init__(self, place: int) -> None:
        super().__init__(place)
        self.place = place


class Column(NamedTuple):
    """A column of a group, and the rows that have a value."""

    values: NDArray[Any] | Texts
    present: NDArray[np.bool_]


class Shape:
    """The args of like events.  ``settles``: after many of them a new key is a ``StrangerError``."""

    def __init__(self, settles: bool = False) -> None:
        self.settles = settles
        self._seen = 0
        self._keys: list[str] = []
        self._loose: set[str] = set()
        self._decoder: msgspec.json.Decoder[Any] | None = None
        self._build()

    def read(self, args: list[Raw], wanted: Container[str], words: Words) -> dict[str, dict[str, Column]]:
        """Wanted group -> its columns, of every event's args; ``UnfitError`` if they are not as usual."""
        text = _ENCODER.encode(args)
        rows = self._decode(text)
        self._seen += len(rows)
        flat = list(chain.from_iterable(map(astuple, rows)))
        groups: dict[str, dict[str, Column]] = {}
        for number, key in enumerate(self._keys):
            found = flat[number :: len(self._keys)]
            for group, field in BY_KEY.get(key, ()):
                if group not in wanted:
                    continue
                kind = KIND[group, field]
                if key not in self._loose and kind in _STRICT:
                    try:
                        numbers = _numbers(found, kind)
                    except OverflowError:
                        self._loose.add(key)
                        self._build()
                        return self.read(args, wanted, words)
                    if kind == "float" and not numbers.all() and _MINUS_ZERO.search(text):
                        raise UnfitError
                    columns = {field: Column(numbers, _is_there(numbers))}
                elif found.count(_NULL) == len(found):
                    continue
                elif kind in ("text", "json"):
                    texts = words.texts_among(found, _NULL)
                    columns = {field: Column(texts, texts.present())}
                else:
                    columns = _parsed(field, kind, found)
                groups.setdefault(group, {}).update(columns)
        return groups

    def _decode(self, text: bytes) -> list[Any]:
        while self._decoder is not None:
            try:
                return self._decoder.decode(text)  # type: ignore[no-any-return]
            except (msgspec.ValidationError, RecursionError) as error:
                if unknown := _UNKNOWN.match(str(error)):
                    key, known = unknown[1], self._keys
                    if key in known:
                        raise UnfitError from None
                    if self.settles and self._seen >= SETTLED:
                        raise StrangerError(int(unknown[2])) from None
                    known.append(key)
                elif (mistyped := _MISTYPED.match(str(error))) and mistyped[1] not in self._loose:
                    self._loose.add(mistyped[1])
                else:
                    raise UnfitError from None
                self._build()
        raise UnfitError

    def _build(self) -> None:
        self._decoder = None  # from now on everything is unfit, unless it goes well
        if len(self._keys) > MAX_KEYS:
            return
        members: list[tuple[str, Any, Any]] = []
        fields: set[tuple[str, str]] = set()
        for number, key in enumerate(self._keys):
            targets = BY_KEY.get(key, ())
            if not fields.isdisjoint(targets):
                return  # two keys for one field: which counts depends on their order in each event
            fields.update(targets)
            kind = KIND[targets[0]] if targets else "json"
            if key in self._loose or kind not in _STRICT:
                members.append((f"f{number}", Raw, _NULL))
            else:
                members.append((f"f{number}", _STRICT[kind], NULL[kind]))
        names = {f"f{number}": key for number, key in enumerate(self._keys)}
        try:
            struct = msgspec.defstruct("Args", members, rename=names, forbid_unknown_fields=True, gc=False)
        except ValueError:  # a key with quotes or control characters
            return
        self._decoder = msgspec.json.Decoder(list[struct])  # type: ignore[valid-type]


class Shapes:
    """One shape a category, and for a few names in it; categories past ``MAX_SHAPES`` share one."""

    def __init__(self) -> None:
        self._shapes: dict[str, Shape] = {}
        self._apart: dict[str, dict[str, Shape]] = {}

    def of(self, category: str, name: str) -> Shape:
        """The shape of events."""
        apart = self._apart.get(category)
        if apart and name in apart:
            return apart[name]
        shape = self._shapes.get(category)
        if shape is None:
            if len(self._shapes) >= MAX_SHAPES:
                return self._shapes[next(iter(self._shapes))]
            shape = self._shapes[category] = Shape(settles=True)
        return shape

    def set_apart(self, category: str, name: str) -> None:
        """Give a name that has keys of its own a shape of its own, or let its category's learn them."""
        shape = self.of(category, name)
        apart = self._apart.setdefault(category, {})
        if category in self._shapes and len(apart) < MAX_APART:
            apart[name] = Shape()
        else:
            shape.settles = False


def _numbers(found: list[Any], kind: Kind) -> NDArray[Any]:
    dtype = DTYPE[TYPECODE[kind]]
    try:
        return np.fromiter(found, dtype, len(found))
    except TypeError:
        return np.fromiter([NULL[kind] if v is None else v for v in found], dtype, len(found))


def _is_there(numbers: NDArray[Any]) -> NDArray[np.bool_]:
    if numbers.dtype == np.float64:
        return np.asarray(numbers == numbers)  # not NaN
    return np.asarray(numbers != (NULL_INT64 if numbers.dtype == np.int64 else -1))


def _parsed(field: str, kind: Kind, raws: list[Raw]) -> dict[str, Column]:
    """Columns of raw values of which few are distinct."""
    numbers, words = distinct(raws)
    names = [field + axis for axis in AXES] if kind == "grid" else [field]
    rows = [_values(kind, word) for word in words]
    found = {}
    for place, name in enumerate(names):
        known = [row[place] if place < len(row) else None for row in rows]
        column = np.array([NULL[kind] if v is None else v for v in known], DTYPE[TYPECODE[kind]])[numbers]
        found[name] = Column(column, _is_there(column))
    return found


@lru_cache(1 << 14)
def _values(kind: Kind, word: bytes) -> list[float | None]:
    if kind == "grid":
        return [values.integer(part) for part in (elements(word, len(AXES)) if word[:1] == b"[" else ())]
    parse: Callable[[bytes], float | None] = {"int": values.integer, "float": values.real, "bool": values.boolean}[kind]
    return [parse(word)]
