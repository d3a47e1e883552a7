"""A comparison as tidy CSV: one quantity a row, before and after, exact, for spreadsheets and data frames."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence

from profsuite.analyzers.diff.change import Change
from profsuite.analyzers.diff.ranks import UnmatchedRank
from profsuite.analyzers.diff.report import DiffReport
from profsuite.exporters.csv import cell

CHANGE_FIELDS = Change.__struct_fields__
FACTS = ("rank", "section", "device", "subject", "detail", "status", "metric", "num_before", "num_after")
COLUMNS = (*FACTS, *CHANGE_FIELDS)

Row = dict[str, object]


def render(reports: Sequence[DiffReport], unmatched: Sequence[UnmatchedRank] = ()) -> str:
    """The comparisons as CSV with a header: the fields of each ``Change``, and of memory those that apply.

    ``num_before`` and ``num_after`` are calls, runs, or bytes of memory; a trace that was not compared has a row that
    says why.  Text that a spreadsheet could take for a formula gets a ``'``
    before it.
    """
    out = io.StringIO()
    writer = csv.DictWriter(out, COLUMNS, restval="", lineterminator="\n")
    writer.writeheader()
    for report in reports:
        for row in _rows(report):
            row["rank"] = report.after.rank
            writer.writerow({key: cell(value) for key, value in row.items()})
    for each in unmatched:
        facts = {"rank": each.rank, "section": "unmatched", "subject": each.source, "detail": each.reason}
        writer.writerow({key: cell(value) for key, value in facts.items()})
    return out.getvalue()


def _rows(report: DiffReport) -> Iterable[Row]:
    steps: Row = {"num_before": report.before.num_steps, "num_after": report.after.num_steps}
    if report.time is not None:
        yield _row("time", report.time, steps)
    for device in report.devices:
        base: Row = {"device": device.device_after}
        for metric in ("time", "idle", "work", "overlap"):
            yield _row("device", getattr(device, metric), base | {"metric": metric})
        for part in device.parts:
            yield _row("parts", part.time, base | {"subject": part.part})
    if report.host is not None:
        yield _row("host", report.host.time, {"metric": "time"})
        for part in report.host.parts:
            yield _row("host", part.time, {"subject": part.part})
    for op in report.ops.rows:
        base = {"subject": op.name, "status": op.status, "num_before": op.calls_before, "num_after": op.calls_after}
        yield _row("ops", op.device, base | {"metric": "device"})
        yield _row("ops", op.host, base | {"metric": "host"})
    yield _row("ops", report.ops.unattributed, {"metric": "unattributed"})
    for call in report.ops.calls:
        detail = "; ".join(text for text in (call.module, call.shapes_before, call.shapes_after) if text)
        base = {"subject": " > ".join(call.path), "detail": detail, "status": call.status}
        base |= {"num_before": call.calls_before, "num_after": call.calls_after}
        yield _row("calls", call.device, base | {"metric": "device"})
        yield _row("calls", call.host, base | {"metric": "host"})
    for kernel in report.kernels.rows:
        base = {"subject": kernel.name_after or kernel.name_before, "detail": kernel.op, "status": kernel.status}
        base |= {"num_before": kernel.runs_before, "num_after": kernel.runs_after}
        yield _row("kernels", kernel.device, base | {"metric": "device"})
    for each in report.collectives.rows:
        base = {"subject": each.name, "detail": each.num_elements, "status": each.status}
        base |= {"num_before": each.runs_before, "num_after": each.runs_after}
        yield _row("collectives", each.device, base | {"metric": "device"})
    for memory in report.memory:
        for what in ("allocated", "reserved"):
            old, new = (getattr(memory, f"{what}_{side}_bytes") for side in ("before", "after"))
            base = {"section": "memory", "device": memory.device_after, "metric": f"peak_{what}_bytes"}
            yield base | {"num_before": old, "num_after": new}


def _row(section: str, change: Change, base: Row) -> Row:
    return {"section": section} | base | {field: getattr(change, field) for field in CHANGE_FIELDS}
