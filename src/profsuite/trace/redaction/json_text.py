"""The texts inside JSON, each with the key that it stands under, whether or not the JSON is valid.

Only a text that is replaced is written anew: numbers, order, white space and everything else stay as they were.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

_TOKEN: Final = re.compile(r'"(?:[^"\\]|\\.)*+"?|[{}\[\],:]|[^\s{}\[\],:"]+', re.DOTALL)
"""A string that does not end goes to the end: else every quote in it would be looked for an end of its own."""
_NUMBER: Final = re.compile(r"-?[0-9][0-9.eE+-]*|true|false|null|NaN|-?Infinity")


@dataclass(slots=True)
class Context:
    """Where a text stands: the ``keys`` around it, the outermost first, and the text ``before`` it in a list.

    ``bare`` holds for what is no string (a number, true); ``is_key`` for a key.
    """

    keys: tuple[str, ...] = ()
    before: str | None = None
    bare: bool = False
    is_key: bool = False


@dataclass(slots=True)
class _Level:
    is_object: bool
    keys: tuple[str, ...]
    wants_key: bool
    before: str | None = None


MAX_KEYS: Final = 32
"""Keys of a text that are kept: of deeper ones the outer."""


def is_json(text: str) -> bool:
    """Whether a text looks like JSON of more than a word."""
    return text.lstrip()[:1] in ("{", "[", '"')


def substitute(text: str, visit: Callable[[str, Context], str], keys: tuple[str, ...] = ()) -> str:
    """``text`` with each string in it replaced by ``visit(string, context)``; ``keys`` are those around all of it."""
    out: list[str] = []
    done = 0
    stack = [_Level(False, keys, False)]
    key: str | None = None
    for token in _TOKEN.finditer(text):
        word, top = token[0], stack[-1]
        around = top.keys if key is None or len(top.keys) >= MAX_KEYS else (*top.keys, key)
        if word in "{[":
            stack.append(_Level(word == "{", around, word == "{"))
            key = None
        elif word in "}]":
            if len(stack) > 1:
                stack.pop()
            key = None
        elif word == ",":
            top.wants_key, key = top.is_object, None
        elif word == ":":
            top.wants_key = False
        else:
            before = None if top.is_object else top.before
            if word.startswith('"') and len(word) > 1:
                value = _decoded(word)
                made = visit(value, Context(around, before, is_key=top.wants_key))
                new = word if made == value else json.dumps(made, ensure_ascii=False)
            else:
                value = word
                made = visit(value, Context(around, before, bool(_NUMBER.fullmatch(word))))
                new = word if made == value else json.dumps(made, ensure_ascii=False)
            if top.wants_key:
                key = value
            else:
                top.before = value
            if new != word:
                out += (text[done : token.start()], new)
                done = token.end()
    return "".join(out) + text[done:] if out else text


def _decoded(literal: str) -> str:
    try:
        value = json.loads(literal)
    except ValueError:
        return literal[1:].removesuffix('"')
    return str(value)
