"""The collectives of several ranks, matched: which calls of the ranks are one and the same collective."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from profsuite.analyzers.collectives import KINDS, NONE
from profsuite.analyzers.ranking import distinct_rows, together

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from profsuite.analyzers.collectives import Group
    from profsuite.analyzers.job.summary import RankSummary

    Int64s = NDArray[np.int64]
    Key = tuple[object, ...]

SEND, RECV, SEND_RECV = KINDS.index("send"), KINDS.index("recv"), KINDS.index("send_recv")
LOOSE = (SEND, RECV, SEND_RECV, KINDS.index("coalesced"))
"""Kinds in which not every rank of the group need take part, and whose numbers may count something else."""


@dataclass(frozen=True, slots=True)
class MatchedGroup:
    """Ranks that communicate with each other; ``ranks`` is null where no file names them.

    ``by_sequence`` says that its collectives are matched by their sequence numbers, else by order.  ``pair`` is the
    sender and the receiver of point-to-point operations, which are matched by themselves; ``loose`` marks those whose
    peers no file names.
    """

    name: str | None
    description: str | None
    ranks: tuple[int, ...] | None
    by_sequence: bool
    pair: tuple[int, int] | None = None
    loose: bool = False


@dataclass(frozen=True, slots=True)
class Matches:
    """M collectives of N ranks, sorted by group, then by order in it.

    ``row[m, n]`` is the row of collective m in the ``Collectives`` of rank ``ranks[n]``, -1 where it has none.
    ``lane`` numbers the sequences in which order means something: a group, or one kind of collective of a group
    without sequence numbers.  ``member[m, n]`` says that the rank is expected to take part.
    """

    ranks: tuple[int, ...]
    groups: tuple[MatchedGroup, ...]
    row: NDArray[np.int32]
    group: NDArray[np.int32]
    lane: NDArray[np.int32]
    sequence: Int64s

    def __len__(self) -> int:
        return len(self.row)

    @property
    def present(self) -> NDArray[np.bool_]:
        """Which rank has which collective: bool[M, N]."""
        return self.row >= 0

    @property
    def member(self) -> NDArray[np.bool_]:
        """Which rank is expected in which group: bool[G, N]; where no file says so, those that were seen there."""
        seen = np.zeros((len(self.groups), len(self.ranks)), bool)
        for n in range(len(self.ranks)):
            seen[self.group[self.row[:, n] >= 0], n] = True
        for g, group in enumerate(self.groups):
            if group.ranks is not None:
                seen[g] |= np.isin(self.ranks, group.ranks)
        return seen

    def values(self, n: int, array: NDArray[np.generic]) -> NDArray[np.generic]:
        """An array over a rank's collectives as one over the matches; where the rank has none, any value."""
        if not len(array):
            return np.zeros(len(self.row), array.dtype)
        return array[np.maximum(self.row[:, n], 0)]


def match(summaries: Sequence[RankSummary]) -> Matches:
    """Collectives with a group and a sequence number by both, others by order within group and kind.

    Order counts anew in each step where all ranks recorded the same steps.  Collectives of which only the name is
    known are matched by order within (kind, stream).  A send and its receive are matched by order within (sender,
    receiver); where their peers are not named, in order, and only if all ranks have equally many.
    """
    grouping = _Grouping(summaries)
    rank, group, kind, key, place = [], [], [], [], []
    by_step = _same_steps(summaries)
    for n, summary in enumerate(summaries):
        c = summary.collectives
        g = grouping.groups_of(n)
        sequenced = grouping.sequenced[g]
        rank.append(np.full(len(c), n, np.int64))
        group.append(g)
        two_sided = grouping.paired[g]
        kind.append(np.where(sequenced, 0, np.where(two_sided, SEND_RECV, c.kind)).astype(np.int64))
        order = c.step if by_step else np.zeros(len(c), np.int64)
        key.append(np.where(sequenced, c.sequence, np.where(grouping.apart[g], n, order)))
        place.append(np.arange(len(c)))
    n_ranks = len(summaries)
    r, g, k, q, row = (np.concatenate(parts).astype(np.int64) for parts in (rank, group, kind, key, place))
    # One integer for group, kind and key sorts many times as fast as three; ranks and rows are in order already.
    call = together(together(g, k), np.unique(q, return_inverse=True)[1])
    order = np.argsort(together(r, call), kind="stable")
    occurrence = np.empty(len(order), np.int64)  # of a rank's calls with the same group, kind and key
    occurrence[order] = _within(_new(r[order], call[order]))
    call = together(call, occurrence)
    order = np.argsort(call, kind="stable")
    new = _new(call[order])
    number = np.cumsum(new) - 1
    matrix = np.full((int(new.sum()), n_ranks), -1, np.int32)
    matrix[number, r[order]] = row[order]
    first = order[new]
    lane = np.cumsum(_new(g[first], k[first])) - 1
    sequence = np.where(grouping.sequenced[g[first]], q[first], NONE) if len(first) else np.zeros(0, np.int64)
    return Matches(
        ranks=tuple(summary.rank for summary in summaries),
        groups=grouping.groups(),
        row=matrix,
        group=g[first].astype(np.int32),
        lane=lane.astype(np.int32),
        sequence=sequence,
    )


def _new(*keys: Int64s) -> NDArray[np.bool_]:
    """Where a run of equal keys begins."""
    new = np.ones(len(keys[0]), bool)
    if len(new):
        new[1:] = np.logical_or.reduce([key[1:] != key[:-1] for key in keys])
    return new


def _within(new: NDArray[np.bool_]) -> Int64s:
    """The place within each run: 0, 1, ..."""
    at = np.arange(len(new))
    return at - np.maximum.accumulate(np.where(new, at, 0)) if len(new) else at


def _same_steps(summaries: Sequence[RankSummary]) -> bool:
    """Whether all ranks' collectives lie in the same steps."""
    sets = [frozenset(np.unique(s.collectives.step).tolist()) - {NONE} for s in summaries if len(s.collectives)]
    return bool(sets) and bool(sets[0]) and all(steps == sets[0] for steps in sets)


class _Grouping:
    """The groups of all ranks under common numbers."""

    def __init__(self, summaries: Sequence[RankSummary]) -> None:
        self._summaries = summaries
        self._numbers: dict[Key, int] = {}
        self._groups: list[MatchedGroup] = []
        self._named = _named(summaries)
        self._of_rank = [self._number(s) for s in summaries]
        count = len(self._groups)
        missing = np.zeros(count + 1, bool)
        for summary, numbers in zip(summaries, self._of_rank, strict=True):
            missing[numbers[summary.collectives.sequence == NONE]] = True
        named = np.array([group.name is not None or group.ranks is not None for group in self._groups] + [False])
        self.paired = np.array([group.pair is not None for group in self._groups] + [False])
        loose = np.array([group.loose for group in self._groups] + [False])
        self.sequenced = named & ~missing & ~self.paired & ~loose
        self.apart = loose & self._uneven()

    def groups_of(self, n: int) -> Int64s:
        """The number of the group of each collective of a rank."""
        return self._of_rank[n]

    def _uneven(self) -> NDArray[np.bool_]:
        """Which groups do not have equally many collectives on all ranks that have any."""
        counts = [np.bincount(numbers, minlength=len(self._groups) + 1) for numbers in self._of_rank]
        some = np.stack(counts) if counts else np.zeros((1, len(self._groups) + 1), np.int64)
        least = np.where(some > 0, some, np.iinfo(np.int64).max).min(axis=0)
        uneven: NDArray[np.bool_] = some.max(axis=0) > least
        return uneven

    def groups(self) -> tuple[MatchedGroup, ...]:
        """All groups by number."""
        return tuple(replace(g, by_sequence=bool(self.sequenced[i])) for i, g in enumerate(self._groups))

    def _number(self, summary: RankSummary) -> Int64s:
        c = summary.collectives
        # Without a group: kind and stream.  Of a send or receive: also who with whom.
        p2p = np.isin(c.kind, (SEND, RECV)) & (c.source_rank != NONE) & (c.destination_rank != NONE)
        columns = (
            c.group.astype(np.int64),
            np.where(c.group < 0, c.kind, -1),
            np.where(c.group < 0, c.stream, -1),
            np.where(p2p, c.source_rank, -1),
            np.where(p2p, c.destination_rank, -1),
            np.where(np.isin(c.kind, LOOSE) & ~p2p, c.kind, 0),
        )
        first, index = distinct_rows(*columns)
        numbers = [self._register(c.groups, *(int(column[i]) for column in columns)) for i in first.tolist()]
        return np.array(numbers, np.int64)[index] if numbers else np.zeros(0, np.int64)

    def _register(
        self, groups: tuple[Group, ...], g: int, kind: int, stream: int, source: int, target: int, loose: int
    ) -> int:
        pair = (source, target) if source >= 0 else None
        group = groups[g] if g >= 0 else None
        name = group.name if group is not None else None
        ranks = group.ranks if group is not None else None
        key: Key
        if group is None:
            key = ("unnamed", kind, stream, pair, loose)
        elif ranks is not None:
            key = (ranks, name if ranks in self._named else "", pair, loose)
        else:
            key = ("unknown ranks", name, group.description, pair, loose)
        if key not in self._numbers:
            self._numbers[key] = len(self._groups)
            description = group.description if group is not None else None
            self._groups.append(MatchedGroup(name, description, pair or ranks, False, pair, loose > 0))
        return self._numbers[key]


def _named(summaries: Sequence[RankSummary]) -> set[tuple[int, ...]]:
    """Lists of ranks whose groups' names tell groups apart.

    Two groups of the same ranks have names that all of them know; where each rank has one group of these ranks, and
    calls it something else, the names say nothing.
    """
    names: dict[tuple[int, ...], list[set[str | None]]] = defaultdict(list)
    for summary in summaries:
        mine: dict[tuple[int, ...], set[str | None]] = defaultdict(set)
        for group in summary.collectives.groups:
            if group.ranks is not None:
                mine[group.ranks].add(group.name)
        for ranks, found in mine.items():
            names[ranks].append(found)
    return {ranks for ranks, sets in names.items() if any(len(s) > 1 for s in sets) or all(s == sets[0] for s in sets)}
