"""OTLP spans: the recording, its steps, and the outermost ops in them."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from profsuite.analyzers.enclosing import outermost
from profsuite.analyzers.host_calls import OP, host_classes
from profsuite.analyzers.places import thread_label
from profsuite.exporters.names import printable
from profsuite.exporters.otlp_metrics import unix_ns

if TYPE_CHECKING:
    from collections.abc import Iterator

    from profsuite.trace.model import Trace

SPANS_A_REQUEST: Final = 2_000
INTERNAL: Final = 1
"""``SPAN_KIND_INTERNAL``."""

RECORDING: Final = -1
"""Stands for the recording among the rows of ``slice``."""


def spans(trace: Trace) -> Iterator[list[dict[str, Any]]]:
    """The spans of a trace, a request's worth at a time; none of a trace without slices.

    Ids are made of what the recording is, so that exporting it again gives the same ones.
    """
    if not trace.num_rows("slice"):
        return
    identity = _Identity(trace)
    held = [identity.span(RECORDING, "recording", int(trace.array("slice", "ts").min()), int(trace.end.max()), None)]
    steps = trace.array("step", "slice_id")
    for step, number in zip(steps.tolist(), trace.array("step", "number").tolist(), strict=True):
        held.append(identity.slice(step, RECORDING, {"profsuite.step": number}))
    ops = outermost(trace, host_classes(trace) == OP)
    step_of = trace.array("slice", "step_id")[ops]
    around = np.where(step_of >= 0, steps[step_of], RECORDING) if len(steps) else np.full(len(ops), RECORDING)
    tracks = trace.array("slice", "track_id")[ops].tolist()
    labels = {track: printable(thread_label(trace, track)) for track in set(tracks)}
    for row, parent, track in zip(ops.tolist(), around.tolist(), tracks, strict=True):
        held.append(identity.slice(row, parent, {"thread.name": labels[track]}))
        if len(held) >= SPANS_A_REQUEST:
            yield held
            held = []
    if held:
        yield held


class _Identity:
    """Makes spans with the ids of one recording."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        info = trace.info
        said = repr((info.source, info.rank, info.base_time_ns, info.num_events, info.num_bytes))
        self._hash = hashlib.sha256(said.encode("utf-8", "replace")).digest()
        self.trace_id = self._hash[:16].hex()
        self._names = trace.words("slice", "name")

    def span_id(self, row: int) -> str:
        """Eight bytes, never all zero, in hex."""
        base = int.from_bytes(self._hash[16:24], "big")
        return f"{(base + row + 2) % (2**64 - 1) + 1:016x}"

    def span(self, row: int, name: str, start: int, end: int, parent: int | None) -> dict[str, Any]:
        """A span between two times of the file's clock."""
        made = {
            "traceId": self.trace_id,
            "spanId": self.span_id(row),
            "name": name,
            "kind": INTERNAL,
            "startTimeUnixNano": str(unix_ns(self.trace, start)),
            "endTimeUnixNano": str(unix_ns(self.trace, end)),
        }
        return made if parent is None else made | {"parentSpanId": self.span_id(parent)}

    def slice(self, row: int, parent: int, attributes: dict[str, str | int]) -> dict[str, Any]:
        """The span of a slice."""
        trace = self.trace
        name = printable(self._names[trace.array("slice", "name")[row]])
        made = self.span(row, name, int(trace.array("slice", "ts")[row]), int(trace.end[row]), parent)
        known = [
            {"key": key, "value": {"intValue": str(value)} if isinstance(value, int) else {"stringValue": value}}
            for key, value in attributes.items()
        ]
        return made | {"attributes": known}
