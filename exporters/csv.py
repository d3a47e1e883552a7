"""A report as tidy CSV: one number a row, exact, for spreadsheets and data frames."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Sequence

import msgspec

from profsuite.analyzers.job.report import JobReport
from profsuite.analyzers.memory.model import DeviceMemory
from profsuite.analyzers.report import Report
from profsuite.exporters.names import printable
from profsuite.exporters.ranks import Unreadable

COLUMNS = ("rank", "section", "device", "thread", "step", "subject", "detail", "metric", "value", "unit")

Row = dict[str, object]

_FORMULA = ("=", "+", "-", "@")
_NUMBER = re.compile(r"[+-]\d+(?:\.\d+)?(?:[eE][+-]?\d+)?")
"""A number with a sign, which is no formula."""


def render(report: Report) -> str:
    """The report as CSV with a header; ``metric`` is the field's name in JSON.

    A number that nobody measured has no row.  Text that a spreadsheet could take for a formula gets a ``'`` before it.
    """
    return render_ranks([report])


def render_ranks(
    reports: Sequence[Report], *, unreadable: Sequence[Unreadable] = (), job: JobReport | None = None
) -> str:
    """All reports in one table, told apart by ``rank``; a trace that cannot be read has a row that says why.

    The sections of what the ranks say together begin with ``job``.
    """
    out = io.StringIO()
    writer = csv.DictWriter(out, COLUMNS, restval="", lineterminator="\n")
    writer.writeheader()
    for row in _job_rows(job) if job is not None else ():
        writer.writerow({key: cell(value) for key, value in row.items()})
    for report in reports:
        for row in _rows(report):
            row["rank"] = report.rank
            writer.writerow({key: cell(value) for key, value in row.items()})
    for each in unreadable:
        row = {"rank": each.rank, "section": "unreadable", "subject": each.source, "metric": "error"}
        writer.writerow({key: cell(value) for key, value in (row | {"value": each.error}).items()})
    return out.getvalue()


def cell(value: object) -> object:
    """A value as CSV holds it: null as nothing, text on one line (no tab or CR) and never a formula."""
    if value is None:
        return ""
    if isinstance(value, str):
        text = printable(value)
        return f"'{text}" if text.startswith(_FORMULA) and not _NUMBER.fullmatch(text) else text
    if isinstance(value, bool):
        return str(value).lower()
    return value


def _rows(report: Report) -> Iterable[Row]:
    yield from numbers(report.trace, {"section": "trace"})
    if report.verdict is not None:
        yield {"section": "verdict", "metric": "verdict", "value": report.verdict}
    for number, finding in enumerate(report.findings or (), 1):
        base: Row = {"section": "findings", "subject": finding.id, "detail": number, "step": finding.where.step}
        base |= {"device": finding.where.device, "thread": finding.where.thread}
        for metric in ("severity", "title", "remedy"):
            yield base | {"metric": metric, "value": getattr(finding, metric)}
        yield from numbers(finding, base)
        for evidence in finding.evidence:
            yield base | {"metric": evidence.label, "value": evidence.value, "unit": evidence.unit}
    for device in report.breakdown or ():
        base = {"section": "breakdown", "device": device.device}
        yield from numbers(device, base)
        yield from numbers(device.shares, base)
        for step in device.steps:
            yield from numbers(step.shares, base | {"step": step.number})
    for idle in report.idle or ():
        base = {"section": "idle", "device": idle.device}
        yield from numbers(idle, base)
        for cause in idle.causes:
            yield from numbers(cause, base | {"subject": cause.cause})
        yield from numbers(idle.host, base | {"subject": "host"})
    for thread in report.host.threads if report.host is not None else ():
        base = {"section": "host", "thread": thread.thread}
        yield from numbers(thread, base, leave_out=("track_id",))
        yield from numbers(thread.shares, base)
        for host_step in thread.steps:
            yield from numbers(host_step.shares, base | {"step": host_step.number})
    if report.steps is not None:
        yield from numbers(report.steps, {"section": "steps"})
        for row in report.steps.steps:
            base = {"section": "steps", "step": row.number, "detail": row.excluded}
            yield from numbers(row, base, leave_out=("number",))
            yield base | {"metric": "outlier", "value": row.outlier}
    if report.compilation is not None:
        base = {"section": "compilation"}
        yield from numbers(report.compilation, base, leave_out=("longest_slice_id",))
        for phase in report.compilation.phases:
            yield from numbers(phase, base | {"subject": phase.name}, leave_out=("longest_slice_id",))
        for compiled in report.compilation.steps or ():
            yield from numbers(compiled, base | {"step": compiled.number}, leave_out=("step_id", "number"))
    if report.whatif is not None:
        yield from numbers(report.whatif.path, {"section": "critical_path"})
        for part in report.whatif.path.parts:
            yield from numbers(part, {"section": "critical_path", "subject": part.cause})
        for piece in report.whatif.path.top:
            yield from numbers(piece, {"section": "critical_path", "subject": piece.name})
        if report.whatif.hiding is not None:
            yield from numbers(report.whatif.hiding, {"section": "latency_hiding"})
        for scenario in report.whatif.scenarios:
            yield from numbers(scenario, {"section": "whatif", "subject": scenario.name})
    for op in report.ops.rows if report.ops is not None else ():
        yield from numbers(op, {"section": "ops", "subject": op.name}, leave_out=("longest_slice_id",))
    for op in report.ops.by_shape if report.ops is not None else ():
        base = {"section": "ops_by_shape", "subject": op.name, "detail": op.input_dims}
        yield from numbers(op, base, leave_out=("longest_slice_id",))
    for kernel in report.kernels.rows if report.kernels is not None else ():
        base = {"section": "kernels", "subject": kernel.name, "detail": kernel.kind}
        yield from numbers(kernel, base, leave_out=("longest_slice_id",))
    for device_memory in report.memory.devices if report.memory is not None else ():
        yield from _memory(device_memory)
    yield from _costs(report)
    for health in report.health or ():
        yield from numbers(health, {"section": "health", "subject": health.kind, "detail": health.message})


def _memory(device: DeviceMemory) -> Iterable[Row]:
    base: Row = {"section": "memory", "device": device.device, "detail": device.device_type}
    yield from numbers(device, base)
    peak = device.peak
    yield from numbers(peak, base | {"section": "memory_peak", "step": peak.step}, leave_out=("step",))
    for share in peak.by_category:
        yield from numbers(share, base | {"section": "memory_peak_by_category", "subject": share.name})
    for step in device.steps or ():
        yield from numbers(step, base | {"section": "memory_steps", "step": step.number}, leave_out=("number",))


def _costs(report: Report) -> Iterable[Row]:
    """What roofline, attention and sparse products say; ``detail`` holds the shapes, and the direction before them."""
    if report.roofline is not None:
        yield from numbers(report.roofline, {"section": "roofline"})
        for op in report.roofline.ops:
            base: Row = {"section": "roofline_ops", "subject": op.name, "detail": f"{op.direction} {op.input_dims}"}
            yield from numbers(op, base, leave_out=("longest_slice_id",))
            yield from numbers(op.attained, base)
        for kernel in report.roofline.kernels:
            base = {"section": "roofline_kernels", "subject": kernel.name, "detail": kernel.op}
            yield from numbers(kernel, base)
            if kernel.attained is not None:
                yield from numbers(kernel.attained, base)
    if report.attention is not None:
        yield from numbers(report.attention, {"section": "attention"})
        for attention in report.attention.rows:
            base = {"section": "attention", "subject": attention.backend}
            base |= {"detail": f"{attention.direction} {attention.input_dims or ''}".rstrip()}
            yield from numbers(attention, base, leave_out=("slice_id",))
    if report.sparse is not None:
        for product in report.sparse.rows:
            base = {"section": "sparse", "subject": product.name, "detail": f"{product.direction} {product.input_dims}"}
            yield from numbers(product, base, leave_out=("slice_id",))


_UNITS = {
    # The longer endings first.
    "bytes_per_s": "B/s",
    "flops_per_s": "FLOP/s",
    "gb_per_s": "GB/s",
    "ms_per_step": "ms per step",
    "ns": "ns",
    "pct": "%",
    "bytes": "bytes",
    "flops": "FLOP",
    "offset": "bytes",
}


def _job_rows(job: JobReport) -> Iterable[Row]:
    yield from numbers(job, {"section": "job"})
    yield {"section": "job", "metric": "verdict", "value": job.verdict}
    for number, finding in enumerate(job.findings, 1):
        base: Row = {"section": "job_findings", "subject": finding.id, "detail": number, "rank": finding.where.rank}
        yield from (base | {"metric": m, "value": getattr(finding, m)} for m in ("severity", "title", "remedy"))
        yield from numbers(finding, base)
        for evidence in finding.evidence:
            yield base | {"metric": evidence.label, "value": evidence.value, "unit": evidence.unit}
    for rank in job.ranks:
        yield from numbers(rank, {"section": "job_ranks", "rank": rank.rank}, leave_out=("rank",))
    for cause, waits in zip(job.ranks, job.wait_matrix_ns, strict=True):
        for rank, ns in zip(job.ranks, waits, strict=True):
            base = {"section": "job_waits", "rank": rank.rank, "subject": f"for rank {cause.rank}"}
            yield base | {"metric": "wait_ns", "value": ns, "unit": "ns"}
    for row in job.collectives:
        base = {"section": "job_collectives", "subject": row.kind, "detail": row.group}
        yield from numbers(row, base)
        if row.transfers is not None:
            yield from numbers(row.transfers, base)
    for mismatch in job.mismatches:
        for number in mismatch.ranks:
            base = {"section": "job_mismatches", "rank": number, "subject": mismatch.what, "detail": mismatch.detail}
            yield from numbers(mismatch, base)


def numbers(struct: msgspec.Struct, base: Row, leave_out: tuple[str, ...] = ()) -> Iterable[Row]:
    """A row for each number of ``struct``; the unit is taken from the field's name."""
    for field in struct.__struct_fields__:
        value = getattr(struct, field)
        if isinstance(value, bool) or not isinstance(value, int | float) or field in leave_out:
            continue
        unit = next((word for ending, word in _UNITS.items() if f"_{field}".endswith(f"_{ending}")), "")
        yield base | {"metric": field, "value": value, "unit": unit}
