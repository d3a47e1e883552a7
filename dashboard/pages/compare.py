"""Compare: what changed from another trace to this one, the largest differences first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from dash import html

from profsuite.analyzers.diff.change import Change
from profsuite.analyzers.diff.parts import PartChange
from profsuite.analyzers.diff.report import DiffReport
from profsuite.dashboard.components import name_column, note, number, section, table
from profsuite.dashboard.inputs import Choice
from profsuite.dashboard.pages.view import View
from profsuite.exporters.diff.document import part_label

ALONE: Final = "There is no other trace to compare with: profsuite dashboard before.json after.json gives two."


def compare(view: View) -> Any:
    """The page; app.py fills ``compare-outcome`` for the trace that is chosen as the one before."""
    others = [entry for entry in view.others if entry.key != view.session.entry.key]
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


def changes(report: DiffReport) -> Any:
    """The comparison."""
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
            *parts,
            section(
                f"Ops: {what}",
                table(
                    "compare_ops", [name_column("name", "op"), status, *counts, *CHANGE], ops, "No op on either side."
                ),
            ),
            section(
                f"Kernels, {per}",
                table(
                    "compare_kernels",
                    [name_column("name", "kernel"), name_column("op", "op"), status, *counts, *CHANGE],
                    kernels,
                    "No kernel on either side.",
                ),
            ),
            *(note(text) for text in report.notes),
        ]
    )


CHANGE: Final = [
    number("before_ms", "before", "ms"),
    number("after_ms", "after", "ms"),
    number("change_ms", "change", "ms"),
    number("noise_ms", "±", "ms"),
    number("change_pct", "change", "%", digits=1),
    {"field": "judgement", "headerName": "judgement", "maxWidth": 120},
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
