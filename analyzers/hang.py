"""Where a job hangs: the dumps of several ranks' flight recorders, held against each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

if TYPE_CHECKING:
    from profsuite.trace.readers.flight import FlightDump, FlightEntry

HANG_VERSION = 1

Why = Literal["not_joined", "mismatch", "incomplete"]


class RankState(Struct, frozen=True, kw_only=True):
    """How far one rank is in a group; sequence numbers count the group's collectives, null where it called none.

    ``waits_in`` is the first collective that it called and that is not complete, ``source`` where it called it;
    ``joined`` whether it has called the one that hangs.
    """

    rank: int
    last_called: int | None
    last_completed: int | None
    waits_in: int | None
    name: str | None
    state: str | None
    source: str | None
    joined: bool


class StuckGroup(Struct, frozen=True, kw_only=True):
    """A process group with a collective that is not complete.

    ``sequence`` is its first such collective.  ``why``: ``not_joined`` (``missing`` are the ranks that have not called
    it), ``mismatch`` (all have, but not the same; ``detail`` says what), ``incomplete`` (all have called the same: it
    runs, or the connection or a device failed).  ``no_dump`` are members of which there is no dump.  ``is_root`` says
    that nothing else explains it: the missing ranks wait in no other collective.
    """

    name: str
    description: str | None
    sequence: int
    collective: str
    why: Why
    missing: tuple[int, ...]
    no_dump: tuple[int, ...]
    detail: str | None
    is_root: bool
    ranks: tuple[RankState, ...]


class Pending(Struct, frozen=True, kw_only=True):
    """A send or receive that is not complete."""

    rank: int
    group: str
    name: str
    sequence: int
    state: str
    source: str | None


class LastCall(Struct, frozen=True, kw_only=True):
    """The last thing that a rank called."""

    rank: int
    group: str
    name: str
    sequence: int
    completed: bool
    source: str | None


class HangReport(Struct, frozen=True, kw_only=True):
    """What the dumps say together: ``stuck`` groups, those that explain the others first."""

    schema_version: int
    verdict: str
    ranks: tuple[int, ...]
    stuck: tuple[StuckGroup, ...]
    pending: tuple[Pending, ...]
    last_calls: tuple[LastCall, ...]


def hang(dumps: Sequence[FlightDump]) -> HangReport:
    """Which collective each group hangs in and who is missing there; ``ValueError`` unless each rank is there once."""
    by_rank = {dump.rank: dump for dump in dumps if dump.rank is not None}
    if not dumps or len(by_rank) < len(dumps):
        raise ValueError("the dumps must be of different ranks, each named by its file or folder")
    ranks = sorted(by_rank)
    found = [
        group
        for name in sorted({name for dump in dumps for name in dump.last_called})
        if (group := _group(name, {rank: by_rank[rank] for rank in ranks})) is not None
    ]
    waiting = {state.rank: group.name for group in found for state in group.ranks if state.waits_in == group.sequence}
    stuck = [_with_root(group, waiting) for group in found]
    stuck.sort(key=lambda group: (not group.is_root, group.why == "incomplete", group.name))
    pending = tuple(
        Pending(
            rank=rank,
            group=_label(entry.group, by_rank[rank]),
            name=entry.name,
            sequence=entry.sequence,
            state=entry.state,
            source=entry.source,
        )
        for rank in ranks
        for entry in by_rank[rank].entries
        if entry.is_p2p and not entry.completed
    )
    return HangReport(
        schema_version=HANG_VERSION,
        verdict=_verdict(stuck, pending),
        ranks=tuple(ranks),
        stuck=tuple(stuck),
        pending=pending,
        last_calls=tuple(_last_call(rank, by_rank[rank]) for rank in ranks if by_rank[rank].entries),
    )


def _group(name: str, dumps: dict[int, FlightDump]) -> StuckGroup | None:
    """The group's first collective that is not complete, null where all are."""
    members = next((dump.members[name] for dump in dumps.values() if name in dump.members), None)
    if members is None:
        members = tuple(rank for rank, dump in dumps.items() if name in dump.last_called)
    calls = {
        rank: {e.sequence: e for e in dumps[rank].entries if e.group == name and not e.is_p2p}
        for rank in members
        if rank in dumps
    }
    open_calls = {
        rank: min((s for s, e in own.items() if not e.completed), default=None) for rank, own in calls.items()
    }
    waiting = [sequence for sequence in open_calls.values() if sequence is not None]
    if not waiting:
        return None
    sequence = min(waiting)
    states, missing = [], []
    for rank, own in calls.items():
        dump, at = dumps[rank], open_calls[rank]
        called = dump.last_called.get(name)
        joined = called is not None and called >= sequence
        if not joined:
            missing.append(rank)
        entry = own[at] if at is not None else None
        states.append(
            RankState(
                rank=rank,
                last_called=called,
                last_completed=dump.last_completed.get(name),
                waits_in=at,
                name=None if entry is None else entry.name,
                state=None if entry is None else entry.state,
                source=None if entry is None else entry.source,
                joined=joined,
            )
        )
    same = {rank: own[sequence] for rank, own in calls.items() if sequence in own}
    detail = None if missing else _difference(same)
    return StuckGroup(
        name=name,
        description=next((d.descriptions[name] for d in dumps.values() if name in d.descriptions), None),
        sequence=sequence,
        collective=next(entry.name for entry in same.values() if not entry.completed),
        why="not_joined" if missing else "mismatch" if detail is not None else "incomplete",
        missing=tuple(missing),
        no_dump=tuple(rank for rank in members if rank not in dumps),
        detail=detail,
        is_root=False,
        ranks=tuple(states),
    )


def _difference(calls: dict[int, FlightEntry]) -> str | None:
    """In what the ranks' calls of one sequence number differ; null where they do not, or may.

    Sizes may differ in what gathers or exchanges uneven parts; dtypes and the collective may not.
    """
    uneven = any(part in entry.name for entry in calls.values() for part in ("gather", "scatter", "to_all", "coalesc"))
    for what in ("name", "dtypes", "sizes"):
        if what == "sizes" and uneven:
            return None
        values: dict[str, list[int]] = {}
        for rank, entry in calls.items():
            values.setdefault(getattr(entry, what), []).append(rank)
        if len(values) > 1:
            return "; ".join(f"rank {_listed(ranks)}: {value}" for value, ranks in values.items())
    return None


def _with_root(group: StuckGroup, waiting: dict[int, str]) -> StuckGroup:
    """The group, marked as a root where its missing ranks wait nowhere else."""
    from msgspec.structs import replace

    elsewhere = [rank for rank in group.missing if waiting.get(rank, group.name) != group.name]
    return replace(group, is_root=not elsewhere)


def _verdict(stuck: Sequence[StuckGroup], pending: Sequence[Pending]) -> str:
    roots = [group for group in stuck if group.is_root]
    if not stuck and not pending:
        return "Nothing hangs: every collective in the dumps is complete."
    if not stuck:
        first = pending[0]
        return (
            f"All collectives are complete; {len(pending)} sends or receives are not, the first on rank {first.rank}: "
            f"{first.name}{_at(first.source)}."
        )
    if not roots:
        return (
            "A deadlock: every rank that is missing in one group waits in another, so the ranks call the groups' "
            f"collectives in different orders ({', '.join(_title(group) for group in stuck[:4])})."
        )
    return _told(roots[0]) + ("" if len(stuck) == 1 else f" {len(stuck) - 1} more groups hang, listed below.")


def _told(group: StuckGroup) -> str:
    waits = [state for state in group.ranks if state.waits_in == group.sequence]
    where = f"{_title(group)}{_at(waits[0].source)}"
    who = f"Rank {_listed([state.rank for state in waits])} {'waits' if len(waits) == 1 else 'wait'} in {where}"
    if group.why == "not_joined":
        behind = next(state for state in group.ranks if state.rank == group.missing[0])
        last = "none" if behind.last_called is None else f"#{behind.last_called}"
        verb = "has" if len(group.missing) == 1 else "have"
        return (
            f"{who} for rank {_listed(group.missing)}, which {verb} not called it (last called there: {last}): see "
            f"what rank {group.missing[0]} does."
        )
    if group.why == "mismatch":
        return f"The ranks do not call the same in {where}: {group.detail}."
    if group.no_dump:
        return f"{who}; there is no dump of rank {_listed(group.no_dump)}: it crashed, or is the one that hangs."
    return f"{who}; all ranks have called it: it runs, or the connection or a device failed."


def _title(group: StuckGroup) -> str:
    return f"{group.collective} #{group.sequence} of group {group.description or group.name}"


def _at(source: str | None) -> str:
    return "" if source is None else f", called at {source}"


def _listed(ranks: Sequence[int]) -> str:
    return ", ".join(map(str, ranks[:8])) + (f" and {len(ranks) - 8} more" if len(ranks) > 8 else "")


def _label(group: str, dump: FlightDump) -> str:
    return dump.descriptions.get(group, group)


def _last_call(rank: int, dump: FlightDump) -> LastCall:
    entry = dump.entries[-1]
    return LastCall(
        rank=rank,
        group=_label(entry.group, dump),
        name=entry.name,
        sequence=entry.sequence,
        completed=entry.completed,
        source=entry.source,
    )
