"""Stable pseudonyms: the same text gets the same one, different texts get different ones."""

from __future__ import annotations

import hmac
from collections import Counter
from typing import Final

DIGITS: Final = 10
"""Hexadecimal digits of a keyed pseudonym; more where two texts share them."""


class Pseudonyms:
    """Pseudonyms of one run: ``host-1``, ``host-2``; with a key ``host-5f1c09ab3e``, whatever came before.

    A keyed pseudonym is the beginning of HMAC-SHA256 of kind and text (RFC 2104): who has not the key cannot find the
    text by trying names.
    """

    def __init__(self, key: bytes | None = None) -> None:
        self._key = key
        self._known: dict[tuple[str, str], str] = {}
        self._numbers: Counter[str] = Counter()
        self.issued: set[str] = set()

    def of(self, kind: str, text: str) -> str:
        """The pseudonym of ``text`` among those of its kind."""
        known = self._known.get((kind, text))
        if known is None:
            known = self._known[kind, text] = self._keyed(kind, text) if self._key else self._numbered(kind)
            self.issued.add(known)
        return known

    def _numbered(self, kind: str) -> str:
        self._numbers[kind] += 1
        return f"{kind}-{self._numbers[kind]}"

    def _keyed(self, kind: str, text: str) -> str:
        assert self._key is not None
        digest = hmac.new(self._key, f"{kind}\0{text}".encode("utf-8", "surrogatepass"), "sha256").hexdigest()
        digits = DIGITS
        while (found := f"{kind}-{digest[:digits]}") in self.issued and digits < len(digest):
            digits += 2
        return found
