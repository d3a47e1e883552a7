"""Compare: what changed from another trace to this one, the largest differences first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from dash import html

from profsuite.analyzers.diff.change import Change
from profsuite.analyzers.diff.parts import PartChange
from profsuite.analyzers.diff.report import DiffReport
from profsuite.analyzers.report import Report
from profsuite.dashboard.components import facts, figure, name_column, note, number, section, table
from profsuite.dashboard.inputs import Choice
from profsuite.dashboard.pages.view import View
from profsuite.dashboard.store import Session
from profsuite.exporters.diff.document import part_label
from profsuite.exporters.figures.changes import change_figure, parts_figure
from profsuite.exporters.units import duration, percent, size

ALONE: Final = "There is no other trace to compare with: profsuite dashboard before.json after.json gives two."


def compare(view: View) -> Any:
    """The page; app.py fills ``compare-outcome`` for the trace that is chosen as the one before."""
    others = [entry for entry in view.others if entry.key != view.session.entry.key and entry.kind == "trace"]
    if not others:
        return note(ALONE)
    chosen = view.query.get("with")
    keys = {entry.key for entry in others}
    return html.Div(
        [
            Choice(
                id="compare-with",
                label="Before (this trace is after)",
                options=[{"label": entry.name, "value": entry.key} for entry in others],
                value=chosen if chosen in keys else others[0].key if len(others) == 1 else None,
            ),
            html.Div(id="compare-outcome", role="status"),
        ]
    )


def changes(report: DiffReport, before: Session, after: Session) -> Any:
    """The comparison: the differences, then the two runs side by side, then all that was compared."""
    per = "per step" if report.per == "step" else "of the whole window"
    parts = [
        section(
            f"GPU {'?' if device.device_after is None else device.device_after}, {per}",
            _parts(f"compare_device_{n}", device.parts, device.time),
            about="diff",
        )
        for n, device in enumerate(report.devices)
    ]
    if report.host is not None:
        parts.append(section(f"Host, {per}", _parts("compare_host", report.host.parts, report.host.time), about="diff"))
    on_device = bool(report.devices)
    ops = [
        {"name": op.name, "status": op.status, "calls_before": op.calls_before, "calls_after": op.calls_after}
        | _change(op.device if on_device else op.host)
        for op in report.ops.rows
    ]
    kernels = [
        {
            "name": _arrow(row.name_before, row.name_after),
            "op": row.op,
            "status": row.status,
            "calls_before": row.runs_before,
            "calls_after": row.runs_after,
        }
        | _change(row.device)
        for row in report.kernels.rows
    ]
    counts = [number("calls_before", "calls before", digits=0), number("calls_after", "after", digits=0)]
    status = {"field": "status", "headerName": "in", "maxWidth": 100}
    what = f"{'GPU' if on_device else 'host'} self time, {per}"
    return html.Div(
        [
            html.P(report.summary, className="verdict", id="compare-summary"),
            html.Div(
                [
                    figure(change_figure(report), "No op's time changed.", about="diff"),
                    figure(parts_figure(report), "No part of the time is known on both sides.", about="diff"),
                ],
                className="charts",
            ),
            section(
                "Side by side",
                html.Div([_side("Before", before), _side("After", after)], className="sides"),
                about="diff",
            ),
            *parts,
            section(
                f"Ops: {what}",
                table(
                    "compare_ops", [name_column("name", "op"), status, *counts, *CHANGE], ops, "No op on either side."
                ),
                about="diff",
            ),
            section(
                f"Kernels, {per}",
                table(
                    "compare_kernels",
                    [name_column("name", "kernel"), name_column("op", "op"), status, *counts, *CHANGE],
                    kernels,
                    "No kernel on either side.",
                ),
                about="diff",
            ),
            *(note(text) for text in report.notes),
        ]
    )


def _side(title: str, session: Session) -> Any:
    report = session.report
    return html.Div(
        [
            html.H3(f"{title}: {session.entry.name}"),
            html.P(report.verdict or "Nothing can be said of this trace."),
            facts(_facts(report)),
        ],
        className="side",
    )


def _facts(report: Report) -> dict[str, Any]:
    """The same lines on both sides, whether or not they are known."""
    steps, lacks = report.steps, "not recorded"
    device = max(report.breakdown or (), key=lambda each: each.shares.busy_ns, default=None)
    memory = None if report.memory is None else report.memory.main
    busy = None if device is None else device.shares.busy_pct
    mfu = None if report.roofline is None else report.roofline.mfu_pct
    return {
        "devices": ", ".join(dict.fromkeys(each.name for each in report.trace.devices if each.name)) or lacks,
        "steps": f"{steps.count:,}" if steps is not None and steps.count else lacks,
        "step, median": duration(steps.median_ns) if steps is not None and steps.median_ns is not None else lacks,
        "GPU busy": lacks if busy is None else percent(busy),
        "exposed communication": lacks if device is None else duration(device.shares.exposed_comm_ns),
        "GPU idle": lacks if device is None else duration(device.shares.idle_ns),
        "of the peak (MFU)": "not known" if mfu is None else percent(mfu),
        "memory, peak": lacks if memory is None else size(memory.peak.allocated_bytes),
        "kernels": f"{report.kernels.num_kernels:,}" if report.kernels is not None else lacks,
        "findings": f"{len(report.findings or ()):,}",
    }


CHANGE: Final = [
    number("before_ms", "before", "ms"),
    number("after_ms", "after", "ms"),
    number("change_ms", "change", "ms"),
    number("noise_ms", "±", "ms"),
    number("change_pct", "change", "%", digits=1),
    {"field": "judgement", "headerName": "judgement", "minWidth": 140, "maxWidth": 150},
]


def _change(change: Change) -> dict[str, Any]:
    return {
        "before_ms": change.before_ms_per_step,
        "after_ms": change.after_ms_per_step,
        "change_ms": change.change_ms_per_step,
        "noise_ms": change.noise_ms_per_step,
        "change_pct": change.change_pct,
        "judgement": change.judgement,
    }


def _parts(name: str, parts: Sequence[PartChange], time: Change) -> Any:
    rows = [{"part": part_label(part.part)} | _change(part.time) for part in parts]
    rows.append({"part": "sum"} | _change(time))
    return table(name, [name_column("part", "part"), *CHANGE], rows, "")


def _arrow(before: str | None, after: str | None) -> str | None:
    return f"{before} → {after}" if before and after and before != after else after or before
