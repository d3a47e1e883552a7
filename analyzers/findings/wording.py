"""How findings and the verdict write times and shares, and grade them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np

from profsuite.analyzers.base import Evidence, Place, Severity
from profsuite.analyzers.places import thread_label

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from profsuite.analyzers.analysis import Analysis
    from profsuite.analyzers.memory.model import DeviceMemory, MemoryReport

CRITICAL, WARNING = 0.2, 0.05
"""Shares of the window from which a loss is critical, and worth a warning."""


class WithMemory(Protocol):
    """What findings on memory look at: an ``Analysis``, or what was read of a snapshot."""

    @property
    def memory(self) -> MemoryReport | None:
        """The memory; null where none was recorded."""
        ...


def memory(analysis: WithMemory) -> tuple[DeviceMemory, ...]:
    """The devices whose memory was recorded."""
    return () if analysis.memory is None else analysis.memory.devices


def grade(share: float, warning: float = WARNING) -> Severity:
    """How grave a loss of this share of the window is."""
    if share >= CRITICAL:
        return "critical"
    return "warning" if share >= warning else "info"


def ms(ns: float) -> str:
    """A time for reading: three significant digits, in µs, ms or s."""
    for limit, unit, scale in ((1e6, "µs", 1e3), (1e9, "ms", 1e6)):
        if ns < limit:
            return f"{_digits(ns / scale)} {unit}"
    return f"{_digits(ns / 1e9)} s"


def _digits(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def bytes_of(number: float) -> str:
    """Bytes for reading: three significant digits, in decimal units."""
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if number >= scale:
            return f"{_digits(number / scale)} {unit}"
    return f"{number:.0f} B"


def times(number: int) -> str:
    """``once``, ``twice``, ``3 times``."""
    return {1: "once", 2: "twice"}.get(number, f"{number:,} times")


def percent(share: float) -> str:
    """A fraction for reading, whole from 10 % on; what is not quite all is never shown as 100 %."""
    value = 100 * share
    if 0 < value < 0.05:
        return "<0.1 %"
    if 99.95 <= value < 100:
        return ">99.9 %"
    digits = 0 if value == 0 or 10 <= value < 99.5 or value >= 100 else 1
    # As exporters.units.percent: the last bit must not decide how 8.95 is rounded.
    return f"{round(value, 9):.{digits}f} %"


def most(part: float, whole: float) -> str:
    """What to call the largest part of a whole: only what is more than half of it is most of it."""
    return "most" if 2 * part > whole else "the largest part"


def whole(analysis: Analysis) -> str:
    """What to call all that was loaded."""
    return "selection" if analysis.trace.info.selection else "recording"


def time(label: str, ns: int, rows: Iterable[int] = ()) -> Evidence:
    """Evidence: a time."""
    return Evidence(label=label, value=ns, unit="ns", slice_ids=tuple(rows))


def share(label: str, fraction: float) -> Evidence:
    """Evidence: a share of something, given as a fraction; exact, as all evidence is: whoever prints it rounds it."""
    return Evidence(label=label, value=100 * fraction, unit="%")


def count(label: str, number: int, rows: Iterable[int] = ()) -> Evidence:
    """Evidence: a number of things."""
    return Evidence(label=label, value=number, unit="count", slice_ids=tuple(rows))


def text(label: str, value: str, rows: Iterable[int] = ()) -> Evidence:
    """Evidence: a name."""
    return Evidence(label=label, value=value, slice_ids=tuple(rows))


def per_step(label: str, analysis: Analysis, ns: int) -> tuple[Evidence, ...]:
    """Evidence: a time spread over the steps, in ms; none without steps."""
    value = analysis.per_step_ms(ns)
    return () if value is None else (Evidence(label=label, value=value, unit="ms per step"),)


def bytes_moved(analysis: Analysis, own: NDArray[np.bool_]) -> tuple[Evidence, ...]:
    """Evidence: the bytes that copies of the main device's work moved; none where a copy does not say."""
    assert analysis.main is not None
    of = np.isin(analysis.trace.array("memcpy", "slice_id"), analysis.work[analysis.main].ids[own])
    moved = analysis.trace.array("memcpy", "bytes")[of]
    return (
        (Evidence(label="they move", value=int(moved.sum()), unit="bytes"),) if len(moved) and moved.min() >= 0 else ()
    )


def somewhere(analysis: Analysis, row: int | None = None, *, op: str | None = None, source: str | None = None) -> Place:
    """The main device over its window, or one slice: its time, its step, its thread where it is on the host."""
    trace, device = analysis.trace, analysis.device
    ordinal = device.device if device else None
    if row is not None:
        start, track = int(trace.array("slice", "ts")[row]), int(trace.array("slice", "track_id")[row])
        step = int(trace.array("slice", "step_id")[row])
        return Place(
            rank=trace.info.rank,
            device=ordinal,
            thread=thread_label(trace, track) if track in analysis.timelines.threads else None,
            step=int(trace.array("step", "number")[step]) if step >= 0 else None,
            start_ns=start,
            end_ns=int(trace.end[row]),
            op=op,
            source=source,
        )
    start_ns, end_ns = (analysis.host.start_ns, analysis.host_end_ns)
    if analysis.main is not None:
        start_ns, end_ns = analysis.work[analysis.main].window
    return Place(
        rank=trace.info.rank,
        device=ordinal,
        start_ns=start_ns,
        end_ns=end_ns,
        op=op,
        source=source,
    )
