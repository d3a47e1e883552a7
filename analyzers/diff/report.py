"""``diff``: what changed from one recording to another, as one value that renderers and JSON print."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from profsuite.analyzers.diff.calls import calls as op_calls
from profsuite.analyzers.diff.change import Change
from profsuite.analyzers.diff.collectives import CollectiveDiff, collective_diff
from profsuite.analyzers.diff.kernels import KernelDiff, kernel_diff
from profsuite.analyzers.diff.memory import MemoryChange, memory_changes
from profsuite.analyzers.diff.ops import SORTS, OpDiff, OpTables, Sort, op_diff
from profsuite.analyzers.diff.parts import DeviceDiff, HostDiff, device_diffs, host_diff
from profsuite.analyzers.diff.pieces import pieces
from profsuite.analyzers.diff.sides import Per, SideFacts, sides
from profsuite.analyzers.diff.summary import summary
from profsuite.trace.model import Trace

if TYPE_CHECKING:
    from profsuite.trace.select import Range

DIFF_VERSION = 1
"""Rises whenever a field changes its name, type or meaning."""


class DiffReport(Struct, frozen=True, kw_only=True):
    """Everything that changed from one trace to another; definitions: docs/analyses.md, "Diff".

    ``per`` is ``step``, or ``window`` where a side has no whole step: then ``…_per_step`` is of the whole window.
    ``time`` is the first device's, else the main host thread's; null where there is neither.  ``devices`` has the pairs
    of devices, busiest first, empty where a side has no device work; ``host`` is null without host slices.  ``notes``
    are what limits the comparison.
    """

    schema_version: int
    before: SideFacts
    after: SideFacts
    per: Per
    summary: str
    time: Change | None
    devices: tuple[DeviceDiff, ...]
    host: HostDiff | None
    ops: OpDiff
    kernels: KernelDiff
    collectives: CollectiveDiff
    memory: tuple[MemoryChange, ...]
    notes: tuple[str, ...]


def diff(
    before: Trace,
    after: Trace,
    *,
    top: int | None = None,
    steps: Range | None = None,
    steps_after: Range | None = None,
    sort: Sort = "change",
) -> DiffReport:
    """What changed from ``before`` to ``after``: times per step, their parts, ops, kernels, collectives, memory.

    ``steps`` are those that count, of both traces or, with ``steps_after``, of ``before`` (from, included, to,
    excluded); all whole ones by default.  Lists hold ``top`` rows (all by default); what is beyond them is summed.
    ``sort`` is ``change`` (size of the change of device time), ``increase``, ``decrease`` or ``host``.

    ``SelectionError`` where a trace has no whole step in its range; ``ValueError`` for ``top`` below 1 or an unknown
    ``sort``.
    """
    for trace in (before, after):
        if not isinstance(trace, Trace):
            raise TypeError(f"diff takes two Traces, not {type(trace).__name__}: profsuite.load(path) reads them")
    if top is not None and top < 1:
        raise ValueError(f"top must be at least 1, not {top}")
    if sort not in SORTS:
        raise ValueError(f"no order {sort!r}; there are {', '.join(SORTS)}")
    old, new, notes = sides(before, after, steps, steps_after)
    devices, host = device_diffs(old, new), host_diff(old, new)
    calls = op_calls(old, new)
    work = pieces(old, new, calls)
    tables = OpTables(calls, work, (old.num_steps, new.num_steps))
    time = devices[0].time if devices else host.time if host else None
    parts = devices[0].parts if devices else host.parts if host else ()
    if bool(old.work) != bool(new.work):
        notes += (f"No device work {'before' if new.work else 'after'}: the host's time is compared.",)
    elif len(old.work) != len(new.work):
        notes += (f"{len(old.work)} devices before, {len(new.work)} after: those without a counterpart have no parts.",)
    return DiffReport(
        schema_version=DIFF_VERSION,
        before=old.facts(),
        after=new.facts(),
        per=old.per,
        summary=summary(time, parts, tables.culprit, old.per, bool(devices)),
        time=time,
        devices=devices,
        host=host,
        ops=op_diff(tables, top, sort),
        kernels=kernel_diff(old, new, calls, work, top, sort),
        collectives=collective_diff(old, new, work, top, sort),
        memory=memory_changes(old, new),
        notes=notes,
    )
