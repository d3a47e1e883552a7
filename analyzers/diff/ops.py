"""Ops before and after: by name, and by call path, module and input shapes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np
from msgspec import Struct

from profsuite.analyzers.diff.change import Change, Changes, Status
from profsuite.analyzers.diff.matching import Rows, combined, match
from profsuite.analyzers.diff.measured import Rest
from profsuite.analyzers.diff.noise import sums

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from profsuite.analyzers.diff.calls import Calls
    from profsuite.analyzers.diff.pieces import Pieces

Sort = Literal["change", "increase", "decrease", "host"]
SORTS: tuple[Sort, ...] = ("change", "increase", "decrease", "host")
"""By size of the change of device time, by growth, by shrinkage, by size of the change of host time."""

MatchedBy = Literal["shapes", "module", "path", "name"]
LEVELS: tuple[MatchedBy, ...] = ("shapes", "module", "path", "name")


class OpChange(Struct, frozen=True, kw_only=True):
    """All calls of an op.  ``device`` is the sum of the work that it launched itself, ``host`` its self time.

    Calls are counted over each side's steps.
    """

    name: str
    status: Status
    calls_before: int
    calls_after: int
    device: Change
    host: Change


class CallChange(Struct, frozen=True, kw_only=True):
    """The calls of an op at one place: ``path`` has the names of the ops around it, the outermost first, its own last.

    ``matched_by`` is the finest thing in which the two sides agree: ``shapes`` (path, module and shapes), ``module``
    (path and module), ``path``, ``name``; null where only one side has it.  ``shapes_before`` and ``shapes_after`` are
    those of the first such call (JSON), null where not recorded.
    """

    path: tuple[str, ...]
    module: str | None
    shapes_before: str | None
    shapes_after: str | None
    matched_by: MatchedBy | None
    status: Status
    calls_before: int
    calls_after: int
    device: Change
    host: Change


class OpDiff(Struct, frozen=True, kw_only=True):
    """Ops by name and by place, sorted; ``rest`` and ``rest_of_calls`` are the rows beyond ``top``.

    ``unattributed`` is device work that no op launched: the rows' ``device`` and it sum to all device work.
    """

    num_ops: int
    num_places: int
    rows: tuple[OpChange, ...]
    rest: Rest
    calls: tuple[CallChange, ...]
    rest_of_calls: Rest
    unattributed: Change


def op_diff(
    calls: Calls, pieces: Pieces, num_steps: tuple[int, int], top: int | None = None, sort: Sort = "change"
) -> OpDiff:
    """What changed of the ops; ``num_steps`` of the two sides."""
    num_calls = len(calls.name)
    is_after = np.arange(num_calls) >= calls.split
    counts = calls.step >= 0
    launched = pieces.call >= 0
    counts[pieces.call[launched]] = True
    used = np.flatnonzero(counts)
    number = np.full(num_calls + 1, -1, np.int64)
    number[used] = np.arange(len(used))
    owned = _Owned(calls, pieces, used, number[pieces.call], num_steps)

    name, path = calls.name[used], calls.path[used]
    place = combined(path, calls.module[used])
    by_name = match((name,), is_after[used])
    by_place = match((combined(place, calls.shape[used]), place, path, name), is_after[used])
    names, places = owned.table(by_name), owned.table(by_place)
    shown, hidden = _order(names, [calls.words[c] for c in name[_any(by_name)].tolist()], top, sort)
    rows = tuple(
        OpChange(
            name=calls.words[name[int(_any(by_name)[row])]],
            status=by_name.status(row),
            calls_before=int(names.count[0][row]),
            calls_after=int(names.count[1][row]),
            device=names.device[row],
            host=names.host[row],
        )
        for row in shown.tolist()
    )
    shown, hidden_calls = _order(places, None, top, sort)
    side_sums = [
        sums(
            np.zeros(int(of.sum()), np.int64),
            pieces.step[of],
            pieces.length[of],
            1,
            steps,
        )
        for of, steps in zip((~launched & ~pieces.is_after, ~launched & pieces.is_after), num_steps, strict=True)
    ]
    return OpDiff(
        num_ops=by_name.size,
        num_places=by_place.size,
        rows=rows,
        rest=names.rest(hidden),
        calls=tuple(_call(calls, used, by_place, places, row) for row in shown.tolist()),
        rest_of_calls=places.rest(hidden_calls),
        unattributed=Changes(*side_sums)[0],
    )


class _Table:
    """Device and host time and number of calls of each row."""

    def __init__(self, device: Changes, host: Changes, count: list[NDArray[np.int64]]) -> None:
        self.device, self.host, self.count = device, host, count

    def rest(self, rows: NDArray[np.int64]) -> Rest:
        return Rest(num_rows=len(rows), device=self.device.sum(rows), host=self.host.sum(rows))


class _Owned:
    """What each used call has: its device work and its host time, by step."""

    def __init__(
        self,
        calls: Calls,
        pieces: Pieces,
        used: NDArray[np.int64],
        owner: NDArray[np.int64],
        num_steps: tuple[int, int],
    ) -> None:
        self.num_steps = num_steps
        step, self_dur = calls.step[used], calls.self_dur[used]
        after = used >= calls.split
        self.sides = []
        for side in (False, True):
            work = np.flatnonzero((owner >= 0) & (pieces.is_after == side))
            own = np.flatnonzero((after == side) & (step >= 0))
            self.sides.append((owner[work], pieces.step[work], pieces.length[work], own, step[own], self_dur[own]))

    def table(self, rows: Rows) -> _Table:
        device, host, count = [], [], []
        for steps, (owner, at, length, own, step, self_dur) in zip(self.num_steps, self.sides, strict=True):
            device.append(sums(rows.row[owner], at, length, rows.size, steps))
            host.append(sums(rows.row[own], step, self_dur, rows.size, steps))
            count.append(np.bincount(rows.row[own], minlength=rows.size))
        return _Table(Changes(*device), Changes(*host), count)


def _call(calls: Calls, used: NDArray[np.int64], rows: Rows, table: _Table, row: int) -> CallChange:
    old, new = (int(used[example[row]]) if example[row] >= 0 else -1 for example in rows.example)
    any_call = old if old >= 0 else new
    module = int(calls.module[any_call])
    level = int(rows.level[row])
    return CallChange(
        path=calls.chain(any_call),
        module=calls.modules[module] if module >= 0 else None,
        shapes_before=_shapes(calls, old),
        shapes_after=_shapes(calls, new),
        matched_by=LEVELS[level] if level >= 0 else None,
        status=rows.status(row),
        calls_before=int(table.count[0][row]),
        calls_after=int(table.count[1][row]),
        device=table.device[row],
        host=table.host[row],
    )


def _shapes(calls: Calls, call: int) -> str | None:
    code = int(calls.shape[call]) if call >= 0 else -1
    return calls.shapes[code] if code >= 0 else None


def _any(rows: Rows) -> NDArray[np.int64]:
    """A thing of each row, of whichever side."""
    return np.where(rows.example[0] >= 0, rows.example[0], rows.example[1])


def _order(
    table: _Table, names: list[str] | None, top: int | None, sort: Sort
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The rows to list, in order, and the others; equals by the other time, then by name."""
    device, host = table.device.size, table.host.size
    if not (table.device.before.total.any() or table.device.after.total.any()):
        device = host
    first = {"change": -np.abs(device), "increase": -device, "decrease": device, "host": -np.abs(host)}[sort]
    keys: list[NDArray[np.float64] | NDArray[np.str_]] = [-np.abs(host), first]
    order = np.lexsort(keys)
    if names is not None and len(names) < 100_000:
        by_name = np.array(sorted(range(len(names)), key=names.__getitem__), np.int64)
        order = by_name[np.lexsort([key[by_name] for key in keys])]
    return order[:top], order[len(order) if top is None else top :]
