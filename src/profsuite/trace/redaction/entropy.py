"""What looks as random as a key does, and not like a kernel's name.

Names of kernels and ops are words with underscores between them, mangled C++, or sizes such as ``128x256x32``: in a
key of letters and digits the class of the characters changes at every second one, and no word is long.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from typing import Final

CANDIDATE: Final = re.compile(r"(?<![A-Za-z0-9_+/=-])[A-Za-z0-9_+/=-]{20,}")
"""Runs of the characters of base64 and base64url."""

_MANGLED: Final = re.compile(r"(?:^|[_+/=-])_?_Z[A-Z0-9]|(?:^|[_+/=-])NK?\d{1,3}[A-Za-z_]")
_HASHED_FILE: Final = re.compile(r"[a-z2-7]{50,53}")
"""SHA-256 in base32, as Inductor names files and compiled graphs: says nothing but that two are the same."""
_WORD: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+|\d+")
_SIGNATURE: Final = re.compile(r"(?:\d{1,4}[a-z]{1,2})*+\d*")
"""Which arguments a Triton kernel was specialised for (``0d1d2de3d``), and sizes (``128x128x32``)."""
_HEX: Final = re.compile(r"[0-9a-fA-F]{32,}")
_PART: Final = re.compile(r"[^_]+")

SHORTEST: Final = 20
MIN_BITS: Final = 3.5
"""Bits a character; English words have about 3 in runs of that length, 40 random characters about 4.7."""
MAX_MEAN: Final = 2.7
"""Mean length of words (``Max``, ``ABC``, ``abc``, ``12``): 1.9 is expected of random base62, 4 of names."""
MIN_LOWER: Final = 24
"""Without capitals, or without small letters, only longer runs count."""
MAX_WORD: Final = 10
MAX_MEAN_OF_ONE_CASE: Final = 4.0
MAX_WORD_OF_ONE_CASE: Final = 12
MIN_DIGITS: Final = 0.12
"""Share of digits where all letters are of one case; 0.28 is expected of random base36."""
AWS: Final = 40
AWS_BITS: Final = 4.6
"""AWS's secret keys are 40 characters of base64, and stand without a mark."""


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
    digits, upper, lower = sum(map(str.isdigit, text)), any(map(str.isupper, text)), any(map(str.islower, text))
    if len(text) == AWS and digits and upper and lower and re.search(r"[/+]", text) and entropy(text) > AWS_BITS:
        return True
    if digits < 2 or not (upper or lower) or entropy(text) < MIN_BITS:
        return False
    words = _WORD.findall(text)
    longest, mean = max(map(len, words)), sum(map(len, words)) / len(words)
    if upper and lower:
        return mean <= MAX_MEAN and longest <= MAX_WORD
    if not text.isalnum():  # words of one case with hyphens between them
        return any(_is_key(piece) for piece in re.findall(r"[A-Za-z0-9]+", text))
    if len(text) < MIN_LOWER or _SIGNATURE.fullmatch(text.lower()) or digits / len(text) < MIN_DIGITS:
        return False
    return mean <= MAX_MEAN_OF_ONE_CASE and longest <= MAX_WORD_OF_ONE_CASE
