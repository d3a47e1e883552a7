"""torch's own memory timeline (``export_memory_timeline``): bytes by category over time, of one device.

Two forms are read: ``.raw.json.gz``, a list of ``[ts, action, bytes, category]`` (ns; -1 before the recording), and
``.json``, ``[times, sizes]`` (µs).  torch writes both; the columns are its categories
(``torch/profiler/_memory_profiler.py``).
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa

from profsuite.errors import TraceError
from profsuite.trace.columns import integers, to_numpy
from profsuite.trace.source import open_source

if TYPE_CHECKING:
    from numpy.typing import NDArray

TORCH_CATEGORIES = (
    "parameter",
    "optimizer_state",
    "input",
    "temporary",
    "activation",
    "gradient",
    "autograd_detail",
    "unknown",
)
"""torch's order."""


@dataclass(frozen=True)
class MemoryTimeline:
    """``table`` has the column ``ts`` (ns) and one a category, the bytes alive from then on; one row a moment.

    ``num_events`` is null in the form that holds only sums.
    """

    source: str
    table: pa.Table
    num_events: int | None

    def array(self, column: str) -> NDArray[np.int64]:
        """A column as int64."""
        return cast("NDArray[np.int64]", to_numpy(cast("Any", self.table.column(column).chunk(0))))


def read_memory_timeline(path: str | os.PathLike[str], *, max_unpacked: int | None = None) -> MemoryTimeline:
    """Read either form, plain or gzipped; ``TraceError`` in one line if the file is neither."""
    name = os.fspath(path)
    with open_source(name, max_unpacked) as source:
        data = b"".join(source.chunks())
        if source.fault:
            raise TraceError(f"{name}: {source.fault}")
    found = parse_memory_timeline(name, data)
    if found is None:
        raise TraceError(
            f"{name}: is no memory timeline: profiler.export_memory_timeline writes one as .json or .raw.json.gz"
        )
    return found


def parse_memory_timeline(name: str, data: bytes) -> MemoryTimeline | None:
    """The timeline in ``data``, None if it is none."""
    import msgspec

    try:
        rows = msgspec.json.decode(data, type=list[tuple[int, int, int, int]])
        return _raw(name, np.array(rows, np.int64).reshape(-1, 4))
    except (msgspec.DecodeError, OverflowError, RecursionError):
        pass
    try:
        times, sizes = msgspec.json.decode(data, type=tuple[list[int | float], list[list[int]]])
        levels = np.array(sizes, np.int64)
        stamps = np.array([_nanoseconds(time) for time in times], np.int64)
    except (msgspec.DecodeError, OverflowError, RecursionError, ValueError):
        return None
    if levels.ndim != 2 or levels.shape != (len(times), len(TORCH_CATEGORIES) + 1):
        return None
    return _timeline(name, stamps, levels[:, 1:], None)


def _nanoseconds(time: float) -> int:
    """Microseconds as ns; a double has too few digits for both at once."""
    whole = int(time)
    return 1000 * whole + round(1000 * (time - whole))


def _raw(name: str, rows: NDArray[np.int64]) -> MemoryTimeline | None:
    ts, change, category = rows[:, 0], rows[:, 2], rows[:, 3]
    if len(rows) and not bool(((category >= 0) & (category < len(TORCH_CATEGORIES))).all()):
        return None
    if not bool((np.diff(ts) >= 0).all()):
        rows = rows[np.argsort(ts, kind="stable")]
        ts, change, category = rows[:, 0], rows[:, 2], rows[:, 3]
    changes = np.zeros((len(rows), len(TORCH_CATEGORIES)), np.int64)
    changes[np.arange(len(rows)), category] = change
    levels = np.cumsum(changes, axis=0)
    # torch sorts what happens in one nanosecond by kind, not by order: only the level after it is known.
    last = np.append(ts[1:] != ts[:-1], True) if len(ts) else np.zeros(0, bool)
    ts, levels = ts[last].copy(), levels[last]
    if len(ts) > 1 and ts[0] < 0:
        ts[0] = ts[1]  # what was there before has no time of its own
    return _timeline(name, ts, levels, len(rows))


def _timeline(name: str, ts: NDArray[np.int64], levels: NDArray[np.int64], num_events: int | None) -> MemoryTimeline:
    columns = [integers(np.ascontiguousarray(ts))]
    columns += [integers(np.ascontiguousarray(levels[:, i])) for i in range(len(TORCH_CATEGORIES))]
    return MemoryTimeline(name, pa.Table.from_arrays(columns, names=["ts", *TORCH_CATEGORIES]), num_events)


def looks_like_timeline(first: bytes) -> bool:
    """Whether a file that begins so may be a memory timeline: a list of lists of numbers."""
    return "".join(first.decode("latin-1").split())[:2] == "[["


def memory_kind(path: str | os.PathLike[str]) -> str | None:
    """``snapshot`` or ``timeline`` by a file's first bytes, None for anything else (and what cannot be opened)."""
    name = os.fspath(path)
    if "://" not in name and not Path(name).is_file():  # what a pipe has given is gone
        return None
    try:
        with open_source(name, magic=b"\x80") as source:
            first = source.beginning()
    except Exception:  # whoever loads the file says what is wrong with it
        return None
    if first.startswith(b"\x80"):
        return "snapshot"
    return "timeline" if looks_like_timeline(first[:64]) else None
