"""Collectives that the ranks do not agree on: missing on a rank, another kind, size, type or order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np
from msgspec import Struct

from profsuite.analyzers.collectives import KINDS, NONE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from profsuite.analyzers.job.matching import Matches
    from profsuite.analyzers.job.summary import RankSummary

What = Literal["missing", "kind", "bytes", "dtype", "order"]

_SAME_SIZE = [KINDS.index(k) for k in ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce")]
"""Kinds whose message has the same size on every rank, as ``num_bytes`` counts it."""

SHOWN = 5


class Mismatch(Struct, frozen=True, kw_only=True):
    """One way in which ranks disagree in one group.

    ``ranks`` are those that differ from the others (from the first of them, where two halves disagree), ``count`` in
    how many collectives; ``first`` describes the first of them: its kind, ``sequence`` (null without) and in
    ``detail`` what each side has.
    """

    what: What
    group: str | None
    ranks: tuple[int, ...]
    count: int
    kind: str
    sequence: int | None
    detail: str


def mismatches(summaries: Sequence[RankSummary], matches: Matches) -> tuple[Mismatch, ...]:
    """All of them, group by group.

    A rank lacks a collective if it has others of the same sequence before and after, or none at all in a group of
    which it is a member: what is beyond the first or last one it recorded lies outside of its recording.
    """
    if not len(matches):
        return ()
    found = [*_missing(summaries, matches)]
    present = matches.present
    by_sequence = np.array([group.by_sequence for group in matches.groups])[matches.group]
    kinds = np.stack([matches.values(n, s.collectives.kind) for n, s in enumerate(summaries)], axis=1)
    found += _differing("kind", matches, summaries, present & by_sequence[:, None], kinds, KINDS)
    same_kind = _agree(kinds, present)
    sizes = np.stack([matches.values(n, s.collectives.num_bytes) for n, s in enumerate(summaries)], axis=1)
    equal = same_kind & np.isin(_first(kinds, present), _SAME_SIZE)
    found += _differing("bytes", matches, summaries, present & equal[:, None] & (sizes != NONE), sizes, None)
    words = sorted({word for s in summaries for word in s.collectives.dtypes})
    number = {word: i for i, word in enumerate(words)}
    dtypes = np.stack(
        [
            matches.values(n, np.array([number[w] for w in s.collectives.dtypes] + [-1])[s.collectives.dtype])
            for n, s in enumerate(summaries)
        ],
        axis=1,
    )
    found += _differing("dtype", matches, summaries, present & same_kind[:, None] & (dtypes >= 0), dtypes, words)
    found += _out_of_order(summaries, matches)
    return tuple(found)


def _missing(summaries: Sequence[RankSummary], matches: Matches) -> Iterator[Mismatch]:
    present, at = matches.present, np.arange(len(matches))
    member = matches.member[matches.group]
    lanes = int(matches.lane.max()) + 1
    for n, rank in enumerate(matches.ranks):
        here = present[:, n]
        first, last = np.full(lanes, len(matches)), np.full(lanes, -1)
        np.minimum.at(first, matches.lane[here], at[here])
        np.maximum.at(last, matches.lane[here], at[here])
        inside = (first[matches.lane] < at) & (at < last[matches.lane])
        groups_seen = np.zeros(len(matches.groups), bool)
        groups_seen[matches.group[here]] = True
        # a pair's other side may be on a stream, or in a time, that was not recorded
        strict = np.array([g.pair is None and not g.loose for g in matches.groups])
        whole = ~groups_seen & strict & np.array([g.ranks is not None for g in matches.groups])
        lacks = member[:, n] & ~here & (inside | (whole[matches.group] & bool(len(summaries[n].collectives))))
        lacks &= ~np.array([g.loose for g in matches.groups])[matches.group]
        for g in np.unique(matches.group[lacks]).tolist():
            rows = np.flatnonzero(lacks & (matches.group == g))
            others = [matches.ranks[i] for i in np.flatnonzero(present[rows[0]]).tolist()]
            detail = f"rank {others[0]} has it" if len(others) == 1 else f"{len(others)} ranks have it"
            yield _mismatch("missing", matches, summaries, g, (rank,), rows, detail)


def _differing(
    what: What,
    matches: Matches,
    summaries: Sequence[RankSummary],
    judged: NDArray[np.bool_],
    values: NDArray[np.int64],
    words: Sequence[str] | None,
) -> Iterator[Mismatch]:
    """Collectives whose judged values are not all the same; the ranks named are the fewer."""
    differ = np.flatnonzero(~_agree(values, judged))
    for g in np.unique(matches.group[differ]).tolist():
        rows = differ[matches.group[differ] == g]
        row = int(rows[0])
        mine = {n: int(values[row, n]) for n in np.flatnonzero(judged[row]).tolist()}
        tally = sorted(set(mine.values()), key=lambda v: (-list(mine.values()).count(v), list(mine.values()).index(v)))
        odd = tuple(matches.ranks[n] for n, value in mine.items() if value != tally[0])
        shown = [words[v] if words is not None else f"{v:,} bytes" for v in tally]
        detail = f"{' and '.join(shown[1:SHOWN])} instead of {shown[0]}"
        yield _mismatch(what, matches, summaries, g, odd, rows, detail)


def _out_of_order(summaries: Sequence[RankSummary], matches: Matches) -> Iterator[Mismatch]:
    """Groups without sequence numbers in which a rank calls matched collectives in another order than the first."""
    for g, group in enumerate(matches.groups):
        rows = np.flatnonzero(matches.group == g)
        if group.by_sequence or group.pair is not None or group.loose or len(np.unique(matches.lane[rows])) < 2:
            continue
        order: dict[int, NDArray[np.int64]] = {}
        for n in range(len(matches.ranks)):
            own = matches.row[rows, n]
            order[n] = rows[np.argsort(own, kind="stable")][(own < 0).sum() :]
        reference = max(order, key=lambda n: len(order[n]))
        for n, mine in order.items():
            theirs = order[reference][np.isin(order[reference], mine)]
            mine = mine[np.isin(mine, theirs)]
            wrong = np.flatnonzero(mine != theirs)
            if len(wrong):
                first = int(wrong[0])
                kinds = [_kind(summaries, matches, int(m)) for m in (mine[first], theirs[first])]
                detail = f"{kinds[0]} where rank {matches.ranks[reference]} has {kinds[1]}"
                yield _mismatch("order", matches, summaries, g, (matches.ranks[n],), mine[wrong], detail)


def _mismatch(
    what: What,
    matches: Matches,
    summaries: Sequence[RankSummary],
    g: int,
    ranks: tuple[int, ...],
    rows: NDArray[np.int64],
    detail: str,
) -> Mismatch:
    first, group = int(rows[0]), matches.groups[g]
    sequence = int(matches.sequence[first])
    return Mismatch(
        what=what,
        group=group.description if group.description not in (None, "undefined") else group.name,
        ranks=ranks,
        count=len(rows),
        kind=_kind(summaries, matches, first),
        sequence=None if sequence == NONE else sequence,
        detail=detail,
    )


def _kind(summaries: Sequence[RankSummary], matches: Matches, m: int) -> str:
    n = int(np.flatnonzero(matches.row[m] >= 0)[0])
    return KINDS[summaries[n].collectives.kind[matches.row[m, n]]]


def _first(values: NDArray[np.int64], judged: NDArray[np.bool_]) -> NDArray[np.int64]:
    """The first judged value of each row (of none: any)."""
    first: NDArray[np.int64] = np.take_along_axis(values, judged.argmax(axis=1)[:, None], axis=1)[:, 0]
    return first


def _agree(values: NDArray[np.int64], judged: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Whether all judged values of each row are the same."""
    agree: NDArray[np.bool_] = ((values == _first(values, judged)[:, None]) | ~judged).all(axis=1)
    return agree
