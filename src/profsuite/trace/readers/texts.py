"""Text columns of many events at once: their distinct words, and the codes that these get in a pool."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from profsuite.trace.readers import values
from profsuite.trace.readers.bulk import UnfitError, distinct

if TYPE_CHECKING:
    from msgspec import Raw
    from numpy.typing import NDArray

    from profsuite.trace.readers.columns import Pool

_MAX_WORDS: Final = 1 << 17
_NEW: Final = -2


class Texts(NamedTuple):
    """A column of texts: each row's number among ``words``, of which None is null."""

    numbers: NDArray[np.int32]
    words: list[str | None]

    def at(self, rows: NDArray[np.int64]) -> Texts:
        """The column at some rows."""
        return Texts(self.numbers[rows], self.words)

    def where(self, word: str) -> NDArray[np.bool_]:
        """The rows that have a word."""
        return self.mask([w == word for w in self.words])

    def present(self) -> NDArray[np.bool_]:
        """The rows that are not null."""
        return self.mask([w is not None for w in self.words])

    def mask(self, of_words: list[bool]) -> NDArray[np.bool_]:
        """What is said of each word, for each row."""
        return np.array(of_words, bool)[self.numbers]

    def or_empty(self) -> Texts:
        """The column with "" for null."""
        return Texts(self.numbers, [word or "" for word in self.words])


class Words(dict[bytes, str | None]):
    """Raw JSON -> text, only of what needs no repair."""

    def __missing__(self, raw: bytes) -> str | None:
        content, repaired = values.text(raw)
        if repaired:
            raise UnfitError
        if len(self) >= _MAX_WORDS:
            self.clear()
        self[raw] = content
        return content

    def texts(self, raws: list[Raw]) -> Texts:
        """The column of raw values."""
        numbers, words = distinct(raws)
        return Texts(numbers, [self[word] for word in words])

    def texts_among(self, raws: list[Raw], absent: Raw) -> Texts:
        """The same where many a value is ``absent``, which is null."""
        rows = [row for row, raw in enumerate(raws) if raw is not absent]
        if 2 * len(rows) > len(raws):
            return self.texts(raws)
        found = self.texts([raws[row] for row in rows])
        numbers = np.zeros(len(raws), np.int32)
        numbers[rows] = found.numbers + 1
        return Texts(numbers, [None, *found.words])


def texts_of(strings: list[str]) -> Texts:
    """The column of decoded strings."""
    known = {word: number for number, word in enumerate(dict.fromkeys(strings))}
    return Texts(np.fromiter(map(known.__getitem__, strings), np.int32, len(strings)), list(known))


def codes(pool: Pool, columns: list[tuple[NDArray[np.int64], Texts]]) -> list[NDArray[np.int32]]:
    """The codes of columns, each given with its rows; new words get theirs by row, then by column."""
    tables = [_table(pool, texts) for _, texts in columns]
    found = [table[texts.numbers] for table, (_, texts) in zip(tables, columns, strict=True)]
    fresh: list[tuple[int, int, str]] = []
    for number, ((rows, texts), codes_) in enumerate(zip(columns, found, strict=True)):
        at = np.flatnonzero(codes_ == _NEW)
        if len(at):
            new, first = np.unique(texts.numbers[at], return_index=True)
            where = rows[at[first]].tolist()
            fresh += [(row, number, texts.words[n] or "") for row, n in zip(where, new.tolist(), strict=True)]
    for _, _, word in sorted(fresh):
        pool[word]
    if fresh:
        found = [_table(pool, texts)[texts.numbers] for _, texts in columns]
    return found


def _table(pool: Pool, texts: Texts) -> NDArray[np.int32]:
    return np.array([-1 if word is None else pool.get(word, _NEW) for word in texts.words], np.int32)
