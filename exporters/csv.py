"""A report as tidy CSV: one number a row, exact, for spreadsheets and data frames."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence

import msgspec

from profsuite.analyzers.report import Report
from profsuite.exporters.names import printable
from profsuite.exporters.ranks import Unreadable

COLUMNS = ("rank", "section", "device", "thread", "step", "subject", "detail", "metric", "value", "unit")

Row = dict[str, object]

_FORMULA = ("=", "+", "-", "@")


def render(report: Report) -> str:
    """The report as CSV with a header; ``metric`` is the field's name in JSON.

    A number that nobody measured has no row.  Text that a spreadsheet could take for a formula gets a ``'`` before it.
    """
    return render_ranks([report])


def render_ranks(reports: Sequence[Report], *, unreadable: Sequence[Unreadable] = ()) -> str:
    """All reports in one table, told apart by ``rank``; a trace that cannot be read has a row that says why."""
    out = io.StringIO()
    writer = csv.DictWriter(out, COLUMNS, restval="", lineterminator="\n")
    writer.writeheader()
    for report in reports:
        for row in _rows(report):
            row["rank"] = report.rank
            writer.writerow({key: cell(value) for key, value in row.items()})
    for each in unreadable:
        row = {"rank": each.rank, "section": "unreadable", "subject": each.source, "metric": "error"}
        writer.writerow({key: cell(value) for key, value in (row | {"value": each.error}).items()})
    return out.getvalue()


def cell(value: object) -> object:
    """A value as CSV holds it: null as nothing, text on one line and never a formula."""
    if value is None:
        return ""
    if isinstance(value, str):
        text = printable(value)
        return f"'{text}" if text.startswith(_FORMULA) else text
    if isinstance(value, bool):
        return str(value).lower()
    return value


def _rows(report: Report) -> Iterable[Row]:
    yield from _numbers(report.trace, {"section": "trace"})
    if report.verdict is not None:
        yield {"section": "verdict", "metric": "verdict", "value": report.verdict}
    for number, finding in enumerate(report.findings or (), 1):
        base: Row = {"section": "findings", "subject": finding.id, "detail": number, "step": finding.where.step}
        base |= {"device": finding.where.device, "thread": finding.where.thread}
        for metric in ("severity", "title", "remedy"):
            yield base | {"metric": metric, "value": getattr(finding, metric)}
        yield from _numbers(finding, base)
        for evidence in finding.evidence:
            yield base | {"metric": evidence.label, "value": evidence.value, "unit": evidence.unit}
    for device in report.breakdown or ():
        base = {"section": "breakdown", "device": device.device}
        yield from _numbers(device, base)
        yield from _numbers(device.shares, base)
        for step in device.steps:
            yield from _numbers(step.shares, base | {"step": step.number})
    for idle in report.idle or ():
        base = {"section": "idle", "device": idle.device}
        yield from _numbers(idle, base)
        for cause in idle.causes:
            yield from _numbers(cause, base | {"subject": cause.cause})
        yield from _numbers(idle.host, base | {"subject": "host"})
    for thread in report.host.threads if report.host is not None else ():
        base = {"section": "host", "thread": thread.thread}
        yield from _numbers(thread, base, leave_out=("track_id",))
        yield from _numbers(thread.shares, base)
        for host_step in thread.steps:
            yield from _numbers(host_step.shares, base | {"step": host_step.number})
    if report.steps is not None:
        yield from _numbers(report.steps, {"section": "steps"})
        for row in report.steps.steps:
            base = {"section": "steps", "step": row.number, "detail": row.excluded}
            yield from _numbers(row, base, leave_out=("number",))
            yield base | {"metric": "outlier", "value": row.outlier}
    if report.whatif is not None:
        yield from _numbers(report.whatif.path, {"section": "critical_path"})
        for part in report.whatif.path.parts:
            yield from _numbers(part, {"section": "critical_path", "subject": part.cause})
        for piece in report.whatif.path.top:
            yield from _numbers(piece, {"section": "critical_path", "subject": piece.name})
        if report.whatif.hiding is not None:
            yield from _numbers(report.whatif.hiding, {"section": "latency_hiding"})
        for scenario in report.whatif.scenarios:
            yield from _numbers(scenario, {"section": "whatif", "subject": scenario.name})
    for op in report.ops.rows if report.ops is not None else ():
        yield from _numbers(op, {"section": "ops", "subject": op.name})
    for op in report.ops.by_shape if report.ops is not None else ():
        yield from _numbers(op, {"section": "ops_by_shape", "subject": op.name, "detail": op.input_dims})
    for kernel in report.kernels.rows if report.kernels is not None else ():
        base = {"section": "kernels", "subject": kernel.name, "detail": kernel.kind}
        yield from _numbers(kernel, base, leave_out=("longest_slice_id",))
    for health in report.health or ():
        yield from _numbers(health, {"section": "health", "subject": health.kind, "detail": health.message})


_UNITS = {"ns": "ns", "pct": "%", "bytes": "bytes", "ms_per_step": "ms per step", "offset": "bytes"}


def _numbers(struct: msgspec.Struct, base: Row, leave_out: tuple[str, ...] = ()) -> Iterable[Row]:
    """A row for each number of ``struct``; the unit is taken from the field's name."""
    for field in struct.__struct_fields__:
        value = getattr(struct, field)
        if isinstance(value, bool) or not isinstance(value, int | float) or field in leave_out:
            continue
        unit = next((word for ending, word in _UNITS.items() if field.endswith(f"_{ending}")), "")
        yield base | {"metric": field, "value": value, "unit": unit}
