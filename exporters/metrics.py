"""What monitoring systems are told of a recording: a few families of numbers with labels, in base units.

A recording is over when it is exported: every number is a gauge, the state that was found.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import TYPE_CHECKING, Final

import numpy as np

from profsuite.analyzers.base import SEVERITIES
from profsuite.analyzers.counters import counter_names, samples
from profsuite.analyzers.report import analyze
from profsuite.exporters.names import printable
from profsuite.exporters.stacks import device_labels

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from profsuite.analyzers.report import Report
    from profsuite.trace.model import Trace

Number = int | float | Decimal
Labels = dict[str, str]

SECTIONS: Final = ("findings", "breakdown", "idle", "steps", "ops")
"""Sections of a report that are needed."""

PARTS: Final = ("compute", "exposed_comm", "exposed_memcpy", "idle")
"""Parts of a device's window, which they sum to."""

COUNTER_UNITS: Final = {
    "_bytes_per_s": ("bytes_per_second", 1.0),
    "_bytes": ("bytes", 1.0),
    "_pct": ("ratio", 0.01),
    "_mhz": ("hertz", 1e6),
    "_w": ("watts", 1.0),
    "_c": ("celsius", 1.0),
    "_ms": ("seconds", 1e-3),
    "_ns": ("seconds", 1e-9),
}
"""Endings of a counter's series: the base unit, and what a value is multiplied by; others have no unit."""


@dataclass(frozen=True)
class Metric:
    """One family: ``name`` has no unit, ``unit`` is the base unit in Prometheus' words ("" for a plain number)."""

    name: str
    unit: str
    doc: str
    samples: list[tuple[Labels, Number]] = field(default_factory=list)
    is_info: bool = False

    @property
    def full_name(self) -> str:
        """The name with its unit, as Prometheus has it."""
        return f"{self.name}_{self.unit}" if self.unit else self.name


def seconds(ns: float) -> Decimal:
    """Nanoseconds as seconds, exact."""
    return Decimal(ns).scaleb(-9)


def metrics(trace: Trace, report: Report | None = None) -> list[Metric]:
    """The metrics of one trace; families without a sample are left out: nothing is known of them.

    ``report`` saves analyzing it again; it needs the sections ``SECTIONS``.
    """
    report = analyze(trace, only=SECTIONS) if report is None else report
    rank: Labels = {} if trace.info.rank is None else {"rank": str(trace.info.rank)}
    return [
        replace(metric, samples=[(rank | labels, value) for labels, value in metric.samples])
        for metric in (*_recording(trace, report), *_steps(report), *_device(report), *_findings(report),
                       *_ops(report), *memory_peaks(trace), *_counters(trace))
        if metric.samples
    ]  # fmt: skip


def merged(traces: Iterable[list[Metric]]) -> list[Metric]:
    """The metrics of several traces, each family once.

    Where ranks do not tell the traces apart, the label ``trace`` does: their number in order.
    """
    every = list(traces)
    ranks = [next((labels.get("rank") for metric in one for labels, _ in metric.samples), None) for one in every]
    is_told = len(set(ranks)) == len(every)
    found: dict[str, Metric] = {}
    for number, one in enumerate(every):
        own: Labels = {} if is_told else {"trace": str(number)}
        for metric in one:
            known = found.setdefault(f"{metric.full_name} {metric.is_info}", replace(metric, samples=[]))
            known.samples.extend((own | labels, value) for labels, value in metric.samples)
    return list(found.values())


def _recording(trace: Trace, report: Report) -> Iterator[Metric]:
    info = trace.info
    labels = {"source": printable(info.source)}
    known = {"backend": info.backend, "world_size": info.world_size, "selection": info.selection}
    labels |= {name: printable(str(value)) for name, value in known.items() if value is not None}
    yield Metric("profsuite_recording", "", "The recording that the numbers are of.", [(labels, 1)], is_info=True)
    if report.trace.duration_ns is not None:
        doc = "From the first slice's start to the last one's end."
        yield Metric("profsuite_recording", "seconds", doc, [({}, seconds(report.trace.duration_ns))])
    yield Metric("profsuite_recording_events", "", "Events in the file.", [({}, report.trace.num_events)])


def _steps(report: Report) -> Iterator[Metric]:
    steps = report.steps
    if steps is None or not steps.count:
        return
    yield Metric("profsuite_steps", "", "Steps, truncated ones included.", [({}, steps.count)])
    values = {"mean": steps.mean_ns, "std": steps.std_ns, "median": steps.median_ns}
    values |= {"min": steps.min_ns, "max": steps.max_ns}
    found: list[tuple[Labels, Number]] = [
        ({"statistic": name}, seconds(value)) for name, value in values.items() if value is not None
    ]
    yield Metric("profsuite_step", "seconds", "Duration of the whole steps on the host.", found)


def _device(report: Report) -> Iterator[Metric]:
    window = Metric("profsuite_device_window", "seconds", "From a device's first work to its last.")
    parts = Metric("profsuite_device", "seconds", "How a device spent its window; the parts sum to it.")
    busy = Metric("profsuite_device_busy", "ratio", "Share of its window in which a device does anything.")
    comm = Metric("profsuite_communication", "seconds", "Communication by whether computation hides it.")
    idle = Metric("profsuite_device_idle", "seconds", "Idle time of a device by its cause.")
    for row in report.breakdown or ():
        labels, shares = _device_label(row.device), row.shares
        window.samples.append((labels, seconds(shares.window_ns)))
        parts.samples.extend((labels | {"part": part}, seconds(getattr(shares, f"{part}_ns"))) for part in PARTS)
        if shares.busy_pct is not None:
            busy.samples.append((labels, shares.busy_ns / shares.window_ns))
        for kind, value in (("exposed", shares.exposed_comm_ns), ("overlapped", shares.overlapped_comm_ns)):
            comm.samples.append((labels | {"kind": kind}, seconds(value)))
    for gaps in report.idle or ():
        labels = _device_label(gaps.device)
        idle.samples.extend((labels | {"cause": row.cause}, seconds(row.total_ns)) for row in gaps.causes)
    yield from (window, parts, busy, comm, idle)


def _device_label(device: int | None) -> Labels:
    return {"device": "unknown" if device is None else str(device)}


def _findings(report: Report) -> Iterator[Metric]:
    found = report.findings or ()
    counts: list[tuple[Labels, Number]] = [
        ({"severity": severity}, sum(one.severity == severity for one in found)) for severity in SEVERITIES
    ]
    yield Metric("profsuite_findings", "", "Findings by severity.", counts)
    costs: dict[str, int] = {}
    for one in found:
        if one.cost_ns is not None:
            costs[one.id] = costs.get(one.id, 0) + one.cost_ns
    doc = "Time measured to be lost, by kind of finding; kinds may share time."
    yield Metric("profsuite_finding_cost", "seconds", doc, [({"finding": i}, seconds(ns)) for i, ns in costs.items()])


def _ops(report: Report) -> Iterator[Metric]:
    times: dict[tuple[str, str], int] = {}
    for row in report.ops.rows if report.ops is not None else ():
        for on, value in (("host", row.host_self_ns), ("device", row.device_self_ns)):
            key = printable(row.name), on  # names that differ in what cannot be printed become one
            times[key] = times.get(key, 0) + value
    doc = "Self time of the ops that matter most, on the host and device."
    yield Metric(
        "profsuite_op_self", "seconds", doc, [({"op": op, "on": on}, seconds(ns)) for (op, on), ns in times.items()]
    )


def memory_peaks(trace: Trace) -> Iterator[Metric]:
    """The most that each device's allocator had given out, and had reserved, after any event."""
    labels = np.array(device_labels(trace), object)
    metric = Metric("profsuite_memory_peak", "bytes", "The most that an allocator had given out, or had reserved.")
    for pool in ("allocated", "reserved"):
        total = trace.array("memory_event", f"total_{pool}_bytes", null=-1)
        for label in sorted(set(labels.tolist())):
            most = int(total[labels == label].max())
            if most >= 0:
                metric.samples.append(({"device": label, "pool": pool}, most))
    yield metric


def counter_series(trace: Trace) -> list[tuple[str, str]]:
    """The counters and their series that have samples."""
    words = trace.words("counter", "series")
    names, series = trace.array("counter", "name"), trace.array("counter", "series")
    known = trace.words("counter", "name")
    return [
        (name, words[code])
        for name in counter_names(trace)
        for code in np.unique(series[names == known.index(name)]).tolist()
    ]


def counter_unit(series: str) -> tuple[str, float]:
    """The base unit of a counter's series, and what makes its values that unit."""
    return next((unit for ending, unit in COUNTER_UNITS.items() if series.endswith(ending)), ("", 1.0))


def _counters(trace: Trace) -> Iterator[Metric]:
    found: dict[str, Metric] = {}
    seen: set[tuple[str, ...]] = set()
    for name, series in counter_series(trace):
        values = samples(trace, name, series)[1]
        key = printable(name), printable(series)
        if not len(values) or key in seen:
            continue
        seen.add(key)
        unit, scale = counter_unit(series)
        doc = "Sampled counters of the recording" + (f", in {unit.replace('_', ' ')}." if unit else ", as recorded.")
        metric = found.setdefault(unit, Metric("profsuite_counter", unit, doc))
        for statistic, value in (("mean", values.mean()), ("max", values.max()), ("last", values[-1])):
            if np.isfinite(value * scale):
                labels = {"counter": key[0], "series": key[1], "statistic": statistic}
                metric.samples.append((labels, float(value * scale)))
    yield from found.values()
