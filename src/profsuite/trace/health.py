"""What a trace lacks or got wrong, found from its tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from profsuite.trace.model import Trace
    from profsuite.trace.readers.raw import Remark


def inspect(trace: Trace) -> list[Remark]:
    """The remarks on a trace whose other tables are complete."""
    return []
