"""Prometheus' text format 0.0.4, as node_exporter's textfile collector takes it.

https://prometheus.io/docs/instrumenting/exposition_formats/
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from profsuite.exporters.metrics import Metric, merged, metrics

if TYPE_CHECKING:
    from collections.abc import Iterator

    from profsuite.exporters.metrics import Labels, Number
    from profsuite.exporters.source import Source
    from profsuite.exporters.target import Target


@dataclass(frozen=True, slots=True)
class Prometheus:
    """The format."""

    name: str = "prometheus"
    suffix: str = ".prom"
    carries: str = "Steps, breakdown, idle causes, communication, memory peaks, findings, ops, counters, as gauges."
    compresses: bool = False
    merges: bool = True

    def write(self, source: Source, target: Target) -> str:
        """Write the metrics of all ranks."""
        found = merged(map(metrics, source.traces()))
        target.path.write_text("".join(_lines(found)), encoding="utf-8", newline="\n")
        return f"{sum(len(metric.samples) for metric in found):,} samples"


FORMAT = Prometheus()


def _lines(found: list[Metric]) -> Iterator[str]:
    for metric in found:
        name = f"{metric.name}_info" if metric.is_info else metric.full_name
        yield f"# HELP {name} {escape_help(metric.doc)}\n# TYPE {name} gauge\n"
        for labels, value in metric.samples:
            yield sample(name, labels, value)


def sample(name: str, labels: Labels, value: Number) -> str:
    """One line: the same in Prometheus' and in the OpenMetrics format."""
    inside = ",".join(f'{key}="{escape_label(text)}"' for key, text in labels.items())
    number = repr(value) if isinstance(value, float) else format(value, "f" if not isinstance(value, int) else "d")
    return f"{name}{{{inside}}} {number}\n" if inside else f"{name} {number}\n"


def escape_help(text: str) -> str:
    """Text after ``# HELP``."""
    return text.replace("\\", "\\\\").replace("\n", "\\n")


def escape_label(text: str) -> str:
    """A label's value, without the quotes."""
    return escape_help(text).replace('"', '\\"')
