"""A comparison as JSON; its schema is docs/reference/diff.schema.json."""

from __future__ import annotations

from profsuite.analyzers.diff.ranks import RanksDiff
from profsuite.analyzers.diff.report import DIFF_VERSION, DiffReport
from profsuite.exporters.json import encode, schema_of


def render(report: DiffReport | RanksDiff) -> str:
    """The comparison of two traces (``DiffReport``), or of two sets of ranks (``RanksDiff``), as one object."""
    return encode(report)


def schema() -> dict[str, object]:
    """The JSON schema of what ``render`` gives."""
    return schema_of([DiffReport, RanksDiff], f"profsuite diff, version {DIFF_VERSION}")
