"""From a ``Report`` to the ``Document`` that the text, HTML and Markdown renderers write."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterable
from importlib.util import find_spec

from msgspec.structs import replace

from profsuite.analyzers.report import SECTIONS, Report
from profsuite.exporters.document import Document, NextStep, Section
from profsuite.exporters.names import printable
from profsuite.exporters.sections.advice import advice
from profsuite.exporters.sections.attention import attention_section
from profsuite.exporters.sections.compilation import compilation_section
from profsuite.exporters.sections.device import device_section, idle_table
from profsuite.exporters.sections.host import host_section
from profsuite.exporters.sections.kernels import kernels_section
from profsuite.exporters.sections.memory import memory_sections
from profsuite.exporters.sections.ops import ops_section
from profsuite.exporters.sections.roofline import roofline_section
from profsuite.exporters.sections.sparse import sparse_section
from profsuite.exporters.sections.steps import steps_section
from profsuite.exporters.sections.whatif import whatif_sections
from profsuite.exporters.sections.words import PAGE
from profsuite.exporters.units import duration, plural


def document(report: Report, only: Collection[str] | None = None) -> Document:
    """The report in words and tables; a section that is null in the report, or not in ``only``, is left out.

    The header and the steps still draw on the sections that are not shown.
    """
    shown = report
    if only is not None:
        shown = replace(report, **{name: None for name in SECTIONS if name not in only})
    sections: list[Section] = []
    if shown.breakdown is not None:
        sections.append(device_section(report, shown.breakdown, shown.idle or ()))
    elif shown.idle:
        sections.append(Section("Idle time", tuple(idle_table(idle) for idle in shown.idle)))
    if shown.host is not None:
        sections.append(host_section(report, shown.host.threads))
    if shown.steps is not None:
        sections.append(steps_section(shown.steps, report.breakdown or ()))
    if shown.compilation is not None:
        sections.append(compilation_section(shown.compilation))
    if shown.whatif is not None:
        sections += whatif_sections(shown.whatif, report.steps)
    if shown.ops is not None:
        sections.append(ops_section(report, shown.ops))
    if shown.kernels is not None and (shown.kernels.rows or shown.breakdown is None):
        sections.append(kernels_section(shown.kernels))
    more = (
        None if shown.roofline is None else roofline_section(shown.roofline),
        None if shown.attention is None else attention_section(shown.attention),
        None if shown.sparse is None else sparse_section(shown.sparse),
    )
    sections += [section for section in more if section is not None]
    if shown.memory is not None:
        sections += memory_sections(shown.memory)
    return Document(
        source=printable(report.source),
        facts=_facts(report),
        verdict=printable(shown.verdict) if shown.verdict else None,
        advice=None if shown.findings is None else tuple(advice(report, finding) for finding in shown.findings),
        sections=tuple(sections),
        remarks=tuple(_remarks(shown)),
        next_step=_next_step(shown),
    )


def _facts(report: Report) -> tuple[str, ...]:
    trace = report.trace
    facts = []
    if report.rank is not None:
        facts.append(f"rank {report.rank}" + ("" if trace.world_size is None else f" of {trace.world_size}"))
    facts.append(plural(trace.num_events, "event"))
    if report.steps is not None and report.steps.count:
        facts.append(plural(report.steps.count, "step"))
    if trace.duration_ns is not None:
        facts.append(duration(trace.duration_ns))
    names: dict[str, int] = {}
    for device in trace.devices:
        if device.name:
            names[device.name] = names.get(device.name, 0) + 1
    facts += [printable(name) if n == 1 else f"{n} x {printable(name)}" for name, n in names.items()]
    if trace.backend:
        facts.append(printable(trace.backend))
    if trace.selection:
        facts.append(f"selected: {printable(trace.selection)}")
    return tuple(facts)


def _remarks(report: Report) -> Iterable[str]:
    for row in report.health or ():
        lacking = row.byte_offset is None or row.kind.startswith("no_")
        place = "" if lacking else f" (first at byte {row.byte_offset:,})"
        yield f"{printable(row.kind)}: {printable(row.message)}{place}"


def _next_step(report: Report) -> NextStep | None:
    """The rows behind a finding, where there is something to query them with, else the report as a web page.

    None where there is no file to name, or rows of a part of it: they are counted from the part's first.
    """
    if report.source in ("-", "<stdin>") or report.trace.selection is not None:
        return None
    source = shlex.quote(printable(report.source))
    if find_spec("duckdb") is not None:
        for number, finding in enumerate(report.findings or (), 1):
            rows = next((evidence.slice_ids for evidence in finding.evidence if evidence.slice_ids), ())
            if rows:
                where = f'WHERE id IN ({", ".join(map(str, rows))})"'
                command = ("profsuite query", '"SELECT id, name, ts, dur FROM slice', where, source)
                return NextStep(f"the slices behind finding {number}", command)
    return NextStep(PAGE, ("profsuite report", source, "--html report.html"))
