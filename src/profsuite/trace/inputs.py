"""Which format a file is of, by its first bytes; its name says nothing."""

from __future__ import annotations

from typing import Literal

from profsuite.trace.embedded import is_embedded
from profsuite.trace.readers.collapsed import is_collapsed
from profsuite.trace.readers.xspace import is_xspace

Format = Literal["json", "perfetto", "xspace", "collapsed"]


def format_of(first: bytes) -> Format:
    """The format of a file that begins with these bytes, unpacked; ``json`` where it is none of the others."""
    if is_embedded(first):
        return "perfetto"
    if is_xspace(first):
        return "xspace"
    return "collapsed" if is_collapsed(first) else "json"
