"""The run folder: one Arrow file a table, which profsuite opens again at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from profsuite.exporters.source import Source
    from profsuite.exporters.target import Target


@dataclass(frozen=True, slots=True)
class Arrow:
    """The format."""

    name: str = "arrow"
    suffix: str = ""
    carries: str = "Everything: every table and what is known of the whole recording."
    compresses: bool = False
    merges: bool = False

    def write(self, source: Source, target: Target) -> str:
        """Save the run folder."""
        trace = source.trace()
        trace.save(target.path)
        return f"{len(trace.tables)} tables, {sum(table.num_rows for table in trace.tables.values()):,} rows"


FORMAT = Arrow()
