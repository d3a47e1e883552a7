"""The report as CSV."""

from __future__ import annotations

import csv
import io

import msgspec

from profsuite.analyzers.compile_time import CompilePhase, CompileStep, CompileTime
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


def test_text_that_is_a_number_stays_one() -> None:
    numbers = ["-3", "+3", "-3.25", "-1e-9"]
    assert [csv_exporter.cell(text) for text in numbers] == numbers
    assert [csv_exporter.cell(text) for text in ("-3+1", "=3", "@3", "-", "-3 ", "+x")] == [
        "'-3+1", "'=3", "'@3", "'-", "'-3 ", "'+x",
    ]  # fmt: skip
    # White space that a spreadsheet passes over is a blank, which keeps it text.
    assert [csv_exporter.cell(text) for text in ("\t=1", "\r=1")] == [" =1", " =1"]


def test_compile_time(report: Report) -> None:
    phase = CompilePhase(name="=codegen", count=2, total_ns=300, self_ns=200, longest_ns=250, longest_slice_id=7)
    found = CompileTime(
        recording_ns=1000, total_ns=400, pct=40.0, threads_ns=500, num_threads=2, num_entries=3, longest_slice_id=7,
        num_phases=1, phases=(phase,), steps=(CompileStep(step_id=0, number=5, num_entries=1, total_ns=100),),
    )  # fmt: skip
    table = rows(csv_exporter.render(msgspec.structs.replace(report, compilation=found)))
    values = {
        (row["step"], row["subject"], row["metric"]): (row["value"], row["unit"])
        for row in table
        if row["section"] == "compilation"
    }
    assert values["", "", "total_ns"] == ("400", "ns")
    assert values["", "", "pct"] == ("40.0", "%")
    assert values["", "'=codegen", "self_ns"] == ("200", "ns")
    assert values["5", "", "num_entries"] == ("1", "")
    assert not [key for key in values if "slice_id" in key[2] or key[2] in ("step_id", "number")]
