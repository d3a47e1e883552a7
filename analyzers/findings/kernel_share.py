"""How findings about groups of ops weigh them: by their kernels' time in the devices' windows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from profsuite.analyzers.base import Evidence
from profsuite.analyzers.findings.wording import text, time

if TYPE_CHECKING:
    from profsuite.analyzers.analysis import Analysis
    from profsuite.analyzers.roofline import RooflineOp

FIRES_FROM = 0.05
"""Share of the devices' windows from which a group of ops is worth a finding."""


def kernel_share(analysis: Analysis, ns: float) -> float:
    """Device time as a fraction of the devices' windows, 0 without device work."""
    window = analysis.devices_window_ns
    return ns / window if window else 0.0


def device_time(ops: Iterable[RooflineOp]) -> int:
    """Device time of ops, ns."""
    return sum(op.device_ns or 0 for op in ops)


def slowest(ops: Sequence[RooflineOp], number: int = 5) -> list[RooflineOp]:
    """The ops with most device time."""
    return sorted(ops, key=lambda op: -(op.device_ns or 0))[:number]


def slices_of(ops: Sequence[RooflineOp]) -> list[int]:
    """The longest kernels of the slowest ops: rows of ``slice``."""
    return [op.longest_slice_id for op in slowest(ops) if op.longest_slice_id is not None]


def largest(ops: Sequence[RooflineOp]) -> tuple[Evidence, ...]:
    """Evidence: the slowest op, its shapes and its time."""
    first = slowest(ops, 1)[0]
    shapes = "".join(first.input_dims.split()).replace(",[]", "")
    rows = [first.longest_slice_id] if first.longest_slice_id is not None else []
    return (
        text("the largest part in", f"{first.name} {shapes}", rows),
        time("its time", first.device_ns or 0),
    )
