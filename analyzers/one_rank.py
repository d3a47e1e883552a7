"""What an analysis takes: the trace of one rank."""

from __future__ import annotations

from typing import TYPE_CHECKING

from profsuite.errors import TraceError

if TYPE_CHECKING:
    from profsuite.trace.model import Trace


def require_one_rank(trace: Trace) -> None:
    """``TraceError`` where a file holds several ranks: their steps and threads would be taken for those of one."""
    if "several_ranks" in trace.health.column("kind").to_pylist():
        raise TraceError(
            f"{trace.info.source}: holds several ranks, merged for viewers, whose steps and threads an analysis would "
            "mix: analyse the folder that it was made from"
        )
