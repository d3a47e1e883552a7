"""OpenMetrics 1.0 text: the metrics with their units, and ``# EOF`` at the end.

https://github.com/prometheus/OpenMetrics/blob/main/specification/OpenMetrics.md
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from profsuite.exporters.metrics import Metric, merged, metrics
from profsuite.exporters.prometheus import escape_label, sample

if TYPE_CHECKING:
    from collections.abc import Iterator

    from profsuite.exporters.source import Source
    from profsuite.exporters.target import Target


@dataclass(frozen=True, slots=True)
class OpenMetrics:
    """The format."""

    name: str = "openmetrics"
    suffix: str = ".openmetrics"
    carries: str = "The same as prometheus, with units."
    compresses: bool = False
    merges: bool = True

    def write(self, source: Source, target: Target) -> str:
        """Write the metrics of all ranks."""
        found = merged(map(metrics, source.traces()))
        target.path.write_text("".join(_lines(found)), encoding="utf-8", newline="\n")
        return f"{sum(len(metric.samples) for metric in found):,} samples"


FORMAT = OpenMetrics()


def _lines(found: list[Metric]) -> Iterator[str]:
    for metric in found:
        kind = "info" if metric.is_info else "gauge"
        yield f"# TYPE {metric.full_name} {kind}\n"
        if metric.unit:
            yield f"# UNIT {metric.full_name} {metric.unit}\n"
        yield f"# HELP {metric.full_name} {escape_label(metric.doc)}\n"
        for labels, value in metric.samples:
            yield sample(f"{metric.name}_info" if metric.is_info else metric.full_name, labels, value)
    yield "# EOF\n"
