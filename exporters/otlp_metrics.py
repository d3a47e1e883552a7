"""OTLP metrics: the families of ``metrics`` as gauges, and NVML's counters over time by the GPU conventions.

https://opentelemetry.io/docs/specs/semconv/hardware/gpu/ names ``hw.gpu.*``, ``hw.power`` and ``hw.temperature``.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from profsuite.analyzers.counters import samples
from profsuite.exporters.metrics import counter_series
from profsuite.exporters.names import printable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from profsuite.exporters.metrics import Labels, Metric, Number
    from profsuite.trace.model import Trace

UNITS: Final = {
    "": "1", "seconds": "s", "bytes": "By", "ratio": "1", "watts": "W", "hertz": "Hz", "celsius": "Cel",
    "bytes_per_second": "By/s",
}  # fmt: skip
"""UCUM's words for those of ``Metric.unit``."""

GPU: Final = {
    ("utilization", "gpu_pct"): ("hw.gpu.utilization", "1", 0.01, "gauge"),
    ("memory", "used_bytes"): ("hw.gpu.memory.usage", "By", 1.0, "sum"),
    ("power", "draw_w"): ("hw.power", "W", 1.0, "gauge"),
    ("temperature", "gpu_c"): ("hw.temperature", "Cel", 1.0, "gauge"),
}
"""NVML's counters (without ``GPU N``) and series: name, unit, factor and kind by the conventions."""

CUMULATIVE: Final = 2
"""``AGGREGATION_TEMPORALITY_CUMULATIVE``."""

_GPU = re.compile(r"^GPU (\d{1,4}) (.+)$")


def plain_metrics(trace: Trace, found: list[Metric]) -> list[dict[str, Any]]:
    """The families as gauges of one data point a sample, as of the recording's end."""
    time = str(unix_ns(trace, int(trace.end.max()) if trace.num_rows("slice") else 0))
    return [
        {
            "name": ("profsuite_recording_info" if metric.is_info else metric.full_name).replace("_", ".", 1),
            "description": metric.doc,
            "unit": UNITS[metric.unit],
            "gauge": {"dataPoints": [_point(time, value, labels) for labels, value in metric.samples]},
        }
        for metric in found
    ]


def gpu_metrics(trace: Trace) -> Iterator[dict[str, Any]]:
    """What is known of the GPUs over time."""
    names = {row.get("id"): row["name"] for row in trace.info.devices if isinstance(row.get("name"), str)}
    found: dict[str, dict[str, Any]] = {}

    def add(ordinal: int, name: str, unit: str, kind: str, points: list[tuple[int, Number]]) -> None:
        labels: Labels = {"hw.id": str(ordinal), "hw.type": "gpu"}
        if ordinal in names:
            labels["hw.name"] = printable(names[ordinal])
        body: dict[str, Any] = {"dataPoints": []}
        if kind == "sum":  # an UpDownCounter
            body |= {"aggregationTemporality": CUMULATIVE, "isMonotonic": False}
        metric = found.setdefault(name, {"name": name, "unit": unit, kind: body})
        start = {"startTimeUnixNano": str(unix_ns(trace, _start(trace)))} if kind == "sum" else {}
        metric[kind]["dataPoints"] += [_point(str(unix_ns(trace, ts)), value, labels) | start for ts, value in points]

    for name, series in counter_series(trace):
        matched = _GPU.match(name)
        if matched is None or (matched[2], series) not in GPU:
            continue
        metric, unit, factor, kind = GPU[matched[2], series]
        ts, values = samples(trace, name, series)
        scaled = np.rint(values).astype(np.int64) if unit == "By" else values * factor
        add(int(matched[1]), metric, unit, kind, list(zip(ts.tolist(), scaled.tolist(), strict=True)))
    for row in trace.info.devices:
        ordinal, limit = row.get("id"), row.get("totalGlobalMem")
        if isinstance(ordinal, int) and isinstance(limit, int) and 0 <= limit < 2**63:
            add(int(ordinal), "hw.gpu.memory.limit", "By", "sum", [(_start(trace), limit)])
    yield from found.values()


def _start(trace: Trace) -> int:
    return int(trace.array("slice", "ts").min()) if trace.num_rows("slice") else 0


def unix_ns(trace: Trace, ts: int) -> int:
    """A time of the file's clock as ns since the epoch; the file's own where it has no base."""
    return min(max(0, ts + (trace.info.base_time_ns or 0)), 2**63 - 1)


def _point(time: str, value: Number, labels: Labels) -> dict[str, Any]:
    attributes = [{"key": key, "value": {"stringValue": text}} for key, text in labels.items()]
    number = {"asInt": str(value)} if isinstance(value, int) else {"asDouble": float(value)}
    return {"timeUnixNano": time, **number, "attributes": attributes}
