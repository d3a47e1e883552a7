"""Ops before and after: by name, and by call path, module and input shapes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np
from msgspec import Struct

from profsuite.analyzers.device_work import COMM, COMPUTE, MEMORY
from profsuite.analyzers.diff.change import Change, Changes, Status
from profsuite.analyzers.diff.matching import Rows, combined, match
from profsuite.analyzers.diff.measured import Rest
from profsuite.analyzers.diff.noise import sums
from profsuite.analyzers.ranking import sum_by_group

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from profsuite.analyzers.diff.calls import Calls
    from profsuite.analyzers.diff.pieces import Pieces

Sort = Literal["change", "increase", "decrease", "host"]
SORTS: tuple[Sort, ...] = ("change", "increase", "decrease", "host")
"""By size of the change of device time, by growth, by shrinkage, by size of the change of host time."""

MatchedBy = Literal["shapes", "module", "path", "name"]
LEVELS: tuple[MatchedBy, ...] = ("shapes", "module", "path", "name")


_KINDS = {"compute": COMPUTE, "exposed_comm": COMM, "exposed_memcpy": MEMORY}


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


class _Table:
    """Device and host time and number of calls of each row."""

    def __init__(self, device: Changes, host: Changes, count: list[NDArray[np.int64]]) -> None:
        self.device, self.host, self.count = device, host, count

    def rest(self, rows: NDArray[np.int64]) -> Rest:
        return Rest(num_rows=len(rows), device=self.device.sum(rows), host=self.host.sum(rows))


class OpTables:
    """What each op and each place has on both sides, before anything is sorted or cut."""

    def __init__(self, calls: Calls, pieces: Pieces, num_steps: tuple[int, int]) -> None:
        self.calls, self._pieces, self._num_steps = calls, pieces, num_steps
        num_calls = len(calls.name)
        is_after = np.arange(num_calls) >= calls.split
        counts = calls.step >= 0
        self._launched = pieces.call >= 0
        counts[pieces.call[self._launched]] = True
        self.used = np.flatnonzero(counts)
        number = np.full(num_calls + 1, -1, np.int64)
        number[self.used] = np.arange(len(self.used))
        self._owner = number[pieces.call]
        name, path = calls.name[self.used], calls.path[self.used]
        place = combined(path, calls.module[self.used])
        is_after = is_after[self.used]
        self.by_name = match((name,), is_after)
        self.by_place = match((combined(place, calls.shape[self.used]), place, path, name), is_after)
        self.names, self.places = self._table(self.by_name), self._table(self.by_place)
        self.words = [calls.words[code] for code in name[_any(self.by_name)].tolist()]

    def unattributed(self) -> Change:
        """Device work that no op launched."""
        found = []
        for side, steps in zip((False, True), self._num_steps, strict=True):
            of = np.flatnonzero(~self._launched & (self._pieces.is_after == side))
            found.append(sums(np.zeros(len(of), np.int64), self._pieces.step[of], self._pieces.length[of], 1, steps))
        return Changes(*found)[0]

    def culprit(self, part: str, grew: bool) -> tuple[str, float] | None:
        """The op behind the growth (else the shrinkage) of a part of the time, and its change, ms per step.

        Of its device work only the kind that the part is of counts.  Null where the part is none of ops, and where
        no op changed in that direction.
        """
        if part == "op":
            change = self.names.host.size
        elif part in _KINDS:
            of_kind = self._launched & (self._pieces.kind == _KINDS[part])
            sides = []
            for side, steps in zip((False, True), self._num_steps, strict=True):
                of = np.flatnonzero(of_kind & (self._pieces.is_after == side))
                row = self.by_name.row[self._owner[of]]
                sides.append(sum_by_group(row, self._pieces.length[of], self.by_name.size) / steps)
            change = sides[1] - sides[0]
        else:
            return None
        if not grew:
            change = -change
        if not len(change) or change.max() <= 0:
            return None
        largest = int(change.argmax())
        return self.words[largest], float(change[largest] if grew else -change[largest]) / 1e6

    def _table(self, rows: Rows) -> _Table:
        pieces, calls = self._pieces, self.calls
        device, host, count = [], [], []
        step, after = calls.step[self.used], self.used >= calls.split
        for side, steps in zip((False, True), self._num_steps, strict=True):
            work = np.flatnonzero(self._launched & (pieces.is_after == side))
            own = np.flatnonzero((after == side) & (step >= 0))
            self_dur = calls.self_dur[self.used[own]]
            device.append(sums(rows.row[self._owner[work]], pieces.step[work], pieces.length[work], rows.size, steps))
            host.append(sums(rows.row[own], step[own], self_dur, rows.size, steps))
            count.append(np.bincount(rows.row[own], minlength=rows.size))
        return _Table(Changes(*device), Changes(*host), count)


def op_diff(tables: OpTables, top: int | None = None, sort: Sort = "change") -> OpDiff:
    """What changed of the ops."""
    shown, hidden = _order(tables.names, tables.words, top, sort)
    places, hidden_places = _order(tables.places, None, top, sort)
    return OpDiff(
        num_ops=tables.by_name.size,
        num_places=tables.by_place.size,
        rows=_op_changes(tables, shown),
        rest=tables.names.rest(hidden),
        calls=tuple(_call(tables, row) for row in places.tolist()),
        rest_of_calls=tables.places.rest(hidden_places),
        unattributed=tables.unattributed(),
    )


def _op_changes(tables: OpTables, rows: NDArray[np.int64]) -> tuple[OpChange, ...]:
    names = tables.names
    return tuple(
        OpChange(
            name=tables.words[row],
            status=tables.by_name.status(row),
            calls_before=int(names.count[0][row]),
            calls_after=int(names.count[1][row]),
            device=names.device[row],
            host=names.host[row],
        )
        for row in rows.tolist()
    )


def _call(tables: OpTables, row: int) -> CallChange:
    calls, used, rows, table = tables.calls, tables.used, tables.by_place, tables.places
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
