"""What of a recording is kept to compare later ones with: its steps' times, their parts, ops, peak memory."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import numpy as np
from msgspec import Struct

from profsuite.analyzers.diff.calls import calls
from profsuite.analyzers.diff.memory import memory_peaks
from profsuite.analyzers.diff.parts import BUSY_PARTS, HOST_PARTS, device_values, host_values
from profsuite.analyzers.diff.pieces import pieces
from profsuite.analyzers.diff.sides import Per, Side, one_side
from profsuite.analyzers.ranking import sum_by_group
from profsuite.errors import TraceError

if TYPE_CHECKING:
    from profsuite.trace.model import Trace
    from profsuite.trace.select import Range

BASELINE_VERSION = 1
KIND = "profsuite baseline"
MOST_OPS = 1000
LARGEST_FILE = 512 * 2**20
"""A baseline of a thousand ops and as many steps is smaller than this."""

_HEAD = re.compile(rb'^\s*\{\s*"(?:kind|schema_version)"')


class Baseline(Struct, frozen=True, kw_only=True):
    """One recording (one rank): a list has a value (ns) for each whole step, or one for the whole window.

    ``on_device`` says what ``time_ns`` is of: the busiest device, else the main host thread.  ``parts_ns`` are the
    parts that are known of it, ``idle`` as a whole.  ``ops_device_ns`` are sums of the device work that each op
    launched, of the ``MOST_OPS`` largest; null where not known.  ``peak_memory_bytes`` is null where not recorded.
    """

    source: str
    rank: int | None
    per: Per
    on_device: bool
    time_ns: tuple[int, ...]
    parts_ns: dict[str, tuple[int, ...]]
    ops_device_ns: dict[str, tuple[int, ...]] | None
    peak_memory_bytes: int | None


class BaselineFile(Struct, frozen=True, kw_only=True):
    """What ``profsuite check --save-baseline`` writes: the baselines of a job's ranks."""

    kind: str
    version: int
    ranks: tuple[Baseline, ...]


def baseline(trace: Trace, steps: Range | None = None) -> Baseline:
    """What is kept of a trace; ``steps`` are those that count, all whole ones by default.

    ``TraceError`` where it has neither device work nor host slices, ``SelectionError`` without a step in the range.
    """
    side = one_side(trace, steps)
    values = host_values(side)
    parts: tuple[str, ...] = HOST_PARTS
    if side.work:
        everything = [device_values(side, device) for device in range(len(side.work))]
        values = max(everything, key=lambda each: int(each["work"].sum()))
        parts = (*BUSY_PARTS, "idle")
    if values is None:
        raise TraceError(f"{trace.info.source}: has neither device work nor host slices: nothing to check")
    peaks = [allocated for allocated, _ in memory_peaks(side).values() if allocated is not None]
    return Baseline(
        source=trace.info.source,
        rank=trace.info.rank,
        per=side.per,
        on_device=bool(side.work),
        time_ns=tuple(values["time"].tolist()),
        parts_ns={part: tuple(values[part].tolist()) for part in parts},
        ops_device_ns=_ops(side) if side.work else None,
        peak_memory_bytes=max(peaks, default=None),
    )


def _ops(side: Side) -> dict[str, tuple[int, ...]] | None:
    """Device work launched by each op in each step, ns, largest total first."""
    found = calls(side, side)
    if not found.split:
        return None
    work = pieces(side, side, found)
    of = np.flatnonzero(~work.is_after & (work.call >= 0))
    names, group = np.unique(found.name[work.call[of]], return_inverse=True)
    total = sum_by_group(group, work.length[of], len(names))
    largest = np.argsort(-total, kind="stable")[:MOST_OPS]
    place = np.full(len(names), -1, np.int64)
    place[largest] = np.arange(len(largest))
    kept = place[group] >= 0
    cell = place[group][kept] * side.num_steps + work.step[of][kept]
    table = sum_by_group(cell, work.length[of][kept], len(largest) * side.num_steps).reshape(-1, side.num_steps)
    return {found.words[names[i]]: tuple(row.tolist()) for i, row in zip(largest.tolist(), table, strict=True)}


def is_baseline(path: str) -> bool:
    """Whether a file is one of profsuite's own JSON files (a baseline or a report) and no trace."""
    if path == "-" or "://" in path or not Path(path).is_file():
        return False
    with Path(path).open("rb") as file:
        return bool(_HEAD.match(file.read(64)))


def read_baselines(path: str) -> tuple[Baseline, ...]:
    """The baselines in a file that ``check --save-baseline`` or ``analyze --format json`` wrote.

    A report has times and parts of its steps, or of its window, but nothing of ops by step and of memory.
    ``TraceError`` says why a file is neither.
    """
    size = Path(path).stat().st_size
    if size > LARGEST_FILE:
        raise TraceError(f"{path}: {size:,} bytes are too many for a baseline (at most {LARGEST_FILE:,})")
    data = Path(path).read_bytes()
    try:
        if re.match(rb'^\s*\{\s*"kind"', data):
            file = msgspec.json.decode(data, type=BaselineFile)
            if file.kind != KIND:
                raise TraceError(f"{path}: is no baseline, but {file.kind[:80]!r}")
            if file.version != BASELINE_VERSION:
                raise TraceError(
                    f"{path}: is a baseline of version {file.version}, not {BASELINE_VERSION}; save it anew"
                )
            for each in file.ranks:
                _validate(path, each)
            return file.ranks
        reports = msgspec.json.decode(data, type=_Reports).reports
        found = reports if reports is not None else (msgspec.json.decode(data, type=_Report),)
    except msgspec.DecodeError as error:
        raise TraceError(f"{path}: is neither a baseline nor a report of profsuite analyze: {error}") from None
    return tuple(_of_report(path, report) for report in found)


def write_baselines(baselines: tuple[Baseline, ...]) -> str:
    """The text of a baseline file."""
    file = BaselineFile(kind=KIND, version=BASELINE_VERSION, ranks=baselines)
    return msgspec.json.format(msgspec.json.encode(file), indent=1).decode() + "\n"


def _validate(path: str, each: Baseline) -> None:
    """That the lists fit each other: the file may have been edited."""
    lists = [each.time_ns, *each.parts_ns.values(), *(each.ops_device_ns or {}).values()]
    if not each.time_ns or any(len(values) != len(each.time_ns) for values in lists):
        raise TraceError(f"{path}: its lists differ in length: save the baseline anew")
    if any(not 0 <= value < 2**62 for values in lists for value in values):
        raise TraceError(f"{path}: holds times that are none: save the baseline anew")


class _Shares(Struct):
    window_ns: int
    compute_ns: int
    exposed_comm_ns: int
    exposed_memcpy_ns: int
    idle_ns: int
    busy_ns: int


class _Step(Struct):
    truncated: bool
    shares: _Shares


class _Device(Struct):
    shares: _Shares
    steps: list[_Step]


class _Report(Struct):
    """What of a report is needed; its other fields may differ between versions."""

    source: str
    rank: int | None = None
    breakdown: list[_Device] | None = None


class _Reports(Struct):
    reports: list[_Report] | None = None


def _of_report(path: str, report: _Report) -> Baseline:
    if not report.breakdown:
        raise TraceError(
            f"{path}: a report without a breakdown of device time is no baseline; write one with "
            "profsuite check --save-baseline"
        )
    device = max(report.breakdown, key=lambda each: each.shares.busy_ns)
    shares = [step.shares for step in device.steps if not step.truncated]
    per: Per = "step" if shares else "window"
    shares = shares or [device.shares]
    found = Baseline(
        source=report.source,
        rank=report.rank,
        per=per,
        on_device=True,
        time_ns=tuple(share.window_ns for share in shares),
        parts_ns={part: tuple(getattr(share, f"{part}_ns") for share in shares) for part in (*BUSY_PARTS, "idle")},
        ops_device_ns=None,
        peak_memory_bytes=None,
    )
    _validate(path, found)
    return found
