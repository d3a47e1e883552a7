"""The report as CSV."""

from __future__ import annotations

import csv
import io

import msgspec

from profsuite.analyzers.report import Report
from profsuite.exporters import csv as csv_exporter


def rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text), strict=True))


def test_exact_numbers(report: Report) -> None:
    found = {
        (row["section"], row["device"], row["step"], row["subject"], row["metric"]): (row["value"], row["unit"])
        for row in rows(csv_exporter.render(report))
    }
    assert found["breakdown", "0", "", "", "compute_ns"] == ("400000000", "ns")
    assert found["breakdown", "0", "2", "", "idle_ns"] == ("250000000", "ns")
    assert found["breakdown", "0", "", "", "overlap_pct"] == ("50.0", "%")
    assert found["idle", "0", "", "input", "total_ns"] == ("450000000", "ns")
    assert found["findings", "0", "2", "input_bound", "idle for input"] == ("450000000", "ns")
    assert found["trace", "", "", "", "num_bytes"] == ("5000000", "bytes")
    assert found["roofline", "", "", "", "mfu_pct"] == ("1.2", "%")
    assert found["roofline_ops", "", "", "aten::mm", "flops_per_s"] == ("400000000000000.0", "FLOP/s")
    assert found["roofline_ops", "", "", "aten::mm", "num_bytes"] == ("1000000000", "bytes")
    assert ("roofline_ops", "", "", "aten::bmm", "pct_of_roofline") not in found
    assert found["attention", "", "", "math", "device_ns"] == ("20000000", "ns")
    assert found["health", "", "", "dropped", "count"] == ("3", "")


def test_what_was_not_measured_has_no_row(report: Report) -> None:
    table = rows(csv_exporter.render(report))
    assert not [row for row in table if row["metric"].startswith("saving")]
    assert not [row for row in table if row["value"] == ""]


def test_no_cell_is_a_formula_or_holds_a_control_character(report: Report) -> None:
    hostile = msgspec.structs.replace(report, verdict="=HYPERLINK(1)", source="+x")
    for row in rows(csv_exporter.render(hostile)):
        for key, cell in row.items():
            assert cell.isprintable()
            assert key == "value" or not cell.startswith(("=", "+", "-", "@"))
            assert not cell.startswith(("=", "@"))


def test_negative_numbers_stay_numbers(report: Report) -> None:
    assert report.findings is not None
    negative = msgspec.structs.replace(report.findings[0], cost_ns=-5)
    table = rows(csv_exporter.render(msgspec.structs.replace(report, findings=(negative,))))
    assert [row["value"] for row in table if row["metric"] == "cost_ns"] == ["-5"]


def test_ranks_are_told_apart(report: Report) -> None:
    table = rows(csv_exporter.render_ranks([report, msgspec.structs.replace(report, rank=7)]))
    assert {row["rank"] for row in table} == {"0", "7"}
