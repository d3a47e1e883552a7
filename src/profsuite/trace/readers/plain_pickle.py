"""A pickle of plain data (dicts, lists, tuples, texts, numbers): opcode by opcode, nothing in it is ever called.

For the small pickles that torch writes of its state.  Opcodes: the standard library's ``pickletools``.
"""

from __future__ import annotations

import pickletools
from typing import Any

from profsuite.errors import TraceError

DEEPEST = 64
"""Containers open inside one another."""

_KEYS = (str, int, float, bool, type(None))
_TEXT = {"BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8", "UNICODE", "BINSTRING", "SHORT_BINSTRING"}
_NUMBER = {"BININT", "BININT1", "BININT2", "INT", "LONG", "LONG1", "LONG4", "BINFLOAT", "FLOAT"}
_CONSTANT = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_EMPTY: dict[str, type] = {"EMPTY_DICT": dict, "EMPTY_LIST": list, "EMPTY_TUPLE": tuple}
_TUPLE = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}
_PUT = {"PUT", "BINPUT", "LONG_BINPUT"}
_GET = {"GET", "BINGET", "LONG_BINGET"}


def loads(data: bytes) -> Any:
    """The value of a pickle; ``TraceError`` where it is damaged or holds anything but plain data."""
    try:
        return _run(data)
    except TraceError:
        raise
    except (ValueError, IndexError, KeyError, TypeError, AttributeError, OverflowError) as error:
        raise TraceError(f"is a damaged pickle ({error})") from None


def _run(data: bytes) -> Any:
    stack: list[Any] = []
    memo: dict[int, Any] = {}
    marks: list[int] = []
    for opcode, argument, at in pickletools.genops(data):
        name = opcode.name
        if name in _TEXT or name in _NUMBER:
            stack.append(argument)
        elif name in _CONSTANT:
            stack.append(_CONSTANT[name])
        elif name in _EMPTY:
            stack.append(_EMPTY[name]())
        elif name == "MARK":
            if len(marks) >= DEEPEST:
                raise TraceError(f"is a pickle nested deeper than {DEEPEST} containers")
            marks.append(len(stack))
        elif name in _PUT:
            memo[int(argument or 0)] = stack[-1]
        elif name == "MEMOIZE":
            memo[len(memo)] = stack[-1]
        elif name in _GET:
            stack.append(memo[int(argument or 0)])
        elif name in _TUPLE:
            stack[-_TUPLE[name] :] = [tuple(stack[-_TUPLE[name] :])]
        elif name in ("TUPLE", "LIST", "DICT"):
            items = _popped(stack, marks)
            stack.append(tuple(items) if name == "TUPLE" else items if name == "LIST" else _pairs(items))
        elif name in ("APPEND", "APPENDS"):
            items = [stack.pop()] if name == "APPEND" else _popped(stack, marks)
            _container(stack, list).extend(items)
        elif name in ("SETITEM", "SETITEMS"):
            items = [stack.pop(-2), stack.pop()] if name == "SETITEM" else _popped(stack, marks)
            _container(stack, dict).update(_pairs(items))
        elif name == "STOP":
            if len(stack) != 1 or marks:
                raise ValueError("values are left over")
            return stack[0]
        elif name not in ("PROTO", "FRAME"):
            raise TraceError(f"is a pickle of more than plain data ({name} at byte {at})")
    raise ValueError("it ends early")


def _popped(stack: list[Any], marks: list[int]) -> list[Any]:
    """What lies above the last mark, taken off."""
    start = marks.pop()
    items = stack[start:]
    del stack[start:]
    return items


def _pairs(items: list[Any]) -> dict[Any, Any]:
    if len(items) % 2:
        raise ValueError("a key has no value")
    for key in items[::2]:
        if not isinstance(key, _KEYS):  # hashing a tuple of tuples of … may never end
            raise TraceError(f"is a pickle with a {type(key).__name__} as a key")
    return dict(zip(items[::2], items[1::2], strict=True))


def _container(stack: list[Any], kind: type) -> Any:
    if type(stack[-1]) is not kind:
        raise ValueError(f"no {kind.__name__} to add to")
    return stack[-1]
