"""Raw JSON text of one value -> what a column stores, as docs/reader.md says under "Values".

Every function takes the bytes of a value as they stand in the file.
"""

from __future__ import annotations

import re
from math import inf, isinf
from typing import Final

LIMIT_NS: Final = 2**62
BLANKS: Final = " \t\n\r"
_INT: Final = re.compile(r"(-?)([0-9]+)(?:\.0*)?")
_FLOAT: Final = re.compile(r"(-?)([0-9]+)(?:\.([0-9]*))?(?:[eE]([+-]?)([0-9]+))?")
_CONTROL: Final = re.compile(r"[\x00-\x1f]")
_ESCAPE: Final = re.compile(
    r"\\u([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})|\\u([0-9a-fA-F]{4})|\\(.?)", re.DOTALL
)
_SIMPLE: Final = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}


def text(raw: bytes) -> tuple[str | None, bool]:
    """The text of a value (None for ``null``) and whether it had to be repaired."""
    if raw[:1] != b'"':
        if raw == b"null":
            return None, False
        return _decode(raw)
    content, repaired = _decode(raw[1:-1])
    if _CONTROL.search(content):
        repaired = True
    if "\\" in content:
        content, broken = _unescape(content)
        repaired = repaired or broken
    return content, repaired


def _decode(raw: bytes) -> tuple[str, bool]:
    try:
        return raw.decode(), False
    except UnicodeDecodeError:
        return raw.decode(errors="replace"), True


def _unescape(content: str) -> tuple[str, bool]:
    broken = False

    def resolve(match: re.Match[str]) -> str:
        nonlocal broken
        high, low, code, char = match.groups()
        if high is not None:
            return chr(0x10000 + ((int(high, 16) & 0x3FF) << 10) + (int(low, 16) & 0x3FF))
        if code is not None:
            point = int(code, 16)
            if 0xD800 <= point < 0xE000:
                broken = True
                return "\ufffd"
            return chr(point)
        if char in _SIMPLE:
            return _SIMPLE[char]
        broken = True
        return match.group()

    return _ESCAPE.sub(resolve, content), broken


def _number(raw: bytes) -> str:
    """The candidate digits of a number or of a number in a string; "" where it cannot be one."""
    first = raw[:1]
    if first == b'"':
        return (text(raw)[0] or "").strip(BLANKS)
    if first in (b"{", b"["):
        return ""
    return raw.decode("latin-1")


def integer(raw: bytes) -> int | None:
    """An int64, or None."""
    return integer_of(_number(raw))


def integer_of(digits: str) -> int | None:
    """``integer`` of the bare digits."""
    match = _INT.fullmatch(digits)
    if match is None:
        return None
    significant = match[2].lstrip("0")
    if len(significant) > 19:
        return None
    value = int(significant or "0")
    if match[1]:
        value = -value
    # The smallest int64 is the columns' null.
    return value if -(2**63) < value < 2**63 else None


def real(raw: bytes) -> float | None:
    """The nearest float64; None where it is no number or beyond the largest."""
    return real_of(_number(raw))


def real_of(digits: str) -> float | None:
    """``real`` of the bare digits."""
    number = float(digits) if _FLOAT.fullmatch(digits) else inf
    return None if isinf(number) else number


def boolean(raw: bytes) -> int | None:
    """1 for ``true``, 0 for ``false``, else None."""
    return 1 if raw == b"true" else 0 if raw == b"false" else None


def time_ns(raw: bytes) -> int | None:
    """Microseconds as written -> whole ns, halves away from zero; None if no number or from 2^62 ns on."""
    return time_ns_of(_number(raw))


def time_ns_of(digits: str) -> int | None:
    """``time_ns`` of the bare digits."""
    match = _FLOAT.fullmatch(digits)
    if match is None:
        return None
    sign, whole, fraction, exponent_sign, exponent_digits = match.groups()
    fraction = fraction or ""
    significant = (whole + fraction).lstrip("0")
    if not significant:
        return 0
    exponent = 0
    if exponent_digits:
        trimmed = exponent_digits.lstrip("0") or "0"
        exponent = int(trimmed) if len(trimmed) < 12 else 10**12
        if exponent_sign == "-":
            exponent = -exponent
    # The decimal point of the result stands after this many significant digits.
    point = len(significant) - len(fraction) + exponent + 3
    if point < 0:
        return 0
    if point > 19:
        return None
    value = int(significant[:point].ljust(point, "0") or "0")
    if significant[point : point + 1] >= "5":
        value += 1
    if value >= LIMIT_NS:
        return None
    return -value if sign else value
