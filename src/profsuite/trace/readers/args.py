"""Typed decoding of the ``args`` of many like events, with the keys that such events have.

Keys are learned: a struct knows the keys met so far and refuses others, so no key is missed and
none is looked for in vain.
"""

from __future__ import annotations

import re
from operator import attrgetter
from typing import Any, Final

import msgspec
from msgspec import Raw

from profsuite.trace.readers.columns import BY_KEY, KIND

MAX_KEYS: Final = 256
MAX_SHAPES: Final = 64
_UNKNOWN: Final = re.compile(r"Object contains unknown field `(.*)` - at `\$\[", re.DOTALL)
_NULL: Final = Raw(b"null")
_TYPES: Final[dict[str, Any]] = {
    "int": int | str | None, "float": float | int | str | None, "bool": bool | int | str | None,
    "grid": list[int] | None, "text": str | int | None, "json": Raw,
}  # fmt: skip


class UnfitError(Exception):
    """These events have to be read one by one."""


class Shape:
    """The args of one category: ``fields`` are (group, field, getter) of the keys that become columns."""

    def __init__(self) -> None:
        self._keys: list[str] = []
        self.fields: list[tuple[str, str, attrgetter[Any]]] = []
        self._decoder: msgspec.json.Decoder[Any] | None = None
        self._build()

    def decode(self, text: bytes) -> list[Any]:
        """The structs of a JSON array of args; ``UnfitError`` if they are not as usual."""
        while self._decoder is not None:
            try:
                return self._decoder.decode(text)  # type: ignore[no-any-return]
            except (msgspec.ValidationError, RecursionError) as error:
                unknown = _UNKNOWN.match(str(error))
                if unknown is None or unknown[1] in self._keys:
                    raise UnfitError from None
                self._keys.append(unknown[1])
                self._build()
        raise UnfitError

    def _build(self) -> None:
        self._decoder = None  # from now on everything is unfit, unless it goes well
        if len(self._keys) > MAX_KEYS:
            return
        self.fields.clear()
        members: list[tuple[str, Any, Any]] = []
        for number, key in enumerate(self._keys):
            name = f"f{number}"
            targets = BY_KEY.get(key, ())
            kind = KIND[targets[0]] if targets else "json"
            members.append((name, _TYPES[kind], _NULL if kind == "json" else None))
            self.fields += [(group, field, attrgetter(name)) for group, field in targets]
        if len({(group, field) for group, field, _ in self.fields}) < len(self.fields):
            return  # two keys for one field: which counts depends on their order in each event
        names = {f"f{number}": key for number, key in enumerate(self._keys)}
        try:
            struct = msgspec.defstruct("Args", members, rename=names, forbid_unknown_fields=True, gc=False)
        except ValueError:  # a key with quotes or control characters
            return
        self._decoder = msgspec.json.Decoder(list[struct])  # type: ignore[valid-type]


class Shapes:
    """One shape a category; those past ``MAX_SHAPES`` share one."""

    def __init__(self) -> None:
        self._shapes: dict[str | None, Shape] = {}

    def of(self, category: str | None) -> Shape:
        """The shape of a category."""
        shape = self._shapes.get(category)
        if shape is None:
            if len(self._shapes) >= MAX_SHAPES:
                return self._shapes[next(iter(self._shapes))]
            shape = self._shapes[category] = Shape()
        return shape
