"""Reports as formats of ``convert``: the trace is analyzed, and one of the report's exporters writes it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from profsuite.analyzers.report import Report, analyze

if TYPE_CHECKING:
    from profsuite.exporters.source import Source
    from profsuite.exporters.target import Target


@dataclass(frozen=True, slots=True)
class ReportFormat:
    """The format of what an exporter of reports renders, of one trace or of several."""

    name: str
    suffix: str
    carries: str
    render: Callable[[Report], str]
    render_ranks: Callable[[Sequence[Report]], str]
    compresses: bool = False
    merges: bool = True

    def write(self, source: Source, target: Target) -> str:
        """Write the report, or those of all ranks."""
        reports = [analyze(trace) for trace in source.traces()]
        text = self.render(reports[0]) if len(reports) == 1 else self.render_ranks(reports)
        with target.path.open("w", encoding="utf-8", errors="replace", newline="\n") as out:
            out.write(text)
        num_findings = sum(len(report.findings or ()) for report in reports)
        return f"{num_findings} finding{'' if num_findings == 1 else 's'}"
