"""What looks as random as a key does, and not like a kernel's name.

Names of kernels and ops are words with underscores between them, mangled C++, or sizes such as ``128x256x32``: in a
key of letters and digits the class of the characters changes at every second or third one, and no word is long.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from typing import Final

CANDIDATE: Final = re.compile(r"(?<![A-Za-z0-9_+/=-])[A-Za-z0-9_+/=-]{20,}")
"""Runs of the characters of base64 and base64url."""

_MANGLED: Final = re.compile(r"(?:^|[_+/=-])_?_Z[A-Z0-9]")
_HASHED_FILE: Final = re.compile(r"[a-z2-7]{50,53}")
"""SHA-256 in base32, as Inductor names files and compiled graphs: says nothing but that two are the same."""
_HEX: Final = re.compile(r"[0-9a-fA-F]{32,}")
_PART: Final = re.compile(r"[^_]+")

SHORTEST: Final = 20
MIN_BITS: Final = 3.5
"""Bits a character; English words have about 3 in runs of that length, 40 random characters about 4.7."""
MIN_CHANGES: Final = 0.4
"""Share of neighbours of different classes (upper, lower, digit); 0.62 is expected of random base62."""
MIN_LOWER: Final = 24
"""Without capitals, or without small letters, only longer runs count."""
MAX_WORD: Final = 8


def looks_random(run: str) -> bool:
    """Whether a run of the characters of base64 is as random as a key is."""
    if _MANGLED.search(run):
        return False
    if _HEX.fullmatch(run):
        return entropy(run.lower()) > 3 and not run.isdigit()
    return any(_is_key(part[0].strip("=/+-")) for part in _PART.finditer(run))


def entropy(text: str) -> float:
    """Shannon's entropy of the characters, bits a character."""
    return -sum(n / len(text) * math.log2(n / len(text)) for n in Counter(text).values())


def _is_key(text: str) -> bool:
    if len(text) < SHORTEST or _HASHED_FILE.fullmatch(text):
        return False
    if _HEX.fullmatch(text):
        return entropy(text.lower()) > 3 and not text.isdigit()
    classes = "".join("d" if c.isdigit() else "u" if c.isupper() else "l" if c.islower() else "o" for c in text)
    kinds = Counter(classes)
    if kinds["d"] < 2 or not kinds["u"] + kinds["l"]:
        return False
    if not (kinds["u"] and kinds["l"]) and len(text) < MIN_LOWER:
        return False
    changes = sum(a != b for a, b in zip(classes, classes[1:], strict=False)) / (len(text) - 1)
    longest = max((len(word) for word in re.findall(r"u+|l+", classes)), default=0)
    return changes >= MIN_CHANGES and longest < MAX_WORD and entropy(text) > MIN_BITS
