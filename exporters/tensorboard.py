"""TensorBoard: a log folder with the trace, scalars by step, counters, and the findings as text.

Event files are written by TensorBoard's own writer; the traces lie where its PyTorch profiler plugin looks.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from profsuite.analyzers.counters import samples
from profsuite.analyzers.report import analyze
from profsuite.errors import MissingExtraError
from profsuite.exporters.chrome import FORMAT as CHROME
from profsuite.exporters.markdown import escape
from profsuite.exporters.metrics import PARTS, counter_series, counter_unit
from profsuite.exporters.names import printable
from profsuite.exporters.stacks import device_labels
from profsuite.exporters.target import Target
from profsuite.trace.model import Trace

if TYPE_CHECKING:
    from collections.abc import Iterator

    from profsuite.analyzers.report import Report
    from profsuite.exporters.source import Source

SECTIONS = ("verdict", "findings", "breakdown", "steps")
"""Sections of a report that are needed."""

Scalar = tuple[str, int, int, float]
"""Tag, step, time on the file's clock (ns), value."""


@dataclass(frozen=True, slots=True)
class TensorBoard:
    """The format."""

    name: str = "tensorboard"
    suffix: str = ""
    carries: str = "A log folder: step times, breakdown, memory and counters as scalars, findings as text, the trace."
    compresses: bool = False
    merges: bool = True

    def write(self, source: Source, target: Target) -> str:
        """Write a folder a rank; ``MissingExtraError`` without tensorboard."""
        try:
            from tensorboard.summary.writer.event_file_writer import EventFileWriter
        except ImportError:
            raise MissingExtraError(
                "writing TensorBoard's files needs tensorboard: pip install 'profsuite[tensorboard]'"
            ) from None
        num_scalars, runs = 0, set[str]()
        for number, trace in enumerate(source.traces()):
            run = f"rank{number if trace.info.rank is None else trace.info.rank}"
            while run in runs:
                run += f"_{number}"
            runs.add(run)
            folder = target.path / run
            folder.mkdir(exist_ok=True)
            CHROME.write(replace(source, inputs=[trace]), Target(folder / f"{run}.pt.trace.json.gz", True))
            report = analyze(trace, only=SECTIONS)
            writer = EventFileWriter(str(folder))
            try:
                num_scalars += _write(writer, trace, report)
            finally:
                writer.close()
        return f"{len(runs)} run{'' if len(runs) == 1 else 's'}, {num_scalars:,} scalars"


FORMAT = TensorBoard()


def _write(writer: Any, trace: Trace, report: Report) -> int:
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.plugins.scalar.summary_v2 import scalar_pb
    from tensorboard.plugins.text.summary_v2 import text_pb

    base = trace.info.base_time_ns or 0
    start = int(trace.array("slice", "ts").min()) if trace.num_rows("slice") else 0
    num_scalars = 0
    for tag, step, ts, value in (*_steps(report), *_device(report), *_memory(trace), *_counters(trace)):
        writer.add_event(Event(wall_time=(base + ts) / 1e9, step=step, summary=scalar_pb(tag, value)))
        num_scalars += 1
    for tag, text in _texts(report):
        writer.add_event(Event(wall_time=(base + start) / 1e9, step=0, summary=text_pb(tag, text)))
    return num_scalars


def _steps(report: Report) -> Iterator[Scalar]:
    for row in report.steps.steps if report.steps is not None else ():
        if row.excluded is None:
            yield "step/seconds", row.number, row.start_ns, row.dur_ns / 1e9


def _device(report: Report) -> Iterator[Scalar]:
    """Each step of each device; the whole window where there are no steps."""
    for device in report.breakdown or ():
        label = "GPU" if device.device is None else f"GPU {device.device}"
        windows = [(row.number, row.start_ns, row.shares) for row in device.steps if not row.truncated]
        for number, start, shares in windows or [(0, device.start_ns, device.shares)]:
            for part in PARTS:
                yield f"{label}/{part} seconds", number, start, getattr(shares, f"{part}_ns") / 1e9
            if shares.busy_pct is not None:
                yield f"{label}/busy pct", number, start, shares.busy_pct
            if shares.overlap_pct is not None:
                yield f"{label}/communication seconds", number, start, shares.comm_ns / 1e9
                yield f"{label}/communication overlapped pct", number, start, shares.overlap_pct


def _memory(trace: Trace) -> Iterator[Scalar]:
    """The most that each device's allocator had given out in each step, by the event that reached it."""
    ts, total = trace.array("memory_event", "ts"), trace.array("memory_event", "total_allocated_bytes", null=-1)
    labels = np.array(device_labels(trace), object)
    spans = [(int(n), int(t), int(t + d)) for n, t, d in zip(
        *(trace.array("step", column).tolist() for column in ("number", "ts", "dur")), strict=True
    )]  # fmt: skip
    for label in sorted(set(labels.tolist())):
        mine = np.flatnonzero((labels == label) & (total >= 0))
        mine = mine[np.argsort(ts[mine], kind="stable")]
        for number, start, end in sorted(spans) or [(0, -(2**63), 2**63 - 1)]:
            first, last = np.searchsorted(ts[mine], [start, end]).tolist()
            if first < last:
                peak = mine[first + int(np.argmax(total[mine[first:last]]))]
                yield f"memory/{label} peak allocated bytes", number, int(ts[peak]), float(total[peak])


def _counters(trace: Trace) -> Iterator[Scalar]:
    """Samples of counters in base units; the step is the sample's number."""
    for name, series in counter_series(trace):
        unit, scale = counter_unit(series)
        tag = f"counters/{printable(name)} {printable(series)}" + (f" ({unit.replace('_', ' ')})" if unit else "")
        for number, (ts, value) in enumerate(
            zip(*(each.tolist() for each in samples(trace, name, series)), strict=True)
        ):
            yield tag, number, ts, value * scale


def _texts(report: Report) -> Iterator[tuple[str, str]]:
    """Verdict and findings in Markdown, which TensorBoard renders; nothing of a name is taken for markup."""
    if report.verdict is not None:
        yield "profsuite/verdict", escape(report.verdict)
    if report.findings:
        lines = [
            f"- **{one.severity}**: {escape(one.title)}. {escape(one.remedy)}"
            + (f" ({one.cost_ns / 1e6:.3f} ms)" if one.cost_ns is not None else "")
            for one in report.findings
        ]
        yield "profsuite/findings", "\n".join(lines)
