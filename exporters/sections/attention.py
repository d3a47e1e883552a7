"""Attention: which backend ran, and why not a fused one."""

from __future__ import annotations

from profsuite.analyzers.attention import AttentionRow, AttentionTable, Refusal
from profsuite.exporters.document import Cell, Column, Name, Section
from profsuite.exporters.sections.roofline import shapes
from profsuite.exporters.sections.words import pct, without_empty
from profsuite.exporters.units import count, duration, percent, plural


def attention_section(table: AttentionTable) -> Section | None:
    """The attention calls by backend; None without any."""
    if not table.rows:
        return None
    rows: list[tuple[Cell, ...]] = []
    for row in table.rows:
        mask = ", ".join(word for word, true in (("causal", row.causal), ("mask", row.masked)) if true)
        rows.append(
            (
                row.backend,
                "yes" if row.fused else "no",
                row.direction,
                Name(shapes(row.input_dims or "")),
                mask,
                count(row.count),
                "" if row.device_ns is None else duration(row.device_ns),
                pct(row.device_pct),
            )
        )
    columns = (
        Column("backend", False),
        Column("fused", False, optional=True),
        Column("pass", False, optional=True),
        Column("input shapes", False),
        Column("masked by", False, optional=True),
        Column("calls"),
        Column("GPU time"),
        Column("share", optional=True),
    )
    caption = plural(table.num_calls, "attention call")
    if table.device_ns is not None and table.device_pct is not None:
        caption += f", {duration(table.device_ns)} ({percent(table.device_pct)} of the compute kernels' time)"
    notes = [note for row in table.rows for note in _refused(row)]
    return Section("Attention", (without_empty(caption, columns, rows),), tuple(dict.fromkeys(notes)))


def _refused(row: AttentionRow) -> list[str]:
    return [f"{row.backend} ran, not {refusal.backend}: {why(refusal)}." for refusal in row.refused]


def why(refusal: Refusal) -> str:
    """Why a fused backend did not run, in words, and who says so."""
    if refusal.allowed is True:
        return "torch would take it (asked in this process), so it was disabled or another came first"
    reasons = "; ".join(refusal.reasons)
    if not reasons:
        said = "torch refuses it (asked in this process), the recorded inputs do not tell why"
        return (
            said if refusal.allowed is False else "nothing recorded speaks against it; it may be disabled or not built"
        )
    return f"{reasons} ({'by the documented rules' if refusal.checked_by == 'rules' else 'torch agrees'})"
