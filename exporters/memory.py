"""A memory report in every format."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from dataclasses import replace

import msgspec

from profsuite.analyzers.findings.wording import percent
from profsuite.analyzers.memory.model import DeviceMemory, MemoryReport, MemoryShare
from profsuite.exporters import html, markdown, text
from profsuite.exporters.csv import cell, numbers
from profsuite.exporters.document import Document, Table
from profsuite.exporters.names import printable
from profsuite.exporters.sections.advice import advice_on
from profsuite.exporters.sections.memory import allocated, batch_section, device_name, memory_sections
from profsuite.exporters.units import plural, size

COLUMNS = ("device", "section", "subject", "category", "step", "metric", "value", "unit")

Row = dict[str, object]

_KIND = {"trace": "trace", "snapshot": "allocator snapshot", "timeline": "memory timeline"}


def render(report: MemoryReport, form: str, *, width: int = 80, color: bool = False) -> str:
    """The report as ``text``, ``json``, ``html``, ``markdown`` or ``csv``; ``width`` and ``color`` are for text."""
    if form == "json":
        return msgspec.json.format(msgspec.json.encode(report), indent=1).decode() + "\n"
    if form == "csv":
        return _csv(report)
    doc = document(report)
    if form == "html":
        return html.render_documents([doc])
    return (
        markdown.render_documents([doc])
        if form == "markdown"
        else text.render_documents([doc], width=width, color=color)
    )


def document(report: MemoryReport) -> Document:
    """The report in words and tables, all of them."""
    sections = [*memory_sections(report)]
    if report.largest_batch is not None:
        sections.insert(0, batch_section(report.largest_batch))
    return Document(
        source=printable(report.source),
        facts=tuple(_facts(report)),
        verdict=_verdict(report),
        advice=None if report.findings is None else tuple(advice_on(f, "recording") for f in report.findings),
        sections=tuple(
            replace(s, blocks=tuple(replace(b, detail=False) if isinstance(b, Table) else b for b in s.blocks))
            for s in sections
        ),
        remarks=(),
        next_step=None,
    )


def _facts(report: MemoryReport) -> Iterable[str]:
    yield _KIND[report.kind]
    if report.rank is not None:
        yield f"rank {report.rank}"
    if report.devices:
        yield plural(len(report.devices), "device")
    if total := sum(device.num_allocations or 0 for device in report.devices):
        yield plural(total, "allocation")


def _verdict(report: MemoryReport) -> str | None:
    device = report.main
    if device is None:
        return None
    peak = device.peak
    name = device_name(device)
    line = f"{printable(name)}: peak" if name else "Peak"
    line += f" {allocated(device)}"
    if peak.reserved_bytes is not None:
        line += f" of {size(peak.reserved_bytes)} reserved"
    for shares, word in ((peak.by_category, ""), (peak.by_frame or peak.by_op or (), "from ")):
        largest = next((share for share in shares if share.name not in (None, "unknown")), None)
        if largest is not None and largest.pct is not None and largest.pct >= 10:
            line += f"; {percent(largest.pct / 100)} {word}{printable(str(largest.name))}"
    return f"{line}."


def _csv(report: MemoryReport) -> str:
    """One number a row; ``metric`` is the field's name in JSON."""
    out = io.StringIO()
    writer = csv.DictWriter(out, COLUMNS, restval="", lineterminator="\n")
    writer.writeheader()
    for row in _rows(report):
        writer.writerow({key: cell(value) for key, value in row.items()})
    return out.getvalue()


def _rows(report: MemoryReport) -> Iterable[Row]:
    if report.largest_batch is not None:
        yield from numbers(report.largest_batch, {"section": "largest_batch"})
    for finding in report.findings or ():
        for metric in ("severity", "title", "remedy"):
            yield {
                "section": "findings",
                "device": finding.where.device,
                "subject": finding.id,
                "metric": metric,
                "value": getattr(finding, metric),
            }
    for device in report.devices:
        yield from _device(device)


def _device(device: DeviceMemory) -> Iterable[Row]:
    base: Row = {"device": device_name(device)}
    yield from numbers(device, base | {"section": "memory"})
    yield from numbers(device.peak, base | {"section": "peak", "step": device.peak.step}, ("step",))
    groups = {"by_op": device.peak.by_op, "by_module": device.peak.by_module, "by_frame": device.peak.by_frame}
    yield from _shares(device.peak.by_category, base | {"section": "peak_by_category"})
    for name, shares in groups.items():
        yield from _shares(shares or (), base | {"section": f"peak_{name}"})
    for one in device.peak.largest:
        row = base | {"section": "largest", "subject": one.name or one.op, "category": one.category, "step": one.step}
        yield from numbers(one, row, ("step",))
    for step in device.steps or ():
        yield from numbers(step, base | {"section": "steps", "step": step.number}, ("number",))
    if device.growth is not None:
        yield from numbers(device.growth, base | {"section": "growth"})
    for life in device.lifetimes or ():
        yield from numbers(life, base | {"section": "lifetimes", "category": life.category})
    if device.fragmentation is not None:
        yield from numbers(device.fragmentation, base | {"section": "fragmentation"})
        for segment in device.fragmentation.segments:
            row = base | {"section": "segments", "subject": f"{segment.address:#x}", "category": segment.kind}
            yield from numbers(segment, row, ("address",))
    for failure in device.out_of_memory or ():
        yield from numbers(failure, base | {"section": "out_of_memory", "subject": next(iter(failure.stack), None)})
    for retry in device.retries or ():
        yield from numbers(retry, base | {"section": "retries", "subject": retry.frame})
    for point in device.timeline:
        yield from numbers(point, base | {"section": "timeline", "subject": point.ts_ns}, ("ts_ns",))


def _shares(shares: Iterable[MemoryShare], base: Row) -> Iterable[Row]:
    for share in shares:
        yield from numbers(share, base | {"subject": share.name})
