"""The sections about what kernels achieve, in words."""

from __future__ import annotations

import msgspec
import pytest

from profsuite.analyzers.attention import Refusal
from profsuite.analyzers.report import Report
from profsuite.exporters import html, markdown, text
from profsuite.exporters.sections.attention import why
from profsuite.exporters.units import rate


def words(report: Report, width: int = 200) -> str:
    return " ".join(text.render(report, width=width).split())


def test_roofline(report: Report) -> None:
    out = words(report)
    assert "The first 3 of 20 ops by shapes" in out
    assert "aten::mm [[32,1024],[1024,1024]] 42 10.00 ms 2.5 % 400 T 100 G compute 40.4 %" in out
    assert "aten::bmm [[32,1024],[1024,1024]] 42 10.00 ms 2.5 % 400 T 100 G compute beyond" in out
    assert "Peaks of H100 SXM: bf16 990 TFLOP/s, memory 3.35 TB/s (a data sheet)." in out
    assert "Cost formulas explain 75.0 % of the compute kernels' time (80.0 % in part)." in out
    assert "Products: 12.0 TFLOP (forward 4.00 TFLOP, backward 8.00 TFLOP), 6.00 TFLOP a step" in out
    assert "6.00 TFLOP a step; 1.2 % of the peak over the GPU window (MFU)" in out
    assert "60.0 % of the time does" in out
    assert "waste up to 5.000 ms" in out
    assert "beyond: faster than the roofline" in out
    assert "not used (bf16)" in markdown.render(report)


def test_products_without_a_known_cost_leave_no_utilisation(report: Report) -> None:
    assert report.roofline is not None
    part = msgspec.structs.replace(report.roofline, mfu_pct=None, unpriced_products_pct=30.0, priced_pct=75.0)
    out = words(msgspec.structs.replace(report, roofline=part))
    assert "Products whose cost is known: 12.0 TFLOP" in out
    assert "no MFU, since products of unknown cost take 30.0 % of kernel time" in out
    assert "in part" not in out


def test_nothing_to_say(report: Report) -> None:
    assert report.roofline is not None
    empty = msgspec.structs.replace(report.roofline, device_ns=0, flops=None)
    out = words(msgspec.structs.replace(report, roofline=empty, attention=None, sparse=None))
    assert not [title for title in ("Roofline", "Attention", "Sparse products") if title in out]


def test_attention(report: Report) -> None:
    out = words(report)
    assert "20 attention calls, 40.00 ms (10.0 % of the compute kernels' time)" in out
    assert "math ran, not flash: a mask is given (by the documented rules)." in out
    assert "math ran, not efficient: torch would take it (asked in this process)" in out


@pytest.mark.parametrize(
    ("reasons", "checked_by", "allowed", "expected"),
    [
        (("fp32",), "torch", False, "fp32 (torch agrees)"),
        ((), "torch", False, "torch refuses it"),
        ((), "rules", None, "nothing recorded speaks against it"),
    ],
)
def test_why_not(reasons, checked_by, allowed, expected) -> None:
    refusal = Refusal(backend="flash", reasons=reasons, checked_by=checked_by, allowed=allowed)
    assert why(refusal).startswith(expected)


def test_sparse(report: Report) -> None:
    out = words(report)
    assert "sparse_csr 1.0 % 1 10.00 ms 1.00 G 100 G" in out
    assert "half of their roofline" in out
    assert "| 2.000 ms |" in markdown.render(report)


def test_names_stay_harmless(report: Report) -> None:
    assert "<script>alert(1)" not in html.render(report)
    assert "\x1b" not in markdown.render(report)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (989.5e12, "990 TFLOP/s"),
        (3.35e12, "3.35 TFLOP/s"),
        (1e15, "1.00 PFLOP/s"),
        (999.9e9, "1.00 TFLOP/s"),
        (12, "12 FLOP/s"),
    ],
)
def test_rates(value, expected) -> None:
    assert rate(value, "FLOP/s") == expected


@pytest.mark.parametrize("width", [80, 100, 120])
def test_rows_of_one_op_are_told_apart_by_their_shapes(report: Report, width: int) -> None:
    assert report.roofline is not None
    sizes = (
        "[[1024], [16384, 4096], [4096, 1024]]",
        "[[4096], [16384, 1024], [1024, 4096]]",
        "[[50304], [16384, 1024]]",
    )
    ops = tuple(
        msgspec.structs.replace(report.roofline.ops[0], name="aten::addmm", input_dims=dims, direction=direction)
        for dims in sizes
        for direction in ("forward", "backward")
    )
    shown = msgspec.structs.replace(report, roofline=msgspec.structs.replace(report.roofline, ops=ops, num_ops=6))
    lines = text.render(shown, width=width).splitlines()
    at = next(n for n, line in enumerate(lines) if "Ops by shapes" in line)
    assert "input shapes" in lines[at + 1]
    assert "of roofline" in lines[at + 1]
    rows = lines[at + 3 : at + 3 + len(ops)]
    assert len({row.split("ms")[0] for row in rows}) == len(ops)
    assert all(len(line) <= width for line in rows)
