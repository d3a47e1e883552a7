"""Names from a trace, made safe to print and short enough to read.

A trace may come from anywhere, and its names may hold terminal escape sequences, line ends, marks that
reverse the text, or a megabyte of characters.  Every renderer prints names through ``printable``; escaping
for its own format comes on top.
"""

from __future__ import annotations

from collections.abc import Sequence
from os.path import commonprefix

LONGEST = 4096
"""Characters of a name that are looked at; of a longer one the middle is left out."""

ELLIPSIS = "…"


def printable(text: str) -> str:
    """``text`` on one line, without control and formatting characters (those become U+FFFD, white space a blank)."""
    text = middle(text, LONGEST)
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else " " if c.isspace() else "\ufffd" for c in text)


def middle(text: str, width: int) -> str:
    """``text`` with as much of its middle left out as is needed to fit ``width`` characters."""
    if len(text) <= width:
        return text
    if width <= 1:
        return ELLIPSIS[:width]
    head = (width - 1) * 2 // 3
    tail = width - 1 - head
    return text[:head] + ELLIPSIS + (text[-tail:] if tail else "")


def shorten(name: str, width: int) -> str:
    """A name that fits ``width`` characters and still tells what it is.

    A C++ name loses its return type and parameters, then its namespaces, then its template arguments from the
    innermost outwards; what is still too long, and any other name, loses its middle.
    """
    name = printable(name)
    if len(name) <= width:
        return name
    if "<" not in name and "::" not in name:
        return middle(name, width)
    name = _without_parameters(name)
    if len(name) > width:
        name = _without_namespaces(name)
    if len(name) > width:
        deepest = _depth(name)
        if deepest is None:
            return middle(name, width)
        for level in range(deepest, 1, -1):
            shorter = _elide(name, level)
            if len(shorter) <= width:
                return shorter
        name = _cut_arguments(_elide(name, 2), width)
    return middle(name, width)


def shorten_all(names: Sequence[str], width: int) -> list[str]:
    """The names of one column; where different names would look the same, each shows where they differ."""
    short = {name: shorten(name, width) for name in names}
    groups: dict[str, list[str]] = {}
    for name, text in short.items():
        groups.setdefault(text, []).append(name)
    for group in groups.values():
        if len(group) > 1 and width > 3:
            whole = _apart([printable(name) for name in group])
            start = max(0, len(commonprefix(whole)) - 2)  # noqa: RUF071 - names, not paths
            short |= {name: _from(text, start, width) for name, text in zip(group, whole, strict=True)}
    return [short[name] for name in names]


def _apart(names: Sequence[str]) -> Sequence[str]:
    """Different names, without as many parts of a C++ name as they can lose and still be different."""
    whole = list(names)
    for without in (_without_parameters, _without_namespaces):
        plain = [without(name) if "<" in name or "::" in name else name for name in whole]
        if len(set(plain)) < len(plain):
            break
        whole = plain
    return whole


def _from(text: str, start: int, width: int) -> str:
    """The beginning of the text, and what follows ``start``, in ``width`` characters."""
    while start < len(text) and text[start] in " ,<(:":
        start += 1
    end = start + width // 2
    tail = text[start:end]
    if "<" in text and end < len(text) and width >= 16:
        tail = tail[:-1] + ELLIPSIS
    head = width - 1 - len(tail)
    return text[:head] + ELLIPSIS + tail if start > head else middle(text, width)


def _without_parameters(name: str) -> str:
    """Without ``void `` before and ``(...)`` after; a name that is not built so stays as it is."""
    if name.startswith("void "):
        name = name[5:]
    if name.endswith(")"):
        open_brackets = 0
        for i in range(len(name) - 1, 0, -1):
            open_brackets += (name[i] == ")") - (name[i] == "(")
            if open_brackets == 0:
                return name[:i]
    return name


def _without_namespaces(name: str) -> str:
    """Each qualified name by its last part only: ``at::native::add<c10::Half>`` is ``add<Half>``."""
    name = name.replace("(anonymous namespace)::", "")
    out: list[str] = []
    start = 0
    i = 0
    while i < len(name):
        if name.startswith("::", i):
            del out[start:]
            i += 2
            continue
        out.append(name[i])
        if not (name[i].isalnum() or name[i] in "_$~"):
            start = len(out)
        i += 1
    return "".join(out)


def _depth(name: str) -> int | None:
    """How deep template arguments nest, None where the brackets do not match."""
    depth = deepest = 0
    for c in name:
        depth += (c == "<") - (c == ">")
        deepest = max(deepest, depth)
        if depth < 0:
            return None
    return None if depth else deepest


def _elide(name: str, level: int) -> str:
    """With ``...`` in place of the template arguments that are ``level`` deep or deeper."""
    out: list[str] = []
    depth = 0
    for c in name:
        if c == "<":
            depth += 1
            if depth <= level:
                out.append(c)
            if depth == level:
                out.append(ELLIPSIS)
            continue
        if c == ">":
            if depth <= level:
                out.append(c)
            depth -= 1
            continue
        if depth < level:
            out.append(c)
    return "".join(out)


def _cut_arguments(name: str, width: int) -> str:
    """``kernel<4, first, second>`` as ``kernel<4, fir...>``, where the name before ``<`` leaves room for it."""
    start = name.find("<")
    if len(name) <= width or start < 0 or not name.endswith(">"):
        return name
    room = width - start - 3
    if room < 0:
        return name[:start]
    return name[: start + 1 + room] + ELLIPSIS + ">"
