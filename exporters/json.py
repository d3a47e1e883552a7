"""A report as JSON; its schema is docs/reference/report.schema.json."""

from __future__ import annotations

from collections.abc import Sequence
from inspect import cleandoc

import msgspec

from profsuite.analyzers.job.report import JobReport
from profsuite.analyzers.report import REPORT_VERSION, Report
from profsuite.exporters.ranks import Unreadable
from profsuite.exporters.report_format import ReportFormat


class RankReports(msgspec.Struct, frozen=True, kw_only=True):
    """The reports on several traces, in the order of their ranks; ``schema_version`` is the reports' own.

    ``job`` is what they say together, null where they are not the ranks of one job, or neither its verdict nor its
    findings were asked for.  ``unreadable`` has the traces of which there is no report.
    """

    schema_version: int
    job: JobReport | None
    reports: tuple[Report, ...]
    unreadable: tuple[Unreadable, ...]


def render(report: Report) -> str:
    """The report as one JSON object, indented; times are exact integers, names as they are in the file."""
    return encode(report)


def render_ranks(
    reports: Sequence[Report], *, unreadable: Sequence[Unreadable] = (), job: JobReport | None = None
) -> str:
    """The reports as one object with ``job`` and the arrays ``reports`` and ``unreadable``."""
    ranks = RankReports(schema_version=REPORT_VERSION, job=job, reports=tuple(reports), unreadable=tuple(unreadable))
    return encode(ranks)


def schema() -> dict[str, object]:
    """The JSON schema of what ``render`` (a ``Report``) and ``render_ranks`` (``RankReports``) give."""
    return schema_of([Report, RankReports], f"profsuite report, version {REPORT_VERSION}")


def schema_of(kinds: Sequence[type[msgspec.Struct]], title: str) -> dict[str, object]:
    """The JSON schema of what is one of several kinds."""
    found, definitions = msgspec.json.schema_components(kinds)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": title,
        "anyOf": [_local(one) for one in found],
        "$defs": _local(definitions),
    }


def encode(value: msgspec.Struct) -> str:
    """A value as one JSON object, indented."""
    return msgspec.json.format(msgspec.json.encode(value), indent=1).decode() + "\n"


def _local(part: object) -> object:
    """With references that point into ``$defs``."""
    if isinstance(part, dict):
        return {key: _value(key, value) for key, value in part.items()}
    return [_local(item) for item in part] if isinstance(part, list | tuple) else part


def _value(key: str, value: object) -> object:
    if isinstance(value, str):
        if key == "$ref":
            return f"#/$defs/{value.rsplit('/', 1)[1]}"
        return cleandoc(value) if key == "description" else value
    return _local(value)


FORMAT = ReportFormat(
    "json", ".report.json", "The report's fields as JSON, as profsuite analyze writes them.", render, render_ranks
)
